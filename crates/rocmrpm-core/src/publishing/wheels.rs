//! Publishes wheels.

use std::path::PathBuf;

use jiff::Timestamp;

use super::{Target, check_closures};
use crate::build::BuildLock;
use crate::error::{Error, Kind};
use crate::events::Events;
use crate::index::IndexError;
use crate::index::change::{Action, Change};
use crate::index::manifest::{self, Signing};
use crate::index::view::View;
use crate::outputs::make_wheels;
use crate::rpms::signing::Signer;
use crate::stack::Stack;
use crate::workspace::Manifest;

/// The channel that refuses wheels of dirty builds.
const STABLE: View = View::Channel("stable");

/// Makes the wheels of a workspace that can be published.
pub fn made_wheels(
    lock: &BuildLock,
    stack: &Stack<'_>,
    events: &dyn Events,
) -> Result<Vec<PathBuf>, Error> {
    check_closures([stack.workspace], &[])?;
    make_wheels(lock, stack, events)
}

/// Adds the manifests that sign a change, if the workspace has a key. Without a key, a signed index
/// cannot be changed.
pub fn sign_wheels(
    target: &Target,
    change: &mut Change,
    manifest: Option<&Manifest>,
) -> Result<(), Error> {
    let place = target.place();
    let key = manifest.and_then(|manifest| Some((manifest.signing_key.as_ref()?, &manifest.name)));
    if let Some((key, name)) = key {
        let signer = Signer::find(key, name)?;
        let signing = Signing { signer: &signer, seen: target.seen(), now: Timestamp::now() };
        return Ok(change.sign(place, &signing)?);
    }
    match place.read(&[manifest::PATH.to_owned()])?.into_iter().flatten().next() {
        Some(_) => Err(IndexError::NoKey { place: place.name() }.into()),
        None => Ok(()),
    }
}

/// Applies a change, and remembers its serial number.
pub fn apply_wheels(target: &Target, change: &Change) -> Result<(), Error> {
    if !change.is_empty() {
        target.change(|place| change.apply(place))?;
    }
    Ok(change.serial().map_or(Ok(()), |serial| target.seen().remember(serial))?)
}

/// Refuses wheels of dirty builds in the stable channel, because they cannot be rebuilt. Returns
/// those that join other channels.
pub fn check_dirty(change: &Change) -> Result<Vec<&str>, Error> {
    let mut dirty = Vec::new();
    for note in &change.notes {
        let joins = matches!(note.action, Action::Add | Action::Promote(_));
        if !joins || !is_dirty(&note.file) {
            continue;
        }
        if note.view == STABLE {
            let message = format!(
                "{} comes from a dirty build, which the channel `stable` does not accept",
                note.file
            );
            return Err(Error::new(Kind::Usage, message).with_help(
                "commit the changes and build again, or publish it with `--channel testing`",
            ));
        }
        dirty.push(note.file.as_str());
    }
    Ok(dirty)
}

/// Returns whether a wheel's local version label contains `dirty`.
fn is_dirty(file: &str) -> bool {
    // Source: Binary distribution format, "File name convention": the version is the second part.
    let label = file.split('-').nth(1).and_then(|version| version.split_once('+'));
    label.is_some_and(|(_, label)| label.split(['.', '_']).any(|part| part == "dirty"))
}

/// Returns the time of publication: SOURCE_DATE_EPOCH, or now.
pub fn upload_time() -> Result<Timestamp, Error> {
    Ok(source_date_epoch()?.unwrap_or_else(Timestamp::now))
}

/// Returns the time in SOURCE_DATE_EPOCH, if it is set.
pub fn source_date_epoch() -> Result<Option<Timestamp>, Error> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let time = text.trim().parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map(Some).ok_or_else(|| {
        let message = format!(
            "SOURCE_DATE_EPOCH is `{}`, not a number of seconds",
            crate::text::visible(&text)
        );
        Error::new(Kind::Usage, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_dirty_wheels_by_their_label() {
        assert!(is_dirty("a-1.0+rocm7.14.gfx1151.dirty.3-py3-none-any.whl"));
        assert!(is_dirty("a-1.0+rocm7_14.dirty-py3-none-any.whl"));
        assert!(!is_dirty("dirty-1.0+rocm7.14-py3-none-any.whl"));
        assert!(!is_dirty("a-1.0+rocm7.14.gfx1151-1.dirty-py3-none-any.whl"));
        assert!(!is_dirty("a-1.0-py3-none-any.whl"));
    }
}
