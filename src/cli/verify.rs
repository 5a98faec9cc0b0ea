//! `rocmrpm verify`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::evidence::ComponentEvidence;
use crate::files::write_atomically;
use crate::pipeline;
use crate::report::{Shell, Style, verify_junit, verify_text};
use crate::stack::Stack;
use crate::verify::{Check, Measured, Outcome, Smoke, Subject, Worse, verify};

/// What `rocmrpm verify --json` prints: whether an installation works.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VerifyReport<'a> {
    schema: &'static str,
    /// The folder or the image.
    place: &'a str,
    /// The chroot.
    chroot: &'a str,
    /// How many checks passed.
    passed: usize,
    /// How many failed.
    failed: usize,
    /// How many could not be run.
    not_run: usize,
    /// All checks.
    checks: &'a [Check],
    /// What stack-smoke measured, with `--bench`.
    measured: &'a [Measured],
    /// What is worse than in the last run of stack-smoke there.
    worse: &'a [Worse],
    /// What this shows about the components of the installed packages, with `--record`.
    components: &'a [ComponentEvidence],
}

impl Document for VerifyReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/verify/1";
}

pub(super) fn run(args: &args::Verify, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let subject = match (&args.root, &args.container) {
        (_, Some(image)) => Subject::Image(image),
        (root, None) => Subject::Root(root.as_deref().unwrap_or(Path::new("/"))),
    };
    let smoke = match (args.smoke, args.bench) {
        (_, true) => Smoke::Bench,
        (true, false) => Smoke::Checks,
        (false, false) => Smoke::No,
    };
    let verified = match args.record {
        true => pipeline::record_installed(&stack, subject, smoke)?,
        false => verify(&stack, subject, smoke, &[])?,
    };
    if let Some(path) = &args.junit {
        write_atomically(path, verify_junit(&verified))
            .map_err(IoError::doing(format!("write `{}`", path.display())))?;
    }
    if args.json {
        shell.json(&VerifyReport {
            schema: VerifyReport::SCHEMA,
            place: &verified.place,
            chroot: &workspace.chroot.name,
            passed: verified.number(Outcome::Pass),
            failed: verified.number(Outcome::Fail),
            not_run: verified.number(Outcome::NotRun),
            checks: &verified.checks,
            measured: &verified.measured,
            worse: &verified.worse,
            components: &verified.components,
        })?;
    } else {
        shell.data(verify_text(&verified).trim_end())?;
    }
    for evidence in &verified.components {
        let ComponentEvidence { component, version, tier, device, failure, .. } = evidence;
        let what = match (tier, device, failure) {
            (Some(tier), Some(device), _) => format!("{tier} on {device}"),
            (Some(tier), None, _) => tier.to_string(),
            (None, _, Some(failure)) => failure.clone(),
            (None, _, None) => "not all of its modules could be imported here".to_owned(),
        };
        let style = if tier.is_some() { Style::Good } else { Style::Bad };
        shell.status(style, "Recorded", format!("{component} {version}: {what}"));
    }
    if verified.number(Outcome::Fail) > 0 || verified.worse.iter().any(|worse| worse.failed) {
        return Ok(Kind::Findings.exit_code());
    }
    if args.container.is_none() && !verified.checked_packages() {
        let chroot = &workspace.chroot.name;
        let message = format!(
            "no package of the stack was checked: none is built for `{chroot}`, or dnf is missing"
        );
        let error = Error::new(Kind::Findings, message);
        return Err(context::elsewhere_or_build(error, &workspace, "repository"));
    }
    Ok(0)
}
