//! `rocmrpm completions`.

use super::args::Completions;
use super::{CommandResult, complete};
use crate::error::IoError;
use crate::report::Shell;

pub(super) fn run(args: &Completions, shell: &Shell) -> CommandResult {
    let script =
        complete::registration(args.shell).map_err(IoError::doing("write the completions"))?;
    shell.data(script)?;
    Ok(0)
}
