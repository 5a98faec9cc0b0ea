//! Parses a project's page of the Simple API (PEP 503, PEP 691), and selects an sdist. It neither
//! chooses the index nor downloads anything.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;
use pep440_rs::Version;

use super::{SourceError, html, url};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::names::normalized;

/// The `Accept` header for an index, best form first (PEP 691, "Content-Types").
pub const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, \
     application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// A source distribution on an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdist {
    /// The version in the spelling of the file name.
    pub version: String,
    /// The name of the file on the index.
    pub file_name: String,
    /// The URL without credentials.
    pub url: String,
    /// The digest, if the index states it.
    pub sha256: Option<Sha256>,
    /// The size in bytes, if the index states it.
    pub size: Option<u64>,
    /// Whether upstream yanked it (PEP 592).
    pub yanked: bool,
}

/// A file on a project's page, of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProjectFile {
    /// The file name.
    pub name: String,
    /// The URL of the file.
    pub url: String,
    /// The digest, if the page states it.
    pub sha256: Option<Sha256>,
    /// The size in bytes, if the page states it.
    pub size: Option<u64>,
    /// `Requires-Python`, if the page states it (PEP 503, `data-requires-python`).
    pub requires_python: Option<String>,
    /// Whether the file is yanked (PEP 592).
    pub yanked: bool,
    /// The digest of the METADATA file beside the wheel, if it exists (PEP 658, PEP 714).
    pub metadata: Option<Sha256>,
    /// The upload time, if the page states it (PEP 700).
    pub upload_time: Option<Timestamp>,
    /// Whether an index of rocmrpm marks it as a file that the stack did not build.
    pub foreign: bool,
}

/// Returns the version in the name of a project's source distribution, of any archive format.
pub fn version_of_sdist(file: &str, project: &str) -> Option<Version> {
    match sdist_version(file, project) {
        Some(version) => Version::from_str(version).ok(),
        None if file.ends_with(".whl") => None,
        None => other_version(file, project),
    }
}

impl ProjectFile {
    /// Returns the version of a source distribution of `project`, of any archive format.
    pub fn sdist_version(&self, project: &str) -> Option<Version> {
        version_of_sdist(&self.name, project)
    }
}

/// Returns the URL of a project's page.
pub fn page_url(index: &str, project: &str) -> String {
    let page = format!("{}/{}/", index.trim_end_matches('/'), normalized(project));
    // A folder with the layout of an index has no server that adds the file name.
    if page.starts_with("file:") { page + "index.html" } else { page }
}

/// The distributions of a project on an index.
#[derive(Debug, Default)]
pub struct Offered {
    /// The sdists, in the order of the page.
    pub sdists: Vec<Sdist>,
    /// A file name for each version with wheels or with sdists in formats other than `.tar.gz`.
    pub others: BTreeMap<Version, String>,
}

/// Parses a project's page, JSON or HTML, that was fetched from `page_url`.
pub fn read_page(text: &str, page_url: &str, project: &str) -> Result<Offered, SourceError> {
    let mut offered = Offered::default();
    for ProjectFile { name, url, sha256, size, yanked, .. } in files(text, page_url)? {
        if let Some(version) = sdist_version(&name, project) {
            let version = version.to_owned();
            offered.sdists.push(Sdist { version, file_name: name, url, sha256, size, yanked });
        } else if let Some(version) = other_version(&name, project) {
            offered.others.entry(version).or_insert(name);
        }
    }
    Ok(offered)
}

/// Parses all files on a project's page, JSON or HTML, that was fetched from `page_url`.
pub fn files(text: &str, page_url: &str) -> Result<Vec<ProjectFile>, SourceError> {
    let mut files = if text.trim_start().starts_with('{') {
        from_json(text, page_url)?
    } else {
        from_html(text, page_url)
    };
    // A remote page must not refer to files on this machine.
    let is_local =
        |url: &str| url.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
    files.retain(|file| is_local(page_url) || !is_local(&file.url));
    Ok(files)
}

/// The fields of PEP 691's project page that rocmrpm reads.
#[derive(serde::Deserialize)]
struct JsonPage {
    files: Vec<JsonFile>,
}

