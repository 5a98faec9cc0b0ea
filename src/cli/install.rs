//! Runs and shows the proof that packages install, for several commands.

use std::path::Path;

use super::{args, context};
use crate::closure::Graph;
use crate::error::Error;
use crate::events::Events;
use crate::proof::{NotInstallable, Proof, prove};
use crate::report::{Shell, Style, install_notes, install_summary};
use crate::sources::Fetcher;
use crate::stack::Stack;

/// Proves that the packages of `rocmrpm closure --write` install, together with all other
/// components of the workspace.
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

/// Shows the result of the proof and its limits; fails if packages cannot be installed.
pub(super) fn show(proof: &Proof, chroot: &str, shell: &Shell) -> Result<(), Error> {
    for note in install_notes(proof) {
        shell.talk(format!("{} {note}", Style::Dim.paint("note:")));
    }
    NotInstallable::of(&proof.findings, "the stack", chroot)?;
    shell.status(Style::Good, "Verified", install_summary(proof));
    Ok(())
}
