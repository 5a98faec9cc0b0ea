//! Imports values from another tool's file into a pin set. The modules of the formats read such files.

use std::collections::BTreeMap;

use super::update::follow_folder;
use super::upstream::repository;
use super::{PinsError, SetText};
use crate::digest::Sha256;
use crate::error::{Problem, Problems};
use crate::names::{is_commit, is_version};
use crate::sources::Fetcher;
use crate::workspace::document::{At, File};
use crate::workspace::{Pin, Source, Workspace};

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

/// The values that a file has for a pin set.
#[derive(Debug, Default)]
pub struct Import {
    /// By component and further source; the main source's name is empty.
    pub entries: BTreeMap<(String, String), Imported>,
    /// Names that the pin set does not have.
    pub unknown: Vec<String>,
    /// Other notes for the user.
    pub notes: Vec<String>,
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
        let main_version = imported("").version.as_ref().map_or(&main.version, |at| &at.value);
        for (source, pin) in main.all_sources() {
            let table: &[&str] =
                if source.is_empty() { &[component] } else { &[component, "sources", source] };
            let own = source.is_empty() || text.get(&[table, &["version"]].concat()).is_some();
            let follows = if own { &pin.version } else { main_version };
            let target = Target { file, pin, table, follows };
            target.take(imported(source), &mut text, &mut problems, fetcher)?;
        }
    }
    if problems.is_empty() {
        text.check()?;
        Ok(text)
    } else {
        Err(PinsError::Invalid(Problems(problems)))
    }
}

/// One source that takes values.
struct Target<'t> {
    file: &'t File,
    pin: &'t Pin,
    table: &'t [&'t str],
    /// The version if the file does not have one.
    follows: &'t str,
}

impl Target<'_> {
    fn take(
        &self,
        imported: &Imported,
        text: &mut SetText,
        problems: &mut Vec<Problem>,
        fetcher: &Fetcher<'_>,
    ) -> Result<(), PinsError> {
        let before = problems.len();
        let mut new = self.pin.clone();
        new.version = imported.version.as_ref().map_or(self.follows, |at| &at.value).to_owned();
        if let Some(at) = imported.version.as_ref().filter(|at| !is_version(&at.value)) {
            let message = format!("`{}` cannot be the version of an RPM", at.value);
            problems.push(self.file.problem(
                at.span.clone(),
                message,
                "expected letters, digits and . _ + ~ ^",
            ));
        }
        let moved = new.version != self.pin.version;
        self.take_source(imported, &mut new, moved, text, problems);
        if problems.len() > before || new == *self.pin {
            return Ok(());
        }
        if !new.source.is_immutable() {
            fetcher.resolve(&new)?.settle(&mut new);
        }
        if new.version != self.follows
            || (moved && imported.version.is_some() && self.follows == self.pin.version)
        {
            text.set(self.table, "version", &new.version);
        }
        self.write(&new, text);
        Ok(())
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
                            problem.help =
                                Some("a branch, a tag or a short commit can move".into());
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
                if let Some(commit) = commit.as_ref().filter(|_| commit != old) {
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
            _ => {}
        }
        follow_folder(self.pin, &new.version, self.table, text);
    }
}

fn url_of(pin: &Pin) -> &str {
    match &pin.source {
        Source::Url { url, .. } => url,
        _ => "",
    }
}
