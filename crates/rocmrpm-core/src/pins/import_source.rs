//! Imports the values of one source into its pin.

use std::str::FromStr;

use pep440_rs::Version;

use super::update::follow_folder;
use super::upstream::repository;
use super::{PinsError, SetText};
use crate::digest::Sha256;
use crate::error::Problem;
use crate::names::{is_commit, is_version};
use crate::rpm_version;
use crate::sources::{Fetcher, SourceError};
use crate::workspace::document::{At, File};
use crate::workspace::{Pin, Source};

/// The values that a file has for one source, each with its position.
#[derive(Debug, Default)]
pub struct Imported {
    /// Its version.
    pub version: Option<At<String>>,
    /// The URL of its repository or its file.
    pub url: Option<At<String>>,
    /// Its commit.
    pub commit: Option<At<String>>,
    /// The digest of its file.
    pub sha256: Option<At<String>>,
}

/// One source that takes values.
pub(super) struct Target<'t> {
    pub file: &'t File,
    pub pin: &'t Pin,
    pub table: &'t [&'t str],
    /// The version if the file does not have one.
    pub follows: &'t str,
    /// For a file with a commit of every source: whether a new git pin has submodules.
    pub of_commits: Option<bool>,
}

impl Target<'_> {
    /// Takes the values and returns the new pin.
    pub fn take(
        &self,
        imported: &Imported,
        text: &mut SetText,
        problems: &mut Vec<Problem>,
        fetcher: &Fetcher<'_>,
    ) -> Result<Pin, PinsError> {
        let before = problems.len();
        let mut new = self.pin.clone();
        new.version = imported.version.as_ref().map_or(self.follows, |at| &at.value).to_owned();
        let stated = self.of_commits.and_then(|_| Version::from_str(&new.version).ok());
        let invalid = |at: &&At<String>| stated.is_none() && !is_version(&at.value);
        if let Some(at) = imported.version.as_ref().filter(invalid) {
            let message = format!("`{}` cannot be the version of an RPM", at.value);
            let mut problem = self.problem(at, message, "expected letters, digits and . _ + ~ ^");
            problem.help = Some("correct the version".into());
            problems.push(problem);
        }
        let moved = new.version != self.pin.version;
        if let (Some(submodules), Some(url)) = (self.of_commits, &imported.url)
            && !matches!(new.source, Source::Git { .. } | Source::Folder { .. })
        {
            new.source =
                Source::Git { url: url.value.clone(), commit: None, submodules, paths: Vec::new() };
            new.top_folder = None;
        }
        self.take_source(imported, &mut new, moved, text, problems);
        if problems.len() > before {
            return Ok(new);
        }
        if let (Some(_), Some(commit)) = (self.of_commits, &imported.commit) {
            match self.settle_version(&mut new, imported, stated.as_ref(), fetcher) {
                Err(PinsError::Source(error @ SourceError::NoCommit { .. })) => {
                    let mut problem = self.problem(commit, error.to_string(), "");
                    problem.help = Some("correct `repo` or `commit`".into());
                    problems.push(problem);
                    return Ok(new);
                }
                settled => settled?,
            }
        }
        if new == *self.pin {
            return Ok(new);
        }
        if !new.source.is_immutable() {
            fetcher.resolve(&new)?.settle(&mut new);
        }
        let moved = new.version != self.pin.version;
        if new.version != self.follows
            || self.leaves_branch(&new)
            || (moved && imported.version.is_some() && self.follows == self.pin.version)
        {
            text.set(self.table, "version", &new.version);
        }
        self.write(&new, text);
        Ok(new)
    }

    /// Gives a pin with a new commit a version that rpm sorts between upstream's releases; one with
    /// the commit that it had keeps its version, if that is of the stated one.
    fn settle_version(
        &self,
        new: &mut Pin,
        imported: &Imported,
        stated: Option<&Version>,
        fetcher: &Fetcher<'_>,
    ) -> Result<(), PinsError> {
        let last = self.pin.version.as_str();
        let is_same = |stated: &Version| {
            Version::from_str(&rpm_version::upstream(last)).is_ok_and(|known| known == *stated)
        };
        let kept = imported.version.is_none() || stated.map_or(new.version == last, is_same);
        if new.source == self.pin.source && kept {
            last.clone_into(&mut new.version);
            return Ok(());
        }
        new.evidence = Default::default();
        if imported.version.is_none() {
            let version_from = self.pin.follows.as_ref().and_then(|at| at.version_from.as_deref());
            new.version = fetcher.version_of_commit(new, version_from, Some(last))?;
        } else if let Some(stated) = stated {
            new.version = fetcher.version_of_stated(new, stated, last)?;
        }
        new.follows = None;
        Ok(())
    }

    /// Writes a further source of a component that moved to a commit: one of the same repository
    /// moves with it, and others keep their version.
    pub fn follow_commit(
        &self,
        main: &Pin,
        new: &Pin,
        own: bool,
        text: &mut SetText,
        fetcher: &Fetcher<'_>,
    ) {
        match (&self.pin.source, &main.source, &new.source) {
            (
                Source::Git { url, submodules, paths, .. },
                Source::Git { url: of_main, .. },
                Source::Git { url: moved, commit, .. },
            ) if !own && repository(url) == repository(of_main) => {
                let (url, commit) = (moved.clone(), commit.clone());
                let (submodules, paths) = (*submodules, paths.clone());
                let source = Source::Git { url, commit, submodules, paths };
                let mut with_main = Pin { source, ..self.pin.clone() };
                with_main.version.clone_from(&new.version);
                self.write(&with_main, text);
            }
            _ => {
                if !own {
                    text.set(self.table, "version", &self.pin.version);
                }
                fetcher.warn(format!(
                    "the pin `{}` stays at {}: check that it belongs to `{}` {}",
                    self.table.join("."),
                    self.pin.version,
                    main.component,
                    new.version
                ));
            }
        }
    }

    /// Returns whether the pin followed a branch and the new one does not.
    fn leaves_branch(&self, new: &Pin) -> bool {
        self.pin.follows.is_some() && new.follows.is_none()
    }

    fn problem(&self, at: &At<String>, message: String, label: &str) -> Problem {
        self.file.problem(at.span.clone(), message, label)
    }

    /// Takes URL, commit and digest; drops those of another version.
    fn take_source(
        &self,
        imported: &Imported,
        new: &mut Pin,
        moved: bool,
        text: &SetText,
        problems: &mut Vec<Problem>,
    ) {
        let Imported { url, commit, sha256, .. } = imported;
        let name = self.table.join(".");
        let mut refuse = |at: &Option<At<String>>, what: &str| {
            if let Some(at) = at {
                let message = format!("the pin `{name}` {what}");
                problems.push(self.file.problem(
                    at.span.clone(),
                    message,
                    "this pin has no such value",
                ));
            }
        };
        match &mut new.source {
            Source::Git { url: pinned, commit: pinned_commit, .. } => {
                refuse(sha256, "is a git commit, not a file");
                if let Some(at) =
                    url.as_ref().filter(|at| repository(&at.value) != repository(pinned))
                {
                    pinned.clone_from(&at.value);
                }
                match commit {
                    Some(At { value, span }) => {
                        if is_commit(value) {
                            *pinned_commit = Some(value.to_lowercase());
                        } else {
                            let mut problem = self.file.problem(
                                span.clone(),
                                format!("`{value}` is not a full commit"),
                                "expected 40 hexadecimal digits",
                            );
                            problem.help = Some(
                                "write the full commit: a branch, a tag or a short commit can move"
                                    .into(),
                            );
                            problems.push(problem);
                        }
                    }
                    None if moved => *pinned_commit = None,
                    None => {}
                }
            }
            Source::Url { url: pinned, sha256: pinned_digest } => {
                refuse(commit, "is a file, not a git commit");
                let written = text.get(&[self.table, &["url"]].concat()).unwrap_or_default();
                let followed = written.replace("{version}", &new.version);
                match url {
                    Some(at) => pinned.clone_from(&at.value),
                    None => *pinned = followed,
                }
                self.take_digest(
                    sha256,
                    pinned_digest,
                    moved || *pinned != url_of(self.pin),
                    problems,
                );
            }
            Source::Sdist { sha256: pinned_digest, .. } => {
                refuse(commit, "is an sdist, not a git commit");
                refuse(url, "is an sdist of the index that pip uses");
                self.take_digest(sha256, pinned_digest, moved, problems);
            }
            Source::Wheel { sha256: pinned_digest, .. } => {
                refuse(commit, "is a wheel, not a git commit");
                refuse(url, "is a wheel of the index that pip uses");
                self.take_digest(sha256, pinned_digest, moved, problems);
            }
            Source::Folder { .. } => {
                refuse(commit, "is a folder of the workspace");
                refuse(url, "is a folder of the workspace");
                refuse(sha256, "is a folder of the workspace");
            }
            Source::Crates { .. } => {}
        }
    }

    fn take_digest(
        &self,
        imported: &Option<At<String>>,
        pinned: &mut Option<Sha256>,
        moved: bool,
        problems: &mut Vec<Problem>,
    ) {
        match imported {
            Some(At { value, span }) => match Sha256::parse(value) {
                Some(digest) => *pinned = Some(digest),
                None => problems.push(self.file.problem(
                    span.clone(),
                    "this is not a SHA-256 digest",
                    "expected 64 hexadecimal digits",
                )),
            },
            None if moved => *pinned = None,
            None => {}
        }
    }

    fn write(&self, new: &Pin, text: &mut SetText) {
        match (&new.source, &self.pin.source) {
            (Source::Git { url, commit, .. }, Source::Git { url: old_url, commit: old, .. }) => {
                if url != old_url {
                    text.set(self.table, "git", url);
                }
                let is_new = commit != old || self.leaves_branch(new);
                if let Some(commit) = commit.as_ref().filter(|_| is_new) {
                    text.set(self.table, "commit", commit);
                }
            }
            (Source::Url { url, sha256 }, Source::Url { sha256: old, .. }) => {
                let written = text.get(&[self.table, &["url"]].concat()).unwrap_or_default();
                if written.replace("{version}", &new.version) != *url {
                    text.set(self.table, "url", &url.replace(&new.version, "{version}"));
                }
                if let Some(digest) = sha256.filter(|_| sha256 != old) {
                    text.set(self.table, "sha256", &digest.to_string());
                }
            }
            (Source::Sdist { sha256, .. }, Source::Sdist { sha256: old, .. })
            | (Source::Wheel { sha256, .. }, Source::Wheel { sha256: old, .. }) => {
                if let Some(digest) = sha256.filter(|_| sha256 != old) {
                    text.set(self.table, "sha256", &digest.to_string());
                }
            }
            (Source::Git { url, commit, submodules, .. }, old) => {
                let old = match old {
                    Source::Sdist { .. } => "sdist",
                    Source::Wheel { .. } => "wheel",
                    _ => "url",
                };
                text.replace(self.table, old, "git", url);
                text.replace(self.table, "sha256", "commit", commit.as_deref().unwrap_or_default());
                if *submodules {
                    text.set_true(self.table, "submodules");
                }
            }
            _ => {}
        }
        if self.leaves_branch(new) {
            text.remove(self.table, "branch");
            text.remove(self.table, "version-from");
        }
        match &new.top_folder {
            Some(_) => {
                follow_folder(self.pin, &new.version, self.table, text);
            }
            None => text.remove(self.table, "top-folder"),
        }
    }
}

fn url_of(pin: &Pin) -> &str {
    match &pin.source {
        Source::Url { url, .. } => url,
        _ => "",
    }
}
