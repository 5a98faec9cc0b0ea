//! Compares what COPR has of each component with what the workspace wants. Does not send builds.

use serde::Serialize;

use super::client::Client;
use super::record::Sent;
use super::state::{Build, BuildState};
use crate::build::Prepared;
use crate::stack::Verdict;

/// A component in a chroot.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatusRow {
    /// The component.
    pub component: String,
    /// COPR's chroot.
    pub chroot: String,
    /// The version and release that the workspace wants.
    pub wanted: String,
    /// The version and release of the newest build on COPR.
    pub remote: Option<String>,
    /// The newest build's state.
    pub state: Option<BuildState>,
    /// The newest build's number.
    pub build: Option<u64>,
    /// Its page.
    pub url: Option<String>,
    /// Whether `copr push` would build or inspect it.
    pub stale: bool,
    /// The reasons, as in a plan.
    pub reasons: Vec<String>,
}

/// Combines a plan with the newest builds of a project for a chroot. `nameless` are the builds
/// whose package COPR does not know yet.
pub fn rows(
    client: &Client<'_>,
    builds: &[Build],
    nameless: &[(u64, BuildState)],
    chroot: &str,
    dist: &str,
    prepared: &Prepared<'_, '_>,
) -> Vec<StatusRow> {
    let mut rows = Vec::new();
    for step in &prepared.plan.steps {
        let spec = &prepared.specs[&step.component];
        let name = package(&spec.text).unwrap_or_else(|| step.component.to_string());
        let newest = builds.iter().find(|build| {
            build.is_called(&name) && build.chroots.iter().any(|name| name == chroot)
        });
        let sent = Sent::read(&prepared.stack.workspace.build_dir(), client.project(), &name);
        let sent = sent.and_then(|sent| {
            let (_, state) = nameless.iter().find(|(id, _)| *id == sent.build)?;
            Some((sent.build, *state, sent.version_release))
        });
        let (build, state, remote) = match (sent, newest) {
            (Some((build, state, version)), _) => (Some(build), Some(state), Some(version)),
            (None, Some(newest)) => {
                (Some(newest.id), Some(newest.state), newest.source_package.version.clone())
            }
            (None, None) => (None, None, None),
        };
        let version = &prepared.stack.workspace.pins.pins[&step.component].value.version;
        let release = spec.release.release.replace("%{?dist}", dist);
        let (stale, reasons) = match &step.verdict {
            Verdict::Fresh => (false, Vec::new()),
            Verdict::Inspect(reasons) | Verdict::Stale(reasons) => (true, reasons.clone()),
        };
        rows.push(StatusRow {
            component: step.component.to_string(),
            chroot: chroot.to_owned(),
            wanted: format!("{version}-{release}"),
            remote,
            state,
            build,
            url: build.map(|build| client.build_page(build)),
            stale,
            reasons,
        });
    }
    rows
}

/// Extracts the source package's name from a rendered spec; `None` if it contains a macro.
pub fn package(spec: &str) -> Option<String> {
    let line = spec
        .lines()
        .find(|line| line.get(..5).is_some_and(|tag| tag.eq_ignore_ascii_case("name:")))?;
    Some(line[5..].trim().to_owned()).filter(|name| !name.contains('%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_name_of_a_source_package_from_its_spec() {
        assert_eq!(
            package("# x\nName:           python-k\nVersion: 1\n").as_deref(),
            Some("python-k")
        );
        assert_eq!(package("Name: %{x}\n"), None);
    }
}
