//! Resolves a pin that follows a branch: the newest commit, and a version that sorts between the
//! releases before and after it (Fedora, "Versioning": pre-releases and snapshots).

use std::cmp::Ordering;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pep440_rs::Version;

use super::{Fetcher, SourceError, url};
use crate::error::{Diagnose, Kind};
use crate::events::WorkPhase;
use crate::rpm_version;
use crate::workspace::compare;
use crate::workspace::pin::{LockEntry, Pin, Source};

/// The file with upstream's version if the pin names none.
const VERSION_FILE: &str = "version.txt";

impl Fetcher<'_> {
    /// Returns the newest commit of the branch that a pin follows.
    pub fn newest_commit(&self, pin: &Pin) -> Result<Option<String>, SourceError> {
        let (Some(follows), Source::Git { url, .. }) = (&pin.follows, &pin.source) else {
            return Ok(None);
        };
        let branch = &follows.branch;
        self.needs_network(|| format!("the branch {branch} of {}", url::shown(url)))?;
        self.repository(url).branch(branch).map(Some)
    }

    /// Writes the commit and the version of the branch that a pin follows into the pin: those of the
    /// lock, or new ones if it was not locked yet or the branch is to move.
    pub(super) fn settle_branch(
        &self,
        pin: &mut Pin,
        known: Option<&LockEntry>,
    ) -> Result<(), SourceError> {
        let Some(follows) = pin.follows.clone() else { return Ok(()) };
        let is_kept = !self.moving().includes(pin.component.as_str());
        let last = known.and_then(|known| Some((known.commit.as_ref()?, &known.version)));
        let found = match last.filter(|_| is_kept) {
            Some((commit, version)) => Some((commit.clone(), version.clone())),
            None => self.newest_commit(pin)?.map(|commit| (commit, String::new())),
        };
        let Some((found, mut version)) = found else { return Ok(()) };
        if let Some((_, locked)) = last.filter(|(commit, _)| **commit == found) {
            version.clone_from(locked);
        }
        if let Source::Git { commit, .. } = &mut pin.source {
            *commit = Some(found);
        }
        if version.is_empty() {
            let last = last.map(|(_, version)| version.as_str());
            version = self.version_of_commit(pin, follows.version_from.as_deref(), last)?;
            if let Some(last) = last {
                self.warn_if_older(pin, last, &version);
            }
        }
        pin.version = version;
        Ok(())
    }

    /// Returns the version of a pinned commit, from upstream's file or the newest tag. `last` is the
    /// version before it.
    pub(crate) fn version_of_commit(
        &self,
        pin: &Pin,
        version_from: Option<&str>,
        last: Option<&str>,
    ) -> Result<String, SourceError> {
        let Source::Git { url, commit, .. } = &pin.source else { return Ok(pin.version.clone()) };
        let commit = super::pinned_commit(pin, commit)?;
        let repository = self.repository(url);
        self.obtain_commit(pin, url, commit)?;
        let file = version_from.unwrap_or(VERSION_FILE);
        let stated = match repository.text(commit, file)? {
            Some(text) => Some(stated_version(&text)),
            None => version_from.map(|_| None),
        };
        let without = || SourceError::NoVersion {
            url: url::shown(url),
            commit: commit.to_owned(),
            file: file.to_owned(),
        };
        let stated = match stated {
            Some(None) => return Err(without()),
            Some(Some(version)) => Some(version),
            None => None,
        };
        let releases = match self.is_offline() {
            true => None,
            false => self.releases(pin, pin.component.as_str())?,
        };
        let tags = releases.iter().flat_map(|releases| &releases.found);
        let tagged = tags.filter_map(|release| Version::from_str(&release.version).ok());
        let (base, is_released) = match stated {
            Some(base) => {
                let is_released = tagged.into_iter().any(|tagged| tagged == base);
                (base, is_released)
            }
            None => (tagged.max().ok_or_else(without)?, true),
        };
        Ok(snapshot(&base, is_released, &self.commit_day(url, commit)?, commit, last))
    }

    /// Returns the version of a pinned commit for which `stated` is known to be upstream's version:
    /// the release itself if the commit has its tag. `last` is the version before it. Without
    /// network, the version has no day, and the user is warned.
    pub(crate) fn version_of_stated(
        &self,
        pin: &Pin,
        stated: &Version,
        last: &str,
    ) -> Result<String, SourceError> {
        let Source::Git { url, commit, .. } = &pin.source else { return Ok(pin.version.clone()) };
        let commit = super::pinned_commit(pin, commit)?;
        let found = self.release_and_day(pin, url, commit, stated);
        let version = match found {
            Ok((Some(tagged), _)) if tagged == commit => rpm_version::of_spec(stated),
            Ok((tagged, day)) => {
                let is_released = tagged.is_some()
                    || compare(last, &rpm_version::of_spec(stated)) != Ordering::Less;
                snapshot(stated, is_released, &day, commit, Some(last))
            }
            Err(error) if error.diagnosis().kind == Kind::Network => {
                let version = snapshot(stated, true, "0", commit, Some(last));
                self.warn(format!(
                    "the version {version} of `{}` has no day: {error}",
                    pin.component
                ));
                version
            }
            Err(error) => return Err(error),
        };
        self.warn_if_older(pin, last, &version);
        Ok(version)
    }

    /// Returns the commit of the tag for a version, if there is one, and the day of a commit.
    fn release_and_day(
        &self,
        pin: &Pin,
        url: &str,
        commit: &str,
        version: &Version,
    ) -> Result<(Option<String>, String), SourceError> {
        let releases = self.releases(pin, pin.component.as_str())?;
        let is_tagged = |text: &str| Version::from_str(text).is_ok_and(|found| found == *version);
        let found = releases.into_iter().flat_map(|releases| releases.found);
        let tagged = found.filter(|release| is_tagged(&release.version)).find_map(|r| r.commit);
        self.obtain_commit(pin, url, commit)?;
        Ok((tagged, self.commit_day(url, commit)?))
    }

    fn obtain_commit(&self, pin: &Pin, url: &str, commit: &str) -> Result<(), SourceError> {
        self.repository(url).obtain(commit, self.is_offline(), || {
            self.phase(pin, WorkPhase::Fetching, format!("{} at {commit}", url::shown(url)));
        })
    }

    /// Returns the day of a cached commit in UTC, such as `20261122`.
    fn commit_day(&self, url: &str, commit: &str) -> Result<String, SourceError> {
        let time = self.repository(url).commit_time(commit)?;
        let day = Timestamp::from_second(time).unwrap_or_default().to_zoned(TimeZone::UTC);
        Ok(day.strftime("%Y%m%d").to_string())
    }

    fn warn_if_older(&self, pin: &Pin, last: &str, version: &str) {
        if compare(version, last) != Ordering::Greater {
            self.warn(format!(
                "`{}` goes back from {last} to {version}: its packages do not update those that \
                 are installed",
                pin.component
            ));
        }
    }
}

