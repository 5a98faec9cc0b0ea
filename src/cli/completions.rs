//! `rocmrpm completions`.

use clap::CommandFactory;

use super::Done;
use super::args::{Arguments, Completions};
use crate::report::Shell;

pub(super) fn run(args: &Completions, shell: &Shell) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "rocmrpm", &mut script);
    shell.data(String::from_utf8_lossy(&script))?;
    Ok(0)
}