#[derive(serde::Deserialize)]
struct JsonFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    size: Option<u64>,
    #[serde(default)]
    yanked: serde_json::Value,
    #[serde(default, rename = "requires-python")]
    requires_python: Option<String>,
    #[serde(default, rename = "core-metadata")]
    core_metadata: serde_json::Value,
    #[serde(rename = "upload-time")]
    upload_time: Option<String>,
    /// PEP 691 reserves names with `_` for indexes.
    #[serde(default, rename = "_foreign")]
    foreign: serde_json::Value,
}

fn from_json(text: &str, page_url: &str) -> Result<Vec<ProjectFile>, SourceError> {
    let page: JsonPage = serde_json::from_str(text).map_err(|error| SourceError::IndexPage {
        url: page_url.to_owned(),
        reason: format!("it is not a project page of the Simple API: {error}"),
    })?;
    let entry = |file: JsonFile| {
        Some(ProjectFile {
            url: url::join(page_url, &file.url)?,
            sha256: file.hashes.get("sha256").and_then(|hex| Sha256::parse(hex)),
            size: file.size,
            // `true` or a reason, which may be empty.
            yanked: !matches!(
                file.yanked,
                serde_json::Value::Null | serde_json::Value::Bool(false)
            ),
            metadata: file.core_metadata.get("sha256").and_then(|hex| Sha256::parse(hex.as_str()?)),
            requires_python: file.requires_python,
            upload_time: file.upload_time.and_then(|time| time.parse().ok()),
            foreign: file.foreign == true,
            name: file.filename,
        })
    };
    Ok(page.files.into_iter().filter_map(entry).collect())
}

fn from_html(text: &str, page_url: &str) -> Vec<ProjectFile> {
    let page = html::parse(text);
    let base = page
        .base
        .and_then(|base| url::join(page_url, &base))
        .unwrap_or_else(|| page_url.to_owned());
    let entry = |anchor: html::Anchor| {
        let fragment = anchor.href.split_once('#').map_or("", |(_, fragment)| fragment);
        let url = url::join(&base, &anchor.href)?;
        let attribute = |wanted: &str| {
            let found = anchor.attributes.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str())
        };
        Some(ProjectFile {
            name: url::last_segment(&url),
            url,
            requires_python: attribute("data-requires-python").map(str::to_owned),
            metadata: attribute("data-core-metadata")
                .and_then(|v| Sha256::parse(v.strip_prefix("sha256=")?)),
            sha256: fragment
                .split('&')
                .find_map(|part| Sha256::parse(part.strip_prefix("sha256=")?)),
            size: None,
            // Not in any PEP, but some indexes write it and uv reads it.
            upload_time: attribute("data-upload-time").and_then(|time| time.parse().ok()),
            yanked: attribute("data-yanked").is_some(),
            foreign: attribute("data-foreign").is_some(),
        })
    };
    page.anchors.into_iter().filter_map(entry).collect()
}

/// Returns the version in the name of a project's sdist. Old file names contain the name
/// unnormalized, and both parts may contain dashes, so this tries every dash.
pub fn sdist_version<'a>(name: &'a str, project: &str) -> Option<&'a str> {
    let stem = name.strip_suffix(".tar.gz")?;
    let wanted = normalized(project);
    stem.match_indices('-')
        .filter(|(at, _)| normalized(&stem[..*at]) == wanted)
        .map(|(at, _)| &stem[at + 1..])
        .find(|version| Version::from_str(version).is_ok())
}

/// Returns the version of a wheel, or of an sdist in a format other than `.tar.gz`.
fn other_version(name: &str, project: &str) -> Option<Version> {
    let wanted = normalized(project);
    if let Some(stem) = name.strip_suffix(".whl") {
        let mut parts = stem.split('-');
        let same = normalized(parts.next()?) == wanted;
        return parts.next().filter(|_| same).and_then(|version| Version::from_str(version).ok());
    }
    let stem = [".zip", ".tar.bz2", ".tar.xz", ".tgz"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))?;
    let (left, version) = stem.rsplit_once('-')?;
    Version::from_str(version).ok().filter(|_| normalized(left) == wanted)
}

