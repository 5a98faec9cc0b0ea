//! What guards against hostile input is in one place each, and nothing in `src/` goes around it. What
//! clippy can see is in clippy.toml; here is what it cannot: which program is started, and which files
//! of a workspace are used.

#![expect(clippy::unwrap_used, reason = "a test's helpers may fail as the test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Every program that rocmrpm starts, and the files that start it. A new line is a decision: does the
/// program run code, or take commands, from what it reads? Then it belongs in `RUN_CODE` of
/// src/process.rs. What is not in quotes stands in the code as is.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("\"aws\"", &["index/publish/aws.rs"]),
    ("\"bash\"", &["build/host.rs"]),
    ("\"buildah\"", &["verify/place.rs"]),
    ("\"bzip2\"", &["sources/unpack.rs"]),
    ("\"cargo\"", &["sources/crates.rs"]),
    ("\"copr-cli\"", &["copr/client.rs"]),
    ("\"createrepo_c\"", &["rpms/repository.rs"]),
    ("\"curl\"", &["sources/curl.rs"]),
    ("\"dnf\"", &["packages/live.rs"]),
    ("\"dpkg-query\"", &["build/host.rs"]),
    ("\"git\"", &["git.rs"]),
    ("\"gpg\"", &["rpms/signing.rs"]),
    ("\"id\"", &["build/mock/mod.rs"]),
    ("\"mock\"", &["build/mock/root.rs"]),
    ("\"patch\"", &["patches/apply.rs"]),
    ("\"pip\"", &["sources/pip.rs"]),
    ("\"python3\"", &["closure/imports/python.rs", "sources/pip.rs"]),
    ("\"rclone\"", &["index/publish/rclone.rs"]),
    ("\"rpm\"", &["build/host.rs", "copr/results.rs", "verify/packages.rs"]),
    ("\"rpmbuild\"", &["build/host.rs", "build/release.rs", "copr/macros.rs"]),
    ("\"rpmkeys\"", &["rpms/signing.rs"]),
    ("\"rpmsign\"", &["rpms/signing.rs"]),
    ("\"rpmspec\"", &["lint/expand.rs"]),
    ("\"rsync\"", &["index/publish/rsync.rs"]),
    ("\"tar\"", &["verify/place.rs"]),
    ("\"timeout\"", &["verify/place.rs"]),
    ("\"unshare\"", &["verify/packages.rs"]),
    ("\"uv\"", &["uv.rs"]),
    ("PYTHON", &["machine.rs"]),
    ("dnf", &["verify/packages.rs"]),
    ("machine::PYTHON", &["build/requires.rs"]),
    // rpmbuild and rpmspec, or what the user types after `rocmrpm shell`.
    ("program", &["build/host.rs", "cli/doctor.rs", "inspect/system.rs"]),
    ("self.name()", &["container/engine.rs"]),
];

/// The files that use paths below a workspace that are no literals, and why these lie in a folder
/// that `workspace::check_inputs` checked, or in `build`.
const PATHS: &[(&str, &str)] = &[
    ("build/mock/config.rs", "`TEMPLATE`; a repository's key, which may be any file of the machine"),
    ("build/mock/mod.rs", "`TEMPLATE`, in mock-configs"),
    ("cli/closure.rs", "what `closure --write` writes: pins and specs-templates/generated"),
    ("cli/add.rs", "the pin set, in pins"),
    ("cli/container.rs", "a Containerfile"),
    ("cli/init.rs", "what `init` writes, after `check_inputs`"),
    ("cli/index_serve.rs", "no workspace: the folder of a served index"),
    ("cli/inspect.rs", "only whether `MANIFEST` is there"),
    ("cli/lock.rs", "the lock of a pin set, in pins"),
    ("closure/earlier.rs", "the lock of a pin set, in pins"),
    ("closure/generate/mod.rs", "specs-templates/generated"),
    ("git/changes.rs", "what git lists; links are not followed"),
    ("packages/mod.rs", "the package tables, in mock-configs"),
    ("pins/set_text.rs", "a pin set, in pins"),
    ("sources/git.rs", "a repository on this machine, for git"),
    ("sources/mod.rs", "a source, which `folder_in` checks"),
    ("sources/submodules.rs", "a repository on this machine, for git"),
    ("spec/history/read.rs", "a component's folder, a pin set or a chroot"),
];

