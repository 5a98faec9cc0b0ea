//! Each guard against hostile input is in one place, and no code of the program or its crates
//! bypasses it. clippy.toml configures what clippy can check; these tests check which programs are
//! started, which files of a workspace are used, and how crates depend on each other. `circles` checks
//! modules and files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every program that rocmrpm starts, and the files that start it. A new line is a decision: if the
/// program runs code or commands from its input, it belongs in `RUN_CODE` of
/// crates/rocmrpm-base/src/process.rs. Text without quotes is the expression in the code.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("\"apt-cache\"", &["rocmrpm-core/build/requires.rs"]),
    ("\"aws\"", &["pip-index/publish/aws.rs"]),
    ("\"bash\"", &["rocmrpm-core/build/host.rs"]),
    ("\"buildah\"", &["rocmrpm-core/verify/place.rs"]),
    ("\"bzip2\"", &["rocmrpm-core/sources/unpack.rs"]),
    ("\"cargo\"", &["rocmrpm-core/sources/crates.rs"]),
    ("\"copr-cli\"", &["rocmrpm-core/copr/client.rs"]),
    ("\"createrepo_c\"", &["rocmrpm-rpms/repository.rs"]),
    ("\"curl\"", &["rocmrpm-fetch/curl.rs"]),
    ("\"dnf\"", &["rocmrpm-core/packages/live.rs"]),
    ("\"dpkg-query\"", &["rocmrpm-core/build/host.rs"]),
    ("\"git\"", &["rocmrpm-core/git.rs"]),
    ("\"gpg\"", &["rocmrpm-rpms/signing.rs"]),
    ("\"id\"", &["rocmrpm-core/build/mock/mod.rs"]),
    ("\"mock\"", &["rocmrpm-core/build/mock/root.rs"]),
    ("\"patch\"", &["rocmrpm-core/patches/apply.rs"]),
    ("\"pip\"", &["rocmrpm-fetch/pip.rs"]),
    ("\"python3\"", &["rocmrpm-core/closure/imports/python.rs", "rocmrpm-fetch/pip.rs"]),
    (
        "\"rpm\"",
        &[
            "rocmrpm-core/build/host.rs",
            "rocmrpm-core/build/host_root.rs",
            "rocmrpm-core/copr/results.rs",
            "rocmrpm-core/macros.rs",
            "rocmrpm-core/verify/packages.rs",
        ],
    ),
    (
        "\"rpmbuild\"",
        &[
            "rocmrpm-core/build/host.rs",
            "rocmrpm-core/build/release.rs",
            "rocmrpm-core/copr/macros.rs",
        ],
    ),
    ("\"rpmkeys\"", &["rocmrpm-rpms/signing.rs"]),
    ("\"rpmsign\"", &["rocmrpm-rpms/signing.rs"]),
    ("\"rpmspec\"", &["rocmrpm-core/lint/expand.rs"]),
    ("\"rsync\"", &["pip-index/publish/rsync.rs"]),
    ("\"skopeo\"", &["rocmrpm-core/container/images.rs"]),
    ("\"tar\"", &["rocmrpm-core/verify/place.rs"]),
    ("\"timeout\"", &["rocmrpm-core/verify/place.rs"]),
    ("\"unshare\"", &["rocmrpm-core/verify/packages.rs"]),
    ("\"uv\"", &["rocmrpm-core/uv.rs"]),
    ("PYTHON", &["rocmrpm-base/machine.rs"]),
    ("dnf", &["rocmrpm-core/verify/packages.rs"]),
    ("machine::PYTHON", &["rocmrpm-core/build/requires.rs"]),
    // rpmbuild and rpmspec, what the user types after `rocmrpm shell`, or a locked package's
    // `rocm-sdk`.
    (
        "program",
        &[
            "rocmrpm-core/build/host.rs",
            "rocmrpm-core/build/rocm_root.rs",
            "rocmrpm-core/evidence/surroundings.rs",
            "rocmrpm-core/pipeline/notify.rs",
            "rocmrpm/cli/doctor.rs",
            "rocm-inspect/system.rs",
        ],
    ),
    ("runner.name()", &["rocmrpm-core/container/launch.rs"]),
    ("self.name()", &["rocmrpm-core/container/engine.rs"]),
];

