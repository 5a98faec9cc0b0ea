//! ROCm that a build gets from files instead of packages of the chroot: its Python packages, or
//! archives of TheRock. Read from a provider's definition; does not fetch anything.

use super::document::{At, Table};
use crate::canonical::Canonical;
use crate::gpu_families;
use crate::names::is_plain;
use crate::text::visible;

/// The RPM macro with the folder in which a build has this ROCm.
pub const PREFIX_MACRO: &str = "%{rocm_prefix}";

/// The provider's keys of each kind of files.
const TABLES: [&str; 2] = ["python-packages", "artifacts"];

/// The components of TheRock's artifacts that a build needs; others have tests, documentation and
/// debugging data.
const COMPONENTS: [&str; 3] = ["dev", "lib", "run"];

/// The family in the names of artifacts without GPU code.
const GENERIC: &str = "generic";

/// Where the files of ROCm come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// ROCm's Python packages.
    PythonPackages {
        /// The requirements, such as `rocm[libraries,devel]==7.14.0`.
        requirements: Vec<String>,
        /// The URL of the index; `None` for the one that pip uses.
        index: Option<String>,
        /// The target or family for which `rocm` chooses packages; `None` for the stack's first
        /// GPU target.
        target: Option<String>,
    },
    /// Artifacts of a CI run of TheRock.
    Artifacts(Artifacts),
}

/// The artifacts of a CI run of TheRock: `URL/RUN/NAME_COMPONENT_FAMILY.tar.zst`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifacts {
    /// The URL of the bucket.
    pub url: String,
    /// The folder of the run, such as `19234567890-linux`.
    pub run: String,
    /// The groups, such as `blas`; empty for all.
    pub groups: Vec<String>,
    /// The GPU targets or families, besides `generic`.
    pub targets: Vec<String>,
}

impl Artifacts {
    /// Returns whether a build needs the archive with this name.
    pub fn wants(&self, file: &str) -> bool {
        let Some(stem) = [".tar.zst", ".tar.xz"].iter().find_map(|end| file.strip_suffix(end))
        else {
            return false;
        };
        let parts: Vec<&str> = stem.split('_').collect();
        let [group, component, target] = parts[..] else { return false };
        (self.groups.is_empty() || self.groups.iter().any(|wanted| wanted == group))
            && COMPONENTS.contains(&component)
            && (target == GENERIC || self.targets.iter().any(|wanted| wanted == target))
    }

    /// Returns the URL of an archive.
    pub fn url_of(&self, file: &str) -> String {
        format!("{}/{}/{file}", self.url, self.run)
    }
}

impl Canonical for Delivery {
    fn write(&self, text: &mut String) {
        match self {
            Self::PythonPackages { requirements, index, target } => {
                text.push_str("PythonPackages");
                (requirements, index, target).write(text);
            }
            Self::Artifacts(Artifacts { url, run, groups, targets }) => {
                text.push_str("Artifacts");
                (url, run, groups, targets).write(text);
            }
        }
    }
}

impl Delivery {
    /// Reads the table of a provider's definition; `None` if its ROCm is in packages.
    pub(super) fn read(root: &mut Table<'_>) -> Option<Self> {
        let [packages, artifacts] = TABLES;
        let packages = root.table(packages, python_packages);
        let artifacts = root.table(artifacts, |table| Self::Artifacts(read_artifacts(table)));
        if packages.is_some() && artifacts.is_some() {
            let message = "a provider cannot have both `[python-packages]` and `[artifacts]`";
            root.problem(root.span(), message, "expected one of them", None);
        }
        packages.or(artifacts)
    }

    /// Returns what the names of the distributions that it has start with, for messages.
    pub fn table(&self) -> &'static str {
        match self {
            Self::PythonPackages { .. } => TABLES[0],
            Self::Artifacts(_) => TABLES[1],
        }
    }
}

