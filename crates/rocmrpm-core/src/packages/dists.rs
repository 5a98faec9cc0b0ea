//! What rpm's Python generators provide, by the names of packages: `python3dist(NAME)` and
//! `python-NAME`. Tables do not list it.

use std::collections::BTreeMap;

/// Python projects whose Fedora package has another name than they, and has their metadata. Source:
/// the `Summary`, sources and `%files` of Fedora's spec files. `opencv-python` is not among them: what
/// python3-opencv provides is `python3dist(opencv)`, as packages that require it say.
const ELSEWHERE: &[(&str, &str)] = &[
    ("dnspython", "python3-dns"),
    ("fastapi-cli", "fastapi-cli"),
    ("fastapi-cloud-cli", "fastapi-cloud-cli"),
    ("py-cpuinfo", "python3-cpuinfo"),
    ("pyjwt", "python3-jwt"),
    ("pyqt5", "python3-qt5"),
    ("python-dateutil", "python3-dateutil"),
    ("python-dotenv", "python3-dotenv"),
    ("python-json-logger", "python3-json-logger"),
    ("pyzmq", "python3-zmq"),
    ("supervisor", "supervisor"),
];

/// What the names of packages of Python modules begin with.
pub(super) const PREFIX: &str = "python3-";

/// Packages of Python modules by the normalised name of their project.
#[derive(Default)]
pub(super) struct Dists {
    packages: BTreeMap<String, String>,
}

impl Dists {
    /// Takes a package in, if its name says that it holds a Python project.
    pub(super) fn add(&mut self, package: &str) {
        if let Some(project) = package.strip_prefix(PREFIX) {
            self.packages.entry(normalised(project)).or_insert_with(|| package.to_owned());
        }
    }

    /// Returns all projects with their packages, those that are called otherwise included.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let named = self.packages.iter().map(|(project, package)| (project.as_str(), package.as_str()));
        let named = named.filter(|(project, _)| ELSEWHERE.iter().all(|(name, _)| name != project));
        named.chain(ELSEWHERE.iter().copied())
    }

    /// Returns the package of a Python project, given by its normalised name.
    pub(super) fn package(&self, project: &str) -> Option<&str> {
        let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == project);
        elsewhere.map(|(_, package)| *package).or_else(|| self.packages.get(project).map(String::as_str))
    }
}

/// Returns the package whose generated name this is: `python3-NAME` also provides `python-NAME`
/// and, with the release's `python` such as 3.14, `python3.14-NAME`, both in its own version.
/// Source: python-rpm-generators, `pythonname.attr`.
pub(super) fn named(name: &str, python: &str) -> Option<String> {
    let rest = name.strip_prefix("python")?;
    let rest = rest.strip_prefix(python).filter(|_| !python.is_empty()).unwrap_or(rest);
    rest.strip_prefix('-').map(|module| format!("python3-{module}"))
}

/// Returns the normalised name of the project that such as `python3dist(NAME)` or
/// `python3.14dist(NAME[EXTRA])` asks for; `None` where NAME is not normalised, since rpm
/// compares letter by letter.
pub(super) fn project(requirement: &str) -> Option<String> {
    let (python, rest) = requirement.split_once("dist(")?;
    let minor = python.strip_prefix("python3")?;
    let version = minor.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let name = rest.strip_suffix(')')?;
    let project = normalised(name);
    let plain = |name: &str| name.split(['[', '+']).next() == project.split('+').next();
    (version && plain(name)).then_some(project)
}

/// Returns a project's name as PEP 503 normalises it; an extra follows a `+`, as in the
/// names of Fedora's packages for extras.
pub fn normalised(name: &str) -> String {
    crate::sources::normalized(&name.trim_end_matches(']').replace('[', "+"))
}
