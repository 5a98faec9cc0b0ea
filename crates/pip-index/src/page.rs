//! The pages of an index: parsed from PEP 691's JSON, and written as that JSON and as PEP 503's
//! HTML. The JSON page of a distribution has everything that an index knows about it. This module
//! decides neither where pages are stored nor what is allowed on them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use jiff::Timestamp;
use pep440_rs::Version;
use serde::{Deserialize, Serialize};

use super::IndexError;
use super::view::{View, package_path};
use python_packaging::wheel::FileName;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::text::{PATH, escaped, percent_encode, visible};

/// The API version of the pages: `tracks` was added in 1.2 (PEP 708, "Specification").
const API_VERSION: &str = "1.2";

/// The media type of JSON pages (PEP 691, "Content-Types").
pub const JSON: &str = "application/vnd.pypi.simple.v1+json";
/// The media type of HTML pages. It is the alias of PEP 691's own name, because pip before 22.2 and
/// browsers know only this one and there may be no negotiation (PEP 691, "Content-Types").
pub const HTML: &str = "text/html; charset=utf-8";

/// The page of a distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The normalized name.
    pub name: String,
    /// The wheels and sdists, sorted by version and name.
    pub files: Vec<File>,
    /// The pages of the projects that this one extends (PEP 708).
    pub tracks: Vec<String>,
}

/// A wheel or sdist on a distribution's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The file name.
    pub name: String,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The size of the file in bytes.
    pub size: u64,
    /// The time of publication; in a local index, the time that the archive itself states.
    pub upload_time: Timestamp,
    /// `Requires-Python`.
    pub requires_python: Option<String>,
    /// The digest of the METADATA file beside a wheel; an sdist has none.
    pub metadata: Option<Sha256>,
    /// Whether the name in METADATA is normalized. If it is not, the page omits PEP 658's name of
    /// the attribute: pip 23.0 reads that name and refuses the wheel.
    pub plain_name: bool,
    /// The reason for yanking the wheel (PEP 592), possibly empty; `None` if it is not yanked.
    pub yanked: Option<String>,
    /// Whether the stack did not build the file: it is here so that the index is enough by itself.
    pub foreign: bool,
}

impl File {
    /// Parses the file name, which is valid for every file on a page.
    pub fn parsed(&self) -> Result<FileName, String> {
        FileName::of_distribution(&self.name)
    }

    /// Returns the start of a link to the file in HTML, with the attributes that every page has. `up`
    /// is the relative URL from the page to the root of the index.
    pub(super) fn link_start(&self, up: &str, distribution: &str) -> String {
        let url = url(up, distribution, &self.name);
        let mut start = format!("<a href=\"{url}#sha256={}\"", self.sha256);
        if let Some(python) = &self.requires_python {
            start += &format!(" data-requires-python=\"{}\"", escaped(python));
        }
        start
    }

    /// Returns the end of a link to the file.
    pub(super) fn link_end(&self) -> String {
        format!(">{}</a><br>\n", escaped(&self.name))
    }
}

/// The root page of a view: the names of all distributions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Root(pub BTreeSet<String>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Meta<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tracks: Vec<Cow<'a, str>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonProject<'a> {
    #[serde(borrow)]
    meta: Meta<'a>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    versions: Vec<String>,
    #[serde(borrow)]
    files: Vec<JsonFile<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct JsonFile<'a> {
    #[serde(borrow)]
    filename: Cow<'a, str>,
    url: Cow<'a, str>,
    hashes: Hashes,
    size: u64,
    upload_time: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requires_python: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    core_metadata: Option<Hashes>,
    /// See [`File::plain_name`]. PEP 691 reserves names with `_` for indexes. The name
    /// `dist-info-metadata` never appears: pip 22.3 to 23.1 fail with a TypeError on it, and no
    /// other client needs it (PEP 714, "Rationale").
    #[serde(rename = "_plain-name", default, skip_serializing_if = "std::ops::Not::not")]
    plain_name: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    yanked: Option<Yanked<'a>>,
    /// See [`File::foreign`].
    #[serde(rename = "_foreign", default, skip_serializing_if = "std::ops::Not::not")]
    foreign: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hashes {
    sha256: Sha256,
}

