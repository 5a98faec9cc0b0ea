//! `rocmrpm doctor`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args};
use crate::document::Document;
use crate::error::Kind;
use crate::gpu_machine::{Finding, GpuMachine, Level, MemoryPlan, gib};
use crate::machine;
use crate::process::{Command, find_program, install_help};
use crate::report::{Shell, Style, Table, human_size};
use crate::sources::{Cache, pip_index, shown_url};
use crate::workspace::{Selection, Workspace, today};

/// A program, its purpose, whether it is required, and the option that prints its version.
const TOOLS: &[(&str, &str, bool, &str)] = &[
    ("rpmbuild", "building and reading specs", true, "--version"),
    ("createrepo_c", "the repository", true, "--version"),
    ("curl", "downloads", true, "--version"),
    ("git", "git sources, Release and changelog", true, "--version"),
    ("/usr/bin/python3", "Python packages", true, "--version"),
    ("mock", "building in a clean chroot", false, "--version"),
    ("copr-cli", "building on COPR", false, "--version"),
    ("hipcc", "device code on Fedora", false, "--version"),
    ("clang++-19", "device code on Debian 12", false, "--version"),
    ("gpg", "signing the repository", false, "--version"),
    ("rpmsign", "signing packages", false, "--version"),
    ("dnf", "installing and verifying packages", false, "--version"),
    ("podman", "building container images", false, "--version"),
    ("buildah", "building and inspecting container images", false, "--version"),
    ("uv", "resolving requirements", false, "--version"),
    ("skopeo", "locking base images", false, "--version"),
    ("rsync", "publishing to a host", false, "--version"),
    ("aws", "publishing to S3", false, "--version"),
];

/// What `rocmrpm doctor --json` prints: the tools, GPUs and properties of this machine.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Checkup {
    schema: &'static str,
    /// The machine.
    machine: Machine,
    /// Programs that rocmrpm runs.
    tools: Vec<Tool>,
    /// Warnings about chroots of the workspace whose release has reached its end of life.
    end_of_life: Vec<String>,
    /// The AMD GPUs, and what decides whether programs can use them.
    gpu: GpuMachine,
    /// What keeps programs from using the GPUs, or slows them down.
    gpu_findings: Vec<Finding>,
    /// How to give the GPU the memory that `--gpu-memory` names; null without the option.
    gpu_memory: Option<MemoryPlan>,
}

/// Properties of a machine, as text for people.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Machine {
    /// The operating system.
    system: String,
    /// Whether its packages are RPMs.
    packages: String,
    /// The number of cores.
    cores: String,
    /// The memory that is available.
    free_memory: String,
    /// The version of HIP's headers.
    hip: String,
    /// The device of the GPU driver, or that this machine has none.
    gpu_driver: String,
    /// The index that pip uses, without credentials.
    pip_index: String,
    /// The folder of rocmrpm's cache.
    cache: String,
}

/// A program.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Tool {
    /// Its name.
    tool: &'static str,
    /// Its purpose.
    #[serde(rename = "for")]
    purpose: &'static str,
    /// Whether rocmrpm requires it.
    required: bool,
    /// Whether it was found.
    found: bool,
    /// The line of its version text that has the number.
    version: Option<String>,
}

impl Document for Checkup {
    const SCHEMA: &'static str = "rocmrpm/doctor/2";
}

impl Machine {
    fn of_this(gpu: &GpuMachine) -> Self {
        let packages = match machine::packages_are_rpms() {
            true => "RPMs",
            false => "not RPMs: only some BuildRequires can be checked",
        };
        let gpu_driver = match (gpu.files.first(), gpu.has_gpu()) {
            (Some(file), _) if file.exists => &file.path,
            (_, true) => "no /dev/kfd: device code cannot run here",
            (_, false) => "no AMD GPU: device code cannot run here; builds do not need one",
        };
        let hip = machine::hip_version(Path::new("/usr/include/hip/hip_version.h"));
        // The URL of the index may contain credentials.
        let pip_index = pip_index().ok().map(|url| shown_url(&url));
        let cache = Cache::from_env().map(|cache| cache.dir().display().to_string());
        Self {
            system: machine::os_release().pretty_name,
            packages: packages.to_owned(),
            cores: machine::cores().to_string(),
            free_memory: human_size(machine::available_memory()),
            hip: hip.unwrap_or_else(|| "no headers in /usr/include/hip".into()),
            gpu_driver: gpu_driver.to_owned(),
            pip_index: pip_index.unwrap_or_else(|| "unknown".into()),
            cache: cache.unwrap_or_else(|error| error.to_string()),
        }
    }

