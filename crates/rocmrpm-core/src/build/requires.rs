//! Checks BuildRequires on machines whose own packages are not RPMs, where rpmbuild cannot check
//! them. Reports what is missing and what remains unchecked; installs nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::machine;
use crate::process::{Command, ProcessError, find_program_in};

/// The checks for known BuildRequires.
const NEEDS: &str = include_str!("host-needs.toml");

/// The state of a spec's BuildRequires on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNeeds {
    /// BuildRequires that are missing, with the Debian package that may provide each.
    pub missing: Vec<(String, String)>,
    /// BuildRequires that could not be checked, or whose version could not.
    pub unchecked: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Table {
    need: Vec<Need>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Need {
    requires: Vec<String>,
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    debian: String,
}

/// Checks BuildRequires, as printed by `rpmspec -q --buildrequires`, on this machine, searching for
/// programs in `path`, and for Python packages also in `python_path`. Asks Python about all modules
/// at once. Versions are not compared: a BuildRequires with a version also counts as unchecked.
pub fn needs_of(
    build_requires: &str,
    path: &str,
    python_path: &[PathBuf],
) -> Result<HostNeeds, ProcessError> {
    let python = |script: &str| {
        let added = python_path.iter().map(|folder| folder.to_string_lossy());
        let added = added.collect::<Vec<_>>().join(":");
        let script = format!(
            "import sys\nsys.path[:0] = filter(None, sys.argv.pop(1).split(':'))\n{script}"
        );
        Command::new(machine::PYTHON).args(["-I", "-c"]).arg(script).arg(added)
    };
    // The table is part of the program; a test parses it.
    let table: Table = toml::from_str(NEEDS).unwrap_or(Table { need: Vec::new() });
    let mut needs = HostNeeds::default();
    let mut modules: Vec<(&str, &Need)> = Vec::new();
    let mut distributions: Vec<(&str, String)> = Vec::new();
    let mut lines: Vec<&str> =
        build_requires.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        let name = line.split_whitespace().next().unwrap_or(line);
        let Some(need) = table.need.iter().find(|n| n.requires.iter().any(|r| r == name)) else {
            match distribution(name) {
                Some(distribution) => distributions.push((line, distribution)),
                None => needs.unchecked.push(line.to_owned()),
            }
            continue;
        };
        if line != name {
            needs.unchecked.push(line.to_owned());
        }
        let there = |program: &String| find_program_in(path.as_ref(), program).is_some();
        let programs = need.programs.is_empty() || need.programs.iter().any(there);
        let files = need.files.is_empty() || need.files.iter().any(|f| Path::new(f).exists());
        if !programs || !files {
            needs.missing.push((line.to_owned(), need.debian.clone()));
        } else if !need.modules.is_empty() {
            modules.push((line, need));
        }
    }
    let script = "import importlib.util\n\
                  print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])";
    let asked: Vec<&String> = modules.iter().flat_map(|(_, need)| &need.modules).collect();
    if !asked.is_empty() {
        let absent = python(script).args(asked).text()?;
        for (line, need) in modules {
            if need.modules.iter().any(|m| absent.split_whitespace().any(|a| a == m)) {
                needs.missing.push((line.to_owned(), need.debian.clone()));
            }
        }
    }
    let asked: Vec<&String> = distributions.iter().map(|(_, name)| name).collect();
    let absent = match asked.is_empty() {
        true => String::new(),
        false => python(DISTRIBUTIONS).args(asked).text()?,
    };
    for (line, name) in &distributions {
        if absent.split_whitespace().any(|absent| absent == name) {
            let short = name.strip_prefix("python-").unwrap_or(name);
            needs.missing.push(((*line).to_owned(), format!("python3-{short}")));
        } else if line.contains(char::is_whitespace) {
            needs.unchecked.push((*line).to_owned());
        }
    }
    needs.unchecked.sort();
    needs.missing.sort();
    Ok(needs)
}

