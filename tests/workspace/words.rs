//! Texts, code, and names do not use words and spellings that the writing rules in CONTRIBUTING.md
//! replace. What no list can find, such as riddles, stays with the reader.

use std::collections::BTreeSet;
use std::path::Path;

/// Words in lower case, and what to write instead. `*` at the end stands for any letters.
const REPLACED: &[(&str, &str)] = &[
    ("anew", "again"),
    ("as it stands", "as is"),
    ("begun", "started"),
    ("belongs into", "belongs in"),
    ("cannot be had", "is unavailable"),
    ("catalogue*", "catalog"),
    ("colour*", "color"),
    ("fits for", "works with"),
    ("flavour*", "flavor"),
    ("goes on", "continues"),
    ("heed*", "the name of what happens"),
    ("is looked at", "is checked"),
    ("is looked for", "rocmrpm searches for it"),
    ("licence*", "license"),
    ("lies", "is"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("nobody", "no one"),
    ("normalis*", "normalize"),
    ("of our own", "our"),
    ("of strangers", "untrusted"),
    ("once more", "again"),
    ("our mistake", "a bug in rocmrpm"),
    ("tell", "show, report, or list"),
    ("tells", "shows, reports, or lists"),
    ("told", "shown, reported, or listed"),
    ("under way", "running"),
    ("where absent", "if omitted"),
    ("where there is none", "if missing"),
    ("who wants to", "if you want to"),
    ("whoever", "anyone who"),
    ("without a word", "silently"),
];

/// Uses that stay: the start of the path, the word, and the reason.
const ACCEPTED: &[(&str, &str, &str)] = &[
    ("tests/workspace/words.rs", "*", "the list itself"),
    ("CONTRIBUTING.md", "*", "the examples of the writing rules"),
    ("mock-configs/packages/", "*", "names of packages"),
    ("tests/failures/", "*", "logs of other programs"),
    ("crates/python-packaging/src/wheel/sbom.rs", "licence*", "a test of another project's text"),
    ("crates/rocmrpm-core/src/closure/generate/", "licence*", "file names of upstream projects"),
    ("crates/rocmrpm-core/src/pins/changes/scan.rs", "licence*", "file names of upstream projects"),
    ("specs-templates/generated/", "licence*", "file names of upstream projects"),
    ("tests/golden/stack/vllm-rocm-runtime.spec", "licence*", "file names of upstream projects"),
    ("tests/packages/truth.rs", "nobody", "the user account"),
    ("crates/rocmrpm-base/src/gpu_machine/", "nobody", "the group of a user namespace"),
];

/// Folders and files of the repository with text of the project.
const READ: &[&str] = &[
    ".ci",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "benches",
    "clippy.toml",
    "copr",
    "crates",
    "docs",
    "examples",
    "fuzz/README.md",
    "fuzz/fuzz_targets",
    "fuzz/run.sh",
    "fuzz/seeds.sh",
    "mock-configs",
    "pins",
    "rocmrpm.toml",
    "specs-templates",
    "src",
    "tests",
    "tools",
    "upstreams.toml",
];

/// Returns the lines of a text that have a word, counted from 1.
fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let (word, open) = word.strip_suffix('*').map_or((word, false), |stem| (stem, true));
    let is_letter = |c: char| c.is_ascii_alphanumeric();
    let lines = text.lines().enumerate().filter(|(_, line)| {
        line.match_indices(word).any(|(at, _)| {
            let (before, after) =
                (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
            !before.is_some_and(is_letter) && (open || !after.is_some_and(is_letter))
        })
    });
    lines.map(|(at, _)| at + 1).collect()
}

#[test]
fn texts_use_plain_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut found, mut unused) = (Vec::new(), (0..ACCEPTED.len()).collect::<BTreeSet<_>>());
    let built = |entry: &walkdir::DirEntry| {
        ["build", "__pycache__", "target"].map(Some).contains(&entry.file_name().to_str())
    };
    for start in READ {
        let entries = walkdir::WalkDir::new(root.join(start)).into_iter();
        for entry in entries.filter_entry(|entry| {
            entry.depth() == 0 || !built(entry) || entry.path().ends_with("src/build")
        }) {
            let entry = entry.unwrap();
            let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap();
            if !entry.file_type().is_file() || path.ends_with(".patch") || path.ends_with(".lock") {
                continue;
            }
            // The rest is pictures.
            let Ok(text) = fs_err::read_to_string(entry.path()) else { continue };
            let text = text.to_ascii_lowercase();
            for (word, instead) in REPLACED {
                let lines = lines_with(&text, word);
                if lines.is_empty() {
                    continue;
                }
                let accepted = ACCEPTED.iter().position(|(start, accepted, _)| {
                    path.starts_with(start) && ["*", word].contains(accepted)
                });
                match accepted {
                    Some(at) => drop(unused.remove(&at)),
                    None => found.extend(
                        lines
                            .iter()
                            .map(|line| format!("{path}:{line}: `{word}`: write {instead}")),
                    ),
                }
            }
        }
    }
    assert!(found.is_empty(), "{} uses of replaced words:\n{}", found.len(), found.join("\n"));
    let unused: Vec<_> = unused.into_iter().map(|at| ACCEPTED[at]).collect();
    assert!(unused.is_empty(), "these accepted uses do not occur: {unused:?}");
}

#[test]
fn finds_whole_words_only() {
    assert_eq!(lines_with("retold\nit told us\ntold", "told"), [2, 3]);
    assert_eq!(lines_with("a_licence_file\nlicenses", "licence*"), [1]);
}
