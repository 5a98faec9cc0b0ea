//! `pipeline.toml`: how `rocmrpm pipeline` keeps a stack current. It is not part of what packages are
//! built from, so a change of it does not change a Release.

use std::collections::BTreeMap;
use std::path::Path;

use super::document::{At, File, Table};
use super::error::WorkspaceError;
use super::layout::PIPELINE;
use crate::error::{Problem, Problems};
use crate::names::is_version;
use crate::text::visible;
use crate::tier::Tier;

/// The content of `pipeline.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipelineSettings {
    /// The component whose newest release the set is derived from, for stacks with `upstreams.toml`.
    pub from: Option<String>,
    /// Releases that are not taken: component and version.
    pub skip: Vec<(String, String)>,
    /// Versions to choose where upstream's files disagree.
    pub choose: BTreeMap<String, String>,
    /// The destination of wheels.
    pub index: Option<String>,
    /// The destination of packages; `{chroot}` stands for the chroot.
    pub repository: Option<String>,
    /// The address of an S3 service other than Amazon's.
    pub endpoint_url: Option<String>,
    /// The lowest tier that `publish promote` accepts.
    pub promote: Option<Tier>,
    /// The command that gets the summary of a run as its standard input: a program and its arguments.
    pub notify: Vec<String>,
    /// Pages that list the releases of what the stack is built on.
    pub releases: Vec<ReleasePage>,
}

/// A page with a link for each release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasePage {
    /// What the releases are of.
    pub of: ReleasesOf,
    /// The URL of the page.
    pub url: String,
}

/// What is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleasesOf {
    /// The distribution of the chroots.
    Distribution,
    /// ROCm, as the chroots' providers have it.
    Rocm,
}

impl PipelineSettings {
    /// Reads the settings of a workspace; those of a workspace without the file are empty.
    pub fn load(root: &Path) -> Result<Self, WorkspaceError> {
        let path = root.join(PIPELINE);
        if !path.is_file() {
            return Ok(Self::default());
        }
        let mut problems = Vec::new();
        let settings = Self::read(&File::read(&path, PIPELINE)?, &mut problems);
        match problems.is_empty() {
            true => Ok(settings),
            false => Err(WorkspaceError::Invalid(Problems(problems))),
        }
    }

    /// Reads `pipeline.toml`.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        file.parse(problems, |root| Self {
            from: root.string("from").map(|at| at.value),
            skip: versions(root, "skip"),
            choose: versions(root, "choose").into_iter().collect(),
            index: root.string("index").map(|at| at.value),
            repository: root.string("repository").map(|at| at.value),
            endpoint_url: root.string("endpoint-url").map(|at| at.value),
            promote: promote(root),
            notify: root.strings("notify").into_iter().map(|at| at.value).collect(),
            releases: root.tables("releases", release_page).into_iter().flatten().collect(),
        })
    }
}

/// Reads a list of `NAME=VERSION`.
fn versions(table: &mut Table<'_>, key: &str) -> Vec<(String, String)> {
    let mut versions = Vec::new();
    for At { value, span } in table.strings(key) {
        match value.split_once('=') {
            Some((name, version)) if !name.is_empty() && is_version(version) => {
                versions.push((name.to_owned(), version.to_owned()));
            }
            _ => {
                let message = format!("`{}` is not a component and a version", visible(&value));
                table.problem(span, message, "expected NAME=VERSION, such as `hello=1.1`", None);
            }
        }
    }
    versions
}

fn promote(table: &mut Table<'_>) -> Option<Tier> {
    let At { value, span } = table.string("promote")?;
    let tier = Tier::parse(&value);
    if tier.is_none() {
        let names = Tier::ALL.map(Tier::name).join(", ");
        let message = format!("unknown tier `{}`", visible(&value));
        table.problem(span, message, format!("expected one of {names}"), None);
    }
    tier
}

fn release_page(table: &mut Table<'_>) -> Option<ReleasePage> {
    let url = table.required_string("url", "the URL of a page with a link for each release");
    let of = table.required_string("of", "`distribution` or `rocm`")?;
    let of = match of.value.as_str() {
        "distribution" => ReleasesOf::Distribution,
        "rocm" => ReleasesOf::Rocm,
        other => {
            let message = format!("`{}` has no releases here", visible(other));
            table.problem(of.span, message, "expected `distribution` or `rocm`", None);
            return None;
        }
    };
    let At { value: url, span } = url?;
    if !["https://", "http://", "file://"].iter().any(|scheme| url.starts_with(scheme)) {
        let message = format!("`{}` is not a URL", visible(&url));
        table.problem(span, message, "expected https://", None);
        return None;
    }
    Some(ReleasePage { of, url })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (PipelineSettings, Vec<String>) {
        let mut problems = Vec::new();
        let file = File { name: PIPELINE.into(), text: text.into() };
        let settings = PipelineSettings::read(&file, &mut problems);
        (settings, problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn reads_settings_and_reports_mistakes() {
        let (settings, problems) = read(
            "from = \"a\"\nskip = [\"b=1.1\"]\nchoose = [\"c=2\"]\nindex = \"../wheels\"\n\
             repository = \"../site/{chroot}\"\npromote = \"inspected\"\n\
             [[releases]]\nof = \"rocm\"\nurl = \"https://example.org/rocm/\"\n",
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(settings.skip, [("b".to_owned(), "1.1".to_owned())]);
        assert_eq!(settings.promote, Some(Tier::Inspected));
        assert_eq!(settings.releases[0].of, ReleasesOf::Rocm);
        let (_, problems) = read(
            "skip = [\"b\", \"=1\", \"b=1 2\"]\npromote = \"tested\"\nindx = \"x\"\n\
             [[releases]]\nof = \"x\"\nurl = \"y\"\n",
        );
        assert_eq!(problems.len(), 6, "{problems:?}");
        assert_eq!(read("").0, PipelineSettings::default());
    }
}
