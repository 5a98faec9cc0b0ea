//! Derives what rpm's Python generators provide from package names: `python3dist(NAME)` and
//! `python-NAME`. It does not read tables, which omit these provides.

use std::collections::BTreeMap;

/// Python projects whose Fedora package has a different name and contains their metadata. Source:
/// the `Summary`, sources and `%files` of Fedora's spec files. `opencv-python` is not listed
/// because python3-opencv provides `python3dist(opencv)`, as packages that require it show.
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
    ("sip", "sip6"),
    ("supervisor", "supervisor"),
    ("wxpython", "python3-wxpython4"),
];

/// Prefix of Python module packages.
pub(super) const PREFIX: &str = "python3-";

/// Python module packages by normalized project name.
#[derive(Default)]
pub(super) struct Dists {
    packages: BTreeMap<String, String>,
}

impl Dists {
    /// Adds a package if its name suggests that it contains a Python project.
    pub(super) fn add(&mut self, package: &str) {
        if let Some(project) = package.strip_prefix(PREFIX) {
            self.packages
                .entry(normalized_with_extra(project))
                .or_insert_with(|| package.to_owned());
        }
    }

    /// Returns all projects with their packages, including exceptions.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let named =
            self.packages.iter().map(|(project, package)| (project.as_str(), package.as_str()));
        let named = named.filter(|(project, _)| ELSEWHERE.iter().all(|(name, _)| name != project));
        named.chain(ELSEWHERE.iter().copied())
    }

    /// Returns the package of a Python project, given its normalized name.
    pub(super) fn package(&self, project: &str) -> Option<&str> {
        let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == project);
        elsewhere
            .map(|(_, package)| *package)
            .or_else(|| self.packages.get(project).map(String::as_str))
    }
}

/// Returns the package that generates this name: `python3-NAME` also provides `python-NAME` and,
/// for a `python` such as 3.14, `python3.14-NAME`, both at its own version. Source:
/// python-rpm-generators, `pythonname.attr`.
pub(super) fn named(name: &str, python: &str) -> Option<String> {
    let rest = name.strip_prefix("python")?;
    let rest = rest.strip_prefix(python).filter(|_| !python.is_empty()).unwrap_or(rest);
    rest.strip_prefix('-').map(|module| format!("python3-{module}"))
}

/// Returns the normalized project name in `python3dist(NAME)` or `python3.14dist(NAME[EXTRA])`;
/// `None` if NAME is not normalized because rpm compares exact strings.
pub(super) fn project(requirement: &str) -> Option<String> {
    let (python, rest) = requirement.split_once("dist(")?;
    let minor = python.strip_prefix("python3")?;
    let version = minor.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let name = rest.strip_suffix(')')?;
    let project = normalized_with_extra(name);
    let plain = |name: &str| name.split(['[', '+']).next() == project.split('+').next();
    (version && plain(name)).then_some(project)
}

/// Returns a project name normalized by PEP 503; an extra follows a `+`, as in the names of
/// Fedora's packages for extras.
pub fn normalized_with_extra(name: &str) -> String {
    crate::sources::normalized(&name.trim_end_matches(']').replace('[', "+"))
}
