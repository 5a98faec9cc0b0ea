//! Completes command lines. A shell that sourced the script of `rocmrpm completions` runs rocmrpm
//! with `ROCMRPM_COMPLETE` set and the words typed so far, and gets candidates. This module decides
//! which argument gets which candidates, and reads no file of a workspace, runs none of its code,
//! and prints no error: a message in the middle of a command line helps no one.

mod bash;
mod candidates;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use super::args::Arguments;
use bash::Bash;
use candidates::Candidates;

/// The environment variable that names the shell. clap's default, `COMPLETE`, could be in use for
/// something else.
const VARIABLE: &str = "ROCMRPM_COMPLETE";

const SHELLS: Shells<'static> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// The name of the program, which shells find on their PATH.
const PROGRAM: &str = "rocmrpm";

/// Prints candidates if a shell asks for them, and returns the exit code of the process.
pub(super) fn answer() -> Option<ExitCode> {
    let shell = std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty())?;
    std::panic::set_hook(Box::new(|_| {}));
    let words: Vec<OsString> = std::env::args_os().collect();
    let dir = directory(&words);
    let completer = CompleteEnv::with_factory(|| command(&dir, shell == "bash"))
        .var(VARIABLE)
        .shells(SHELLS)
        .bin(PROGRAM)
        .completer(PROGRAM);
    match completer.try_complete(words, std::env::current_dir().ok().as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        // The variable is `0`.
        Ok(false) => None,
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Returns the script that makes a shell ask for candidates.
pub(super) fn registration(shell: Shell) -> io::Result<String> {
    let shell: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::PowerShell => &Powershell,
        Shell::Zsh => &Zsh,
        other => return Err(io::Error::other(format!("`{other}` has no completions"))),
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    if shell.is("zsh") {
        script.extend(AUTOLOADED.as_bytes());
    }
    String::from_utf8(script).map_err(io::Error::other)
}

/// zsh runs a file of its function path for the first completion, and expects candidates from it.
const AUTOLOADED: &str = r#"
if [[ "$funcstack[1]" == _rocmrpm ]]; then
    _clap_dynamic_completer_rocmrpm "$@"
fi
"#;

/// Returns the folder that `-C` selects in the words of a command line, as typed.
fn directory(words: &[OsString]) -> PathBuf {
    let typed = words.iter().skip_while(|word| **word != "--").skip(1);
    let mut typed = typed.take_while(|word| **word != "--").filter_map(|word| word.to_str());
    let mut dir = ".";
    while let Some(word) = typed.next() {
        if let Some(value) = word.strip_prefix("-C") {
            dir = if value.is_empty() {
                typed.next().unwrap_or(dir)
            } else {
                value.trim_start_matches('=')
            };
        }
    }
    match (dir.strip_prefix("~/"), std::env::home_dir()) {
        (Some(below), Some(home)) => home.join(below),
        _ => PathBuf::from(dir),
    }
}

/// Returns rocmrpm's command with candidates for the values of its arguments. `dir` is in the
/// workspace whose names are candidates.
fn command(dir: &Path, bash: bool) -> Command {
    with_candidates(Arguments::command(), dir, bash)
}

fn with_candidates(command: Command, dir: &Path, bash: bool) -> Command {
    let name = command.get_name().to_owned();
    command
        .mut_args(|arg| match Candidates::of(&name, arg.get_id().as_str()) {
            Some(candidates) => arg.add(candidates.values(dir)),
            None => with_paths(&name, arg, bash),
        })
        .mut_subcommands(|below| with_candidates(below, dir, bash))
}

/// Makes arguments complete paths.
fn with_paths(command: &str, arg: Arg, bash: bool) -> Arg {
    let arg = match (command, arg.get_id().as_str()) {
        (_, "directory") | ("add", "path") | ("init", "folder") => {
            arg.value_hint(ValueHint::DirPath)
        }
        ("check", "index") | (_, "destination") => arg.value_hint(ValueHint::AnyPath),
        _ => arg,
    };
    if bash && arg.get_value_hint() != ValueHint::Unknown { arg.add(bash::files()) } else { arg }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory_of(line: &str) -> PathBuf {
        directory(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_option_for_the_workspace_counts_wherever_it_is() {
        for (line, dir) in [
            ("rocmrpm -- rocmrpm build", "."),
            ("rocmrpm -- rocmrpm -C a build", "a"),
            ("rocmrpm -- rocmrpm build -Ca", "a"),
            ("rocmrpm -- rocmrpm build -C=a", "a"),
            ("rocmrpm -- rocmrpm build -C", "."),
            ("rocmrpm -- rocmrpm shell x -- -C a", "."),
        ] {
            assert_eq!(directory_of(line), Path::new(dir), "{line}");
        }
    }

    #[test]
    fn a_tilde_is_the_home_folder() {
        assert_eq!(directory_of("x -- rocmrpm -C ~/a"), std::env::home_dir().unwrap().join("a"));
    }

    /// Adds the arguments of a command and its subcommands whose values have no candidates.
    fn add_without_candidates(command: &Command, path: &str, found: &mut Vec<String>) {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let known = Candidates::of(command.get_name(), arg.get_id().as_str()).is_some()
                || !arg.get_possible_values().is_empty()
                || with_paths(command.get_name(), arg.clone(), false).get_value_hint()
                    != ValueHint::Unknown;
            if !known {
                found.push(format!("{path} {}", arg.get_id()));
            }
        }
        for below in command.get_subcommands() {
            add_without_candidates(below, &format!("{path} {}", below.get_name()), found);
        }
    }

    #[test]
    fn every_value_that_rocmrpm_knows_has_candidates() {
        let mut found = Vec::new();
        add_without_candidates(&Arguments::command(), "", &mut found);
        let found: Vec<&str> = found.iter().map(|name| name.trim_start()).collect();
        // Names, versions, URLs, and other texts that are not in the workspace.
        let unknown = [
            "init name",
            "add names",
            "add version",
            "add sdist",
            "add url",
            "add git",
            "pins derive output",
            "pins update version",
            "build jobs",
            "build timeout",
            "log log",
            "shell command",
            "verify container",
            "closure upgrade",
            "closure why name",
            "closure why upgrade",
            "closure audit timeout",
            "index check channel",
            "index serve address",
            "index serve port",
            "index serve allow_host",
            "requirements index_url",
            "sdk version",
            "sdk system_libraries",
            "sdk leave_out",
            "publish index endpoint_url",
            "publish index channel",
            "publish repository endpoint_url",
            "publish promote endpoint_url",
            "publish promote distributions",
            "publish promote from",
            "publish promote to",
            "publish yank endpoint_url",
            "publish yank version",
            "publish yank reason",
            "container build tag",
            "container build base",
            "container run tag",
            "container run command",
            "container check image",
            "pipeline run timeout",
            "pipeline accept reason",
            "pipeline rollback record",
            "doctor gpu_memory",
            "cache prune days",
        ];
        assert_eq!(found, unknown, "add new arguments to `Candidates::of` or to this list");
    }

    #[test]
    fn the_command_with_candidates_is_valid() {
        command(Path::new("."), true).debug_assert();
    }

    #[test]
    fn zsh_completes_on_the_first_tab() {
        assert!(registration(Shell::Zsh).unwrap().ends_with(AUTOLOADED));
    }
}
