//! The man pages, and what `make install` installs beside the program.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{REPOSITORY, Workspace};

/// Returns the names of the pages of all commands in the reference.
fn expected() -> BTreeSet<String> {
    let reference = include_str!("../../docs/reference/commands.md");
    let headings =
        reference.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
    headings.chain(["rocmrpm"]).map(|name| format!("{}.1", name.replace(' ', "-"))).collect()
}

fn names_in(dir: &Path) -> BTreeSet<String> {
    fs_err::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn every_command_has_a_page_that_groff_renders_without_a_warning() {
    let workspace = Workspace::empty();
    workspace.run(&["man", "pages/deep"]).exits(0).reports(["Wrote man pages to pages/deep"]);
    let pages = workspace.path("pages/deep");
    assert_eq!(names_in(&pages), expected());
    for name in expected() {
        let mut groff = Command::new("groff");
        let ran = workspace
            .outcome(groff.args(["-man", "-Tutf8", "-ww", "-P-cbou"]).arg(pages.join(&name)));
        ran.exits(0);
        assert_eq!(ran.stderr, "", "{name}");
        let command = name.trim_end_matches(".1").replace('-', " ");
        let usage = format!("SYNOPSIS {command} [OPTIONS]");
        let words: Vec<&str> = ran.stdout.split_whitespace().collect();
        assert!(words.join(" ").contains(&usage), "{name}:\n{}", ran.stdout);
    }
    let pages_before: Vec<_> =
        expected().iter().map(|name| fs_err::read(pages.join(name)).unwrap()).collect();
    workspace.run(&["man", "pages/deep"]).exits(0);
    let pages_after: Vec<_> =
        expected().iter().map(|name| fs_err::read(pages.join(name)).unwrap()).collect();
    assert!(pages_before == pages_after, "the same program writes other pages");
}

#[test]
fn make_installs_man_pages_and_completions() {
    let workspace = Workspace::empty();
    let root = workspace.holder().join("root");
    let program = env!("CARGO_BIN_EXE_rocmrpm");
    let mut make = Command::new("make");
    make.args(["--no-print-directory", "install-pages", "PREFIX=/usr"]);
    make.args([format!("ROCMRPM={program}"), format!("DESTDIR={}", root.display())]);
    workspace.settle(&mut make);
    workspace.outcome(make.current_dir(REPOSITORY)).exits(0);
    let share = root.join("usr/share");
    assert_eq!(names_in(&share.join("man/man1")), expected());
    for (shell, file) in [
        ("bash", "bash-completion/completions/rocmrpm"),
        ("zsh", "zsh/site-functions/_rocmrpm"),
        ("fish", "fish/vendor_completions.d/rocmrpm.fish"),
    ] {
        let script = workspace.run(&["completions", shell]).exits(0).stdout.clone();
        assert_eq!(fs_err::read_to_string(share.join(file)).unwrap(), script, "{shell}");
    }
}
