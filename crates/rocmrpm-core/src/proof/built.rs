//! Checks new packages before they become results: the stack or the chroot must satisfy their
//! requirements. For components that are not built yet, it uses the provides in their specs. It
//! does not inspect the payload.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::check::check;
use super::target::Target;
use super::{NotInstallable, read};
use crate::build::{Results, Stage};
use crate::closure::name_of;
use crate::error::Error;
use crate::lint;
use crate::names::ComponentName;
use crate::spec::{self, History};
use crate::stack::Stack;
use crate::workspace::{Component, Workspace};

/// Rejects a component's RPMs if they have unmet requirements or conflict with others. Reads only
/// headers.
pub fn provided(stack: &Stack<'_>, component: &Component, rpms: &[PathBuf]) -> Result<(), Error> {
    let workspace = stack.workspace;
    let own = read(rpms)?;
    let mut target = Target::of(workspace)?;
    let (mut others, mut missing) = (Vec::new(), BTreeSet::new());
    for other in stack.order().iter().filter(|other| other.name != component.name) {
        match Results::of(&workspace.build_dir_of(&other.name), Stage::Rpm, &other.name).rpms()? {
            rpms if rpms.is_empty() => drop(missing.insert(&other.name)),
            rpms => {
                std::thread::sleep(std::time::Duration::from_millis(300));
                others.extend(read(&rpms)?)
            }
        }
    }
    let all: Vec<_> = own.iter().chain(&others).collect();
    let mut findings = check(&own, &all, &target)?;
    if !findings.unmet.is_empty() && !missing.is_empty() {
        add_planned(stack, &missing, &mut target)?;
        findings = check(&own, &all, &target)?;
    }
    Ok(NotInstallable::of(&findings, &format!("`{}`", component.name), &workspace.chroot.name)?)
}

/// Adds the packages declared by components that have no results.
fn add_planned(
    stack: &Stack<'_>,
    missing: &BTreeSet<&ComponentName>,
    target: &mut Target,
) -> Result<(), Error> {
    let history = History::read(stack.workspace)?;
    for component in stack.order().iter().filter(|component| missing.contains(&component.name)) {
        let rendered = spec::render(stack, component, &history)?;
        let Workspace { chroot, root, .. } = stack.workspace;
        let sections = lint::expand(&rendered.text, &rendered.file_name, None, chroot, root)?;
        let name = name_of(stack.workspace, component);
        lint::add_own(&mut target.packages, &sections, &[&name, component.name.as_str()]);
    }
    Ok(())
}
