//! Looks up what a chroot offers to packages: packages, libraries, files, Python. It does not check
//! whether a set of packages is complete.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::build::system;
use crate::error::Error;
use crate::inspect::System;
use crate::packages::{Packages, PackagesError, RequirementAnswer};
use crate::workspace::Workspace;

/// Whether a requirement is met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The requirement is met.
    Met,
    /// The requirement is not met, for this reason.
    Unmet(String),
    /// The requirement could not be checked, for this reason.
    Unchecked(String),
}

impl Verdict {
    /// Returns the worse of two verdicts.
    pub(super) fn and(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Unmet(_), _) | (_, Self::Met) => self,
            (_, Self::Unmet(_)) | (Self::Met, _) => other,
            _ => self,
        }
    }

    /// Returns the better of two verdicts.
    pub(super) fn or(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Met, _) | (_, Self::Unmet(_)) => self,
            (_, Self::Met) | (Self::Unmet(_), _) => other,
            _ => self,
        }
    }
}

/// The tables of `files.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFiles {
    files: BTreeMap<String, String>,
    provides: BTreeMap<String, String>,
}

fn known() -> &'static KnownFiles {
    static KNOWN: LazyLock<KnownFiles> = LazyLock::new(|| {
        // The table is part of the program, and a test parses it.
        toml::from_str(include_str!("files.toml")).expect("the built-in table of files is valid")
    });
    &KNOWN
}

/// A chroot from the perspective of packages to install.
pub struct Target {
    pub(super) chroot: String,
    host: bool,
    /// The Python version, such as `3.14`; empty if not specified.
    python: String,
    pub(super) packages: Packages,
    system: System,
}

impl Target {
    /// Returns the chroot of a workspace with the packages of its release and ROCm provider.
    pub fn of(workspace: &Workspace) -> Result<Self, Error> {
        Ok(Self {
            chroot: workspace.chroot.name.clone(),
            host: workspace.chroot.is_host(),
            python: workspace.chroot.python.clone(),
            packages: Packages::of(workspace, false)?,
            system: system(workspace)?,
        })
    }

    /// Returns all libraries as pairs of SONAME and package.
    pub fn libraries(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.system.libraries.iter().chain(&self.system.rocm);
        all.map(|(soname, package)| (soname.as_str(), package.as_str()))
    }

    /// Returns the paths and additional names that packages of every release provide, with the
    /// package.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = known().files.iter().chain(&known().provides);
        all.map(|(path, package)| (path.as_str(), package.as_str()))
    }

    /// Checks a requirement without parentheses: `text` is the whole requirement, `name` excludes
    /// the version.
    pub(super) fn judge(&self, name: &str, text: &str) -> Result<Verdict, PackagesError> {
        if let Some(library) = Library::parse(name) {
            return Ok(self.library(&library));
        }
        if name.starts_with('/') {
            return Ok(self.path(name));
        }
        if known().provides.contains_key(name) {
            return Ok(Verdict::Met);
        }
        if name == "python(abi)" && !self.python.is_empty() {
            return Ok(match text == format!("python(abi) = {}", self.python) {
                true => Verdict::Met,
                false => Verdict::Unmet(format!("{} has Python {}", self.chroot, self.python)),
            });
        }
        Ok(match self.packages.satisfy(text)? {
            RequirementAnswer::By(_) => Verdict::Met,
            RequirementAnswer::OtherVersion { package, version, .. } => {
                Verdict::Unmet(format!("{} has {package} {version}", self.chroot))
            }
            RequirementAnswer::Missing => Verdict::Unmet(self.nothing()),
            RequirementAnswer::NotChecked(reason) => Verdict::Unchecked(reason),
        })
    }

    fn library(&self, library: &Library<'_>) -> Verdict {
        if self.system.libraries.is_empty() {
            return Verdict::Unchecked("the chroot's libraries are unknown".to_owned());
        }
        let Some(package) = self.system.package_of_soname(library.soname) else {
            return Verdict::Unmet(self.nothing());
        };
        match self.system.newest(library.version) {
            Some((newest, false)) => {
                Verdict::Unmet(format!("{} has {package} with {newest} at most", self.chroot))
            }
            _ => Verdict::Met,
        }
    }

    fn path(&self, path: &str) -> Verdict {
        if known().files.contains_key(path) {
            return Verdict::Met;
        }
        match (self.host, Path::new(path).exists()) {
            (true, true) => Verdict::Met,
            (true, false) => {
                Verdict::Unchecked("the file does not exist on this machine".to_owned())
            }
            (false, _) => Verdict::Unchecked("package tables do not list files".to_owned()),
        }
    }

    fn nothing(&self) -> String {
        format!("no package of {}, its ROCm provider or the stack provides it", self.chroot)
    }
}

/// A library requirement of the form `SONAME(VERSION)(64bit)`; the version may be empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Library<'n> {
    pub(super) soname: &'n str,
    pub(super) version: &'n str,
}

impl<'n> Library<'n> {
    /// Parses the name of a requirement; `None` if it is not a library.
    pub(super) fn parse(name: &'n str) -> Option<Self> {
        let plain = name.strip_suffix("(64bit)").unwrap_or(name);
        let (soname, version) = match plain.split_once('(') {
            Some((soname, version)) => (soname, version.strip_suffix(')')?),
            None => (plain, ""),
        };
        let library = soname.contains(".so") && !soname.contains('/');
        library.then_some(Self { soname, version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_libraries_in_rpms_notation() {
        let parse = |name| Library::parse(name).map(|library| (library.soname, library.version));
        assert_eq!(parse("libc.so.6(GLIBC_2.14)(64bit)"), Some(("libc.so.6", "GLIBC_2.14")));
        assert_eq!(parse("libgomp.so.1.0.0()(64bit)"), Some(("libgomp.so.1.0.0", "")));
        assert_eq!(parse("libc.so.6"), Some(("libc.so.6", "")));
        for other in ["python3dist(x.so)", "rtld(GNU_HASH)", "/usr/lib64/libx.so.1", "bash"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn parses_the_table_of_files() {
        assert_eq!(known().files["/bin/sh"], "bash");
        assert!(known().files.keys().all(|path| path.starts_with('/')));
    }

    #[test]
    fn combines_verdicts() {
        let (met, unmet) = (Verdict::Met, Verdict::Unmet("u".into()));
        let unchecked = Verdict::Unchecked("c".into());
        for (one, other, and, or) in [
            (&met, &unmet, &unmet, &met),
            (&met, &unchecked, &unchecked, &met),
            (&unmet, &unchecked, &unmet, &unchecked),
        ] {
            for (a, b) in [(one, other), (other, one)] {
                assert_eq!(
                    (a.clone().and(b.clone()), a.clone().or(b.clone())),
                    (and.clone(), or.clone())
                );
            }
        }
    }
}
