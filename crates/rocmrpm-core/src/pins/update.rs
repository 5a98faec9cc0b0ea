//! Moves a pin to another version: the values of the set that change, the further sources that follow,
//! and a comparison of the two sources. The caller writes the set.

use std::cmp::Ordering;

use serde::Serialize;

use super::changes::{self, Changes};
use super::outdated::unknowable;
use super::{Changed, PinsError, SetText};
use crate::document::Document;
use crate::error::Error;
use crate::range::nearest_versions;
use crate::sources::{Fetcher, Resolved, SourceError, newer};
use crate::workspace::{Component, Pin, Source, Workspace};

/// The output of `rocmrpm pins update --json`: what another version of a component changes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Update {
    /// The name and version of the schema.
    pub schema: &'static str,
    /// The component.
    pub component: String,
    /// The pin set's file.
    pub file: String,
    /// The old version.
    pub old: String,
    /// The new version.
    pub new: String,
    /// Whether the new version is older than the old one.
    pub older: bool,
    /// The values that changed.
    pub changed: Vec<Changed>,
    /// The further sources that keep their version, and the reasons.
    pub kept: Vec<Kept>,
    /// Lines whose comments name the old version: number and text.
    pub comments: Vec<(usize, String)>,
    /// Upstream's changes; null if the version stays the same.
    pub upstream: Option<Changes>,
    /// The reason why the old and the new source could not be compared.
    pub not_compared: Option<String>,
}

/// A further source that keeps its version.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kept {
    /// Its name.
    pub source: String,
    /// The version.
    pub version: String,
    /// The reason.
    pub reason: String,
}

impl Document for Update {
    const SCHEMA: &'static str = "rocmrpm/pins-update/1";
}

/// Moves a component's pin to a version, or to the newest final one. Returns the changes and the set's
/// new text, which is not written yet.
pub fn update(
    workspace: &Workspace,
    component: &Component,
    version: Option<&str>,
    fetcher: &Fetcher<'_>,
) -> Result<(Update, SetText), Error> {
    let old = workspace.pin(component);
    let name = component.name.as_str();
    if workspace.pins.is_generated(&component.name) {
        let error = PinsError::Fixed {
            component: name.to_owned(),
            reason: "it is part of a Python closure".into(),
            help: "upgrade the whole closure: rocmrpm closure --write --upgrade".into(),
        };
        return Err(error.into());
    }
    if let Some(follows) = &old.follows {
        let error = PinsError::Fixed {
            component: name.to_owned(),
            reason: format!("it follows the branch `{}`", follows.branch),
            help: format!(
                "move it to the newest commit: rocmrpm lock --pins {} --update",
                workspace.pins.name
            ),
        };
        return Err(error.into());
    }
    let mut text = SetText::new(&workspace.pins.file)?;
    let newest = match version {
        Some(_) => None,
        None => Some(newest(old, fetcher)?),
    };
    let version = version.or(newest.as_deref()).unwrap_or_default();
    let mut new = moved(old, &[name], name, version, fetcher, &mut text)?;
    let kept = move_further(old, &mut new, name, fetcher, &mut text)?;
    text.check()?;
    let (upstream, not_compared) = compared(workspace, component, old, &new, fetcher)?;
    let comments = if new.version == old.version {
        Vec::new()
    } else {
        text.comments_with(name, &old.version)
    };
    let update = Update {
        schema: Update::SCHEMA,
        component: name.to_owned(),
        file: workspace.pins.file.name.clone(),
        older: newer(&new.version, &old.version) == Ordering::Less,
        old: old.version.clone(),
        new: new.version,
        changed: text.changed().to_vec(),
        kept,
        comments,
        upstream,
        not_compared,
    };
    Ok((update, text))
}

/// Moves the further sources of a component to the version of its new pin, and returns those that
/// keep theirs.
fn move_further(
    old: &Pin,
    new: &mut Pin,
    name: &str,
    fetcher: &Fetcher<'_>,
    text: &mut SetText,
) -> Result<Vec<Kept>, PinsError> {
    let mut kept = Vec::new();
    for (source, pin) in &old.sources {
        let table = [name, "sources", source.as_str()];
        let value = |key| text.get(&[table.as_slice(), &[key]].concat());
        let reason = match &pin.source {
            _ if value("version").is_some() => {
                let derive = format!("`rocmrpm pins derive --from {name}={}`", new.version);
                format!("it has its own version; {derive} finds the one that belongs to it")
            }
            // Their version is that of the source with the lock file.
            Source::Folder { .. } | Source::Crates { .. } => continue,
            Source::Url { .. } if !value("url").is_some_and(has_placeholder) => {
                "its URL has no `{version}`".into()
            }
            _ => match moved(pin, &table, name, &new.version, fetcher, text) {
                Ok(pin) => {
                    new.sources.insert(source.clone(), pin);
                    continue;
                }
                Err(PinsError::Source(
                    error @ (SourceError::NoTag { .. } | SourceError::NoSdist { .. }),
                )) => error.to_string(),
                Err(error) => return Err(error),
            },
        };
        kept.push(Kept { source: source.clone(), version: pin.version.clone(), reason });
    }
    Ok(kept)
}

/// Compares the old and the new source; the text is the reason why that is not possible.
fn compared(
    workspace: &Workspace,
    component: &Component,
    old: &Pin,
    new: &Pin,
    fetcher: &Fetcher<'_>,
) -> Result<(Option<Changes>, Option<String>), Error> {
    if new == old {
        return Ok((None, None));
    }
    let (tree, problem) = match old_tree(old, fetcher) {
        Ok(tree) => (Some(tree), None),
        // The old source may have vanished; that must not prevent the update.
        Err(error @ SourceError::Process(_)) => return Err(error.into()),
        Err(error) => (None, Some(error.to_string())),
    };
    let changes = changes::changes(workspace, component, (old, tree.as_ref()), new, fetcher)?;
    Ok((Some(changes), problem))
}

