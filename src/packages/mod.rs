//! What packages there are in a chroot: those of its release and of its ROCm provider,
//! from tables or from their repositories, and the stack's own. One question: does
//! anything there satisfy a requirement? What requires it is not known here.

mod dists;
mod live;
mod requirement;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

pub use dists::normalised;
pub(crate) use live::{Provided, dist_provides, repositories_text};
pub(crate) use requirement::Requirement;
pub use requirement::split;

use crate::error::{Diagnose, IoError, Kind};
use crate::process::ProcessError;
use crate::workspace::document::At;
use crate::workspace::{Chroot, Workspace};
use dists::Dists;
use live::Repositories;
use requirement::Bound;
use table::Entry;

/// The folder of the package tables in a workspace.
const TABLES_DIR: &str = "mock-configs/packages";

/// Why it is not known what packages there are.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// A table cannot be read.
    #[error("the package table `{table}` cannot be read")]
    Table {
        /// The table's path in the workspace.
        table: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// A table has a line that is none.
    #[error("line {line} of the package table `{table}` is not two or three columns")]
    Line {
        /// The table's path in the workspace.
        table: String,
        /// The line's number.
        line: usize,
    },
    /// The repositories have nothing for the chroot's Python.
    #[error(
        "no repository of `{chroot}` has a package for Python {python}: none provides a `python{python}dist(…)`"
    )]
    NoPython {
        /// The chroot.
        chroot: String,
        /// Its Python.
        python: String,
    },
    /// dnf could not be run, or could not read a repository.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file for dnf cannot be written.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for PackagesError {
    fn kind(&self) -> Kind {
        match self {
            Self::Table { .. } | Self::Line { .. } | Self::NoPython { .. } => Kind::Config,
            Self::Process(error) => error.kind(),
            Self::Io(error) => error.kind(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Table { .. } => {
                vec![
                    "`packages` of the chroot and of its ROCm provider name files of mock-configs/packages"
                        .into(),
                ]
            }
            Self::Line { .. } => vec!["the columns are name, version, package, with tabs between".into()],
            Self::NoPython { chroot, .. } => {
                vec![
                    format!("`python` and `[[repositories]]` stand in mock-configs/{chroot}.toml"),
                    "without `--live` the package tables of mock-configs/packages are asked".into(),
                ]
            }
            Self::Process(ProcessError::Failed { .. }) => {
                vec!["without `--live` the package tables of mock-configs/packages are asked".into()]
            }
            Self::Process(error) => error.hints(),
            Self::Io(error) => error.hints(),
        }
    }
}

/// The answer for one requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This package satisfies it.
    By(String),
    /// There is such a package, but not in that version.
    OtherVersion {
        /// The package.
        package: String,
        /// The version that there is.
        version: String,
        /// Whether it is too old; else it is another one than is wanted.
        older: bool,
    },
    /// Nothing that is known satisfies it.
    Missing,
    /// Nobody knows, for this reason.
    NotChecked(String),
}

/// The packages of a chroot.
pub struct Packages {
    /// What the chroot is called.
    chroot: String,
    entries: BTreeMap<String, Entry>,
    /// The packages of `entries` by the names of the Python projects that they hold.
    dists: Dists,
    /// Whether the release's own packages are among them.
    release_known: bool,
    live: Option<Repositories>,
}

impl Packages {
    /// Returns the packages that a workspace's chroot and its provider have: by their
    /// tables or, where `live` is wanted, by their repositories.
    pub fn of(workspace: &Workspace, live: bool) -> Result<Self, PackagesError> {
        let (chroot, provider) = (&workspace.chroot, &workspace.provider);
        let mut packages = Self::empty(&chroot.name, !chroot.packages.is_empty());
        if live {
            packages.live = Some(Repositories::of(chroot)?);
            return Ok(packages);
        }
        packages.read_tables(&workspace.root, chroot.packages.iter().chain(&provider.packages))?;
        Ok(packages)
    }

    /// Returns the packages that a chroot's release has, by its tables, in the workspace of this
    /// folder.
    pub fn of_release(root: &Path, chroot: &Chroot) -> Result<Self, PackagesError> {
        let mut packages = Self::empty(&chroot.name, !chroot.packages.is_empty());
        packages.read_tables(root, &chroot.packages)?;
        Ok(packages)
    }