/// The folders and files of a workspace that are checked before they are used. `build` is checked
/// where its chroot is chosen.
const CHECKED: &[&str] = &["copr/", "mock-configs", "pins/", "specs-templates", "rocmrpm.toml", "build"];

/// Returns the code of every file in `src/` without its tests, by path below `src/`.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    for entry in walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap) {
        let name = entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let of_tests = ["/tests/", "/tests.rs", "_tests.rs", "/testing.rs", "/testserver.rs"];
        if !name.ends_with(".rs") || of_tests.iter().any(|part| format!("/{name}").contains(part)) {
            continue;
        }
        let text = fs_err::read_to_string(entry.path()).unwrap();
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        found.insert(name, lines.collect::<Vec<_>>().join("\n"));
    }
    assert!(found.len() > 300, "{} files", found.len());
    found
}

/// Returns what stands in the parentheses after each `call(`.
fn arguments<'t>(code: &'t str, call: &str) -> Vec<&'t str> {
    let after = code.match_indices(call).map(|(at, _)| &code[at + call.len()..]);
    after.map(closed).collect()
}

/// Returns the text up to the parenthesis that closes the one before it.
fn closed(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return text[..at].trim(),
            ')' => depth -= 1,
            _ => {}
        }
    }
    text
}

#[test]
fn programs_start_only_where_they_are_expected_to() {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let sources = sources();
    for (file, code) in &sources {
        for program in arguments(code, "Command::new(") {
            found.entry(program).or_default().insert(file);
        }
    }
    let expected: BTreeMap<&str, BTreeSet<&str>> =
        PROGRAMS.iter().map(|(program, files)| (*program, files.iter().copied().collect())).collect();
    similar_asserts::assert_eq!(expected, found);
}

#[test]
fn only_tests_run_code_without_trust() {
    for (file, code) in sources() {
        for call in ["runs_code_of_tests(", "trust_in_this_process("] {
            let calls = code.replace(&format!("pub fn {call}"), "");
            assert!(!calls.contains(call), "src/{file} calls `{call})`");
        }
    }
}

#[test]
fn only_checked_files_of_a_workspace_are_used() {
    let mut found = BTreeSet::new();
    let sources = sources();
    for (file, code) in sources.iter().filter(|(file, _)| !file.starts_with("workspace/")) {
        let calls = ["workspace.root.join(", "workspace_root.join(", "workspace().root.join("];
        // A local variable of this name may be any folder: those of other modules are not listed.
        let own = ["cli/", "closure/", "packages/", "pins/", "git/"].iter().any(|dir| file.starts_with(dir));
        let calls = calls.iter().chain(own.then_some(&" root.join(")).chain(own.then_some(&"(root.join("));
        let calls = calls.chain(own.then_some(&"&root.join(")).chain(own.then_some(&"self.root.join("));
        for path in calls.flat_map(|call| arguments(code, call)) {
            let literal =
                path.trim_start_matches("format!(").strip_prefix('"').map(|text| text.trim_end_matches('"'));
            match literal {
                Some(path) => assert!(
                    CHECKED.iter().any(|checked| path.starts_with(checked)),
                    "src/{file} uses `{path}` of the workspace: add its folder to `FOLDERS` in \
                     src/workspace/paths.rs, so that links in it are refused"
                ),
                None => drop(found.insert(file.as_str())),
            }
        }
    }
    let expected: BTreeSet<&str> = PATHS.iter().map(|(file, _)| *file).collect();
    similar_asserts::assert_eq!(expected, found);
}

#[test]
fn clippy_sees_what_goes_around_the_one_place_for_processes() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs_err::read_to_string(repository.join(name)).unwrap();
    assert!(read("src/lib.rs").contains("warn(clippy::disallowed_methods"));
    for method in ["duct::cmd", "std::process::Command::new"] {
        assert!(read("clippy.toml").contains(&format!("path = \"{method}\"")), "{method}");
    }
    let expecting = sources();
    let expecting: Vec<&str> = expecting
        .iter()
        .filter(|(_, code)| code.contains("clippy::disallowed_methods"))
        .map(|(file, _)| file.as_str())
        .collect();
    assert_eq!(expecting, ["lib.rs", "process.rs"]);
}