    /// Returns the values with their labels for a table.
    fn rows(&self) -> [(&'static str, &str); 8] {
        [
            ("system", &self.system),
            ("packages", &self.packages),
            ("cores", &self.cores),
            ("free memory", &self.free_memory),
            ("ROCm (HIP)", &self.hip),
            ("GPU driver", &self.gpu_driver),
            ("pip index", &self.pip_index),
            ("cache", &self.cache),
        ]
    }
}

pub(super) fn run(args: &args::Doctor, dir: &Path, shell: &Shell) -> CommandResult {
    let gpu = GpuMachine::read(&args.root, |name| std::env::var_os(name));
    let gpu_memory = args.gpu_memory.map(|gib| gpu.memory_plan(gib)).transpose()?;
    if let Some(plan) = gpu_memory.as_ref().filter(|_| !args.json) {
        shell.data(plan_text(plan, &gpu))?;
        return Ok(0);
    }
    let mut missing = 0;
    let mut tools = Vec::new();
    for (name, purpose, required, option) in TOOLS {
        let found = if name.starts_with('/') {
            Path::new(name).exists()
        } else {
            find_program(name).is_some()
        };
        let version = if found { version(name, option) } else { None };
        missing += usize::from(*required && !found);
        tools.push(Tool { tool: name, purpose, required: *required, found, version });
    }
    let machine = Machine::of_this(&gpu);
    let gpu_findings = gpu.findings();
    let end_of_life = end_of_life_warnings(dir);
    end_of_life.iter().for_each(|text| shell.warning(text));
    if args.json {
        let schema = Checkup::SCHEMA;
        shell.json(&Checkup {
            schema,
            machine,
            tools,
            end_of_life,
            gpu,
            gpu_findings,
            gpu_memory,
        })?;
    } else {
        let mut table = Table::new(&["machine", ""]);
        for (name, value) in machine.rows() {
            table.row([name, value]);
        }
        for (name, value) in gpu_rows(&gpu) {
            table.row([name, &value]);
        }
        let mut text = table.text();
        text.push_str(&findings_text(&gpu_findings));
        text.push('\n');
        let mut table = Table::new(&["tool", "status", "for", "version, or how to get it"]);
        for Tool { tool: name, purpose, required, found, version } in &tools {
            let (style, state) = match (found, required) {
                (true, _) => (Style::Good, "found"),
                (false, true) => (Style::Bad, "missing"),
                (false, false) => (Style::Dim, "not found"),
            };
            let last =
                if *found { version.clone().unwrap_or_default() } else { install_help(name) };
            let cell = |text: &str| (None, text.to_owned());
            table.styled_row(vec![
                cell(name),
                (Some(style), state.to_owned()),
                cell(purpose),
                cell(&last),
            ]);
        }
        text.push_str(&table.text());
        shell.data(text)?;
    }
    Ok(if missing > 0 { Kind::MissingTool.exit_code() } else { 0 })
}

/// Returns the properties of the GPUs with their labels; none without an AMD GPU.
fn gpu_rows(machine: &GpuMachine) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    for gpu in &machine.gpus {
        let memory = match (gpu.integrated, gpu.vram, gpu.gtt) {
            (true, Some(vram), Some(gtt)) => {
                let all = gib(machine.memory);
                format!(": {} reserved, up to {} of {all} shared", gib(vram), gib(gtt))
            }
            (_, Some(vram), _) => format!(": {}", gib(vram)),
            _ => String::new(),
        };
        let mes = gpu.mes.map(|version| format!(", MES firmware {version:#x}"));
        rows.push(("GPU", format!("{}{memory}{}", gpu.name(), mes.unwrap_or_default())));
    }
    if machine.has_gpu() {
        rows.push(("kernel", machine.kernel.clone()));
        let set = machine.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let set: Vec<String> = machine.options.iter().cloned().chain(set).collect();
        if !set.is_empty() {
            rows.push(("GPU settings", set.join(" ")));
        }
    }
    rows
}

/// Returns each finding, and below it how to fix it.
fn findings_text(findings: &[Finding]) -> String {
    let line = |Finding { level, found, help, .. }: &Finding| {
        let label = match level {
            Level::Error => Style::Bad.paint("error:"),
            Level::Note => Style::Note.paint("note:"),
        };
        format!("\n{label} {found}\n  help: {help}\n")
    };
    findings.iter().map(line).collect()
}

fn plan_text(plan: &MemoryPlan, machine: &GpuMachine) -> String {
    let MemoryPlan { gib: size, option, remaining, commands, .. } = plan;
    let mut text = format!(
        "The kernel option {option} lets the GPU use up to {size} GiB of {}.\n\
         {} remain for the system.\n\n",
        gib(machine.memory),
        gib(*remaining)
    );
    match commands.as_slice() {
        [] => {
            text.push_str("Add it to the kernel's command line in the boot loader, then reboot.\n")
        }
        commands => commands.iter().for_each(|command| text.push_str(&format!("  {command}\n"))),
    }
    text
}

/// Lists the chroots of the workspace whose release has reached its end of life. Ignores errors in
/// the workspace, which other commands report.
fn end_of_life_warnings(dir: &Path) -> Vec<String> {
    let Ok(workspace) = Workspace::load(dir, &Selection::default()) else { return Vec::new() };
    let mut chroots: Vec<_> = workspace.all_chroots().collect();
    chroots.sort_by_key(|chroot| &chroot.name);
    chroots.into_iter().filter_map(|chroot| workspace.end_of_life(chroot, today())).collect()
}

/// Returns the line with a number in a program's version output.
fn version(program: &str, option: &str) -> Option<String> {
    let text = Command::new(program).arg(option).text().ok()?;
    let line = text.lines().find(|line| line.bytes().any(|b| b.is_ascii_digit()))?;
    Some(plain_version(line))
}

/// Removes platforms and features in parentheses after the version number.
fn plain_version(line: &str) -> String {
    let number = line.find(|c: char| c.is_ascii_digit()).unwrap_or_default();
    let end = line[number..].find(" (").map_or(line.len(), |at| number + at);
    line[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_parentheses_after_the_version_number() {
        assert_eq!(plain_version("gpg (GnuPG) 2.2.40"), "gpg (GnuPG) 2.2.40");
        assert_eq!(plain_version("Version: 0.17.3 (Features: DeltaRPM)"), "Version: 0.17.3");
    }

    #[test]
    fn hides_credentials() {
        assert_eq!(shown_url("https://u:p@h/simple"), "https://h/simple");
        assert_eq!(shown_url("https://h/simple"), "https://h/simple");
    }
}
