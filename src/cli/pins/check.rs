//! `rocmrpm pins check`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, quiet::Quiet};
use crate::cli::context;
use crate::document::Document;
use crate::error::Problem;
use crate::pins::check::{Finding, Report, Severity, check};
use crate::report::{Progress, Shell, Style, count, show_problems};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;

/// What `rocmrpm pins check --json` prints: whether the pins of a set are compatible.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct CheckReport<'a> {
    schema: &'static str,
    /// The pin set.
    pins: &'a str,
    /// The chroot.
    chroot: &'a str,
    /// How many errors there are.
    errors: usize,
    /// How many warnings there are.
    warnings: usize,
    #[serde(flatten)]
    report: &'a Report,
}

impl Document for CheckReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/pins-check/1";
}

pub(super) fn run(args: &args::PinsCheck, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    // Fails for stacks that cannot be planned at all, for example with GPU targets that upstream
    // does not support.
    Stack::new(&workspace)?;
    let progress = Progress::new(shell);
    let quiet = Quiet(&progress);
    let reader = Fetcher::new(Cache::from_env()?, &workspace.root, &quiet).offline(args.offline);
    let report = check(&workspace, &reader);
    drop(reader);
    drop(progress);
    let report = report?;
    let (errors, warnings) = (report.count(Severity::Error), report.count(Severity::Warning));
    if args.json {
        shell.json(&CheckReport {
            schema: CheckReport::SCHEMA,
            pins: &workspace.pins.name,
            chroot: &workspace.chroot.name,
            errors,
            warnings,
            report: &report,
        })?;
        return Ok(u8::from(errors > 0));
    }
    let of = |severity| report.findings.iter().filter(move |finding| finding.severity == severity);
    for finding in of(Severity::Note) {
        shell.talk(format!("{} {}", Style::Dim.paint("note:"), line(finding)));
    }
    for finding in of(Severity::Warning) {
        shell.warning(line(finding));
    }
    let problems: Vec<Problem> = of(Severity::Error).map(Finding::problem).collect();
    show_problems(shell, &problems);
    for lost in &report.not_looked_at {
        shell.warning(format!("not checked: {}: {}", lost.source, lost.reason));
    }
    let files: usize = report.read.values().map(Vec::len).sum();
    let (style, word) = if errors > 0 { (Style::Bad, "Failed") } else { (Style::Good, "Checked") };
    let name = &workspace.pins.name;
    let (errors_text, warnings_text) = (count(errors, "error"), count(warnings, "warning"));
    let checked = format!("{} and upstreams.toml", count(files, "upstream file"));
    shell.status(
        style,
        word,
        format!(
            "pins/{name}.toml for {}: {errors_text}, {warnings_text}; {checked}",
            workspace.chroot.name
        ),
    );
    Ok(u8::from(errors > 0))
}

/// Formats a finding on one line, with the locations on both sides.
fn line(finding: &Finding) -> String {
    let places: String = finding.upstream.iter().map(|place| format!("; {place}")).collect();
    format!("{}:{}: {}{places}", finding.file, finding.line, finding.message)
}
