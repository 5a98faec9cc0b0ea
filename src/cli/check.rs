//! `rocmrpm check`: the checks of other commands that need no build, one after the other.

use std::path::Path;

use super::{CommandResult, args, closure, context, lint, lock, pins, render};
use crate::error::Kind;
use crate::report::{Shell, Style, show_error};

pub(super) fn run(args: &args::Check, dir: &Path, shell: &Shell) -> CommandResult {
    let args::Check { choice, offline } = args;
    let workspace = context::workspace(dir, choice, &[])?;
    let has_lock = workspace.root.join(format!("pins/{}.lock", workspace.pins.name)).is_file();
    let has_closure = workspace.with_closure().is_some();
    let mut checks: Vec<(&str, CommandResult)> = Vec::new();
    let mut check = |command, run: &dyn Fn() -> CommandResult| {
        shell.status(Style::Note, "Checking", format!("rocmrpm {command}"));
        let done = run();
        if let Err(error) = &done {
            show_error(shell, error);
        }
        let stopped = matches!(&done, Err(error) if error.kind() == Kind::Interrupted);
        checks.push((command, done));
        !stopped
    };
    let choice = || choice.clone();
    let render = || render::run(&args::Render::check(choice()), dir, shell);
    let lock = || {
        let pins = choice().pins;
        let args = args::Lock {
            pins,
            check: true,
            update: false,
            images: false,
            offline: *offline,
            json: false,
        };
        lock::run(&args, dir, shell)
    };
    let pins = || {
        let check = args::PinsCheck { choice: choice(), offline: *offline, json: false };
        pins::run(&args::Pins::Check(check), dir, shell)
    };
    let lint = || lint::run(&args::Lint::all(choice()), dir, shell);
    let closure =
        || closure::run(&args::Closure::check(choice(), *offline), dir, &shell.without_data());
    let _ = check("render --check", &render)
        && (!has_lock || check("lock --check", &lock))
        && check("pins check", &pins)
        && check("lint", &lint)
        && (!has_closure || check("closure --check", &closure));

    let failed = checks.iter().filter(|(_, done)| !matches!(done, Ok(0)));
    let failed: Vec<&str> = failed.map(|(command, _)| *command).collect();
    shell.talk("");
    match failed.is_empty() {
        true => shell.status(Style::Good, "Passed", format!("{} checks", checks.len())),
        false => {
            let count = format!("{} of {} checks", failed.len(), checks.len());
            shell.status(Style::Bad, "Failed", format!("{count}: {}", failed.join(", ")));
        }
    }
    let code = |done: &CommandResult| match done {
        Ok(code) => *code,
        Err(error) => error.kind().exit_code(),
    };
    Ok(checks.iter().map(|(_, done)| code(done)).find(|code| *code != 0).unwrap_or(0))
}