/// The files that use paths below a workspace that are not literals, and why these are in a folder
/// that `workspace::check_inputs` checked, or in `build`.
const PATHS: &[(&str, &str)] = &[
    (
        "rocmrpm-core/build/mock/config.rs",
        "`TEMPLATE`; a repository's key, which may be any file of the machine",
    ),
    ("rocmrpm-core/build/mock/mod.rs", "`TEMPLATE`, in mock-configs"),
    ("rocmrpm/cli/container.rs", "a Containerfile"),
    ("rocmrpm/cli/init.rs", "what `init` writes, after `check_inputs`"),
    ("rocmrpm/cli/index_serve.rs", "the folder of a served index, not a workspace"),
    ("rocmrpm/cli/inspect.rs", "only whether `MANIFEST` exists"),
    ("rocmrpm/cli/schemas.rs", "`.schemas`, after `check_inputs`"),
    (
        "rocmrpm-core/closure/changes.rs",
        "what `closure --write` writes: pins and specs-templates/generated",
    ),
    ("rocmrpm-core/draft/addition.rs", "the pin set, in pins"),
    ("rocmrpm-core/closure/earlier.rs", "the lock of a pin set, in pins"),
    ("rocmrpm-core/closure/generate/mod.rs", "specs-templates/generated"),
    ("rocmrpm-core/git/changes.rs", "what git lists; links are not followed"),
    ("rocmrpm-core/packages/mod.rs", "the package tables, in mock-configs"),
    ("rocmrpm-core/pins/set_text.rs", "a pin set, in pins"),
    ("rocmrpm-core/sources/git.rs", "a repository on this machine, for git"),
    ("rocmrpm-core/sources/mod.rs", "a source, which `folder_in` checks"),
    ("rocmrpm-core/sources/submodules.rs", "a repository on this machine, for git"),
    ("rocmrpm-core/spec/history/read.rs", "a component's folder, a pin set or a chroot"),
    ("rocmrpm-core/watch/mod.rs", "only whether a patch or a component's folder exists"),
];

/// The folders and files of a workspace that are checked before they are used. `build` is checked
/// where its chroot is chosen.
const CHECKED: &[&str] = &[
    "copr/",
    "mock-configs",
    "pins/",
    "specs-templates",
    "rocmrpm.toml",
    "upstreams.toml",
    "build",
];

/// Parts of the names of upstream projects. What is known about them is data of the stack:
/// `upstreams.toml`, `component.toml`, and `rocmrpm.toml`.
const UPSTREAM: &[&str] = &[
    "aiter",
    "flash-attn",
    "flash_attn",
    "jax",
    "llama",
    "ollama",
    "torch",
    "triton",
    "vllm",
    "xla",
];

/// The lines that may name an upstream project: the file, a part of the line, and why.
const UPSTREAM_NAMED: &[(&str, &str, &str)] = &[
    ("pip-index/error.rs", "write e.g. `torch`", "an example in a message"),
    ("python-packaging/wheel/stable_abi.toml", "AIter", "functions of Python for async iterators"),
    (
        "rocm-inspect/libraries.toml",
        "",
        "which wheel has a library that other wheels are linked to",
    ),
    (
        "rocm-inspect/rules/",
        "",
        "texts of rules cite incidents; one rule is about PyTorch's C++ interface",
    ),
    ("rocmrpm-base/gpu_machine/", "PYTORCH_ROCM_ARCH", "a variable with GPU targets"),
    ("rocmrpm-core/build/failures.toml", "", "texts of rules"),
    ("rocmrpm-core/closure/never.toml", "reason = ", "texts of rules"),
    ("rocmrpm-core/container/mod.rs", "let example = ", "an example in a message"),
    ("rocmrpm-core/lint_rules.rs", "", "texts of rules cite incidents"),
    (
        "rocmrpm-core/spec/exports.rs",
        "_ARCH\"",
        "the variables with GPU targets that every spec exports",
    ),
    ("rocmrpm-core/uv.rs", "UV_TORCH_BACKEND", "a variable of uv's own"),
    ("rocmrpm-core/workspace/examples/", "", "examples in the reference of files"),
    ("rocmrpm-core/workspace/installation_check.rs", "such as", "an example in a message"),
    ("rocmrpm/cli/args.rs", "such as", "an example in a message"),
];

