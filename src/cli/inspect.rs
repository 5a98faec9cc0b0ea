//! `rocmrpm inspect`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{CommandResult, args, user};
use crate::build;
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::gpu::GpuTarget;
use crate::gpu_families::{self, NATIVE};
use crate::gpu_machine;
use crate::inspect::formats::{
    Program, TextOptions, comparison_text, to_github, to_html, to_junit, to_text,
};
use crate::inspect::{Depth, Expectations, System, compare, inspect};
use crate::report::{Shell, uncolored};
use crate::stack::Stack;
use crate::workspace::{MANIFEST, Overrides, Selection, Workspace, find_root, parse_folder_name};
use args::ReportFormat;

/// The program that reports name.
const PROGRAM: Program<'_> = Program {
    name: "rocmrpm inspect",
    version: env!("CARGO_PKG_VERSION"),
    explain: "rocmrpm explain",
};

pub(super) fn run(args: &args::Inspect, dir: &Path, shell: &Shell) -> CommandResult {
    let expectations = expectations(args, dir)?;
    let depth = if args.deep || args.component.is_some() { Depth::Deep } else { Depth::Quick };
    let report = inspect(&args.paths, &expectations, depth)?;
    if let Some(old) = &args.against {
        let old = inspect(std::slice::from_ref(old), &expectations, depth)?;
        let comparison = compare(&old, &report);
        let text = if args.json { json(&comparison)? } else { comparison_text(&comparison) };
        write(args, text, shell)?;
        return Ok(if comparison.is_empty() { 0 } else { Kind::Findings.exit_code() });
    }
    let text = match args.format {
        _ if args.json => json(&report)?,
        ReportFormat::Json => json(&report)?,
        ReportFormat::Text => {
            let options = TextOptions { verbose: args.verbose, color: true, program: PROGRAM };
            to_text(&report, options)
        }
        ReportFormat::Html => to_html(&report, PROGRAM),
        ReportFormat::Junit => to_junit(&report, PROGRAM),
        ReportFormat::Github => to_github(&report, PROGRAM),
    };
    write(args, text, shell)?;
    Ok(if report.has_errors() { Kind::Findings.exit_code() } else { 0 })
}

/// Returns the expectations for the files, from the workspace if there is one.
fn expectations(args: &args::Inspect, dir: &Path) -> Result<Expectations, Error> {
    let named = targets(&args.gpu_targets)?;
    let built = args.paths.iter().map(|path| built_in(path)).collect::<Option<BTreeSet<_>>>();
    let built = built.filter(|all| all.len() == 1).and_then(|all| all.into_iter().next());
    let own = built.is_some();
    let wanted = args.chroot.is_some() || args.component.is_some();
    let mut expectations = match built {
        Some((root, folder, component)) => {
            let (built_for, pins) = parse_folder_name(&folder);
            let chroot = args.chroot.clone().unwrap_or_else(|| built_for.to_owned());
            let component = args.component.clone().or(component);
            of_workspace(&root, Some(chroot), pins.unwrap_or_default(), component.as_deref())?
        }
        None if wanted || find_root(dir).is_ok() => {
            of_workspace(dir, args.chroot.clone(), Overrides::new(), args.component.as_deref())?
        }
        None => Expectations { system: System::fedora(), ..Expectations::default() },
    };
    expectations.built |= own;
    if !named.is_empty() {
        expectations.gpu_targets = named;
        expectations.built &= args.component.is_some();
    }
    expectations.content_paths = args.content_paths;
    Ok(expectations)
}

/// Returns the workspace and the name of the build folder that `path` is in, and the component whose
/// result it is.
fn built_in(path: &Path) -> Option<(PathBuf, String, Option<String>)> {
    let path = std::path::absolute(path).ok()?;
    let mut below: Vec<_> = path.ancestors().collect();
    below.reverse();
    below.windows(3).rev().find_map(|parts| {
        let [root, build, folder] = parts else { return None };
        let name = folder.file_name()?.to_str()?;
        let (chroot, _) = parse_folder_name(name);
        let defined = root.join(MANIFEST).is_file()
            && root.join("mock-configs").join(format!("{chroot}.toml")).is_file();
        let results = path.strip_prefix(folder.join("results")).ok();
        let component = results.and_then(|path| path.iter().next()?.to_str());
        let template = |name: &&str| root.join("specs-templates").join(name).is_dir();
        let component = component.filter(template).map(str::to_owned);
        let found = (root.to_path_buf(), name.to_owned(), component);
        (defined && build.file_name()? == "build").then_some(found)
    })
}

fn of_workspace(
    dir: &Path,
    chroot: Option<String>,
    overrides: Overrides,
    component: Option<&str>,
) -> Result<Expectations, Error> {
    let choice = args::Choice { chroot, pins: None };
    let selection = user::selection(&choice)?;
    // The overridden pins may be those of another set.
    let built = Workspace::load(dir, &Selection { overrides, ..selection.clone() });
    let workspace = &built.or_else(|_| Workspace::load(dir, &selection))?;
    match component {
        Some(name) => build::expectations(&Stack::new(workspace)?, workspace.component(name)?),
        None => Ok(Expectations {
            gpu_targets: workspace.manifest.gpu_targets.clone(),
            system: build::system(workspace)?,
            ..Expectations::default()
        }),
    }
}

fn json(value: &impl Document) -> Result<String, Error> {
    serde_json::to_string_pretty(value).map_err(|e| Error::new(Kind::Internal, e.to_string()))
}

fn write(args: &args::Inspect, text: String, shell: &Shell) -> Result<(), Error> {
    let Some(path) = &args.output else { return shell.data(text) };
    let mut text = uncolored(&text);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    files::write_atomically(path, text)
        .map_err(IoError::doing(format!("write `{}`", path.display())))
        .map_err(Error::from)
}

/// Returns the GPU targets with these names: targets, TheRock's families of them, or `native` for
/// the GPUs of this machine. Each is in the result once, in the order of the names.
pub(super) fn targets(names: &[String]) -> Result<Vec<GpuTarget>, Error> {
    let mut all = Vec::new();
    for name in names {
        for target in named(name)? {
            if !all.contains(&target) {
                all.push(target);
            }
        }
    }
    Ok(all)
}

fn named(name: &str) -> Result<Vec<GpuTarget>, Error> {
    if name == NATIVE {
        let found = gpu_machine::targets(Path::new("/"));
        return match found.is_empty() {
            false => Ok(found),
            true => {
                let message = format!("`{NATIVE}`: /{} lists no GPU", gpu_machine::TOPOLOGY);
                let error = Error::new(Kind::Environment, message);
                Err(error.with_help("name the target, such as `gfx1151`"))
            }
        };
    }
    gpu_families::targets_of(name).ok_or_else(|| {
        let error = Error::new(Kind::Usage, format!("unknown GPU target `{name}`"));
        match gpu_families::nearest_to(name) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None => error.with_help("use LLVM's name of the target, such as `gfx1151`"),
        }
    })
}