/// Selects the sdist of a version, or of the newest final version that is not yanked. `index` is
/// for errors.
pub fn pick(
    offered: Offered,
    version: Option<&str>,
    project: &str,
    index: &str,
) -> Result<Sdist, SourceError> {
    let mut by_version: Vec<(Version, Sdist)> = offered
        .sdists
        .into_iter()
        .filter_map(|sdist| Version::from_str(&sdist.version).ok().map(|version| (version, sdist)))
        .collect();
    // Of files with the same version, those that are not yanked come last.
    by_version
        .sort_by(|(a, s), (b, t)| (a, !s.yanked, &s.file_name).cmp(&(b, !t.yanked, &t.file_name)));
    let wanted = version.map(Version::from_str);
    let fits = |(version, sdist): &&(Version, Sdist)| match &wanted {
        Some(Ok(wanted)) => version == wanted,
        Some(Err(_)) => false,
        None => !version.any_prerelease() && !sdist.yanked,
    };
    if let Some((_, sdist)) = by_version.iter().rfind(fits) {
        return Ok(sdist.clone());
    }
    let mut versions: Vec<&Version> = by_version.iter().map(|(version, _)| version).collect();
    versions.dedup();
    let near = match &wanted {
        Some(Ok(wanted)) => {
            let after = versions.partition_point(|version| *version < wanted);
            &versions[after.saturating_sub(3)..versions.len().min(after + 2)]
        }
        _ => &versions[versions.len().saturating_sub(5)..],
    };
    let other = match &wanted {
        Some(Ok(wanted)) => offered.others.get(wanted).cloned(),
        _ => None,
    };
    let is_wheel = |file: &String| file.ends_with(".whl");
    let wheels = match &wanted {
        Some(_) => other.as_ref().is_some_and(is_wheel),
        None => by_version.is_empty() && offered.others.values().any(is_wheel),
    };
    Err(SourceError::NoSdist {
        wheels,
        index: url::shown(index),
        project: normalized(project),
        version: version.map_or_else(|| "in a final version".to_owned(), str::to_owned),
        other: other.map(String::into_boxed_str),
        near: near.iter().rev().map(ToString::to_string).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "http://h/simple/foo-bar/";

    fn page(text: &str) -> Offered {
        read_page(text, PAGE, "Foo.Bar").unwrap()
    }

    fn picked(text: &str, version: Option<&str>) -> Result<Sdist, SourceError> {
        pick(page(text), version, "Foo.Bar", "http://u:secret@h/simple")
    }

    #[test]
    fn parses_html_pages() {
        let digest = Sha256::of_bytes("x");
        let html = format!(
            "<base href='/files/'><a href=\"foo_bar-1.0.tar.gz#sha256={digest}\">a</a>\
             <a data-yanked='bad' href='../old/Foo.Bar-0.9.tar.gz'>b</a><a href='foo_bar-1.1-py3-none-any.whl'>c</a>\
             <a href='File:///foo_bar-4.tar.gz'>x</a><a href='foo_bar_baz-3.tar.gz'>d</a><a href='Foo-Bar-1.2.zip'>e</a>"
        );
        let Offered { sdists, others } = page(&html);
        assert_eq!(sdists.len(), 2);
        assert_eq!(sdists[0].url, "http://h/files/foo_bar-1.0.tar.gz");
        assert_eq!((sdists[0].sha256, sdists[0].yanked), (Some(digest), false));
        assert_eq!(sdists[1].url, "http://h/old/Foo.Bar-0.9.tar.gz");
        assert_eq!((sdists[1].sha256, sdists[1].yanked), (None, true));
        assert_eq!(others.keys().map(ToString::to_string).collect::<Vec<_>>(), ["1.1", "1.2"]);
        assert_eq!(picked(&html, None).unwrap().version, "1.0");
        assert_eq!(picked(&html, Some("0.9.0")).unwrap().version, "0.9");
        let error = picked(&html, Some("1.1")).unwrap_err();
        assert!(error.to_string().ends_with("1.1, only foo_bar-1.1-py3-none-any.whl"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn ignores_local_files_on_remote_pages() {
        for link in [
            "file:///t/foo_bar-9.9.tar.gz",
            " file:///t/foo_bar-9.9.tar.gz",
            "\tFI\nLE:///t/foo_bar-9.9.tar.gz",
        ] {
            let json = serde_json::json!({"files": [{"filename": "foo_bar-9.9.tar.gz", "url": link, "hashes": {}}]});
            for page in [format!("<a href='{link}'>x</a>"), json.to_string()] {
                assert_eq!(files(&page, PAGE).unwrap(), [], "{page}");
                assert_eq!(files(&page, "file:///i/index.html").unwrap().len(), 1, "{page}");
            }
        }
    }

    #[test]
    fn reads_upload_times_of_both_kinds_of_page() {
        let html =
            r#"<a href="foo_bar-1.0.tar.gz" data-upload-time="2026-05-10T07:39:27.942529Z">a</a>"#;
        let json = r#"{"files":[{"filename":"foo_bar-1.0.tar.gz","url":"x","hashes":{},
                       "upload-time":"2026-05-10T07:39:27.942529Z"}]}"#;
        for page in [html, json] {
            let time = files(page, PAGE).unwrap()[0].upload_time.unwrap();
            assert_eq!(time.to_string(), "2026-05-10T07:39:27.942529Z");
        }
        let wrong = html.replace("2026-05-10T", "yesterday ");
        assert_eq!(files(&wrong, PAGE).unwrap()[0].upload_time, None);
    }

    #[test]
    fn parses_json_pages() {
        let digest = Sha256::of_bytes("x");
        let file = |name: &str, more: &str| {
            format!(r#"{{"filename":"{name}","url":"../../f/{name}"{more}}}"#)
        };
        let json = format!(
            r#"{{"meta":{{"api-version":"1.1"}},"name":"foo-bar","files":[{},{},{},{}]}}"#,
            file(
                "foo_bar-1.9.tar.gz",
                &format!(r#","hashes":{{"sha256":"{digest}"}},"size":7,"yanked":false"#)
            ),
            file("foo_bar-1.10.tar.gz", r#","hashes":{},"yanked":"""#),
            file("foo_bar-2.0rc1.tar.gz", r#","hashes":{}"#),
            file("foo_bar-1.9.1.dev0.tar.gz", r#","hashes":{}"#),
        );
        let latest = picked(&json, None).unwrap();
        assert_eq!(
            (latest.version.as_str(), latest.sha256, latest.size),
            ("1.9", Some(digest), Some(7))
        );
        assert_eq!(latest.url, "http://h/f/foo_bar-1.9.tar.gz");
        assert!(picked(&json, Some("1.10")).unwrap().yanked);
        let SourceError::NoSdist { near, .. } = picked(&json, Some("1.9.5")).unwrap_err() else {
            panic!()
        };
        assert_eq!(near, ["2.0rc1", "1.10", "1.9.1.dev0", "1.9"]);
        let SourceError::NoSdist { near, .. } = picked(&json, Some("latest")).unwrap_err() else {
            panic!()
        };
        assert_eq!(near[0], "2.0rc1");
    }

    #[test]
    fn rejects_truncated_pages() {
        let json = r#"{"files":[{"filename":"foo_bar-1.0.tar.gz","url":"x","hashes":{}}]}"#;
        for end in 1..json.len() {
            assert!(read_page(&json[..end], PAGE, "foo-bar").is_err(), "{end}");
        }
        assert!(page("<html>").sdists.is_empty());
    }

    #[test]
    fn parses_sdist_names() {
        for (name, project, version) in [
            ("Foo-Bar-1.0-1.tar.gz", "foo.bar", Some("1.0-1")),
            ("foo-2-1.0.tar.gz", "foo-2", Some("1.0")),
            ("foo_bar-1.0.tar.gz", "foo", None),
            ("foo-1.0.zip", "foo", None),
            ("-1.0.tar.gz", "foo", None),
        ] {
            assert_eq!(sdist_version(name, project), version, "{name}");
        }
        assert_eq!(page_url("http://h/s/", "A_b"), "http://h/s/a-b/");
        assert_eq!(page_url("file:///s", "A"), "file:///s/a/index.html");
    }
}
