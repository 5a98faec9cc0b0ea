//! Checks BuildRequires on machines whose own packages are not RPMs, where rpmbuild cannot check
//! them. Reports what is missing and what remains unchecked; installs nothing.

use std::path::Path;

use crate::machine;
use crate::process::{Command, ProcessError, find_program_in};

/// The checks for known BuildRequires.
const NEEDS: &str = include_str!("host-needs.toml");

/// The state of a spec's BuildRequires on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNeeds {
    /// BuildRequires that are missing, with the Debian package for each.
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
/// programs in `path`. Asks Python about all modules at once. Versions are not compared: a
/// BuildRequires with a version also counts as unchecked.
pub fn needs_of(build_requires: &str, path: &str) -> Result<HostNeeds, ProcessError> {
    // The table is part of the program; a test parses it.
    let table: Table = toml::from_str(NEEDS).unwrap_or(Table { need: Vec::new() });
    let mut needs = HostNeeds::default();
    let mut modules: Vec<(&str, &Need)> = Vec::new();
    let mut lines: Vec<&str> =
        build_requires.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        let name = line.split_whitespace().next().unwrap_or(line);
        let Some(need) = table.need.iter().find(|n| n.requires.iter().any(|r| r == name)) else {
            needs.unchecked.push(line.to_owned());
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
    let script = "import importlib.util, sys\n\
                  print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])";
    let asked: Vec<&String> = modules.iter().flat_map(|(_, need)| &need.modules).collect();
    if !asked.is_empty() {
        let absent = Command::new(machine::PYTHON).args(["-I", "-c", script]).args(asked).text()?;
        for (line, need) in modules {
            if need.modules.iter().any(|m| absent.split_whitespace().any(|a| a == m)) {
                needs.missing.push((line.to_owned(), need.debian.clone()));
            }
        }
    }
    needs.missing.sort();
    Ok(needs)
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
        )
        .unwrap();
        assert_eq!(needs.unchecked, ["gcc >= 99", "no-such-package >= 2"]);
        assert_eq!(needs.missing, []);
    }
}