fn has_placeholder(url: &str) -> bool {
    url.contains("{version}")
}

fn newest(pin: &Pin, fetcher: &Fetcher<'_>) -> Result<String, PinsError> {
    let component = pin.component.to_string();
    let Some(releases) = fetcher.releases(pin, &component)? else {
        return Err(match &pin.source {
            Source::Folder { .. } => fixed(pin),
            _ => PinsError::NotKnown { component, reason: unknowable(pin).into() },
        });
    };
    match releases.newest(false) {
        Some(release) => Ok(release.version.clone()),
        None => {
            let reason = format!("{} has no final release", releases.place);
            Err(PinsError::NotKnown { component, reason })
        }
    }
}

fn fixed(pin: &Pin) -> PinsError {
    PinsError::Fixed {
        component: pin.component.to_string(),
        reason: "its source is a folder of the workspace".into(),
        help: "change the folder and its version in the pin set".into(),
    }
}

/// Returns a pin at another version, resolved, and writes the changes to the set's text. `name` is a
/// possible prefix of tags.
fn moved(
    pin: &Pin,
    table: &[&str],
    name: &str,
    version: &str,
    fetcher: &Fetcher<'_>,
    text: &mut SetText,
) -> Result<Pin, PinsError> {
    let mut new = Pin { version: version.to_owned(), ..pin.clone() };
    let own_version = text.get(&[table, &["version"]].concat()).is_some();
    match &mut new.source {
        Source::Sdist { project, sha256 } => {
            // Use the index's spelling: 0.21 can be 0.21.0.
            let found = fetcher.sdist(project, Some(version))?.version;
            (new.version, *sha256) =
                if found == pin.version { (found, *sha256) } else { (found, None) };
        }
        Source::Git { commit, .. } if version != pin.version => {
            let releases = fetcher.releases(pin, name)?;
            let release =
                releases.and_then(|all| all.found.into_iter().rfind(|r| r.version == version));
            *commit = release.and_then(|release| release.commit);
        }
        Source::Url { url: place, sha256 } | Source::Wheel { file: place, sha256 }
            if version != pin.version =>
        {
            let (key, what) = match pin.source {
                Source::Url { .. } => ("url", "its URL"),
                _ => ("wheel", "the wheel's file name"),
            };
            let written = text.get(&[table, &[key]].concat()).unwrap_or_default();
            if !has_placeholder(written) {
                return Err(PinsError::Fixed {
                    component: pin.component.to_string(),
                    reason: format!("{what} has no `{{version}}`"),
                    help: format!("replace {} in {written} with `{{version}}`", pin.version),
                });
            }
            (*place, *sha256) = (written.replace("{version}", version), None);
        }
        Source::Folder { .. } => return Err(fixed(pin)),
        Source::Git { .. } | Source::Url { .. } | Source::Wheel { .. } | Source::Crates { .. } => {}
    }
    if new.version != pin.version {
        // The lock entry is the old version's: the new commit has another tree.
        new.evidence = Default::default();
    }
    fetcher
        .resolve(&new)
        .map_err(|error| version_not_found(error, pin, version, name, fetcher))?
        .settle(&mut new);
    if own_version {
        text.set(table, "version", &new.version);
    }
    let (key, value) = match &new.source {
        Source::Git { commit, .. } => ("commit", commit.clone()),
        Source::Url { sha256, .. }
        | Source::Sdist { sha256, .. }
        | Source::Wheel { sha256, .. } => ("sha256", sha256.map(|s| s.to_string())),
        Source::Folder { .. } | Source::Crates { .. } => return Ok(new),
    };
    // The lock file has what the set omits.
    if let (Some(_), Some(value)) = (text.get(&[table, &[key]].concat()), value) {
        text.set(table, key, &value);
    }
    new.top_folder = follow_folder(pin, &new.version, table, text);
    Ok(new)
}

/// Returns the top folder of a pin at another version, and writes it to the set's text.
pub(super) fn follow_folder(
    pin: &Pin,
    version: &str,
    table: &[&str],
    text: &mut SetText,
) -> Option<String> {
    let folder = pin.top_folder.as_ref()?.replace(&pin.version, version);
    text.set(table, "top-folder", &folder);
    Some(folder)
}

/// Reports a missing file at a URL as a missing version if the forge's tags confirm it.
fn version_not_found(
    error: SourceError,
    pin: &Pin,
    version: &str,
    name: &str,
    fetcher: &Fetcher<'_>,
) -> PinsError {
    let gone =
        matches!(&error, SourceError::Transfer { .. }) && matches!(&pin.source, Source::Url { .. });
    match fetcher.releases(pin, name) {
        Ok(Some(releases)) if gone && !releases.found.iter().any(|r| r.version == version) => {
            let near = nearest_versions(
                version,
                releases.found.into_iter().map(|release| release.version),
            );
            let (url, version, tried) =
                (releases.place, version.to_owned(), vec![version.to_owned()]);
            SourceError::NoTag { url, version, tried, near }.into()
        }
        _ => error.into(),
    }
}

/// Unpacks the old source. Resolves it first, because the set may never have been locked.
fn old_tree(pin: &Pin, fetcher: &Fetcher<'_>) -> Result<crate::sources::Tree, SourceError> {
    let mut pin = pin.clone();
    let resolved: Resolved = fetcher.resolve(&pin)?;
    resolved.settle(&mut pin);
    fetcher.tree(&pin)
}
