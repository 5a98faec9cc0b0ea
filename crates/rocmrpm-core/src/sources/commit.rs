//! Creates the archive of a git source: archives, joins and compresses its parts, and compares them
//! with the lock. It does not fetch commits.

use std::collections::BTreeMap;

use fs_err as fs;

use super::submodules::{Finder, SourceCommit};
use super::{
    Fetcher, SourceError, file_name, join, not_pinned, pack, pinned_commit, source_dir, url,
};
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::error::IoError;
use crate::events::WorkPhase;
use crate::workspace::pin::{LockEntry, Pin, Source};

/// The content of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub tree: String,
    /// The commit of each packed submodule, by path; `None` if submodules are not packed.
    pub submodules: Option<BTreeMap<String, String>>,
}

impl Fetcher<'_> {
    pub(super) fn pack_commit(&self, pin: &Pin) -> Result<Sha256, SourceError> {
        let Source::Git { commit, submodules, paths, .. } = &pin.source else {
            return Err(not_pinned(pin, "commit"));
        };
        let (commit, prefix) = (pinned_commit(pin, commit)?, source_dir(pin));
        let recipe = recipe(commit, &prefix, *submodules, paths, pin.evidence.0.as_deref());
        if let Some(digest) = self.packed(&recipe)? {
            return Ok(digest);
        }
        let parts = self.parts(pin)?;
        let facts = self.facts_of(&parts, *submodules)?;
        verify(pin, &facts)?;
        self.phase(pin, WorkPhase::Packing, file_name(pin));
        let scratch = self.cache().scratch()?;
        let joined = scratch.path().join("joined");
        let action = || IoError::doing("join the parts of a source");
        let mut writer = join::Writer::new(fs::File::create(&joined).map_err(action())?);
        for part in
            parts.iter().filter(|part| part.paths.as_ref().is_none_or(|paths| !paths.is_empty()))
        {
            let tar = scratch.path().join("tar");
            let folder = if part.path.is_empty() {
                prefix.clone()
            } else {
                format!("{prefix}/{}", part.path)
            };
            self.repository(&part.url).archive(
                &part.commit,
                &folder,
                part.paths.as_deref().unwrap_or_default(),
                &tar,
            )?;
            writer.append(fs::File::open(&tar).map_err(action())?).map_err(action())?;
        }
        writer.finish().map_err(action())?;
        if !submodules && self.repository(&parts[0].url).has_submodules(commit)? {
            self.warn(format!(
                "`{}`: commit {commit} has submodules that the source does not contain; \
                 pack them with `submodules = true` in the pin",
                pin.component
            ));
        }
        let packed = scratch.path().join("tar.gz");
        pack::compress(&joined, &packed)?;
        self.keep(&packed, &recipe)
    }

    /// Determines the content of a pinned commit.
    pub(super) fn facts(&self, pin: &Pin) -> Result<Facts, SourceError> {
        let submodules = matches!(pin.source, Source::Git { submodules: true, .. });
        self.facts_of(&self.parts(pin)?, submodules)
    }

    fn parts(&self, pin: &Pin) -> Result<Vec<SourceCommit>, SourceError> {
        let Source::Git { url, commit, submodules, paths } = &pin.source else {
            return Err(not_pinned(pin, "commit"));
        };
        let commit = pinned_commit(pin, commit)?.to_owned();
        let paths: Vec<_> =
            paths.iter().map(|path| path.trim_end_matches('/').to_owned()).collect();
        let paths = Some(paths).filter(|paths| !paths.is_empty());
        let fetching = |part: &SourceCommit| {
            let of =
                if part.path.is_empty() { String::new() } else { format!(" for {}", part.path) };
            self.phase(
                pin,
                WorkPhase::Fetching,
                format!("{} at {}{of}", url::shown(&part.url), part.commit),
            );
        };
        let finder = Finder {
            cache: self.cache(),
            workspace_root: self.workspace_root(),
            offline: self.is_offline(),
            fetching: &fetching,
        };
        finder.parts(
            SourceCommit { path: String::new(), url: url.clone(), commit, paths },
            *submodules,
        )
    }

    fn facts_of(&self, parts: &[SourceCommit], submodules: bool) -> Result<Facts, SourceError> {
        let tree = self.repository(&parts[0].url).tree(&parts[0].commit)?;
        let below = parts[1..].iter().map(|part| (part.path.clone(), part.commit.clone()));
        Ok(Facts { tree, submodules: submodules.then(|| below.collect()) })
    }
}

/// Returns everything that determines the archive. The recipe includes the lock so that a changed
/// lock causes another verification.
fn recipe(
    commit: &str,
    prefix: &str,
    submodules: bool,
    paths: &[String],
    locked: Option<&LockEntry>,
) -> String {
    let paths = canonical(paths);
    let locked = canonical(&locked.map(|entry| (&entry.tree, &entry.submodules)));
    format!("git archive 3\n{commit}\n{prefix}\nsubmodules {submodules}\n{paths}\n{locked}\n")
}

/// Compares a commit with the lock.
fn verify(pin: &Pin, facts: &Facts) -> Result<(), SourceError> {
    let Some(entry) = &pin.evidence.0 else { return Ok(()) };
    let differs = |what: String, locked: &str, found: &str| SourceError::LockDiffers {
        component: pin.component.to_string(),
        what,
        locked: locked.to_owned(),
        found: found.to_owned(),
    };
    if let Some(tree) = entry.tree.as_ref().filter(|tree| **tree != facts.tree) {
        return Err(differs("the commit's tree".into(), tree, &facts.tree));
    }
    let (Some(locked), Some(found)) = (&entry.submodules, &facts.submodules) else { return Ok(()) };
    for path in locked.keys().chain(found.keys()) {
        let commit = |map: &BTreeMap<String, String>| {
            map.get(path).cloned().unwrap_or_else(|| "no submodule there".to_owned())
        };
        let (locked, found) = (commit(locked), commit(found));
        if locked != found {
            return Err(differs(format!("the submodule `{path}`"), &locked, &found));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_recipe_is_stable() {
        let paths = ["a".to_owned(), "b c".to_owned()];
        assert_eq!(
            recipe("0f", "x-1", false, &paths, None),
            "git archive 3\n0f\nx-1\nsubmodules false\n[\"a\", \"b c\"]\nNone\n"
        );
        let submodules = BTreeMap::from([("third_party/y".to_owned(), "1e".to_owned())]);
        let locked = LockEntry {
            tree: Some("2d".into()),
            submodules: Some(submodules),
            ..LockEntry::default()
        };
        assert_eq!(
            recipe("0f", "x-1", true, &[], Some(&locked)),
            "git archive 3\n0f\nx-1\nsubmodules true\n[]\n\
             Some((Some(\"2d\"), Some({\"third_party/y\": \"1e\"})))\n"
        );
    }
}
