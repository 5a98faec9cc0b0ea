//! The `rocm-inspect` program: parses the command line, runs the inspection, and prints the report.
//! The library does everything else.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(feature = "junit")]
use rocm_inspect::formats::to_junit;
use rocm_inspect::formats::{Program, TextOptions, comparison_text, to_github, to_html, to_text};
use rocm_inspect::{
    Depth, Expectations, InspectError, RULES, Report, Rocm, System, compare, inspect, rule,
};
use rocmrpm_base::error::{Diagnose, Kind};
use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::gpu_families;
use rocmrpm_base::style::uncolored;
use rocmrpm_base::table::limit_to_terminal;
use rocmrpm_base::text::visible;

const HELP: &str = "\
Inspect ELF files, RPMs, wheels, and folders for AMD GPU code and linkage

Usage: rocm-inspect [OPTIONS] FILE...

Arguments:
  FILE...                RPMs, wheels, tar archives, folders, ELF files, code objects; judged as
                         one set

Options:
      --gpu-target TARGET  GPU target that the set must serve, such as gfx1151, or a family of them,
                           such as gfx110X-all (can be repeated)
      --deep               Decode all GPU code: verify hashes and flags, count kernels
      --format FORMAT      Format of the report: text, json, html, junit or github [default: text]
      --json               Print JSON
      --against PATH       Print what differs from this older file, folder or archive
      --system SYSTEM      System on which the files must load: fedora, this-machine, or none for any
                           [default: fedora]
      --system-library SONAME
                           Library that the system has, besides those known (can be repeated)
  -v, --verbose            Show every file and every finding
      --explain RULE       Explain a rule and how to fix what it finds
      --rules              List all rules
  -h, --help               Print help
  -V, --version            Print version

Exit codes: 0 no errors found, 1 errors or differences found, 2 wrong usage or unreadable file
";

/// What the command line requests.
enum Request {
    Print(String),
    Inspect(Options),
}

#[derive(Default)]
struct Options {
    paths: Vec<PathBuf>,
    gpu_targets: Vec<GpuTarget>,
    depth: Depth,
    format: Format,
    against: Option<PathBuf>,
    system: Option<String>,
    system_libraries: Vec<String>,
    verbose: bool,
}

/// The format of a report.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Format {
    #[default]
    Text,
    Json,
    Html,
    #[cfg(feature = "junit")]
    Junit,
    Github,
}

impl Format {
    const ALL: &[(&str, Self)] = &[
        ("text", Self::Text),
        ("json", Self::Json),
        ("html", Self::Html),
        #[cfg(feature = "junit")]
        ("junit", Self::Junit),
        ("github", Self::Github),
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }
}

fn main() -> ExitCode {
    let done =
        run(std::env::args_os().skip(1)).and_then(|(text, code)| print(&text).map(|()| code));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // If stderr is closed, the error cannot be reported.
            let _ = write!(std::io::stderr(), "{}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// An error message for stderr, and the exit code.
struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    fn usage(message: &str) -> Self {
        let text = format!("error: {message}\nhelp: run `rocm-inspect --help`\n");
        Self { text, code: Kind::Usage.exit_code() }
    }

    fn io(doing: &str, error: &std::io::Error) -> Self {
        Self { text: format!("error: {doing}: {error}\n"), code: Kind::Environment.exit_code() }
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        let mut text = format!("error: {}\n", visible(&error.to_string()));
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text.push_str(&format!("  caused by: {}\n", visible(&cause.to_string())));
            source = cause.source();
        }
        for help in error.help() {
            text.push_str(&format!("help: {help}\n"));
        }
        Self { text, code: error.kind().exit_code() }
    }
}

