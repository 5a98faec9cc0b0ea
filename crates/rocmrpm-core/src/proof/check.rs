//! Checks the requirements of packages against their own provides, then against the chroot. It does
//! not read RPMs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use super::target::{Library, Target, Verdict};
use crate::packages::{Bound, PackagesError, Requirement};
use crate::rpms::{PackagedFile, Relation, Relations};

/// An unmet requirement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unmet {
    /// The package that has the requirement.
    pub package: String,
    /// The requirement, in rpm's notation.
    pub requirement: String,
    /// The files in which rpm found the requirement; empty if the spec declares it.
    pub files: Vec<String>,
    /// The reason why it is unmet.
    pub why: String,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requires {}", self.package, self.requirement)?;
        if let Some((first, others)) = self.files.split_first() {
            let more = if others.is_empty() {
                String::new()
            } else {
                format!(" and {} more", others.len())
            };
            write!(f, ", found in {first}{more}")?;
        }
        write!(f, ": {}", self.why)
    }
}

/// Files with different content in two packages, so that rpm cannot install both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The packages, sorted.
    pub packages: [String; 2],
    /// The absolute paths, sorted.
    pub files: Vec<String>,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = &self.packages;
        write!(f, "{one} and {other} both have {}", self.files.first().map_or("", String::as_str))?;
        match self.files.len() {
            0 | 1 => Ok(()),
            n => write!(f, " and {} more", n - 1),
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of distinct requirements.
    pub requirements: usize,
    /// Unmet requirements, sorted.
    pub unmet: Vec<Unmet>,
    /// File conflicts between packages, sorted.
    pub conflicts: Vec<Conflict>,
    /// Requirements that could not be checked, by reason.
    pub unchecked: BTreeMap<String, BTreeSet<String>>,
}

/// Checks the requirements of the packages in `of`, and file conflicts with other packages. The
/// provides of `all` satisfy requirements.
pub fn check<'p>(
    of: impl IntoIterator<Item = &'p Relations> + Clone,
    all: &[&Relations],
    target: &Target,
) -> Result<Findings, PackagesError> {
    let set = Set::of(all, target);
    let mut findings = Findings::default();
    let mut asked: HashMap<String, Verdict> = HashMap::new();
    for package in of.clone() {
        for required in &package.requires {
            let text = required.relation.to_string();
            let verdict = match asked.get(&text) {
                Some(verdict) => verdict.clone(),
                None => asked.entry(text.clone()).or_insert(set.judge(&text)?).clone(),
            };
            match verdict {
                Verdict::Met => {}
                Verdict::Unmet(why) => findings.unmet.push(Unmet {
                    package: package.package.clone(),
                    requirement: text,
                    files: required.files.clone(),
                    why,
                }),
                Verdict::Unchecked(reason) => {
                    findings.unchecked.entry(reason).or_default().insert(text);
                }
            }
        }
    }
    findings.requirements = asked.len();
    findings.conflicts = conflicts(of, all);
    findings.unmet.sort();
    findings.unmet.dedup();
    without_versions(&mut findings.unmet);
    Ok(findings)
}

/// Returns the files in packages of `of` that another package in `all` contains with different
/// content.
fn conflicts<'p>(of: impl IntoIterator<Item = &'p Relations>, all: &[&Relations]) -> Vec<Conflict> {
    let mut owners: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    for package in all {
        for PackagedFile { path, content } in &package.files {
            if let Some(content) = content {
                owners.entry(path).or_default().push((&package.package, content));
            }
        }
    }
    let mut found: BTreeMap<[String; 2], BTreeSet<String>> = BTreeMap::new();
    for package in of {
        for PackagedFile { path, content } in &package.files {
            let Some(content) = content else { continue };
            for (other, others) in owners.get(path.as_str()).into_iter().flatten() {
                if *other != package.package && others != content {
                    let mut packages = [package.package.clone(), (*other).to_owned()];
                    packages.sort();
                    found.entry(packages).or_default().insert(path.clone());
                }
            }
        }
    }
    found
        .into_iter()
        .map(|(packages, files)| Conflict { packages, files: files.into_iter().collect() })
        .collect()
}

