//! Determines whether a chroot has a package that satisfies a requirement. It uses the packages of
//! the release and the ROCm provider, from tables or repositories, and those of the stack. It does
//! not know where requirements come from.

mod dists;
mod error;
mod live;
mod requirement;
mod requires;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

pub use dists::normalized_with_extra;
pub use error::PackagesError;
pub(crate) use live::{Provided, dist_provides, repositories_text};
pub use requirement::split;
pub(crate) use requirement::{Bound, Requirement};
pub(crate) use requires::ChangedPackages;

use crate::workspace::document::At;
use crate::workspace::{Chroot, Workspace};
use dists::Dists;
use live::Repositories;
use table::{ProvidingPackage, Table};

/// The folder of the package tables in a workspace.
const TABLES_DIR: &str = "mock-configs/packages";

/// Why a requirement with an unexpanded macro is not checked.
const UNDEFINED_MACRO: &str = "it contains a macro that is undefined on this machine";

/// The answer for one requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementAnswer {
    /// This package satisfies the requirement.
    By(String),
    /// The package exists, but in another version.
    OtherVersion {
        /// The package name.
        package: String,
        /// The available version.
        version: String,
        /// Whether the version is too old; `false` if it differs in another way.
        older: bool,
    },
    /// No known package satisfies the requirement.
    Missing,
    /// The requirement could not be checked, for this reason.
    NotChecked(String),
}

/// The packages of a chroot.
pub struct Packages {
    chroot: String,
    /// The Python version, such as `3.14`; empty if unknown.
    python: String,
    tables: Vec<Table>,
    /// Names provided by the stack, each with its package and version. They take precedence over
    /// tables.
    own: BTreeMap<String, (String, String)>,
    dists: Dists,
    /// Whether the release's packages are known.
    release_known: bool,
    live: Option<Repositories>,
}

impl Packages {
    /// Returns the packages of a workspace's chroot and its provider: from their tables or, if
    /// `live` is set, their repositories.
    pub fn of(workspace: &Workspace, live: bool) -> Result<Self, PackagesError> {
        let (chroot, provider) = (&workspace.chroot, &workspace.provider);
        let mut packages = Self::empty(&chroot.name, !chroot.packages.is_empty());
        packages.python.clone_from(&chroot.python);
        if live {
            packages.live = Some(Repositories::of(chroot)?);
            return Ok(packages);
        }
        packages.read_tables(&workspace.root, chroot.packages.iter().chain(&provider.packages))?;
        Ok(packages)
    }

