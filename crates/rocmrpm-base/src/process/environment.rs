//! The environment of a child process. It depends on the origin of the code that runs:
//!
//! - The user's tools (git, curl, pip, copr-cli, gpg, mock, podman) get the user's environment.
//!   Proxies, credentials and settings reach them through more variables than we could list.
//!   [`DENIED`] variables are removed: they would make a tool run code, or take options, that
//!   rocmrpm did not ask for. The same applies to Python's user site, except for [`IN_USER_SITE`].
//! - Code that a workspace, a package or a root provides gets a separate environment
//!   (`Command::isolated`): no credentials, and no home folder in which others could place code.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variables that load code into a program or add options to its command line. Sources: ld.so(8),
/// python(1), perlrun(1), bash(1), gzip(1), xz(1), and the manual of GNU tar, "The tar Utility".
/// `LD_LIBRARY_PATH` stays: like `PATH`, an installed tool may need it to run.
const DENIED: &[&str] = &[
    "LD_AUDIT",
    "LD_PRELOAD",
    "PYTHONBREAKPOINT",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONSTARTUP",
    "PYTHONWARNINGS",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "BASHOPTS",
    "BASH_ENV",
    "CDPATH",
    "ENV",
    "GLOBIGNORE",
    "SHELLOPTS",
    "GZIP",
    "TAR_OPTIONS",
    "XZ_DEFAULTS",
    "XZ_OPT",
];

/// Programs that users install with `pip install --user`, so that their modules are below the home
/// folder. No other program has code there. `python3` runs pip; our own scripts are isolated by
/// `-I`.
const IN_USER_SITE: &[&str] = &["aws", "copr-cli", "pip", "python3"];

/// The prefix of the variables in which bash exports functions, which can replace programs.
const FUNCTION: &[u8] = b"BASH_FUNC_";

/// The environment variables of a child: those it inherits and those set for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    clean: bool,
    set: BTreeMap<OsString, Option<OsString>>,
}

impl Environment {
    /// Sets a variable, or removes it.
    pub(super) fn set(&mut self, name: impl Into<String>, value: Option<OsString>) {
        self.set.insert(OsString::from(name.into()), value);
    }

    /// Leaves only what is set.
    pub(super) fn clean(&mut self) {
        self.clean = true;
    }

    /// Returns all variables of a child that runs `program`, given our environment.
    pub(super) fn of_child(
        &self,
        program: &str,
        ours: impl Iterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let kept = ours.filter(|(name, _)| !self.clean && !is_denied(name));
        let mut variables: BTreeMap<OsString, OsString> = kept.collect();
        if !self.clean && !IN_USER_SITE.contains(&program) {
            variables.insert("PYTHONNOUSERSITE".into(), "1".into());
        }
        for (name, value) in &self.set {
            match value {
                Some(value) => variables.insert(name.clone(), value.clone()),
                None => variables.remove(name),
            };
        }
        variables
    }
}

fn is_denied(name: &OsStr) -> bool {
    DENIED.iter().any(|denied| name == *denied) || name.as_encoded_bytes().starts_with(FUNCTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(environment: &Environment, program: &str, ours: &[(&str, &str)]) -> Vec<String> {
        let ours = ours.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let all = environment.of_child(program, ours);
        all.into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect()
    }

    #[test]
    fn tools_inherit_settings_but_no_code() {
        let ours = [
            ("https_proxy", "http://proxy:3128"),
            ("LD_LIBRARY_PATH", "/opt/rocm/lib"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("PYTHONPATH", "/tmp"),
            ("TAR_OPTIONS", "--to-command=sh"),
            ("BASH_FUNC_test%%", "() { :; }"),
        ];
        let kept = ["LD_LIBRARY_PATH=/opt/rocm/lib", "https_proxy=http://proxy:3128"];
        assert_eq!(child(&Environment::default(), "pip", &ours), kept);
        let no_site = ["LD_LIBRARY_PATH=/opt/rocm/lib", "PYTHONNOUSERSITE=1", kept[1]];
        assert_eq!(child(&Environment::default(), "dnf", &ours), no_site);
        // Variables that rocmrpm sets itself are kept.
        let mut environment = Environment::default();
        environment.set("PYTHONPATH", Some("/ours".into()));
        environment.set("https_proxy", None);
        assert_eq!(
            child(&environment, "pip", &ours),
            ["LD_LIBRARY_PATH=/opt/rocm/lib", "PYTHONPATH=/ours"]
        );
    }

    #[test]
    fn isolated_code_gets_path_and_its_own_home() {
        let home = tempfile::tempdir().unwrap();
        let text = crate::process::Command::new("env").isolated(home.path()).text().unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let path = format!("PATH={}", std::env::var("PATH").unwrap());
        let home = format!("HOME={}", home.path().display());
        assert_eq!(lines, [home.as_str(), "LC_ALL=C.UTF-8", path.as_str(), "PYTHONNOUSERSITE=1"]);
    }
}
