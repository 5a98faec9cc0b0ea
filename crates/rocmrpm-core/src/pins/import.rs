//! Values from another tool's file put into a pin set. Reading such files is done by the
//! modules of their formats.

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

/// What a file says of one source, each value with its place in it.
#[derive(Debug, Default)]
pub struct Imported {
    /// Its version.
    pub version: Option<At<String>>,
    /// The URL of its repository or its file.
    pub url: Option<At<String>>,
    /// Its commit.
    pub commit: Option<At<String>>,
    /// Its file's digest.
    pub sha256: Option<At<String>>,
}

/// What a file says of a pin set.
#[derive(Debug, Default)]
pub struct Import {
    /// By component and further source; the main one's name is empty.
    pub entries: BTreeMap<(String, String), Imported>,
    /// Names that mean nothing to this pin set.
    pub unknown: Vec<String>,
    /// What else should be known.
    pub notes: Vec<String>,
}

/// Returns the pin set's text with what was read from `file`. A version without a commit
/// or digest is resolved; a value that can move is a mistake of the file.
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
        let said = |source: &str| import.entries.get(&key(source)).unwrap_or(&nothing);
        let main_version = said("").version.as_ref().map_or(&main.version, |at| &at.value);
        for (source, pin) in main.all_sources() {
            let table: &[&str] =
                if source.is_empty() { &[component] } else { &[component, "sources", source] };
            let own = source.is_empty() || text.get(&[table, &["version"]].concat()).is_some();
            let follows = if own { &pin.version } else { main_version };
            let target = Target { file, pin, table, follows };
            target.take(said(source), &mut text, &mut problems, fetcher)?;
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
    /// The version that it has where the file says none.
    follows: &'t str,
}

impl Target<'_> {
    fn take(
        &self,
        said: &Imported,
        text: &mut SetText,
        problems: &mut Vec<Problem>,
        fetcher: &Fetcher<'_>,
    ) -> Result<(), PinsError> {
        let before = problems.len();
        let mut new = self.pin.clone();
        new.version = said.version.as_ref().map_or(self.follows, |at| &at.value).to_owned();
        if let Some(at) = said.version.as_ref().filter(|at| !is_version(&at.value)) {
            let message = format!("`{}` cannot be the version of an RPM", at.value);
            problems.push(self.file.problem(
                at.span.clone(),
                message,
                "expected letters, digits and . _ + ~ ^",
            ));
        }
        let moved = new.version != self.pin.version;
        self.take_source(said, &mut new, moved, text, problems);
        if problems.len() > before || new == *self.pin {
            return Ok(());
        }
        if !new.source.is_immutable() {
            fetcher.resolve(&new)?.settle(&mut new);
        }
        if new.version != self.follows
            || (moved && said.version.is_some() && self.follows == self.pin.version)
        {
            text.set(self.table, "version", &new.version);
        }
        self.write(&new, text);
        Ok(())
    }

    /// Takes URL, commit and digest; what belonged to another version is forgotten.
    fn take_source(
        &self,
        said: &Imported,
        new: &mut Pin,
        moved: bool,
        text: &SetText,
        problems: &mut Vec<Problem>,
    ) {
        let Imported { url, commit, sha256, .. } = said;
        let name = self.table.join(".");
        let mut refuse = |at: &Option<At<String>>, what: &str| {
            if let Some(at) = at {
                let message = format!("the pin `{name}` {what}");
                problems.push(self.file.problem(at.span.clone(), message, "it has no place for this"));
            }
        };
        match &mut new.source {
            Source::Git { url: pinned, commit: pinned_commit, .. } => {
                refuse(sha256, "is a git commit, not a file");
                if let Some(at) = url.as_ref().filter(|at| repository(&at.value) != repository(pinned)) {
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
                            problem.help = Some("a branch, a tag or a short commit can move".into());
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
                self.take_digest(sha256, pinned_digest, moved || *pinned != url_of(self.pin), problems);
            }
            Source::Sdist { sha256: pinned_digest, .. } => {
                refuse(commit, "is an sdist, not a git commit");
                refuse(url, "is an sdist of the index that pip is configured with");
                self.take_digest(sha256, pinned_digest, moved, problems);
            }
            Source::Wheel { sha256: pinned_digest, .. } => {
                refuse(commit, "is a wheel, not a git commit");
                refuse(url, "is a wheel of the index that pip is configured with");
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
        said: &Option<At<String>>,
        pinned: &mut Option<Sha256>,
        moved: bool,
        problems: &mut Vec<Problem>,
    ) {
        match said {
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