/// Returns the text for stdout, and the exit code.
fn run(arguments: impl Iterator<Item = OsString>) -> Result<(String, u8), Failure> {
    let options = match parse(arguments)? {
        Request::Print(text) => return Ok((text, 0)),
        Request::Inspect(options) => options,
    };
    let mut system = match options.system.as_deref() {
        None | Some("fedora") => System::fedora(),
        Some("none") => System::default(),
        Some("this-machine") => {
            System::this_machine(&Rocm::default()).map_err(|error| Failure {
                text: format!("error: {}\n", visible(&error.to_string())),
                code: error.kind().exit_code(),
            })?
        }
        Some(other) => {
            let message = format!(
                "unknown system `{}`: expected one of fedora, this-machine, none",
                visible(other)
            );
            return Err(Failure::usage(&message));
        }
    };
    let libraries = options.system_libraries.iter().cloned();
    system.libraries.extend(libraries.map(|soname| (soname, "the system".to_owned())));
    let gpu_targets = options.gpu_targets.clone();
    let expectations = Expectations { gpu_targets, system, ..Expectations::default() };
    let report = inspect(&options.paths, &expectations, options.depth)?;
    if let Some(old) = &options.against {
        let old = inspect(std::slice::from_ref(old), &expectations, options.depth)?;
        let comparison = compare(&old, &report);
        let text = match options.format {
            Format::Json => json(&comparison)?,
            _ if colors() => comparison_text(&comparison),
            _ => uncolored(&comparison_text(&comparison)),
        };
        let code = if comparison.is_empty() { 0 } else { Kind::Findings.exit_code() };
        return Ok((text, code));
    }
    let code = if report.has_errors() { Kind::Findings.exit_code() } else { 0 };
    Ok((written(&report, &options)?, code))
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Request, Failure> {
    let mut options = Options::default();
    let mut only_paths = false;
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy().into_owned();
        if only_paths || !text.starts_with('-') || text == "-" {
            options.paths.push(argument.into());
            continue;
        }
        let bytes = argument.as_bytes();
        let (name, attached) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(at) => (&text[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
            None => (text.as_str(), None),
        };
        let mut path = || {
            let next = attached.clone().or_else(|| arguments.next());
            next.ok_or_else(|| Failure::usage(&format!("`{name}` needs a value")))
        };
        if name == "--against" {
            options.against = Some(path()?.into());
            continue;
        }
        let mut value = || {
            path()?.into_string().map_err(|value| {
                let value = visible(&value.to_string_lossy());
                Failure::usage(&format!("`{name}` does not accept `{value}`"))
            })
        };
        match name {
            "--gpu-target" => {
                let value = value()?;
                let targets = gpu_families::targets_of(&value);
                let unknown =
                    || Failure::usage(&format!("unknown GPU target `{}`", visible(&value)));
                options.gpu_targets.extend(targets.ok_or_else(unknown)?);
            }
            "--format" => {
                let value = value()?;
                options.format = Format::parse(&value).ok_or_else(|| {
                    let known: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).collect();
                    let value = visible(&value);
                    Failure::usage(&format!(
                        "unknown format `{value}`: expected one of {}",
                        known.join(", ")
                    ))
                })?;
            }
            "--system" => options.system = Some(value()?),
            "--system-library" => options.system_libraries.push(value()?),
            "--explain" => return explanation(&value()?).map(Request::Print),
            _ if attached.is_some() => return Err(unexpected(&text)),
            "--" => only_paths = true,
            "--deep" => options.depth = Depth::Deep,
            "--json" => options.format = Format::Json,
            "--rules" => return Ok(Request::Print(all_rules())),
            "-v" | "--verbose" => options.verbose = true,
            "-h" | "--help" => {
                return Ok(Request::Print(match cfg!(feature = "junit") {
                    true => HELP.to_owned(),
                    false => HELP.replace(" html, junit or", " html or"),
                }));
            }
            "-V" | "--version" => {
                return Ok(Request::Print(format!("rocm-inspect {}\n", env!("CARGO_PKG_VERSION"))));
            }
            _ => return Err(unexpected(&text)),
        }
    }
    if options.paths.is_empty() {
        return Err(Failure::usage("no file to inspect"));
    }
    if options.against.is_some() && !matches!(options.format, Format::Text | Format::Json) {
        return Err(Failure::usage("`--against` prints only text and JSON"));
    }
    Ok(Request::Inspect(options))
}

fn unexpected(argument: &str) -> Failure {
    Failure::usage(&format!("unexpected argument `{}`", visible(argument)))
}

fn explanation(id: &str) -> Result<String, Failure> {
    let Some(rule) = rule(id) else {
        return Err(Failure::usage(&format!("unknown rule `{}`", visible(id))));
    };
    let mut text = format!("{} ({})\n", rule.id, rule.severity);
    let parts = [
        ("what", rule.what),
        ("why", rule.why),
        ("incident", rule.incident),
        ("help", rule.help_for_prebuilt()),
    ];
    for (name, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
        text.push_str(&format!("\n{name}: {part}\n"));
    }
    Ok(text)
}

fn all_rules() -> String {
    RULES
        .iter()
        .map(|rule| format!("{:8} {}: {}\n", rule.severity.to_string(), rule.id, rule.what))
        .collect()
}

fn written(report: &Report, options: &Options) -> Result<String, Failure> {
    let program = Program::ROCM_INSPECT;
    Ok(match options.format {
        Format::Json => json(report)?,
        Format::Html => to_html(report, program),
        #[cfg(feature = "junit")]
        Format::Junit => to_junit(report, program),
        Format::Github => to_github(report, program),
        Format::Text => {
            limit_to_terminal();
            let (verbose, color) = (options.verbose, colors());
            to_text(report, TextOptions { verbose, color, program })
        }
    })
}

fn json(document: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(document);
    text.map(|text| text + "\n")
        .map_err(|error| Failure { text: format!("internal error: {error}\n"), code: 70 })
}

/// Returns whether stdout is a terminal that shows colors.
fn colors() -> bool {
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        && std::env::var_os("TERM").is_some_and(|terminal| terminal != "dumb")
}

/// Writes to stdout. It is not an error if a reader such as `head` closes the pipe early.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::io("cannot write to stdout", &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "main_tests.rs"]
mod tests;
