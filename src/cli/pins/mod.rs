//! `rocmrpm pins`. Each subcommand has its own file.

pub(super) mod check;
pub(super) mod derive;
mod export;
mod import;
pub(super) mod outdated;
mod quiet;
mod update;

use std::path::Path;

use super::{CommandResult, args, context};
use crate::report::Shell;

pub(super) fn run(command: &args::Pins, dir: &Path, shell: &Shell) -> CommandResult {
    match command {
        args::Pins::Derive(command) => derive::run(command, dir, shell),
        args::Pins::Check(command) => check::run(command, dir, shell),
        args::Pins::Outdated(command) => outdated::run(command, dir, shell),
        args::Pins::Update(command) => update::run(command, dir, shell),
        args::Pins::Export(command) => export::run(command, dir, shell),
        args::Pins::Import(command) => import::run(command, dir, shell),
    }
}
