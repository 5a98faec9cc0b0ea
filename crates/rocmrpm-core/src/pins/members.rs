//! Compares every member of a locked closure with the newest release on the index that the chroot's
//! Python can install.

use std::cmp::Ordering;
use std::str::FromStr;

use pep440_rs::{Version, VersionSpecifiers};
use serde::Serialize;

use super::{OutdatedState, PinsError};
use crate::closure::lock::Lock;
use crate::closure::{Locked, LockedOrigin};
use crate::sources::{Fetcher, ProjectFile};
use crate::wheel::FileName;

/// A member compared with the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemberOutdated {
    /// The distribution's normalized name.
    pub name: String,
    /// The place, if known.
    pub place: Option<&'static str>,
    /// The locked version.
    pub locked: String,
    /// The newest suitable release.
    pub newest: Option<String>,
    /// The result of the comparison.
    pub state: OutdatedState,
    /// The reason why the index could not be queried.
    pub error: Option<String>,
}

/// Compares members of a lock, given with their places, with the index, which is queried once for all.
/// An unreachable index is a state of the rows, not an error.
pub fn outdated_members(
    lock: &Lock,
    members: &[(&str, Option<&'static str>)],
    fetcher: &Fetcher<'_>,
    pre: bool,
) -> Result<Vec<MemberOutdated>, PinsError> {
    let of = |(name, place): &(&str, Option<&'static str>)| {
        let locked = lock.packages.iter().find(|locked| locked.name == *name);
        locked
            .filter(|locked| matches!(locked.origin, LockedOrigin::Index { .. }))
            .map(|locked| (locked, *place))
    };
    let members: Vec<(&Locked, Option<&'static str>)> = members.iter().filter_map(of).collect();
    let names: Vec<&str> = members.iter().map(|(locked, _)| locked.name.as_str()).collect();
    let (pages, error) = match fetcher.projects(&names) {
        Ok(pages) => (pages, None),
        Err(error @ crate::sources::SourceError::Process(_)) => {
            return Err(PinsError::Source(error));
        }
        Err(error) => (vec![Vec::new(); names.len()], Some(error.to_string())),
    };
    let python = Version::from_str(&lock.python).ok();
    let row = |((locked, place), files): ((&Locked, _), Vec<ProjectFile>)| {
        let newest =
            newest(&locked.name, &files, python.as_ref(), pre || locked.version.any_prerelease());
        let state = match (&error, &newest) {
            (Some(_), _) => OutdatedState::Unreachable,
            (None, None) => OutdatedState::NotKnown,
            (None, Some(newest)) => match newest.cmp(&locked.version) {
                Ordering::Greater => OutdatedState::Outdated,
                Ordering::Equal => OutdatedState::Newest,
                Ordering::Less => OutdatedState::Ahead,
            },
        };
        MemberOutdated {
            name: locked.name.clone(),
            place,
            locked: locked.version.to_string(),
            newest: newest.map(|version| version.to_string()),
            state,
            error: error.clone(),
        }
    };
    Ok(members.into_iter().zip(pages).map(row).collect())
}

/// Returns the newest version of a project with a file that this Python can install.
fn newest(
    name: &str,
    files: &[ProjectFile],
    python: Option<&Version>,
    pre: bool,
) -> Option<Version> {
    let allows = |file: &ProjectFile| {
        let range =
            file.requires_python.as_ref().and_then(|text| VersionSpecifiers::from_str(text).ok());
        range.zip(python).is_none_or(|(range, python)| range.contains(python))
    };
    let version = |file: &ProjectFile| match FileName::parse(&file.name) {
        Ok(wheel) => Some(wheel.version),
        Err(_) => file.sdist_version(name),
    };
    let counted = files.iter().filter(|file| !file.yanked && allows(file)).filter_map(version);
    counted.filter(|version| pre || !version.any_prerelease()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, python: Option<&str>, yanked: bool) -> ProjectFile {
        ProjectFile {
            name: name.into(),
            url: String::new(),
            sha256: None,
            size: None,
            requires_python: python.map(str::to_owned),
            yanked,
            metadata: None,
            upload_time: None,
            foreign: false,
        }
    }

    #[test]
    fn newest_release_is_final_installable_and_not_yanked() {
        let files = [
            file("a_b-1.0-py3-none-any.whl", None, false),
            file("a_b-1.2.tar.gz", Some(">=3.9"), false),
            file("a_b-1.3-py3-none-any.whl", Some("<3.14"), false),
            file("a_b-1.4-py3-none-any.whl", None, true),
            file("a_b-1.5rc1-py3-none-any.whl", Some("what?"), false),
            file("index.html", None, false),
        ];
        let python = Version::from_str("3.14").unwrap();
        let newest =
            |pre| newest("a-b", &files, Some(&python), pre).map(|version| version.to_string());
        assert_eq!((newest(false), newest(true)), (Some("1.2".into()), Some("1.5rc1".into())));
        assert_eq!(super::newest("a-b", &[], Some(&python), true), None);
    }
}