    /// Returns the packages of a chroot's release from the tables in a workspace folder.
    pub fn of_chroot(root: &Path, chroot: &Chroot) -> Result<Self, PackagesError> {
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
            self.add_table(Table::read(&root.join(&shown), &shown)?);
        }
        Ok(())
    }

    /// Returns the packages of a workspace's release from its tables. Fails if there are none or if
    /// they are for another Python version.
    pub(crate) fn of_release(workspace: &Workspace) -> Result<Self, PackagesError> {
        let (chroot, python) = (&workspace.chroot.name, &workspace.chroot.python);
        let packages = Self::of(workspace, false)?;
        if !packages.release_known {
            return Err(PackagesError::NoTable { chroot: chroot.clone() });
        }
        let has = packages.of_name("python3").next().map_or("", |entry| entry.version);
        if has.is_empty() || has == python || has.starts_with(&format!("{python}.")) {
            return Ok(packages);
        }
        Err(PackagesError::OtherPython {
            chroot: chroot.clone(),
            has: has.to_owned(),
            python: python.clone(),
        })
    }

    /// Returns the packages of a workspace's release whose requirements differ from their METADATA.
    pub(crate) fn changed(workspace: &Workspace) -> Result<Vec<ChangedPackages>, PackagesError> {
        let of_table = |at: &At<String>| {
            let shown = format!("{TABLES_DIR}/{}.requires.toml", at.value);
            ChangedPackages::read(&workspace.root.join(&shown), &shown).transpose()
        };
        workspace.chroot.packages.iter().filter_map(of_table).collect()
    }

    /// Returns an empty set of packages; `release_known` determines whether packages that are not
    /// added count as missing.
    pub fn empty(chroot: &str, release_known: bool) -> Self {
        Self {
            chroot: chroot.to_owned(),
            python: String::new(),
            tables: Vec::new(),
            own: BTreeMap::new(),
            dists: Dists::default(),
            release_known,
            live: None,
        }
    }

    /// Adds a package of the stack, or a name that it provides.
    pub fn add(&mut self, name: &str, package: &str, version: &str) {
        self.dists.add(name);
        self.own.insert(name.to_owned(), (package.to_owned(), version.to_owned()));
    }

    fn add_table(&mut self, table: Table) {
        table.names(dists::PREFIX).for_each(|name| self.dists.add(name));
        self.tables.push(table);
    }

    /// Returns the Python projects in the tables: normalized name, package, and version, which is
    /// empty if unknown.
    pub fn python_projects(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.dists.all().filter_map(|(project, package)| {
            let ProvidingPackage { package: of, version } = self.of_name(package).next()?;
            // A package can provide another package's name without the metadata for python3dist():
            // python3-z3 does so for z3-solver.
            let same = normalized_with_extra(of) == normalized_with_extra(package);
            Some((project, of, if same { version } else { "" }))
        })
    }

    /// Returns the packages that provide a name; the package of that name comes first.
    fn of_name(&self, name: &str) -> impl Iterator<Item = ProvidingPackage<'_>> {
        let own =
            self.own.get(name).map(|(package, version)| ProvidingPackage { package, version });
        let tables = if own.is_none() { self.tables.as_slice() } else { &[] };
        own.into_iter().chain(tables.iter().flat_map(move |table| table.of_name(name)))
    }

    /// Returns whether a package satisfies a requirement.
    pub fn satisfy(&self, text: &str) -> Result<RequirementAnswer, PackagesError> {
        if text.contains("%{") {
            return Ok(RequirementAnswer::NotChecked(UNDEFINED_MACRO.to_owned()));
        }
        let Some(requirement) = Requirement::parse(text) else {
            return Ok(RequirementAnswer::NotChecked(
                "it is not a valid rpm requirement".to_owned(),
            ));
        };
        let known = self.by_tables(&requirement);
        match &self.live {
            Some(live) if !matches!(known, RequirementAnswer::By(_)) => Ok(live
                .provider(text.trim())?
                .map_or(RequirementAnswer::Missing, RequirementAnswer::By)),
            _ => Ok(known),
        }
    }

    fn by_tables(&self, requirement: &Requirement) -> RequirementAnswer {
        match requirement {
            Requirement::Name { name, bound } => self.by_name(name, &Vec::from_iter(bound)),
            Requirement::All(parts) => {
                if let Some((name, bounds)) = Requirement::on_one_name(parts) {
                    return self.by_name(name, &bounds);
                }
                let answers: Vec<RequirementAnswer> =
                    parts.iter().map(|part| self.by_tables(part)).collect();
                let worst = |answer: &&RequirementAnswer| match answer {
                    RequirementAnswer::Missing => 0,
                    RequirementAnswer::OtherVersion { .. } => 1,
                    RequirementAnswer::NotChecked(_) => 2,
                    RequirementAnswer::By(_) => 3,
                };
                answers.iter().min_by_key(worst).cloned().unwrap_or(RequirementAnswer::Missing)
            }
            Requirement::Any(parts) => {
                let mut answers = parts.iter().map(|part| self.by_tables(part));
                let best = |a: RequirementAnswer, b: RequirementAnswer| match (&a, &b) {
                    (RequirementAnswer::By(_), _) => a,
                    (_, RequirementAnswer::By(_)) => b,
                    (RequirementAnswer::NotChecked(_), _) => a,
                    _ => b,
                };
                answers.next().map_or(RequirementAnswer::Missing, |first| answers.fold(first, best))
            }
            Requirement::Conditional(first) => match self.by_tables(first) {
                by @ RequirementAnswer::By(_) => by,
                _ => RequirementAnswer::NotChecked("it is conditional".to_owned()),
            },
        }
    }

    /// Finds a package that provides a name within all bounds.
    fn by_name(&self, name: &str, bounds: &[&Bound]) -> RequirementAnswer {
        let plain = name.strip_suffix("(x86-64)").unwrap_or(name);
        let project = dists::project(plain);
        // Provides of the stack take precedence over package names.
        let own = project.as_ref().map(|project| format!("python3dist({project})"));
        let dist = project.as_ref().and_then(|project| self.dists.package(project));
        let generated = dists::named(plain, &self.python);
        let names = [own.as_deref(), Some(plain), dist, generated.as_deref()];
        for name in names.into_iter().flatten() {
            let answers = self.of_name(name).map(|entry| answer(entry, bounds, project.is_some()));
            let satisfies = |answer: &RequirementAnswer| matches!(answer, RequirementAnswer::By(_));
            // Prefer an entry that satisfies the bounds, otherwise the first.
            let better = |a, b| if satisfies(&b) && !satisfies(&a) { b } else { a };
            let Some(answer) = answers.reduce(better) else { continue };
            if let RequirementAnswer::OtherVersion { .. } = answer
                && let Some((kind, _)) = generated_kind(plain)
            {
                // A package that is not listed may provide the name in the wanted version.
                return RequirementAnswer::NotChecked(format!(
                    "package tables do not list {kind}(...)"
                ));
            }
            if matches!(answer, RequirementAnswer::OtherVersion { .. })
                && bounds.iter().any(|bound| !bound.has_number())
            {
                let reason = "its version is computed on the machine that builds".to_owned();
                return RequirementAnswer::NotChecked(reason);
            }
            return answer;
        }
        let reason = if name.contains('%') {
            UNDEFINED_MACRO.to_owned()
        } else if name.starts_with('/') {
            "package tables do not list files".to_owned()
        } else if plain.starts_with("lib") && plain.contains(".so") || plain.starts_with("ld-linux")
        {
            "package tables do not list libraries".to_owned()
        } else if let Some((kind, _)) = generated_kind(plain) {
            format!("package tables do not list {kind}(...)")
        } else if !self.release_known {
            format!("the chroot `{}` has no package table", self.chroot)
        } else {
            return RequirementAnswer::Missing;
        };
        RequirementAnswer::NotChecked(reason)
    }
}

