//! A Python closure that is stated and not written.

use super::component::Component;
use super::load::Workspace;
use crate::error::Problem;

/// Returns the problem of a component whose Python closure is not written for the chosen pin set
/// and chroot: its package would require what nothing provides.
pub fn closure_not_written(workspace: &Workspace, selected: &[&Component]) -> Option<Problem> {
    let component = selected.iter().find(|component| component.closure.is_some())?;
    if workspace.closure.is_some() && workspace.closure_lock().is_file() {
        return None;
    }
    let (name, pins, chroot) = (&component.name, &workspace.pins.name, &workspace.chroot.name);
    let message = format!("the Python closure of `{name}` is not written for the pins of {pins} on {chroot}");
    let start = component.file.text.find("[closure]");
    let span = start.map(|start| start..start + "[closure]".len());
    let label = "dnf would not find all that its package requires";
    let problem = component.file.problem(span.clone().unwrap_or(0..0), message, label);
    let help = format!("`rocmrpm closure --pins {pins} --chroot {chroot} --write` writes it");
    Some(Problem { span, help: Some(help), ..problem })
}
