//! Runs the commands of the guides, and checks that a test produces every transcript in the
//! documentation.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::transcript::{Block, blocks};
use crate::support::{REPOSITORY, Transcript, Workspace};

fn check(page: &str) {
    Transcript::page(page).run_at_home(&Workspace::empty());
}

macro_rules! guides {
    ($($test:ident: $page:literal),* $(,)?) => {
        const TESTED: &[&str] = &[$($page),*];
        $(#[test] fn $test() { check($page); })*
    };
}

guides! {
    packages_a_hip_library: "docs/guides/cpp.md",
    drops_a_component: "docs/guides/drop.md",
    explains_a_failed_build: "docs/guides/failures.md",
    inspects_files: "docs/guides/inspect.md",
    carries_a_patch: "docs/guides/patch.md",
    publishes_an_index: "docs/guides/publish-index.md",
    publishes_a_repository: "docs/guides/publish-repository.md",
    packages_a_python_project: "docs/guides/python.md",
    keeps_a_stack_current: "docs/guides/pipeline.md",
    updates_a_version: "docs/guides/update.md",
    creates_a_workspace: "docs/guides/workspace.md",
}

/// Needs the pip index of this machine, which has the source of rpds-py.
#[test]
fn finds_the_crates_of_a_rust_extension() {
    let workspace = Workspace::quickstart(&[]);
    Transcript::block("docs/guides/rust.md", "rocmrpm add rpds-py --version 0.30.0")
        .run(&workspace);
}

/// Returns the pages with their paths.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(REPOSITORY);
    let entries = walkdir::WalkDir::new(root.join("docs")).sort_by_file_name().into_iter();
    let files = entries.map(|entry| entry.unwrap().into_path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let page = |path: std::path::PathBuf| {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        (name, fs_err::read_to_string(path).unwrap())
    };
    files.chain([root.join("README.md")]).map(page).collect()
}

/// Whether a program prints such a line, or a user types it at a prompt.
fn is_of_a_transcript(line: &str) -> bool {
    // The verb of a status line ends in column 12.
    let status = line.as_bytes().get(12) == Some(&b' ')
        && line.get(..12).is_some_and(|verb| {
            let word = verb.trim_start();
            verb.starts_with(' ')
                && word.starts_with(|first: char| first.is_ascii_uppercase())
                && word.chars().skip(1).all(|rest| rest.is_ascii_lowercase())
        });
    let starts = ["$ ", "error: ", "help: ", "next: ", "note: ", "warning: "];
    status || starts.iter().any(|start| line.trim_start().starts_with(start))
}

/// Returns what is wrong with a block: no test produces it, or the test that it names does not.
fn untested(page: &str, block: &Block) -> Option<String> {
    if block.text.lines().any(|line| line.trim_start().starts_with("```")) {
        return Some("the block has no end".to_owned());
    }
    if block.language != "console" {
        // The reference is generated from code, and quotes logs of other programs.
        if page.starts_with("docs/reference/") {
            return None;
        }
        let line = block.text.lines().find(|line| is_of_a_transcript(line))?;
        return Some(format!("`{line}` is of a transcript: make the block `console`"));
    }
    let Some(command) = block.command() else {
        return Some("a transcript starts with a command, after `$ `".to_owned());
    };
    let Some(test) = &block.test else {
        let tested = TESTED.contains(&page);
        return (!tested).then(|| format!("no test runs `{command}`: name one"));
    };
    let code = fs_err::read_to_string(Path::new(REPOSITORY).join(test)).unwrap_or_default();
    let code: String = code.split_whitespace().collect();
    let call: String =
        format!("Transcript::block({page:?},{command:?}").split_whitespace().collect();
    (!code.contains(&call)).then(|| format!("{test} does not produce `{command}`"))
}

#[test]
fn tests_produce_every_transcript() {
    let (mut wrong, mut run) = (Vec::new(), BTreeSet::new());
    for (page, text) in pages() {
        for block in blocks(&text) {
            if block.language == "console" && block.test.is_none() {
                run.insert(page.clone());
            }
            wrong
                .extend(untested(&page, &block).map(|why| format!("{page}:{}: {why}", block.line)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let without: Vec<_> = TESTED.iter().filter(|page| !run.contains(**page)).collect();
    assert!(without.is_empty(), "these pages have no transcripts: {without:?}");
}

#[test]
fn finds_untested_transcripts() {
    let found = |text: &str| {
        let blocks = blocks(text);
        blocks.iter().find_map(|block| untested("docs/guides/none.md", block)).unwrap_or_default()
    };
    for lines in ["$ rocmrpm plan\n", "    Finished 1 built\n", "  help: run it\n", "error: no\n"] {
        assert!(found(&format!("```text\n{lines}```\n")).contains("make the block `console`"));
    }
    assert_eq!(found("```console\n$ ls\n\n```sh\nls\n```\n"), "the block has no end");
    let page = "```console\n$ rocmrpm plan\n```\n";
    assert_eq!(found(page), "no test runs `rocmrpm plan`: name one");
    let named = |test: &str| found(&format!("<!-- test: tests/{test}.rs -->\n{page}"));
    assert_eq!(named("none"), "tests/none.rs does not produce `rocmrpm plan`");
    assert_eq!(
        named("workspace/words"),
        "tests/workspace/words.rs does not produce `rocmrpm plan`"
    );
    assert_eq!(found("```text\nsrc/\n    Files of a component\n```\n"), "");
}