/// PEP 691, "Project Detail": a boolean, or a string that is not empty.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Yanked<'a> {
    Plain(bool),
    Reason(Cow<'a, str>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRoot<'a> {
    #[serde(borrow)]
    meta: Meta<'a>,
    projects: Vec<JsonName<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonName<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Returns the error for a page that rocmrpm did not write.
fn damaged(path: &str, reason: impl AsRef<str>) -> IndexError {
    IndexError::Page { path: path.to_owned(), reason: visible(reason.as_ref()) }
}

fn check_version(path: &str, meta: &Meta<'_>) -> Result<(), IndexError> {
    match &*meta.api_version {
        API_VERSION => Ok(()),
        other => {
            Err(damaged(path, format!("its api-version is `{other}`, expected {API_VERSION}")))
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(path: &str, bytes: &'a [u8]) -> Result<T, IndexError> {
    serde_json::from_slice(bytes).map_err(|error| damaged(path, error.to_string()))
}

/// Serializes a page; that cannot fail with only strings and numbers in it.
fn to_json(page: &impl Serialize) -> String {
    serde_json::to_string(page).unwrap_or_default() + "\n"
}

impl Project {
    /// Returns the page of a distribution without files.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), files: Vec::new(), tracks: Vec::new() }
    }

    /// Parses a page written by rocmrpm; `path` is for the error. Anything else is an error, so
    /// that no information is lost when the page is rewritten.
    pub fn from_json(bytes: &[u8], path: &str, view: View, name: &str) -> Result<Self, IndexError> {
        let page: JsonProject<'_> = parse(path, bytes)?;
        check_version(path, &page.meta)?;
        if page.name != name {
            return Err(damaged(path, format!("it is the page of `{}`", page.name)));
        }
        let mut files = Vec::with_capacity(page.files.len());
        for file in page.files {
            let parsed = FileName::of_distribution(&file.filename)
                .map_err(|reason| damaged(path, reason))?;
            let url = url(view.up(), name, &file.filename);
            if parsed.distribution != name || file.url != url {
                let (got, file) = (&file.url, &file.filename);
                return Err(damaged(path, format!("`{file}` is at `{got}`, expected `{url}`")));
            }
            if file.core_metadata.is_none() && !parsed.is_sdist() {
                return Err(damaged(path, format!("`{}` has no `core-metadata`", file.filename)));
            }
            let upload_time = file.upload_time.parse().map_err(|_| {
                damaged(
                    path,
                    format!("`{}` is not a time in the format of PEP 700", file.upload_time),
                )
            })?;
            files.push(File {
                name: file.filename.into_owned(),
                sha256: file.hashes.sha256,
                size: file.size,
                upload_time,
                requires_python: file.requires_python.map(Cow::into_owned),
                metadata: file.core_metadata.map(|hashes| hashes.sha256),
                plain_name: file.plain_name,
                yanked: match file.yanked {
                    None | Some(Yanked::Plain(false)) => None,
                    Some(Yanked::Plain(true)) => Some(String::new()),
                    Some(Yanked::Reason(reason)) => Some(reason.into_owned()),
                },
                foreign: file.foreign,
            });
        }
        let mut names: Vec<&String> = files.iter().map(|file| &file.name).collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(damaged(path, format!("it lists `{}` twice", twice[0])));
        }
        let tracks = page.meta.tracks.into_iter().map(Cow::into_owned).collect();
        let project = Self { name: name.to_owned(), files, tracks };
        if project.versions() != page.versions {
            return Err(damaged(path, "its list of versions does not match its files"));
        }
        Ok(project)
    }

    /// Sorts the files by version and name.
    pub fn sort(&mut self) {
        self.files.sort_by_cached_key(|file| (version(&file.name), file.name.clone()));
    }

    /// Returns the versions of the files, without duplicates (PEP 700, "Versions").
    pub fn versions(&self) -> Vec<String> {
        let mut versions: Vec<Version> =
            self.files.iter().filter_map(|file| version(&file.name)).collect();
        versions.dedup();
        versions.iter().map(Version::to_string).collect()
    }

    /// Returns the page in JSON (PEP 691, 700 and 714).
    pub fn json(&self, view: View) -> String {
        let files = self.files.iter().map(|file| JsonFile {
            filename: Cow::Borrowed(&file.name),
            url: url(view.up(), &self.name, &file.name).into(),
            hashes: Hashes { sha256: file.sha256 },
            size: file.size,
            upload_time: file.upload_time.to_string().into(),
            requires_python: file.requires_python.as_deref().map(Cow::Borrowed),
            core_metadata: file.metadata.map(|sha256| Hashes { sha256 }),
            plain_name: file.plain_name,
            yanked: file.yanked.as_deref().map(|reason| match reason {
                "" => Yanked::Plain(true),
                reason => Yanked::Reason(reason.into()),
            }),
            foreign: file.foreign,
        });
        to_json(&JsonProject {
            meta: meta(&self.tracks),
            name: Cow::Borrowed(&self.name),
            versions: self.versions(),
            files: files.collect(),
        })
    }

    /// Returns the page in HTML (PEP 503, 592, 658, 708 and 714).
    pub fn html(&self, view: View) -> String {
        let title = escaped(&self.name);
        let mut page = head(&self.tracks);
        page += &format!(
            "<title>Links for {title}</title>\n</head>\n<body>\n<h1>Links for {title}</h1>\n"
        );
        for file in &self.files {
            page += &file.link_start(view.up(), &self.name);
            if let Some(metadata) = &file.metadata {
                page += &format!(" data-core-metadata=\"sha256={metadata}\"");
                if file.plain_name {
                    page += &format!(" data-dist-info-metadata=\"sha256={metadata}\"");
                }
            }
            if let Some(reason) = &file.yanked {
                page += &format!(" data-yanked=\"{}\"", escaped(reason));
            }
            if file.foreign {
                page += " data-foreign=\"\"";
            }
            page += &file.link_end();
        }
        page + "</body>\n</html>\n"
    }
}

impl Root {
    /// Parses a root page written by rocmrpm; `path` is for the error.
    pub fn from_json(bytes: &[u8], path: &str) -> Result<Self, IndexError> {
        let page: JsonRoot<'_> = parse(path, bytes)?;
        check_version(path, &page.meta)?;
        let names = page.projects.into_iter().map(|project| {
            let name = project.name.into_owned();
            let plain = python_packaging::wheel::normalized(&name)
                .is_some_and(|normalized| normalized == name);
            if plain {
                Ok(name)
            } else {
                Err(damaged(path, format!("`{name}` is not a normalized name")))
            }
        });
        names.collect::<Result<_, _>>().map(Self)
    }

    /// Returns the page in JSON (PEP 691).
    pub fn json(&self) -> String {
        let projects = self.0.iter().map(|name| JsonName { name: Cow::Borrowed(name) });
        to_json(&JsonRoot { meta: meta(&[]), projects: projects.collect() })
    }

    /// Returns the page in HTML (PEP 503).
    pub fn html(&self) -> String {
        let mut page = head(&[]) + "<title>Simple index</title>\n</head>\n<body>\n";
        for name in &self.0 {
            page += &format!("<a href=\"{0}/\">{0}</a><br>\n", escaped(name));
        }
        page + "</body>\n</html>\n"
    }
}

fn meta(tracks: &[String]) -> Meta<'_> {
    Meta {
        api_version: API_VERSION.into(),
        tracks: tracks.iter().map(|track| track.as_str().into()).collect(),
    }
}

fn head(tracks: &[String]) -> String {
    let mut head = format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"pypi:repository-version\" content=\"{API_VERSION}\">\n"
    );
    for track in tracks {
        head += &format!("<meta name=\"pypi:tracks\" content=\"{}\">\n", escaped(track));
    }
    head
}

fn version(file: &str) -> Option<Version> {
    let stem = file.strip_suffix(".tar.gz").unwrap_or(file);
    Version::from_str(stem.split('-').nth(1)?).ok()
}

/// Returns the URL from a page to a file, encoded so that no server decodes the `+`
/// of a local version as a space.
fn url(up: &str, distribution: &str, file: &str) -> String {
    up.to_owned() + &percent_encode(package_path(distribution, file), PATH)
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
