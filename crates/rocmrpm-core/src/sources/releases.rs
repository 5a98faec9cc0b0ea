//! Lists the upstream releases of a pinned source: tags of a repository, or sdists on an index. It
//! does not choose a release.

use std::cmp::Ordering;
use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use pep440_rs::Version;

use super::git::tag_prefixes;
use super::index::{self, ProjectFile};
use super::{Fetcher, SourceError, simple, url};
use crate::digest::Sha256;
use crate::names::is_version;
use crate::wheel::FileName;
use crate::workspace::compare;
use crate::workspace::pin::{Pin, Source};

/// An upstream release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The version in the notation of pins.
    pub version: String,
    /// The commit of the tag, for git.
    pub commit: Option<String>,
    /// The digest of the sdist, if the index provides it.
    pub sha256: Option<Sha256>,
    /// `Requires-Python`, if the index provides it.
    pub python: Option<String>,
    /// Whether it is a pre-release or development release (PEP 440).
    pub pre: bool,
    /// Whether upstream yanked the release (PEP 592).
    pub yanked: bool,
}

/// The releases of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Releases {
    /// The searched location, without credentials.
    pub place: String,
    /// The releases, oldest first.
    pub found: Vec<Release>,
}

impl Releases {
    /// Returns the newest release that is not yanked; `pre` includes pre-releases.
    pub fn newest(&self, pre: bool) -> Option<&Release> {
        self.found.iter().rfind(|release| !release.yanked && (pre || !release.pre))
    }
}

impl Fetcher<'_> {
    /// Looks up the releases of a pinned source. `name` is the name of the component or further
    /// source, which tags may start with. Returns `None` for folders, crates and URLs outside of
    /// forges.
    pub fn releases(&self, pin: &Pin, name: &str) -> Result<Option<Releases>, SourceError> {
        let releases = match &pin.source {
            Source::Sdist { project, .. } => self.sdist_releases(project, &pin.version)?,
            Source::Git { url, .. } => self.tagged_releases(url, &pin.version, name)?,
            Source::Url { url, .. } => match forge_repository(url) {
                Some(repository) => self.tagged_releases(&repository, &pin.version, name)?,
                None => return Ok(None),
            },
            Source::Wheel { .. } | Source::Folder { .. } | Source::Crates { .. } => {
                return Ok(None);
            }
        };
        Ok(Some(releases))
    }

    /// Returns the UTC date on which the first file of a version was uploaded to the index; `None`
    /// if unknown or offline. The result is cached.
    pub(crate) fn release_day(
        &self,
        project: &str,
        version: &Version,
    ) -> Result<Option<Date>, SourceError> {
        let recipe = format!("release day 1\n{project} {version}\n");
        if let Some(day) = self.remembered(&recipe)?.and_then(|text| text.parse().ok()) {
            return Ok(Some(day));
        }
        if self.is_offline() {
            return Ok(None);
        }
        let files = self.projects(&[project])?.into_iter().flatten();
        let of_version = files.filter(|file| {
            let wheel = || FileName::parse(&file.name).ok().map(|name| name.version);
            file.sdist_version(project).or_else(wheel).as_ref() == Some(version)
        });
        let Some(first) = of_version.filter_map(|file| file.upload_time).min() else {
            return Ok(None);
        };
        let day = first.to_zoned(TimeZone::UTC).date();
        self.remember(&recipe, &day.to_string())?;
        Ok(Some(day))
    }

    fn sdist_releases(&self, project: &str, pinned: &str) -> Result<Releases, SourceError> {
        self.needs_network(|| format!("the page of `{project}` on the package index"))?;
        let index = self.index_url()?;
        let Some((text, page)) = simple::page(self.cache(), index, project)? else {
            let (index, project) = (url::shown(index), super::normalized(project));
            return Err(SourceError::NoProject { index, project });
        };
        let mut found = Vec::new();
        for ProjectFile { name, sha256, requires_python, yanked, .. } in index::files(&text, &page)?
        {
            let Some(version) = index::sdist_version(&name, project) else { continue };
            found.push(Release {
                version: version.to_owned(),
                commit: None,
                sha256,
                python: requires_python,
                pre: is_pre(version, pinned),
                yanked,
            });
        }
        Ok(Releases { place: "pip index".into(), found: sorted(found) })
    }

    fn tagged_releases(
        &self,
        git_url: &str,
        pinned: &str,
        name: &str,
    ) -> Result<Releases, SourceError> {
        let place = url::shown(git_url);
        self.needs_network(|| format!("the tags of {place}"))?;
        let tags = self.repository(git_url).tags()?;
        let prefixes = tag_prefixes(name);
        let of = |prefix: &String| -> Vec<Release> {
            let read = |(tag, commit): (&String, &String)| {
                let version = tagged_version(tag.strip_prefix(prefix.as_str())?, pinned)?;
                let (commit, pre) = (Some(commit.clone()), is_pre(&version, pinned));
                Some(Release { version, commit, sha256: None, python: None, pre, yanked: false })
            };
            tags.iter().filter_map(read).collect()
        };
        // A repository may mix tag schemes, such as `v2.11.0` and `rocm-7.2`. Successors use the
        // scheme of the pinned version.
        let own = prefixes.iter().find(|prefix| tags.contains_key(&format!("{prefix}{pinned}")));
        let found = match own {
            Some(prefix) => of(prefix),
            None => prefixes.iter().map(of).find(|found| !found.is_empty()).unwrap_or_default(),
        };
        Ok(Releases { place, found: sorted(found) })
    }
}