/// Prints the distributions that are not installed.
const DISTRIBUTIONS: &str = "\
import importlib.metadata
def there(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
print(*[name for name in sys.argv[1:] if not there(name)])";

/// Returns the distribution in `python3dist(NAME)`, without extras.
fn distribution(name: &str) -> Option<String> {
    let inside = name.strip_prefix("python3dist(")?.strip_suffix(')')?;
    let name = inside.split('[').next().unwrap_or(inside);
    crate::names::is_plain(name).then(|| name.to_owned())
}

/// Returns how to install what is missing on a machine with Debian packages: a command that names
/// only packages that the machine's package lists have.
pub fn install_help(missing: &[(String, String)]) -> String {
    let candidates: BTreeSet<&str> = missing.iter().map(|(_, package)| package.as_str()).collect();
    let policy = Command::new("apt-cache").arg("policy").args(&candidates).text();
    // Without apt, no name can be checked.
    let known = policy.map(|text| installable(&text)).unwrap_or_default();
    help_for(missing, &known)
}

fn help_for(missing: &[(String, String)], known: &BTreeSet<String>) -> String {
    let (mut install, mut unknown) = (BTreeSet::new(), Vec::new());
    for (required, package) in missing {
        if known.contains(package) {
            install.insert(package.as_str());
        } else {
            unknown.push(required.as_str());
        }
    }
    let mut steps = Vec::new();
    if !install.is_empty() {
        let install: Vec<&str> = install.into_iter().collect();
        steps.push(format!("run `apt-get install {}`", install.join(" ")));
    }
    if !unknown.is_empty() {
        steps.push(format!(
            "this machine's package lists have no package for {}: install it for {}, or build in \
             a chroot of mock",
            unknown.join(", "),
            machine::PYTHON
        ));
    }
    steps.join("; ")
}

/// Returns the packages with a candidate version in the output of `apt-cache policy`.
fn installable(policy: &str) -> BTreeSet<String> {
    let mut name = "";
    let mut found = BTreeSet::new();
    for line in policy.lines() {
        if let Some(package) = line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            name = package;
        } else if let Some(version) = line.trim().strip_prefix("Candidate:")
            && version.trim() != "(none)"
        {
            found.insert(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_valid_and_names_packages() {
        let table: Table = toml::from_str(NEEDS).unwrap();
        for need in table.need {
            let checks = need.programs.len() + need.files.len() + need.modules.len();
            assert_eq!(checks == 0, need.debian.is_empty(), "{:?}", need.requires);
        }
    }

    #[test]
    fn reports_unknown_names_as_unchecked() {
        let needs = needs_of(
            "no-such-package >= 2\ngcc >= 99\ngit-core\npyproject-rpm-macros\n",
            "/usr/bin",
            &[],
        )
        .unwrap();
        assert_eq!(needs.unchecked, ["gcc >= 99", "no-such-package >= 2"]);
        assert_eq!(needs.missing, []);
    }

    #[test]
    fn asks_python_for_distributions() {
        let needs = needs_of(
            "python3dist(pip) >= 1\npython3dist(no-such-distribution[extra])\npython3dist(pip)\n",
            "/usr/bin",
            &[],
        )
        .unwrap();
        assert_eq!(needs.unchecked, ["python3dist(pip) >= 1"]);
        let [(required, package)] = &needs.missing[..] else { panic!("{:?}", needs.missing) };
        assert_eq!(required, "python3dist(no-such-distribution[extra])");
        assert_eq!(package, "python3-no-such-distribution");
    }

    #[test]
    fn suggests_only_packages_that_exist() {
        let policy = "python3-hatchling:\n  Installed: (none)\n  Candidate: 1.12.1-1\n  Version table:\n\
                      python3-gone:\n  Installed: (none)\n  Candidate: (none)\n";
        let known = installable(policy);
        assert_eq!(known, ["python3-hatchling".to_owned()].into());
        let missing = |name: &str| (format!("python3dist({name})"), format!("python3-{name}"));
        assert_eq!(
            help_for(&[missing("hatchling")], &known),
            "run `apt-get install python3-hatchling`"
        );
        let help = help_for(&[missing("hatchling"), missing("maturin")], &known);
        assert!(
            help.starts_with("run `apt-get install python3-hatchling`; this machine"),
            "{help}"
        );
        assert!(help.contains("no package for python3dist(maturin)"), "{help}");
        assert!(!help.contains("python3-maturin"), "{help}");
    }
}