/// Returns the first version in a file such as `version.txt`, `pyproject.toml`, or `_version.py`,
/// without a local label.
fn stated_version(text: &str) -> Option<Version> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._+!-".contains(c);
    let mut words = text.split(|c: char| !is_part(c)).filter_map(|word| {
        let word = word.strip_prefix('v').unwrap_or(word);
        let is_like = word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        Version::from_str(word).ok().filter(|_| is_like)
    });
    words.next().map(Version::without_local)
}

/// Returns the version of a commit: after the version that upstream states, and before the next one.
/// A final version without a tag is not released yet, and sorts after its pre-releases. Of two commits of a day, the later one
/// has a higher number.
fn snapshot(
    base: &Version,
    is_released: bool,
    day: &str,
    commit: &str,
    last: Option<&str>,
) -> String {
    let base = match base.any_prerelease() || is_released {
        true => rpm_version::of_spec(base),
        false => format!("{base}~snapshot"),
    };
    let git = format!("git{}", commit.get(..7).unwrap_or(commit));
    let version = format!("{base}^{day}{git}");
    let Some((last_base, rest)) = last.and_then(|last| last.split_once('^')) else {
        return version;
    };
    let same_base = compare(last_base, &base) == Ordering::Equal;
    if !same_base || last.is_some_and(|last| compare(&version, last) == Ordering::Greater) {
        return version;
    }
    let (when, _) = rest.split_once("git").unwrap_or((rest, ""));
    let (day, number) = when.split_once('.').unwrap_or((when, "0"));
    let number = number.parse().unwrap_or(0) + 1;
    format!("{base}^{day}.{number}{git}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::from_str(text).unwrap()
    }

    #[test]
    fn finds_the_version_in_files_of_upstreams() {
        for (text, expected) in [
            ("2.15.0a0\n", Some("2.15.0a0")),
            ("2.15.0a0+git1234567", Some("2.15.0a0")),
            ("# Version 3\n__version__ = \"3.7.0\"\n", Some("3.7.0")),
            ("[project]\nname = \"x2\"\nversion = 'v1.2rc1'\n", Some("1.2rc1")),
            ("unknown\n", None),
        ] {
            assert_eq!(stated_version(text), expected.map(version), "{text}");
        }
    }

    #[test]
    fn versions_sort_between_releases() {
        let of = |base: &str, released, day, commit: &str, last| {
            snapshot(&version(base), released, day, commit, last)
        };
        let first = of("2.15.0a0", false, "20261122", "1234567890", None);
        assert_eq!(first, "2.15.0~a0^20261122git1234567");
        // Another commit of the day, whatever its digits.
        let second = of("2.15.0a0", false, "20261122", "0000000000", Some(&first));
        assert_eq!(second, "2.15.0~a0^20261122.1git0000000");
        let third = of("2.15.0a0", false, "20261121", "ffffffffff", Some(&second));
        assert_eq!(third, "2.15.0~a0^20261122.2gitfffffff");
        // Without network, the day is 0.
        let unknown = of("2.15.0a0", false, "0", "1111111111", None);
        assert_eq!(unknown, "2.15.0~a0^0git1111111");
        let later = of("2.15.0a0", false, "0", "0000000000", Some(&unknown));
        assert_eq!(later, "2.15.0~a0^0.1git0000000");
        let next_day = of("2.15.0a0", false, "20261123", "0000000000", Some(&third));
        let dev = of("2.15.0", false, "20261122", "1234567890", None);
        assert_eq!(dev, "2.15.0~snapshot^20261122git1234567");
        let after = of("2.15.0", true, "20261122", "1234567890", None);
        assert_eq!(after, "2.15.0^20261122git1234567");
        let order = [
            "2.14.1",
            "2.15.0~a0",
            &unknown,
            &later,
            &first,
            &second,
            &third,
            &next_day,
            "2.15.0~b1",
            "2.15.0~rc1",
            &dev,
            "2.15.0",
            &after,
            "2.15.1",
        ];
        assert!(order.is_sorted_by(|a, b| compare(a, b) == Ordering::Less), "{order:?}");
        // Another base does not depend on the last version.
        assert_eq!(
            of("2.14.0", true, "20260101", "1234567", Some(&after)),
            "2.14.0^20260101git1234567"
        );
    }
}