fn sorted(mut found: Vec<Release>) -> Vec<Release> {
    // At the same version, sort yanked files first.
    found.sort_by(|a, b| newer(&a.version, &b.version).then(b.yanked.cmp(&a.yanked)));
    found
}

/// Compares two versions by PEP 440 if both are valid Python versions, otherwise like rpm.
pub fn newer(a: &str, b: &str) -> Ordering {
    match (Version::from_str(a), Version::from_str(b)) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        _ => compare(a, b),
    }
}

/// Returns the version in a tag without its prefix, if it is a version.
fn tagged_version(rest: &str, pinned: &str) -> Option<String> {
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        // Tags such as llama.cpp's `b1234` must have the same form as the pinned version.
        let shape = |text: &str| text.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        return (shape(rest) == shape(pinned) && rest != shape(rest)).then(|| rest.to_owned());
    }
    let version = Version::from_str(rest).ok()?;
    // `2.13.0-rc1` is not a valid RPM version.
    Some(if is_version(rest) { rest.to_owned() } else { version.to_string() })
}

/// Returns whether a version is a pre-release. A version with the same letters as the pinned one,
/// such as aotriton's `0.11.2b`, does not count as a pre-release.
fn is_pre(version: &str, pinned: &str) -> bool {
    let letters = |text: &str| text.chars().filter(char::is_ascii_alphabetic).collect::<String>();
    letters(version) != letters(pinned)
        && Version::from_str(version).is_ok_and(|version| version.any_prerelease())
}

/// Returns the repository for the URL of a release or archive on a forge: `/archive/` and
/// `/releases/` on GitHub and Forgejo, `/-/archive/` on GitLab.
fn forge_repository(url: &str) -> Option<String> {
    if let Some(rest) = url.strip_prefix("https://codeload.github.com/") {
        let mut parts = rest.split('/');
        return Some(format!("https://github.com/{}/{}", parts.next()?, parts.next()?));
    }
    let ends = ["/-/archive/", "/-/releases/", "/archive/", "/releases/download/"];
    let at = ends.iter().filter_map(|end| url.find(end)).min()?;
    let repository = &url[..at];
    (repository.matches('/').count() > 3).then(|| repository.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn releases(versions: &[&str], pinned: &str) -> Releases {
        let found = versions.iter().filter_map(|tag| {
            let version = tagged_version(tag, pinned)?;
            let pre = is_pre(&version, pinned);
            Some(Release { version, commit: None, sha256: None, python: None, pre, yanked: false })
        });
        Releases { place: String::new(), found: sorted(found.collect()) }
    }

    #[test]
    fn newest_is_a_final_release_by_default() {
        let some =
            releases(&["0.9", "0.10.0", "0.11.0-rc2", "1-rocm", "nightly", "1.0.dev3"], "0.9");
        let newest = |pre| some.newest(pre).map(|release| release.version.as_str());
        assert_eq!((newest(false), newest(true)), (Some("0.10.0"), Some("1.0.dev3")));
        let versions: Vec<_> = some.found.iter().map(|r| r.version.as_str()).collect();
        assert_eq!(versions, ["0.9", "0.10.0", "0.11.0rc2", "1.0.dev3"]);
    }

    #[test]
    fn letters_of_the_pinned_version_do_not_mark_pre_releases() {
        let newest =
            |tags: &[&str], pinned| releases(tags, pinned).newest(false).unwrap().version.clone();
        assert_eq!(newest(&["0.10b", "0.11.2b"], "0.10b"), "0.11.2b");
        assert_eq!(newest(&["b9999", "b10000", "gguf-v0.4"], "b9000"), "b10000");
        assert_eq!(newest(&["2.0rc2", "2.0rc1", "1.0"], "2.0rc1"), "2.0rc2");
    }

    #[test]
    fn finds_repositories_of_forge_archives() {
        for (url, repository) in [
            (
                "https://github.com/ROCm/rocm/archive/refs/tags/rocm-7.tar.gz",
                Some("https://github.com/ROCm/rocm"),
            ),
            (
                "https://github.com/o/r/releases/download/v1/r-1.tar.gz",
                Some("https://github.com/o/r"),
            ),
            ("https://gitlab.com/g/s/r/-/archive/1/r-1.tar.gz", Some("https://gitlab.com/g/s/r")),
            ("https://codeload.github.com/o/r/tar.gz/refs/tags/v1", Some("https://github.com/o/r")),
            ("https://example.org/archive/x-1.tar.gz", None),
            ("https://example.org/x-1.tar.gz", None),
        ] {
            assert_eq!(forge_repository(url).as_deref(), repository, "{url}");
        }
    }
}