    fn read_tables<'a>(
        &mut self,
        root: &Path,
        tables: impl IntoIterator<Item = &'a At<String>>,
    ) -> Result<(), PackagesError> {
        for at in tables {
            let shown = format!("{TABLES_DIR}/{}.tsv", at.value);
            for (name, entry) in table::read(&root.join(&shown), &shown)? {
                self.insert(name, entry);
            }
        }
        Ok(())
    }

    /// Returns no packages at all; `release_known` tells whether what is not added is
    /// missing.
    pub fn empty(chroot: &str, release_known: bool) -> Self {
        Self {
            chroot: chroot.to_owned(),
            entries: BTreeMap::new(),
            dists: Dists::default(),
            release_known,
            live: None,
        }
    }

    /// Adds a package that the stack itself makes, or a name that one of them provides.
    pub fn add(&mut self, name: &str, package: &str, version: &str) {
        let entry = Entry { package: package.to_owned(), version: version.to_owned() };
        self.entries.remove(name);
        self.insert(name.to_owned(), entry);
    }

    fn insert(&mut self, name: String, entry: Entry) {
        self.dists.add(&name);
        self.entries.entry(name).or_insert(entry);
    }

    /// Returns the Python projects that the tables know: normalised name, package, and its
    /// version, which is empty where it is not known.
    pub fn python_projects(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.dists.all().filter_map(|(project, package)| {
            let entry = self.entries.get(package)?;
            Some((project, entry.package.as_str(), entry.version.as_str()))
        })
    }

    /// Tells what satisfies a requirement.
    pub fn satisfy(&self, text: &str) -> Result<Answer, PackagesError> {
        let Some(requirement) = Requirement::parse(text) else {
            return Ok(Answer::NotChecked("it is not a requirement as rpm writes them".to_owned()));
        };
        let known = self.by_tables(&requirement);
        match &self.live {
            Some(live) if !matches!(known, Answer::By(_)) => {
                Ok(live.provider(text.trim())?.map_or(Answer::Missing, Answer::By))
            }
            _ => Ok(known),
        }
    }

    fn by_tables(&self, requirement: &Requirement) -> Answer {
        match requirement {
            Requirement::Name { name, bound } => self.by_name(name, bound.as_ref()),
            Requirement::All(parts) => {
                let answers: Vec<Answer> = parts.iter().map(|part| self.by_tables(part)).collect();
                let worst = |answer: &&Answer| match answer {
                    Answer::Missing => 0,
                    Answer::OtherVersion { .. } => 1,
                    Answer::NotChecked(_) => 2,
                    Answer::By(_) => 3,
                };
                answers.iter().min_by_key(worst).cloned().unwrap_or(Answer::Missing)
            }
            Requirement::Any(parts) => {
                let mut answers = parts.iter().map(|part| self.by_tables(part));
                let best = |a: Answer, b: Answer| match (&a, &b) {
                    (Answer::By(_), _) => a,
                    (_, Answer::By(_)) => b,
                    (Answer::NotChecked(_), _) => a,
                    _ => b,
                };
                answers.next().map_or(Answer::Missing, |first| answers.fold(first, best))
            }
            Requirement::Conditional(first) => match self.by_tables(first) {
                by @ Answer::By(_) => by,
                _ => Answer::NotChecked("it holds under a condition".to_owned()),
            },
        }
    }

    fn by_name(&self, name: &str, bound: Option<&Bound>) -> Answer {
        let plain = name.strip_suffix("(x86-64)").unwrap_or(name);
        let project = dists::project(plain);
        // What the stack itself provides comes before what a package's name says.
        let own = project.as_ref().and_then(|project| self.entries.get(&format!("python3dist({project})")));
        let found = own
            .or_else(|| self.entries.get(plain))
            .or_else(|| self.entries.get(self.dists.package(project.as_ref()?)?));
        if let Some(Entry { package, version }) = found {
            // A package's epoch is rpm's own: the distribution in it has none.
            let bare = version.split_once(':').map_or(version.as_str(), |(_, bare)| bare);
            let version = if project.is_some() { bare } else { version };
            return match bound {
                Some(bound) if !version.is_empty() && !bound.holds(version) => {
                    let older = bound.wants_newer(version);
                    Answer::OtherVersion { package: package.clone(), version: version.to_owned(), older }
                }
                _ => Answer::By(package.clone()),
            };
        }
        let reason = if name.contains('%') {
            "it has a macro that this machine does not know".to_owned()
        } else if name.starts_with('/') {
            "package tables have no files".to_owned()
        } else if plain.starts_with("lib") && plain.contains(".so") || plain.starts_with("ld-linux") {
            "package tables have no libraries".to_owned()
        } else if let Some((kind, _)) = plain.split_once('(').filter(|(kind, _)| !kind.ends_with("dist")) {
            format!("package tables do not list {kind}(...)")
        } else if !self.release_known {
            format!("the chroot `{}` names no package table", self.chroot)
        } else {
            return Answer::Missing;
        };
        Answer::NotChecked(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(rows: &[(&str, &str, &str)]) -> Packages {
        let mut packages = Packages::empty("c", true);
        for (name, version, package) in rows {
            let entry = Entry { package: (*package).into(), version: (*version).into() };
            packages.insert((*name).into(), entry);
        }
        packages
    }

    #[test]
    fn names_versions_and_rich_requirements_are_answered() {
        let packages = packages(&[
            ("cmake", "3.31.6", "cmake"),
            ("gcc", "15.2.1", "gcc"),
            ("pybind11", "", "pybind11"),
            ("zlib-devel", "1.3.1", "zlib-ng-compat-devel"),
        ]);
        let ask = |text: &str| packages.satisfy(text).unwrap();
        assert_eq!(ask("cmake >= 3.26"), Answer::By("cmake".into()));
        assert_eq!(ask("zlib-devel"), Answer::By("zlib-ng-compat-devel".into()));
        assert_eq!(ask("pybind11 >= 99"), Answer::By("pybind11".into()), "its version is not known");
        let other = |older| Answer::OtherVersion { package: "cmake".into(), version: "3.31.6".into(), older };
        assert_eq!(ask("cmake >= 4"), other(true));
        assert_eq!(ask("(cmake >= 3 with cmake < 3.2)"), other(false));
        assert_eq!(ask("(nothing or gcc(x86-64))"), Answer::By("gcc".into()));
        assert_eq!(ask("(cmake and nothing)"), Answer::Missing);
        assert_eq!(ask("nothing"), Answer::Missing);
        for unknown in [
            "/usr/bin/git",
            "pkgconfig(zlib)",
            "rubygem(x)",
            "(nothing if gcc)",
            "a b",
            "libc.so.6()(64bit)",
            "%{x}",
        ] {
            assert!(matches!(ask(unknown), Answer::NotChecked(_)), "{unknown}");
        }
    }

    #[test]
    fn python_projects_are_found_by_their_packages() {
        let mut packages = packages(&[
            ("python3-typing-extensions", "4.15", "python3-typing-extensions"),
            ("python3-setuptools_scm", "8.3", "python3-setuptools_scm"),
            ("python3-zmq", "26", "python3-zmq"),
            ("python3-torch", "2.8.0", "python3-torch"),
        ]);
        packages.add("python3dist(torch)", "python3-torch-rocm", "2.11.0");
        let ask = |text: &str| packages.satisfy(text).unwrap();
        assert_eq!(
            ask("python3dist(typing-extensions) >= 4"),
            Answer::By("python3-typing-extensions".into())
        );
        assert_eq!(ask("python3.14dist(setuptools-scm)"), Answer::By("python3-setuptools_scm".into()));
        assert_eq!(ask("python3dist(pyzmq)"), Answer::By("python3-zmq".into()));
        assert_eq!(
            ask("python3dist(torch) = 2.11"),
            Answer::OtherVersion {
                package: "python3-torch-rocm".into(),
                version: "2.11.0".into(),
                older: false
            }
        );
        assert_eq!(ask("python3dist(torch) >= 2.10"), Answer::By("python3-torch-rocm".into()));
        assert_eq!(ask("python3dist(xgrammar)"), Answer::Missing);
        assert_eq!(
            ask("python3dist(setuptools_scm)"),
            Answer::Missing,
            "rpm knows the normalised name alone"
        );
    }

    #[test]
    fn without_a_table_nothing_is_called_missing() {
        let packages = Packages { release_known: false, ..packages(&[]) };
        let answer = packages.satisfy("gcc").unwrap();
        assert_eq!(answer, Answer::NotChecked("the chroot `c` names no package table".into()));
    }
}