fn python_packages(table: &mut Table<'_>) -> Delivery {
    let requirements = table.strings("requirements");
    if requirements.is_empty() {
        let help = "add `requirements = [\"rocm[libraries,devel]==7.14.0\"]`".to_owned();
        let span = table.span();
        table.problem(span, "`requirements` is missing", "expected a list", Some(help));
    }
    for At { value, span } in &requirements {
        use std::str::FromStr as _;
        if pep508_rs::Requirement::<pep508_rs::VerbatimUrl>::from_str(value).is_err() {
            let message = format!("`{}` is not a requirement", visible(value));
            table.problem(
                span.clone(),
                message,
                "expected a requirement such as `rocm[libraries,devel]==7.14.0`",
                None,
            );
        }
    }
    let index = table.string("index").map(|at| url(table, at));
    let target = table.string("target").map(|at| target(table, at));
    let requirements = requirements.into_iter().map(|at| at.value).collect();
    Delivery::PythonPackages { requirements, index, target }
}

fn read_artifacts(table: &mut Table<'_>) -> Artifacts {
    let address = table.required_string("url", "the URL of the bucket");
    let run = table.required_string("run", "the folder of the run, such as `19234567890-linux`");
    if let Some(at) = &run {
        table.must_be_plain(at, "the folder of a run");
    }
    let groups = table.strings("groups");
    for At { value, span } in &groups {
        if !is_plain(value) || value.contains('_') {
            let message = format!("`{}` is not a group of artifacts", visible(value));
            table.problem(span.clone(), message, "expected a name such as `blas`", None);
        }
    }
    let targets = table.strings("targets");
    let targets = targets.into_iter().map(|at| target(table, at)).collect();
    Artifacts {
        url: address.map(|at| url(table, at)).unwrap_or_default(),
        run: run.map(|at| at.value).unwrap_or_default(),
        groups: groups.into_iter().map(|at| at.value).collect(),
        targets,
    }
}

fn url(table: &mut Table<'_>, At { value, span }: At<String>) -> String {
    let known = ["https://", "http://", "file:///"].iter().any(|scheme| value.starts_with(scheme));
    if !known || value.contains(|c: char| c.is_whitespace() || "?#".contains(c)) {
        let message = format!("`{}` is not a URL of a folder", visible(&value));
        table.problem(span, message, "expected a URL such as `https://example.org/simple`", None);
    }
    value.trim_end_matches('/').to_owned()
}

/// Reads the name of a GPU target or of a family.
fn target(table: &mut Table<'_>, At { value, span }: At<String>) -> String {
    if gpu_families::targets_of(&value).is_none() {
        let message = format!("unknown GPU target or family `{}`", visible(&value));
        let help = gpu_families::nearest_to(&value).map(|near| format!("did you mean `{near}`?"));
        table.problem(span, message, "expected a name such as `gfx1151` or `gfx115X-all`", help);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_archives_by_group_component_and_target() {
        let artifacts = |groups: &[&str]| Artifacts {
            url: "https://h/b".into(),
            run: "1-linux".into(),
            groups: groups.iter().map(|&name| name.into()).collect(),
            targets: vec!["gfx115X-all".into()],
        };
        let blas = artifacts(&["blas"]);
        for (file, expected) in [
            ("blas_lib_gfx115X-all.tar.xz", true),
            ("blas_dev_generic.tar.zst", true),
            ("blas_lib_gfx94X-dcgpu.tar.xz", false),
            ("blas_test_gfx115X-all.tar.xz", false),
            ("fft_lib_gfx115X-all.tar.xz", false),
            ("blas_lib_gfx115X-all.tar.xz.sha256sum", false),
            ("blas_lib.tar.xz", false),
        ] {
            assert_eq!(blas.wants(file), expected, "{file}");
        }
        assert!(artifacts(&[]).wants("fft_lib_gfx115X-all.tar.xz"));
        assert_eq!(blas.url_of("x.tar.xz"), "https://h/b/1-linux/x.tar.xz");
    }
}
