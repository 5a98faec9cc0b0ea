//! The command line: parses arguments, calls the library, reports. Each command has its own file.

mod add;
mod args;
mod audit;
mod build;
mod cache;
mod check;
mod clean;
mod closure;
mod complete;
mod completions;
mod container;
mod context;
mod copr;
mod dist_git;
mod doctor;
#[cfg(test)]
mod documents_tests;
mod enter_shell;
mod evidence;
mod explain;
mod graph;
mod index;
mod index_check;
mod index_serve;
mod init;
mod inspect;
mod install;
mod lint;
mod lock;
mod log;
mod man;
mod patch;
mod patch_compare;
mod pins;
mod pipeline;
mod plan;
mod prep;
mod publish;
mod publish_repository;
#[cfg(test)]
#[path = "tests/reference/mod.rs"]
mod reference;
mod remove;
mod render;
mod reproduce;
mod requirements;
mod rollback;
mod schemas;
mod sdk;
mod status;
mod trust;
mod user;
mod verify;
mod wheel;

use std::process::ExitCode;

use crate::error::{Error, IoError};
use crate::machine;
use crate::process;
use crate::report::{Shell, show_error};
use crate::table;
use args::{Arguments, Command};

/// Runs the program and returns its exit code.
pub fn main() -> ExitCode {
    if let Some(code) = complete::answer() {
        return code;
    }
    install_panic_report();
    let arguments = args::parse();
    let config = user::UserConfig::read();
    let color = config.as_ref().map_or(arguments.color, |config| config.color(arguments.color));
    color.apply();
    table::limit_to_terminal();
    let shell = Shell::new(arguments.quiet);
    let done = config.and_then(|config| {
        // Only the first limit has an effect.
        let jobs = match &arguments.command {
            Command::Build(build) => build.jobs,
            _ => None,
        };
        jobs.or(config.jobs).into_iter().for_each(machine::limit_cores);
        run(&arguments, &shell)
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            show_error(&shell, &error);
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// The result of a command: its exit code, or an error that has one.
type CommandResult = Result<u8, Error>;

fn run(arguments: &Arguments, shell: &Shell) -> CommandResult {
    process::catch_signals().map_err(IoError::doing("catch signals"))?;
    let dir = arguments.directory.clone();
    trust::ask_for(&arguments.command, &dir, shell)?;
    match &arguments.command {
        Command::Init(command) => init::run(command, &dir, shell),
        Command::Add(command) => add::run(command, &dir, shell),
        Command::Remove(command) => remove::run(command, &dir, shell),
        Command::Lock(command) => lock::run(command, &dir, shell),
        Command::Pins(command) => pins::run(command, &dir, shell),
        Command::Prep(command) => prep::run(command, &dir, shell),
        Command::Patch(command) => patch::run(command, &dir, shell),
        Command::Audit(command) => audit::run(command, &dir, shell),
        Command::Lint(command) => lint::run(command, &dir, shell),
        Command::Render(command) => render::run(command, &dir, shell),
        Command::Check(command) => check::run(command, &dir, shell),
        Command::Graph(command) => graph::run(command, &dir, shell),
        Command::Plan(command) => plan::run(command, &dir, shell),
        Command::Build(command) => build::run(command, &dir, shell),
        Command::Status(command) => status::run(command, &dir, shell),
        Command::Log(command) => log::run(command, &dir, shell),
        Command::Clean(command) => clean::run(command, &dir, shell),
        Command::Cache(command) => cache::run(command, shell),
        Command::Reproduce(command) => reproduce::run(command, &dir, shell),
        Command::Shell(command) => enter_shell::run(command, &dir, shell),
        Command::Inspect(command) => inspect::run(command, &dir, shell),
        Command::Explain(command) => explain::run(command, shell),
        Command::Wheel(command) => wheel::run(command, &dir, shell),
        Command::Sdk(command) => sdk::run(command, shell),
        Command::Index(command) => index::run(command, &dir, shell),
        Command::Requirements(command) => requirements::run(command, &dir, shell),
        Command::Publish(command) => publish::run(command, &dir, shell),
        Command::Copr(command) => copr::run(command, &dir, shell),
        Command::Pipeline(command) => pipeline::run(command, &dir, shell),
        Command::Evidence(command) => evidence::run(command, &dir, shell),
        Command::Closure(command) => closure::run(command, &dir, shell),
        Command::Container(command) => container::run(command, &dir, shell),
        Command::Verify(command) => verify::run(command, &dir, shell),
        Command::Trust(command) => trust::run(command, &dir, shell),
        Command::Doctor(command) => doctor::run(command, &dir, shell),
        Command::Completions(command) => completions::run(command, shell),
        Command::Man(command) => man::run(command, shell),
    }
}

/// Reports panics as bugs in rocmrpm.
fn install_panic_report() {
    std::panic::set_hook(Box::new(|info| {
        let shell = Shell::new(false);
        shell.line(format!("internal error: {info}"));
        let words: Vec<String> = std::env::args().collect();
        shell.line(format!(
            "  rocmrpm {} was called as: {}",
            env!("CARGO_PKG_VERSION"),
            words.join(" ")
        ));
        shell.line("\nhelp: this is a bug in rocmrpm; please report it with the lines above");
        // Exits with the exit code for internal errors instead of the runtime's.
        #[expect(clippy::exit, reason = "the only place where no error value can reach main")]
        std::process::exit(70);
    }));
}
