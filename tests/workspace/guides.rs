//! Runs the commands of the guides in `docs/guides` and compares their output with the page. All
//! `console` blocks of a page run in one shell, in an empty folder, without the user's settings. In
//! the output, `[..]` stands for any text in a line, and `...` for any lines.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::REPOSITORY;

/// Starts the output of each command. Programs do not print it.
const SEPARATOR: char = '\u{1e}';

fn page(name: &str) -> String {
    fs_err::read_to_string(Path::new(REPOSITORY).join("docs/guides").join(format!("{name}.md")))
        .unwrap()
}

/// Returns the `console` blocks of a page, joined.
fn transcript(page: &str) -> String {
    let blocks = page.split("```console\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

/// Returns the commands of a transcript. Lines that start with `> ` directly after a command continue
/// it.
fn commands(transcript: &str) -> Vec<String> {
    let (mut commands, mut continues) = (Vec::<String>::new(), false);
    for line in transcript.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_owned());
            continues = true;
        } else if let Some(more) = line.strip_prefix('>').filter(|_| continues) {
            let command = commands.last_mut().unwrap();
            command.push('\n');
            command.push_str(more.strip_prefix(' ').unwrap_or(more));
        } else {
            continues = false;
        }
    }
    commands
}

/// Runs commands in one shell and returns the transcript.
fn run(commands: &[String]) -> String {
    let holder = tempfile::Builder::new().prefix("rocmrpm-guide-").tempdir().unwrap();
    let [home, keys, folder] = ["home", "keys", "work"].map(|name| holder.path().join(name));
    for folder in [&home, &keys, &folder] {
        fs_err::create_dir_all(folder).unwrap();
        fs_err::set_permissions(folder, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let mut script = String::from("exec 2>&1\n");
    for command in commands {
        script += &format!("printf '{SEPARATOR}'\n{command}\n");
    }
    let bin = Path::new(env!("CARGO_BIN_EXE_rocmrpm")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path =
        std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(&folder).stdin(Stdio::null()).env_clear().envs([
        ("PATH", path.as_os_str()),
        ("HOME", home.as_os_str()),
        // The agents of all folders named .gnupg in home folders have one socket.
        ("GNUPGHOME", keys.as_os_str()),
        ("LC_ALL", "C.UTF-8".as_ref()),
        ("ROCMRPM_CACHE", holder.path().join("cache").as_os_str()),
    ]);
    for (key, value) in [
        ("GIT_AUTHOR_NAME", "Me"),
        ("GIT_AUTHOR_EMAIL", "me@example.org"),
        ("GIT_COMMITTER_NAME", "Me"),
        ("GIT_COMMITTER_EMAIL", "me@example.org"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "init.defaultBranch"),
        ("GIT_CONFIG_VALUE_0", "main"),
    ] {
        shell.env(key, value);
    }
    let output = shell.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // gpg's agent serves the keys until it is killed.
    let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", &keys).output();
    let shown = text.split(SEPARATOR).skip(1);
    let mut transcript = String::new();
    for (command, output) in commands.iter().zip(shown) {
        transcript += &format!("$ {}\n", command.replace('\n', "\n> ").replace("> \n", ">\n"));
        transcript += output;
        if !output.is_empty() && !output.ends_with('\n') {
            transcript.push('\n');
        }
    }
    transcript
}

fn check(name: &str) {
    let expected = transcript(&page(name));
    let actual = run(&commands(&expected));
    // Commands have backslashes.
    snapbox::Assert::new().normalize_paths(false).eq(actual, expected);
}

macro_rules! guides {
    ($($test:ident: $page:literal),* $(,)?) => {
        const TESTED: &[&str] = &[$($page),*];
        $(#[test] fn $test() { check($page); })*
    };
}

guides! {
    packages_a_hip_library: "cpp",
    drops_a_component: "drop",
    explains_a_failed_build: "failures",
    inspects_files: "inspect",
    carries_a_patch: "patch",
    publishes_an_index: "publish-index",
    publishes_a_repository: "publish-repository",
    packages_a_python_project: "python",
    updates_a_version: "update",
    creates_a_workspace: "workspace",
}

#[test]
fn tests_every_guide_with_transcripts() {
    let folder = Path::new(REPOSITORY).join("docs/guides");
    let files = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = files
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".md")?.to_owned()))
        .filter(|name| page(name).contains("```console\n"))
        .collect();
    let found: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(found, TESTED.iter().copied().collect());
}
