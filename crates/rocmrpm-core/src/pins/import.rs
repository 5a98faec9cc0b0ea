//! Imports values from another tool's file into a pin set. The modules of the formats read such files.

use std::collections::BTreeMap;

use super::import_source::{Imported, Target};
use super::{PinsError, SetText};
use crate::error::Problems;
use crate::rpm_version;
use crate::sources::Fetcher;
use crate::workspace::document::File;
use crate::workspace::upstreams::UpstreamOrigin;
use crate::workspace::{Source, Workspace};

/// The values that a file has for a pin set.
#[derive(Debug, Default)]
pub struct Import {
    /// By component and further source; the main source's name is empty.
    pub entries: BTreeMap<(String, String), Imported>,
    /// Names that the pin set does not have.
    pub unknown: Vec<String>,
    /// Other notes for the user.
    pub notes: Vec<String>,
    /// Whether each version is the one that upstream states at the commit, which need not be a
    /// release.
    pub of_commits: bool,
}

/// Returns the pin set's text with the values from `file`. Resolves a version without a commit or
/// digest; a value that can move is a problem of the file.
pub fn apply(
    workspace: &Workspace,
    file: &File,
    import: &Import,
    fetcher: &Fetcher<'_>,
) -> Result<SetText, PinsError> {
    let mut text = SetText::new(&workspace.pins.file)?;
    let mut problems = Vec::new();
    let nothing = Imported::default();
    for main in workspace.pins.written() {
        let component = main.component.as_str();
        let key = |source: &str| (component.to_owned(), source.to_owned());
        let imported = |source: &str| import.entries.get(&key(source)).unwrap_or(&nothing);
        let table = [component];
        let submodules = has_submodules(workspace, component);
        let of_commits = import.of_commits.then_some(submodules);
        let target = Target { file, pin: main, table: &table, follows: &main.version, of_commits };
        let new = target.take(imported(""), &mut text, &mut problems, fetcher)?;
        let is_new = import.of_commits && new.source != main.source;
        let is_snapshot = is_new && rpm_version::upstream(&new.version) != new.version;
        for (source, pin) in &main.sources {
            let table = [component, "sources", source];
            let own = text.get(&[&table[..], &["version"]].concat()).is_some();
            let follows = if own { &pin.version } else { &new.version };
            let target = Target { file, pin, table: &table, follows, of_commits: None };
            let has_version = !matches!(pin.source, Source::Folder { .. } | Source::Crates { .. });
            if has_version && (is_snapshot || is_new && own) {
                target.follow_commit(main, &new, own, &mut text, fetcher);
            } else {
                target.take(imported(source), &mut text, &mut problems, fetcher)?;
            }
        }
    }
    if problems.is_empty() {
        text.check()?;
        Ok(text)
    } else {
        Err(PinsError::Invalid(Problems(problems)))
    }
}

/// Returns whether upstreams.toml packs a component with its submodules.
fn has_submodules(workspace: &Workspace, component: &str) -> bool {
    let known = workspace.upstreams.components.iter().find(|known| known.name == component);
    matches!(
        known.and_then(|known| known.origin.as_ref()),
        Some(UpstreamOrigin::Git { submodules: true, .. })
    )
}
