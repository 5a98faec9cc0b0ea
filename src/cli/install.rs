//! The proof that packages install, as commands run and show it.

use std::path::Path;

use super::{args, context};
use crate::closure::Graph;
use crate::error::Error;
use crate::events::Events;
use crate::proof::{NotInstallable, Proof, prove};
use crate::report::{Shell, Style, install_notes, install_summary};
use crate::sources::Fetcher;
use crate::stack::Stack;

/// Proves what `rocmrpm closure --write` wrote, with all other components of the workspace.
pub(super) fn of_closure(
    dir: &Path,
    choice: &args::Choice,
    graph: &Graph,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Proof, Error> {
    let workspace = context::workspace(dir, choice, &[])?;
    let stack = Stack::new(&workspace)?;
    prove(&stack, Some(graph), fetcher, events)
}

/// Shows what was proved and what was not; an error if packages cannot be installed.
pub(super) fn show(proof: &Proof, chroot: &str, shell: &Shell) -> Result<(), Error> {
    for note in install_notes(proof) {
        shell.talk(format!("{} {note}", Style::Dim.paint("note:")));
    }
    NotInstallable::of(&proof.findings, "the stack", chroot)?;
    shell.status(Style::Good, "Proved", install_summary(proof));
    Ok(())
}