/// Removes symbol versions of libraries that are missing entirely.
fn without_versions(unmet: &mut Vec<Unmet>) {
    let missing = |unmet: &Unmet| match Library::parse(&unmet.requirement)?.version {
        "" => Some((unmet.package.clone(), unmet.requirement.clone())),
        _ => None,
    };
    let missing: BTreeSet<(String, String)> = unmet.iter().filter_map(missing).collect();
    unmet.retain(|unmet| match Library::parse(&unmet.requirement) {
        Some(Library { version, .. }) if !version.is_empty() => {
            let library = unmet.requirement.replacen(&format!("({version})"), "()", 1);
            !missing.contains(&(unmet.package.clone(), library))
        }
        _ => true,
    });
}

/// Packages to install together, and the target chroot.
struct Set<'a> {
    /// By name: the index of a package, and what it provides.
    provides: HashMap<&'a str, Vec<(usize, &'a Relation)>>,
    files: HashSet<&'a str>,
    packages: &'a [&'a Relations],
    target: &'a Target,
}

impl<'a> Set<'a> {
    fn of(packages: &'a [&'a Relations], target: &'a Target) -> Self {
        let mut provides: HashMap<&str, Vec<(usize, &Relation)>> = HashMap::new();
        for (index, package) in packages.iter().enumerate() {
            for relation in &package.provides {
                provides.entry(&relation.name).or_default().push((index, relation));
            }
        }
        let files = packages
            .iter()
            .flat_map(|package| &package.files)
            .map(|file| file.path.as_str())
            .collect();
        Self { provides, files, packages, target }
    }

    fn judge(&self, text: &str) -> Result<Verdict, PackagesError> {
        match Requirement::parse(text) {
            Some(requirement) => self.rich(&requirement),
            None => Ok(Verdict::Unchecked("it is not in rpm's notation".to_owned())),
        }
    }

    fn rich(&self, requirement: &Requirement) -> Result<Verdict, PackagesError> {
        match requirement {
            Requirement::Name { name, bound } => {
                self.plain(name, &Vec::from_iter(bound), requirement)
            }
            Requirement::All(parts) => {
                if let Some((name, bounds)) = Requirement::on_one_name(parts) {
                    return self.plain(name, &bounds, requirement);
                }
                let mut all = Verdict::Met;
                for part in parts {
                    all = all.and(self.rich(part)?);
                }
                Ok(all)
            }
            Requirement::Any(parts) => {
                let mut any: Option<Verdict> = None;
                for part in parts {
                    let verdict = self.rich(part)?;
                    any = Some(any.map_or(verdict.clone(), |any| any.or(verdict)));
                }
                Ok(any.unwrap_or(Verdict::Met))
            }
            Requirement::Conditional(first) => Ok(match self.rich(first)? {
                Verdict::Met => Verdict::Met,
                _ => Verdict::Unchecked("it depends on a condition".to_owned()),
            }),
        }
    }

    /// Checks a requirement on one name.
    fn plain(
        &self,
        name: &str,
        bounds: &[&Bound],
        requirement: &Requirement,
    ) -> Result<Verdict, PackagesError> {
        if self.provided(name, bounds) || self.files.contains(name) {
            return Ok(Verdict::Met);
        }
        self.of_target(name, requirement)
    }

    /// Returns whether a single package of the set provides a name within all bounds.
    fn provided(&self, name: &str, bounds: &[&Bound]) -> bool {
        let provided = self.provides.get(name).map_or(&[][..], Vec::as_slice);
        // rpm's rpmdsCompare: a missing version on either side always matches.
        let holds = |relation: &Relation, bound: &Bound| {
            relation.version.as_ref().is_none_or(|(_, version)| bound.holds(version))
        };
        provided.iter().any(|(package, _)| {
            let own = provided.iter().filter(|(other, _)| other == package).map(|(_, own)| own);
            bounds.iter().all(|bound| own.clone().any(|own| holds(own, bound)))
        })
    }

    fn of_target(&self, name: &str, requirement: &Requirement) -> Result<Verdict, PackagesError> {
        let verdict = self.target.judge(name, &requirement.to_string())?;
        Ok(match verdict {
            Verdict::Unmet(why) => Verdict::Unmet(self.reason(name, why)),
            other => other,
        })
    }

    /// Returns the reason why a name is missing, including packages that nearly match.
    fn reason(&self, name: &str, otherwise: String) -> String {
        if let Some((index, provided)) = self.provides.get(name).and_then(|all| all.first()) {
            return format!("{} provides {provided}", self.packages[*index].package);
        }
        let Some(Library { soname, .. }) = Library::parse(name) else { return otherwise };
        let file = |package: &Relations| {
            let is_it = |file: &&PackagedFile| file.path.rsplit('/').next() == Some(soname);
            package
                .files
                .iter()
                .find(is_it)
                .map(|file| (package.package.clone(), file.path.clone()))
        };
        match self.packages.iter().find_map(|package| file(package)) {
            Some((package, path)) => format!("{package} has {path}, but does not provide it"),
            None => otherwise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpms::Required;
    use crate::workspace::{Selection, Workspace};

    /// Returns the chroot of a workspace with its own package table.
    fn target(dir: &std::path::Path) -> Target {
        for (path, text) in [
            (
                "rocmrpm.toml",
                "[stack]\nname = \"s\"\ngpu-targets = [\"gfx1151\"]\ndefault-chroot = \"c\"\n\
                 default-pins = \"p\"\n",
            ),
            (
                "mock-configs/c.toml",
                "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
                 rocm-provider = \"r\"\nbase-config = \"c.cfg\"\npackages = [\"t\"]\n\
                 [symbol-versions]\nGLIBC = \"2.42\"\n",
            ),
            ("mock-configs/rocm/r.toml", "prefix = \"/usr\"\nversion = \"7.1\"\n"),
            ("mock-configs/packages/t.tsv", "python3-num\t2.0\npython3-two\t2.0\n"),
            ("pins/p.toml", ""),
            ("specs-templates/README", ""),
        ] {
            let path = dir.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        Target::of(&Workspace::load(dir, &Selection::default()).unwrap()).unwrap()
    }

    fn relation(text: &str) -> Relation {
        match text.split_once(" = ") {
            Some((name, version)) => {
                Relation { name: name.into(), version: Some(("=", version.into())) }
            }
            None => Relation { name: text.into(), version: None },
        }
    }

    fn package(name: &str, requires: &[&str], provides: &[&str], files: &[&str]) -> Relations {
        let required =
            |text: &&str| Required { relation: relation(text), files: vec!["/f".into()] };
        Relations {
            package: name.into(),
            provides: provides.iter().map(|text| relation(text)).collect(),
            requires: requires.iter().map(required).collect(),
            files: files.iter().map(|path| file(path, path)).collect(),
        }
    }

    fn file(path: &str, content: &str) -> PackagedFile {
        let content = (!content.is_empty()).then(|| content.to_owned());
        PackagedFile { path: path.to_owned(), content }
    }

    #[test]
    fn reports_conflicts_only_for_different_files() {
        let of = |name: &str, files: &[(&str, &str)]| Relations {
            files: files.iter().map(|(path, content)| file(path, content)).collect(),
            ..package(name, &[], &[], &[])
        };
        let packages = [
            of(
                "b",
                &[
                    ("/usr/bin", ""),
                    ("/usr/bin/x", "b"),
                    ("/usr/bin/y", "b"),
                    ("/usr/share/same", "1"),
                ],
            ),
            of(
                "a",
                &[
                    ("/usr/bin", ""),
                    ("/usr/bin/x", "a"),
                    ("/usr/bin/y", "a"),
                    ("/usr/share/same", "1"),
                ],
            ),
            of("c", &[("/usr/bin", ""), ("/usr/bin/z", "c")]),
        ];
        let all: Vec<&Relations> = packages.iter().collect();
        let found = |of: &[Relations]| {
            conflicts(of, &all).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(&packages), ["a and b both have /usr/bin/x and 1 more"]);
        assert_eq!(found(&packages[1..2]), ["a and b both have /usr/bin/x and 1 more"]);
        assert_eq!(found(&packages[2..]), [""; 0]);
    }

    fn unmet(packages: &[Relations]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let target = target(dir.path());
        let all: Vec<&Relations> = packages.iter().collect();
        let findings = check(packages, &all, &target).unwrap();
        assert_eq!(findings.unchecked, BTreeMap::new());
        findings.unmet.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn satisfies_requirements_from_packages_and_the_chroot() {
        let met = [
            "libown.so.1()(64bit)",
            "libc.so.6(GLIBC_2.42)(64bit)",
            "libgomp.so.1(GOMP_4.0)(64bit)",
            "rtld(GNU_HASH)",
            "/usr/bin/python3",
            "/opt/own",
            "python(abi) = 3.14",
            "python3dist(num) = 2",
            "(python3dist(own) >= 1 with python3dist(own) < 2~~)",
            "(python3dist(nothing) or python3dist(num))",
        ];
        let own =
            package("own", &[], &["libown.so.1()(64bit)", "python3dist(own) = 1.5"], &["/opt/own"]);
        assert_eq!(unmet(&[package("a", &met, &[], &[]), own]), [""; 0]);
    }

    #[test]
    fn reports_unmet_requirements_with_file_and_reason() {
        let none = "no package of c, its ROCm provider or the stack provides it";
        let one = |requirement: &str| {
            let near = package(
                "near",
                &[],
                &["python3dist(two) = 1.5", "python3dist(near) = 1.5"],
                &["/usr/lib64/near/libnear.so"],
            );
            unmet(&[package("a", &[requirement], &[], &[]), near]).join("|")
        };
        let expected =
            |requirement: &str, why: &str| format!("a requires {requirement}, found in /f: {why}");
        for (requirement, why) in [
            ("libnothing.so.1()(64bit)", none),
            ("libgomp.so.1.0.0()(64bit)", none),
            ("libnear.so()(64bit)", "near has /usr/lib64/near/libnear.so, but does not provide it"),
            ("libc.so.6(GLIBC_2.43)(64bit)", "c has glibc with GLIBC_2.42 at most"),
            ("python(abi) = 3.13", "c has Python 3.14"),
            ("python3dist(num) = 3", "c has python3-num 2.0"),
            ("python3dist(near) = 2", "near provides python3dist(near) = 1.5"),
            ("nothing", none),
        ] {
            assert_eq!(one(requirement), expected(requirement, why));
        }
        // Neither the package's 1.5 nor the release's 2.0 is within the range.
        let range = "(python3dist(two) >= 1.6 with python3dist(two) < 2)";
        assert!(one(range).contains("python3dist(two)"), "{}", one(range));
        // Two packages with one bound each do not make a package within the range.
        let range = "(python3dist(x) >= 1 with python3dist(x) < 2)";
        let (old, new) = (&["python3dist(x) = 0.9"], &["python3dist(x) = 2.1"]);
        let of = |provides: &[&[&str]]| {
            let mut set = vec![package("a", &[range], &[], &[])];
            set.extend(provides.iter().map(|provides| package("p", &[], provides, &[])));
            unmet(&set).len()
        };
        assert_eq!([of(&[old, new]), of(&[&["python3dist(x) = 1.5"]])], [1, 0]);
        assert_eq!(
            one("(nothing or python3dist(num) = 3)"),
            expected("(nothing or python3dist(num) = 3)", none)
        );
    }

    #[test]
    fn names_a_missing_library_without_symbol_versions() {
        let requires = ["libx.so()(64bit)", "libx.so(X_1)(64bit)", "libx.so(X_2)(64bit)"];
        assert_eq!(unmet(&[package("a", &requires, &[], &[])]).len(), 1);
    }
}
