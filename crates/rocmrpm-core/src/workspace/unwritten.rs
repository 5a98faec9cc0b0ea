//! Checks that a declared Python closure is written.

use super::component::Component;
use super::load::Workspace;
use crate::error::Problem;

/// Returns a problem if a component's Python closure is not written for the chosen pin set and
/// chroot: its package would have requirements that no package provides.
pub fn closure_not_written(workspace: &Workspace, selected: &[&Component]) -> Option<Problem> {
    let component = selected.iter().find(|component| component.closure.is_some())?;
    if workspace.closure.is_some() && workspace.closure_lock().is_file() {
        return None;
    }
    let (name, pins, chroot) = (&component.name, &workspace.pins.name, &workspace.chroot.name);
    let message =
        format!("the Python closure of `{name}` is not written for pin set `{pins}` on {chroot}");
    let start = component.file.text.find("[closure]");
    let span = start.map(|start| start..start + "[closure]".len());
    let label = "no package would provide its members";
    let problem = component.file.problem(span.clone().unwrap_or(0..0), message, label);
    let help = format!("write it: rocmrpm closure --pins {pins} --chroot {chroot} --write");
    Some(Problem { span, help: Some(help), ..problem })
}