/// Returns the folders with the program's code and with that of each crate, by the crate's name.
pub(crate) fn crates() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let members = fs_err::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut crates: BTreeMap<String, PathBuf> = members.map(|path| (name(&path), path)).collect();
    crates.insert("rocmrpm".into(), root.to_owned());
    assert!(crates.len() > 5, "{crates:?}");
    crates
}

/// Returns the files of all crates whose paths, with the crate's name, are `wanted`: by the crate's name
/// and the path in its `src`.
fn files(wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (name, folder) in crates() {
        let root = folder.join("src");
        for entry in walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap) {
            let path = entry.path().strip_prefix(&root).unwrap().to_str().unwrap();
            let shown = format!("{name}/{path}");
            if wanted(&shown) {
                found.insert(shown, fs_err::read_to_string(entry.path()).unwrap());
            }
        }
    }
    found
}

/// Returns a text without the lines that are comments.
fn without_comments(text: &str, comment: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(comment));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the code of every file without its tests, by the crate's name and the path in its `src`.
pub(crate) fn sources() -> BTreeMap<String, String> {
    let of_tests = [
        "/tests/",
        "/tests.rs",
        "_tests.rs",
        "/testing.rs",
        "/testserver.rs",
        "/fuzzing.rs",
        "rocm-inspect/hostile.rs",
        "rocm-inspect/sample.rs",
    ];
    let wanted =
        |path: &str| path.ends_with(".rs") && !of_tests.iter().any(|part| path.contains(part));
    let mut found = files(wanted);
    for text in found.values_mut() {
        let tests = ["\n#[cfg(test)]\nmod tests {", "\n#[cfg(test)]\npub(super) mod tests {"];
        let code =
            tests.iter().fold(text.as_str(), |code, start| code.split(start).next().unwrap());
        *text = without_comments(code, "//");
    }
    assert!(found.len() > 300, "{} files", found.len());
    found
}

/// Returns the text in the parentheses after each `call(`.
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
fn programs_start_only_in_expected_files() {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let sources = sources();
    for (file, code) in &sources {
        for program in arguments(code, "Command::new(") {
            found.entry(program).or_default().insert(file);
        }
    }
    let expected: BTreeMap<&str, BTreeSet<&str>> = PROGRAMS
        .iter()
        .map(|(program, files)| (*program, files.iter().copied().collect()))
        .collect();
    similar_asserts::assert_eq!(expected, found);
}

#[test]
fn only_tests_run_code_without_trust() {
    for (file, code) in sources() {
        for call in ["runs_code_of_tests(", "trust_in_this_process("] {
            let calls = code.replace(&format!("pub fn {call}"), "");
            assert!(!calls.contains(call), "{file} calls `{call})`");
        }
    }
}

#[test]
fn only_checked_files_of_a_workspace_are_used() {
    let mut found = BTreeSet::new();
    let sources = sources();
    for (file, code) in
        sources.iter().filter(|(file, _)| !file.starts_with("rocmrpm-core/workspace/"))
    {
        let calls = ["workspace.root.join(", "workspace_root.join(", "workspace().root.join("];
        // A local variable of this name may be any folder: those of other modules are not listed.
        let dirs = [
            "rocmrpm/cli/",
            "rocmrpm-core/closure/",
            "rocmrpm-core/packages/",
            "rocmrpm-core/pins/",
            "rocmrpm-core/git/",
        ];
        let own = dirs.iter().any(|dir| file.starts_with(dir));
        let calls =
            calls.iter().chain(own.then_some(&" root.join(")).chain(own.then_some(&"(root.join("));
        let calls =
            calls.chain(own.then_some(&"&root.join(")).chain(own.then_some(&"self.root.join("));
        for path in calls.flat_map(|call| arguments(code, call)) {
            let literal = path
                .trim_start_matches("format!(")
                .strip_prefix('"')
                .map(|text| text.trim_end_matches('"'));
            match literal {
                Some(path) => assert!(
                    CHECKED.iter().any(|checked| path.starts_with(checked)),
                    "{file} uses `{path}` of the workspace: add its folder to `FOLDERS` in \
                     crates/rocmrpm-core/src/workspace/paths.rs, so that links in it are refused"
                ),
                None => drop(found.insert(file.as_str())),
            }
        }
    }
    let expected: BTreeSet<&str> = PATHS.iter().map(|(file, _)| *file).collect();
    similar_asserts::assert_eq!(expected, found);
}

