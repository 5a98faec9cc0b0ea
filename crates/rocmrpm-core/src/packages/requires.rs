//! Reads the actual requirements of a release's Python packages that differ from the METADATA of
//! the same version: `mock-configs/packages/<table>.requires.toml`. It does not apply them.

use std::collections::BTreeMap;
use std::path::Path;

use pep440_rs::VersionSpecifiers;
use pep508_rs::VersionOrUrl;

use super::PackagesError;
use crate::error::Problem;
use crate::wheel;
use crate::workspace::document::{At, File, Table};

/// The differing requirements of a distribution, by dependency; `None` if the package drops the
/// requirement.
pub(crate) type Differing = BTreeMap<String, Option<VersionSpecifiers>>;

/// A package whose spec changes the requirements of its distribution.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    /// The normalized name of the distribution, and its location in the file.
    pub name: At<String>,
    /// The package version that the entry applies to.
    pub version: String,
    /// The changed requirements.
    pub requires: Differing,
}

/// The changed packages of a table, and the file that lists them.
#[derive(Debug)]
pub(crate) struct ChangedPackages {
    file: File,
    /// The changed packages.
    pub packages: Vec<Changed>,
}

impl ChangedPackages {
    /// Reads the file for a table; `None` if there is no such file.
    pub(crate) fn read(path: &Path, shown: &str) -> Result<Option<Self>, PackagesError> {
        let file = match File::read(path, shown) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(PackagesError::Table { table: shown.to_owned(), source }),
        };
        let mut problems = Vec::new();
        let packages = file.parse(&mut problems, |root| root.tables("package", Changed::read));
        let packages: Vec<Changed> = packages.into_iter().flatten().collect();
        for (at, Changed { name, .. }) in packages.iter().enumerate() {
            if packages[..at].iter().any(|earlier| earlier.name.value == name.value) {
                let message = format!("`{}` is listed twice", name.value);
                problems.push(file.problem(name.span.clone(), message, "keep one of the two"));
            }
        }
        match problems.is_empty() {
            true => Ok(Some(Self { file, packages })),
            false => Err(PackagesError::Requires(problems)),
        }
    }

    /// Returns the problem for an entry whose version is not in the release.
    pub(crate) fn outdated(&self, changed: &Changed, has: &str) -> Problem {
        let At { value, span } = &changed.name;
        let message =
            format!("`{value}` {} is not the version of the package table", changed.version);
        let help =
            format!("check what the release's spec of {value} {has} changes, then set `version`");
        let problem = self.file.problem(span.clone(), message, format!("the table has {has}"));
        Problem { help: Some(help), ..problem }
    }
}

impl Changed {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let name = table.required_string("name", "the normalized name of a distribution");
        let version = table.required_string("version", "the package's version as Python writes it");
        let source =
            table.required_string("source", "the spec file, and the lines that make the change");
        let mut requires = Differing::new();
        for at in table.strings("requires") {
            match wheel::requirement(&at.value) {
                Ok(parsed) if parsed.marker.is_true() => {
                    let specifiers = match parsed.version_or_url {
                        Some(VersionOrUrl::VersionSpecifier(specifiers)) => specifiers,
                        _ => VersionSpecifiers::empty(),
                    };
                    requires.insert(parsed.name.to_string(), Some(specifiers));
                }
                Ok(_) => table.problem(
                    at.span,
                    "a package requirement cannot have a marker",
                    "remove it",
                    None,
                ),
                Err(reason) => table.problem(at.span, "this is not a requirement", reason, None),
            }
        }
        for at in table.strings("dropped") {
            requires.insert(wheel::normalized(&at.value).unwrap_or(at.value), None);
        }
        source?;
        Some(Self { name: name?, version: version?.value, requires })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<ChangedPackages>, PackagesError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.requires.toml");
        fs_err::write(&path, text).unwrap();
        ChangedPackages::read(&path, "t.requires.toml")
    }

    fn problems(text: &str) -> Vec<String> {
        match read(text) {
            Err(PackagesError::Requires(problems)) => {
                problems.into_iter().map(|p| p.message).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_dropped_and_relaxed_requirements() {
        let read = read(
            "[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = \"a.spec:7\"\n\
             requires = [\"B_c[x]>=2\", \"d\"]\ndropped = [\"E.f\"]\n",
        );
        let packages = read.unwrap().unwrap().packages;
        let of = |(name, s): (&String, &Option<VersionSpecifiers>)| {
            (name.clone(), s.as_ref().map(ToString::to_string))
        };
        let requires: Vec<_> = packages[0].requires.iter().map(of).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            requires,
            [("b-c".into(), some(">=2")), ("d".into(), some("")), ("e-f".into(), None)]
        );
        assert!(super::ChangedPackages::read(Path::new("/nonexistent"), "n").unwrap().is_none());
    }

    #[test]
    fn reports_every_mistake_with_its_place() {
        let entry = "[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"a.spec:1\"\n";
        assert_eq!(problems(&entry.repeat(2)), ["`a` is listed twice"]);
        assert_eq!(
            problems("[[package]]\nname = \"a\"\nversion = \"1\"\n"),
            ["`source` is missing in `[package]`"]
        );
        assert_eq!(
            problems(&format!("{entry}requires = [\"b>\"]\n")),
            ["this is not a requirement"]
        );
        let marked = format!("{entry}requires = [\"b; os_name == 'nt'\"]\n");
        assert_eq!(problems(&marked), ["a package requirement cannot have a marker"]);
        assert_eq!(problems(&format!("{entry}require = []\n")).len(), 1);
        assert_eq!(problems("[[package"), ["this is not valid TOML"]);
    }
}
