//! Finds components that were built with packages of others that they do not require. mock installs
//! whatever the repository has, but the plan only knows declared requirements: such a component is not
//! rebuilt when the other one changes.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Results;
use super::stage::Stage;
use crate::error::{Error, IoError, Kind};
use crate::names::ComponentName;
use crate::rpms::name_of_file;
use crate::stack::Stack;
use crate::workspace::Component;

/// Returns the components that this one does not require and whose packages were in its build root,
/// each with one of them.
fn undeclared<'s>(
    stack: &'s Stack<'_>,
    component: &Component,
    buildroot: &[String],
) -> Result<BTreeMap<&'s ComponentName, String>, IoError> {
    let declared = stack.with_required(&[component]);
    let installed: BTreeSet<&str> = buildroot.iter().filter_map(|nevra| name_of(nevra)).collect();
    let mut found = BTreeMap::new();
    for other in stack.order().iter().filter(|other| !declared.contains_key(other.name.as_str())) {
        let workspace = stack.workspace;
        for dir in [workspace.build_dir_of(&other.name), workspace.regular_build_dir()] {
            let rpms = Results::of(&dir, Stage::Rpm, &other.name).rpms()?;
            let mut names = rpms.iter().filter_map(|rpm| name_of_file(rpm));
            if let Some(name) = names.find(|name| installed.contains(name)) {
                found.insert(&other.name, name.to_owned());
            }
        }
    }
    Ok(found)
}

/// Returns the name in `name-version-release.arch`; the version may have an epoch. `None` for Debian's
/// packages, which are not of the stack and need not have a release.
fn name_of(nevra: &str) -> Option<&str> {
    let is_debians = [".all", ".amd64", ".arm64"].iter().any(|arch| nevra.ends_with(arch));
    nevra.rsplitn(3, '-').nth(2).filter(|_| !is_debians)
}

/// Returns how to declare a requirement.
fn declare(stack: &Stack<'_>, component: &Component, required: &ComponentName) -> String {
    let folder = component.dir.strip_prefix(&stack.workspace.root).unwrap_or(&component.dir);
    format!("add `\"{required}\"` to `requires` in {}", folder.join("component.toml").display())
}

/// Returns a warning for each component whose packages were in the build root of one that does not
/// require it.
pub(super) fn warnings(
    stack: &Stack<'_>,
    component: &Component,
    buildroot: &[String],
) -> Result<Vec<String>, IoError> {
    let found = undeclared(stack, component, buildroot)?;
    let warning = |(other, package): (&ComponentName, String)| {
        format!(
            "`{}` was built with {package}, but does not require `{other}`: it is not rebuilt when \
             that changes; {}",
            component.name,
            declare(stack, component, other)
        )
    };
    Ok(found.into_iter().map(warning).collect())
}

/// Rejects builds with pins from the command line if accepted results were built with packages that
/// these pins replace: they would be in the same repository, and do not fit.
pub(super) fn refuse_stale(stack: &Stack<'_>) -> Result<(), Error> {
    let workspace = stack.workspace;
    let regular = workspace.regular_build_dir();
    if workspace.build_dir() == regular {
        return Ok(());
    }
    let is_affected = |name: &ComponentName| workspace.build_dir_of(name) != regular;
    for component in stack.order().iter().filter(|component| !is_affected(&component.name)) {
        let results = Results::of(&regular, Stage::Rpm, &component.name);
        let Some(record) = results.record()? else { continue };
        let found = undeclared(stack, component, &record.buildroot)?;
        if let Some((other, package)) = found.into_iter().find(|(other, _)| is_affected(other)) {
            let message = format!(
                "`{0}` was built with {package}, which the pins of this command replace, but `{0}` does \
                 not require `{other}`",
                component.name
            );
            let help = declare(stack, component, other);
            return Err(Error::new(Kind::Config, message).with_help(help));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_of_packages() {
        for nevra in ["vec-devel-1.2.0-1.fc43.x86_64", "vec-devel-0:1.2.0-1.fc43.x86_64"] {
            assert_eq!(name_of(nevra), Some("vec-devel"));
        }
        assert_eq!(name_of("gpg-pubkey"), None);
        assert_eq!(name_of("base-files-12.4+deb12u12.amd64"), None);
    }
}
