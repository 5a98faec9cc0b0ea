//! `rocmrpm wheel`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::build::BuildLock;
use crate::build::find_elsewhere;
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::{IoError, Kind};
use crate::outputs::{self, Verified};
use crate::process::own_program;
use crate::report::{Progress, Shell, Style, proof_summary, proof_text};
use crate::stack::Stack;
use crate::wheel::Proof;
use crate::workspace::Workspace;

/// What `rocmrpm wheel --json` prints: the wheels of all components.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WheelReport<'a> {
    schema: &'static str,
    /// The wheels.
    wheels: Vec<WheelFile<'a>>,
}

/// A wheel.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WheelFile<'a> {
    /// The file.
    path: &'a Path,
    /// Its digest.
    sha256: Sha256,
    /// Its size in bytes.
    size: u64,
}

/// What `rocmrpm wheel --check --json` prints: whether the wheels match the RPMs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WheelVerification<'a> {
    schema: &'static str,
    /// Whether nothing differs.
    identical: bool,
    /// The components.
    components: Vec<ComponentWheels<'a>>,
}

/// The wheels of a component.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComponentWheels<'a> {
    /// The component.
    component: &'a str,
    /// Its RPMs that differ from the records in `build.json`.
    rpm_differences: Vec<RpmDifference<'a>>,
    /// Its wheels.
    wheels: &'a [Proof],
}

/// An RPM that differs from the record in `build.json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RpmDifference<'a> {
    /// The RPM's file name.
    file: &'a str,
    /// The problem.
    what: &'a str,
    /// The digest that it should have.
    expected: Option<Sha256>,
    /// The digest that it has.
    found: Option<Sha256>,
}

impl Document for WheelReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/wheel/1";
}

impl Document for WheelVerification<'_> {
    const SCHEMA: &'static str = "rocmrpm/wheel-verify/1";
}

/// Returns the message for a stack without Python distributions.
pub(super) fn no_wheels(workspace: &Workspace) -> String {
    let none = format!(
        "no component with a Python distribution has been built for {}",
        workspace.chroot.name
    );
    match find_elsewhere(workspace, "results") {
        Some(help) => format!("{none}; {help}"),
        None => none,
    }
}

pub(super) fn run(args: &args::Wheel, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let lock = BuildLock::take(&workspace)?;
    if args.check {
        return verify(args, &lock, &stack, shell);
    }
    let wheels = outputs::make_wheels(&lock, &stack, &Progress::new(shell))?;
    if args.json {
        let mut list = Vec::new();
        for path in &wheels {
            let (sha256, size) = Sha256::of_file(path).map_err(IoError::doing("read a wheel"))?;
            list.push(WheelFile { path, sha256, size });
        }
        shell.json(&WheelReport { schema: WheelReport::SCHEMA, wheels: list })?;
        return Ok(0);
    }
    for path in &wheels {
        shell.data(path.display())?;
    }
    if wheels.is_empty() {
        shell.warning(no_wheels(&workspace));
    }
    Ok(0)
}

fn verify(args: &args::Wheel, lock: &BuildLock, stack: &Stack<'_>, shell: &Shell) -> CommandResult {
    let all = outputs::verify_wheels(lock, stack)?;
    let holds = all.iter().all(Verified::holds);
    if args.json {
        shell.json(&WheelVerification {
            schema: WheelVerification::SCHEMA,
            identical: holds,
            components: all.iter().map(ComponentWheels::of).collect(),
        })?;
    } else if all.is_empty() {
        shell.warning(no_wheels(stack.workspace));
    } else {
        shell.data(proof_text(&all))?;
        let (style, word) = if holds { (Style::Good, "Verified") } else { (Style::Bad, "Differs") };
        shell.status(style, word, proof_summary(&all));
        if !holds {
            let help = format!(
                "delete the files that differ, then run `{0} wheel` for wheels or `{0} build` for RPMs",
                own_program()
            );
            shell.help(help);
        }
    }
    Ok(if holds { 0 } else { Kind::Findings.exit_code() })
}

impl<'a> ComponentWheels<'a> {
    fn of(verified: &'a Verified) -> Self {
        let rpms = verified.rpms.iter().map(|(file, difference)| RpmDifference {
            file,
            what: &difference.what,
            expected: difference.expected,
            found: difference.found,
        });
        Self {
            component: &verified.component,
            rpm_differences: rpms.collect(),
            wheels: &verified.wheels,
        }
    }
}