#[test]
fn clippy_rejects_processes_started_elsewhere() {
    let clippy = Path::new(env!("CARGO_MANIFEST_DIR")).join("clippy.toml");
    let clippy = fs_err::read_to_string(clippy).unwrap();
    for method in ["duct::cmd", "std::process::Command::new"] {
        assert!(clippy.contains(&format!("path = \"{method}\"")), "{method}");
    }
    let sources = sources();
    let mut expected: BTreeSet<String> =
        crates().keys().map(|name| format!("{name}/lib.rs")).collect();
    for file in &expected {
        assert!(sources[file].contains("warn(clippy::disallowed_methods"), "{file}");
    }
    expected.insert("rocmrpm-base/process.rs".into());
    let found = sources.iter().filter(|(_, code)| code.contains("clippy::disallowed_methods"));
    similar_asserts::assert_eq!(
        expected,
        found.map(|(file, _)| file.clone()).collect::<BTreeSet<_>>()
    );
}

/// Cargo rejects cycles between crates. It does not detect a library that depends on crates that
/// only the program or only the core should use.
#[test]
fn libraries_do_not_depend_on_terminal_or_templates() {
    for (name, folder) in crates() {
        let manifest: toml::Table =
            fs_err::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
        let uses = |name: &str| dependencies.is_some_and(|table| table.contains_key(name));
        // `anstyle` only describes colors, which text reports have.
        for library in ["annotate-snippets", "anstream", "clap", "clap_complete", "indicatif"] {
            assert_eq!(uses(library), name == "rocmrpm", "{name}: {library}");
        }
        assert_eq!(uses("tera"), name == "rocmrpm-core", "{name}: tera");
    }
}

/// Returns the tables and templates that are part of the program, without comments, by the crate's name
/// and the path in its `src`.
fn tables() -> BTreeMap<String, String> {
    let endings = [".toml", ".tera", ".py", ".macros", ".html", ".css", ".js"];
    let wanted = |path: &str| {
        endings.iter().any(|ending| path.ends_with(ending)) && !path.contains("tests/")
    };
    let mut found = files(wanted);
    found.values_mut().for_each(|text| *text = without_comments(text, "#"));
    assert!(found.len() > 30, "{} files", found.len());
    found
}

#[test]
fn only_the_stack_names_upstream_projects() {
    let mut unused: BTreeSet<_> = UPSTREAM_NAMED.iter().collect();
    let mut unexpected = Vec::new();
    for (file, text) in sources().into_iter().chain(tables()) {
        let named =
            |line: &&str| UPSTREAM.iter().any(|name| line.to_ascii_lowercase().contains(name));
        for line in text.lines().filter(named) {
            let allowed = |(start, part, _): &&(&str, &str, &str)| {
                file.starts_with(start) && line.contains(part)
            };
            match UPSTREAM_NAMED.iter().find(allowed) {
                Some(row) => drop(unused.remove(row)),
                None => unexpected.push(format!("{file}: {}", line.trim())),
            }
        }
    }
    // What is known about upstream projects is data of the stack.
    assert_eq!(unexpected, [""; 0]);
    assert!(unused.is_empty(), "these no longer name an upstream project: {unused:?}");
}

#[test]
fn every_json_document_has_a_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
    let mut missing = Vec::new();
    for (file, code) in sources().into_iter().filter(|(_, code)| code.contains("Document for ")) {
        // Some documents name a constant of their module.
        let constants = code.lines().filter(|line| line.contains("SCHEMA: &"));
        for id in constants.filter_map(|line| line.split('"').nth(1)) {
            let name = id.split_once('/').unwrap().1.replace('/', "-");
            if !folder.join(format!("{name}.schema.json")).is_file() {
                missing.push(format!("{file}: {id}"));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
}

/// Debug output follows the names in the code, so a key or a record made of it changes when something
/// is renamed. Keys are made with `rocmrpm_base::canonical`; messages use `Display`.
#[test]
fn no_code_outside_tests_formats_debug_output() {
    for (file, code) in sources() {
        for format in [":?}", ":#?}", "dbg!("] {
            let line = code.lines().find(|line| line.contains(format));
            assert!(
                line.is_none(),
                "{file} formats debug output: {}",
                line.unwrap_or_default().trim()
            );
        }
    }
}