/// Splits a name such as `pkgconfig(zlib)`, which rpm's generators provide. Names of Python
/// projects are known from the names of packages.
fn generated_kind(name: &str) -> Option<(&str, &str)> {
    name.split_once('(').filter(|(kind, _)| !kind.ends_with("dist"))
}

/// Checks an entry against all bounds. The package's epoch does not apply to the Python project in it.
fn answer(entry: ProvidingPackage<'_>, bounds: &[&Bound], of_project: bool) -> RequirementAnswer {
    let ProvidingPackage { package, version } = entry;
    let bare = version.split_once(':').map_or(version, |(_, bare)| bare);
    let version = if of_project { bare } else { version };
    // Versions in python3dist(...) have no trailing zeros.
    let compared = if of_project { bare.trim_end_matches(".0") } else { version };
    let mut failing = bounds.iter().filter(|bound| !bound.holds(compared)).peekable();
    if version.is_empty() || failing.peek().is_none() {
        return RequirementAnswer::By(package.to_owned());
    }
    let older = failing.all(|bound| bound.wants_newer(version));
    RequirementAnswer::OtherVersion {
        package: package.to_owned(),
        version: version.to_owned(),
        older,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(rows: &[(&str, &str, &str)]) -> Packages {
        let mut packages = Packages::empty("c", true);
        let row = |(name, version, package): &(&str, &str, &str)| {
            format!("{name}\t{version}\t{package}\n")
        };
        packages.add_table(Table::parse(rows.iter().map(row).collect()).unwrap());
        packages
    }

    #[test]
    fn answers_names_versions_and_rich_requirements() {
        let packages = packages(&[
            ("cmake", "3.31.6", "cmake"),
            ("gcc", "15.2.1", "gcc"),
            ("pybind11", "", "pybind11"),
            ("rubygem(y)", "4", "rubygem-y4"),
            ("zlib-devel", "1.3.1", "zlib-ng-compat-devel"),
        ]);
        let ask = |text: &str| packages.satisfy(text).unwrap();
        assert_eq!(ask("cmake >= 3.26"), RequirementAnswer::By("cmake".into()));
        assert_eq!(ask("zlib-devel"), RequirementAnswer::By("zlib-ng-compat-devel".into()));
        assert_eq!(
            ask("pybind11 >= 99"),
            RequirementAnswer::By("pybind11".into()),
            "its version is unknown"
        );
        let other = |older| RequirementAnswer::OtherVersion {
            package: "cmake".into(),
            version: "3.31.6".into(),
            older,
        };
        assert_eq!(ask("cmake >= 4"), other(true));
        assert_eq!(ask("(cmake >= 3 with cmake < 3.2)"), other(false));
        assert_eq!(ask("(cmake >= 4 with cmake < 5)"), other(true));
        assert_eq!(ask("(nothing or gcc(x86-64))"), RequirementAnswer::By("gcc".into()));
        assert_eq!(ask("(cmake and nothing)"), RequirementAnswer::Missing);
        assert_eq!(ask("nothing"), RequirementAnswer::Missing);
        for unknown in [
            "/usr/bin/git",
            "pkgconfig(zlib)",
            "rubygem(x)",
            "(nothing if gcc)",
            "a b",
            "libc.so.6()(64bit)",
            "%{x}",
            "gcc = %{x}",
            "gcc = bad",
            "rubygem(y) > 5",
        ] {
            assert!(matches!(ask(unknown), RequirementAnswer::NotChecked(_)), "{unknown}");
        }
    }

    #[test]
    fn range_needs_one_package_within_all_bounds() {
        let packages = packages(&[("x-devel", "1", "x-compat-devel"), ("x-devel", "4", "x-devel")]);
        let ask = |text: &str| packages.satisfy(text).unwrap();
        assert!(matches!(
            ask("(x-devel >= 2 with x-devel < 4)"),
            RequirementAnswer::OtherVersion { .. }
        ));
        assert_eq!(ask("(x-devel >= 2 with x-devel < 5)"), RequirementAnswer::By("x-devel".into()));
        assert_eq!(
            ask("(x-devel < 2 with x-devel)"),
            RequirementAnswer::By("x-compat-devel".into())
        );
    }

    #[test]
    fn finds_python_projects_by_their_packages() {
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
            RequirementAnswer::By("python3-typing-extensions".into())
        );
        assert_eq!(
            ask("python3.14dist(setuptools-scm)"),
            RequirementAnswer::By("python3-setuptools_scm".into())
        );
        assert_eq!(ask("python3dist(pyzmq)"), RequirementAnswer::By("python3-zmq".into()));
        assert_eq!(
            ask("python3dist(torch) = 2.10"),
            RequirementAnswer::OtherVersion {
                package: "python3-torch-rocm".into(),
                version: "2.11.0".into(),
                older: false
            }
        );
        assert_eq!(
            ask("python3dist(torch) >= 2.10"),
            RequirementAnswer::By("python3-torch-rocm".into())
        );
        assert_eq!(ask("python3dist(xgrammar)"), RequirementAnswer::Missing);
        assert_eq!(
            ask("python3dist(setuptools_scm)"),
            RequirementAnswer::Missing,
            "rpm only knows the normalized name"
        );
    }

    /// Returns the packages from this repository's table for a Fedora release.
    fn fedora(release: &str, python: &str) -> Packages {
        let mut packages = Packages { python: python.into(), ..Packages::empty("c", true) };
        let path =
            format!("{}/../../{TABLES_DIR}/fedora-{release}.tsv", env!("CARGO_MANIFEST_DIR"));
        packages.add_table(Table::read(Path::new(&path), &path).unwrap());
        packages
    }

    #[test]
    fn real_tables_list_provides_besides_package_names() {
        for (release, python) in [("43", "3.14"), ("44", "3.14"), ("45", "3.15")] {
            let packages = fedora(release, python);
            let altname = format!("python{python}-devel");
            for (name, package) in [
                ("rocprim-static", "rocprim-devel"),
                ("redis-devel", "valkey-compat-redis-devel"),
                ("langpacks-en", "langpacks-en"),
                (
                    "protobuf-devel < 4",
                    if release == "45" { "protobuf3-devel" } else { "protobuf-devel" },
                ),
                ("python-devel", "python3-devel"),
                (altname.as_str(), "python3-devel"),
                ("python3dist(numpy) >= 2", "python3-numpy"),
                ("gcc-c++(x86-64)", "gcc-c++"),
                // Declared by macros, or with a version that bash computes.
                ("google-noto-sans-fonts", "google-noto-sans-fonts"),
                ("python3-setuptools_scm+toml", "python3-setuptools_scm+toml"),
                ("xnnpack-devel = 0.0^git20240814.312eb7e", "xnnpack-devel"),
            ] {
                let answer = packages.satisfy(name).unwrap();
                let by = matches!(&answer, RequirementAnswer::By(by) if by == package);
                assert!(by, "fedora-{release}: {name}: {answer:?}");
            }
            let old = packages.satisfy("rocprim-static < 6").unwrap();
            assert!(
                matches!(old, RequirementAnswer::OtherVersion { .. }),
                "its version is known: {old:?}"
            );
            assert_eq!(
                packages.satisfy("python-no-such-module").unwrap(),
                RequirementAnswer::Missing
            );
        }
    }

    #[test]
    fn project_version_is_unknown_if_another_package_provides_it() {
        let packages = packages(&[
            ("python3-PyYAML", "6.0.3", "python3-pyyaml"),
            ("python3-z3-solver", "4.15.4", "python3-z3"),
            ("fastapi-cli", "0.0.20", "fastapi-cli"),
            ("python3-fastapi-cli", "0.0.20", "fastapi-cli"),
        ]);
        let projects: Vec<_> = packages.python_projects().collect();
        let of =
            |name: &str| projects.iter().find(|(project, ..)| *project == name).map(|(_, _, v)| *v);
        assert_eq!(
            [of("pyyaml"), of("z3-solver"), of("fastapi-cli")],
            [Some("6.0.3"), Some(""), Some("0.0.20")]
        );
    }

    #[test]
    fn reports_nothing_as_missing_without_a_table() {
        let packages = Packages { release_known: false, ..packages(&[]) };
        let answer = packages.satisfy("gcc").unwrap();
        assert_eq!(
            answer,
            RequirementAnswer::NotChecked("the chroot `c` has no package table".into())
        );
    }
}
