//! Builds git commands that never run a program named by a repository's configuration, hooks or
//! attributes. It does not know what the commands are for.

mod changes;
mod repository;
#[cfg(test)]
pub(crate) mod testing;

use std::path::Path;

pub(crate) use repository::Repository;
pub use repository::RepositoryError;

use crate::process::Command;

/// Settings for every call. `-c` overrides all configuration files.
const SETTINGS: &[&str] = &[
    // Do not treat a directory that contains `HEAD`, `objects` and `refs` as a repository.
    "safe.bareRepository=explicit",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "log.showRoot=true",
    "log.showSignature=false",
    // Background garbage collection would outlive our locks.
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Checks fetched objects, except for errors by old tools that occur in many histories and do not
/// change files. Source: git-fsck(1).
const FETCH_SETTINGS: &[&str] = &[
    "fetch.fsckObjects=true",
    "transfer.fsckObjects=true",
    "fetch.fsck.badTimezone=ignore",
    // `sources::submodules` checks these, and no command here acts on them.
    "fetch.fsck.gitmodulesName=ignore",
    "fetch.fsck.gitmodulesParse=ignore",
    "fetch.fsck.gitmodulesPath=ignore",
    "fetch.fsck.gitmodulesSymlink=ignore",
    "fetch.fsck.gitmodulesUpdate=ignore",
    "fetch.fsck.gitmodulesUrl=ignore",
    "fetch.fsck.missingNameBeforeEmail=ignore",
    "fetch.fsck.missingSpaceBeforeDate=ignore",
    "fetch.fsck.zeroPaddedFilemode=ignore",
    // Abort a transfer that stays below 1000 bytes/s for 60 seconds.
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
];

/// Variables that make git use another repository or program. Hooks and shells set them.
const VARIABLES: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DIFF_OPTS",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_GLOB_PATHSPECS",
    "GIT_GRAFT_FILE",
    "GIT_ICASE_PATHSPECS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Variables that pass the login to git's credential helper.
const USER: &str = "ROCMRPM_GIT_USER";
const PASSWORD: &str = "ROCMRPM_GIT_PASSWORD";

/// The user and password for one server.
pub(crate) struct Login<'a> {
    /// Scheme, host and port: `https://example.org:8443`.
    pub site: &'a str,
    pub user: &'a str,
    /// Empty to use the user's own credential helpers.
    pub password: &'a str,
}

fn git() -> Command {
    let git = SETTINGS.iter().fold(Command::new("git"), |git, setting| git.args(["-c", setting]));
    let git = git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    // Never fetch a missing object: the remote's configuration names programs to run.
    let git = git.env("GIT_NO_LAZY_FETCH", "1");
    VARIABLES.iter().fold(git.arg("--no-pager"), |git, name| git.env_remove(*name))
}

/// Disables every transport. git before 2.44 does not know `GIT_NO_LAZY_FETCH`.
fn local() -> Command {
    git().env("GIT_ALLOW_PROTOCOL", "none")
}

/// Returns git for a bare repository that rocmrpm created.
pub(crate) fn bare(dir: &Path) -> Command {
    local().arg("--git-dir").arg(dir)
}

/// Returns git for a repository that rocmrpm created. Ignores user and system configuration so that
/// the result is the same everywhere.
pub(crate) fn scratch(dir: &Path) -> Command {
    let git = bare(dir).clean_env();
    let path = std::env::var_os("PATH");
    path.iter()
        .fold(git, |git, path| git.env("PATH", path))
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
}

/// Returns git for network access, optionally on behalf of a bare repository that rocmrpm created.
/// Respects the user's configuration: proxies, credential helpers, URL rewrites. The password is
/// never passed as an argument, which every user of the machine could read.
pub(crate) fn remote(dir: Option<&Path>, login: Option<&Login<'_>>) -> Command {
    let git = git().arg("--git-dir").arg(dir.unwrap_or(Path::new("/dev/null")));
    let mut git = FETCH_SETTINGS.iter().fold(git, |git, setting| git.args(["-c", setting]));
    if std::env::var_os("GIT_SSH_COMMAND").is_none() {
        git = git.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=60");
    }
    let Some(Login { site, user, password }) = login else { return git };
    let mut settings = vec![("username", (*user).to_owned())];
    if !password.is_empty() {
        // The empty helper disables the user's helpers for this server only.
        let print = format!(r#"printf 'username=%s\npassword=%s\n' "${USER}" "${PASSWORD}""#);
        let helper = format!(r#"!f() {{ test "$1" = get && {print}; }}; f"#);
        settings.extend([("helper", String::new()), ("helper", helper)]);
        git = git.env(USER, user).env(PASSWORD, password);
    }
    // Keep settings that the user passes in the environment.
    let count = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok());
    let first: usize = count.unwrap_or(0);
    git = git.env("GIT_CONFIG_COUNT", (first + settings.len()).to_string());
    settings.into_iter().enumerate().fold(git, |git, (at, (key, value))| {
        let at = first + at;
        git.env(format!("GIT_CONFIG_KEY_{at}"), format!("credential.{site}.{key}"))
            .env(format!("GIT_CONFIG_VALUE_{at}"), value)
    })
}
