//! `rocmrpm graph`, `check`, and `cache`, as users see them. Offline.

use std::time::{Duration, SystemTime};

use snapbox::{assert_data_eq, str};

use crate::support::{Parts, Workspace};

/// Returns a workspace in which `app` requires `lib` and `tool`, and `tool` requires `lib`.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.component("lib", &Parts::default());
    workspace.component("tool", &Parts { toml: "requires = [\"lib\"]\n", ..Parts::default() });
    workspace
        .component("app", &Parts { toml: "requires = [\"tool\", \"lib\"]\n", ..Parts::default() });
    workspace
}

#[test]
fn graph_shows_what_requires_what() {
    let workspace = workspace();
    assert_data_eq!(
        workspace.run(&["graph"]).exits(0).stdout.as_str(),
        str![[r#"
app 1.0
├── tool 1.0
│   └── lib 1.0
└── lib 1.0

"#]]
    );
    let dot = workspace.run(&["graph", "tool", "--format", "dot"]);
    assert_data_eq!(
        dot.exits(0).stdout.as_str(),
        str![[r#"
digraph {
    rankdir = RL
    node [shape = box]
    "lib" [label = "lib/n1.0"]
    "tool" [label = "tool/n1.0"]
    "tool" -> "lib"
}

"#]]
    );
    let svg = workspace.run(&["graph", "--format", "svg"]);
    assert_eq!(svg.exits(0).stdout.matches("<rect ").count(), 3, "{svg}");
    assert_eq!(svg.stdout.matches("<path ").count(), 3, "{svg}");
    let html = workspace.run(&["graph", "--format", "html"]).exits(0).stdout.clone();
    assert!(html.contains("<h1>test</h1>") && html.contains(svg.stdout.as_str()), "{html}");
    workspace.run(&["graph", "tools"]).exits(2).reports(["did you mean `tool`?"]);
}

#[test]
fn check_runs_all_checks_and_names_those_that_fail() {
    let workspace = workspace();
    let passed = workspace.run(&["check", "--offline"]);
    assert_data_eq!(
        passed.exits(0).stderr.as_str(),
        str![[r#"
    Checking rocmrpm render --check
     Checked 0 committed files; 3 specs rendered
    Checking rocmrpm pins check
     Checked pins/stable.toml for host: 0 errors, 0 warnings; 0 upstream files and upstreams.toml
    Checking rocmrpm lint

      Passed 3 checks

"#]]
    );
    workspace.replace("specs-templates/lib/lib.spec.tera", "MIT", "Some License");
    let failed = workspace.run(&["check", "--offline"]);
    assert_data_eq!(
        failed.exits(1).stdout.as_str(),
        str![[r#"
error[license-not-spdx]: build/host/specs/lib.spec:6
  found       `Some License` is not an SPDX expression
  expected    an SPDX expression
  help        write identifiers from https://spdx.org/licenses/ with AND, OR and WITH; for others, use `LicenseRef-NAME`

1 error, 0 warnings in 3 specs

"#]]
    );
    failed.reports(["      Failed 1 of 3 checks: lint"]);
}

#[test]
fn cache_shows_and_removes_what_was_not_used() {
    let workspace = Workspace::init();
    let empty = workspace.run(&["cache"]);
    assert_eq!(empty.exits(0).stdout, "");
    let (old, new) = ("packed/old", "git/new");
    for (name, size) in [(old, 3000), (new, 500)] {
        let path = workspace.cache().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, vec![0; size]).unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_secs(40 * 24 * 60 * 60);
    let file = fs_err::OpenOptions::new().write(true).open(workspace.cache().join(old)).unwrap();
    let times = std::fs::FileTimes::new().set_accessed(long_ago).set_modified(long_ago);
    file.file().set_times(times).unwrap();
    assert_data_eq!(
        workspace.run(&["cache"]).exits(0).stdout.as_str(),
        str![[r#"
FOLDER  ENTRIES  SIZE    UNUSED FOR 30 DAYS  CONTAINS
git     1        500 B   0 B                 git repositories
packed  1        3.0 kB  3.0 kB              digests of packed archives

"#]]
    );
    let json = workspace.run(&["cache", "--json"]);
    assert_eq!(json.document("rocmrpm/cache/1")["kinds"][1]["unused"], 3000);
    let dry = workspace.run(&["cache", "prune", "--dry-run"]);
    dry.exits(0).prints([old]).reports(["Would free 3.0 kB"]);
    assert!(workspace.cache().join(old).exists());
    workspace.run(&["cache", "prune"]).exits(0).reports(["Freed 3.0 kB"]);
    assert!(!workspace.cache().join(old).exists() && workspace.cache().join(new).exists());
}

#[test]
fn messages_are_wrapped_between_words_on_a_terminal_only() {
    let workspace = workspace();
    let program = env!("CARGO_BIN_EXE_rocmrpm");
    let on_terminal = |columns: usize| {
        let command =
            format!("stty cols {columns}; {program} plan --pins no-such-pin-set-anywhere");
        workspace.shell(&format!("script -qec '{command}' /dev/null")).stdout.replace('\r', "")
    };
    let plain = workspace.run(&["plan", "--pins", "no-such-pin-set-anywhere"]).stderr;
    let narrow = anstream::adapter::strip_str(&on_terminal(44)).to_string();
    assert!(narrow.lines().count() > plain.lines().count(), "{narrow}\n{plain}");
    assert!(narrow.lines().all(|line| line.len() < 44), "{narrow}");
    let joined: Vec<&str> = narrow.split_whitespace().collect();
    assert_eq!(joined, plain.split_whitespace().collect::<Vec<_>>());
    assert_eq!(anstream::adapter::strip_str(&on_terminal(200)).to_string(), plain);
}

#[test]
fn findings_are_wrapped_between_words_on_a_terminal() {
    let workspace = workspace();
    workspace.replace("specs-templates/lib/lib.spec.tera", "MIT", "Some License");
    workspace.shell("head -c 3000 /bin/sh > damaged-library-of-this-test.so").exits(0);
    let program = env!("CARGO_BIN_EXE_rocmrpm");
    for arguments in ["lint", "inspect damaged-library-of-this-test.so", "explain text-relocations"]
    {
        let on_terminal = |columns: usize, terminal: &str| {
            let command = format!("stty cols {columns}; TERM={terminal} {program} {arguments}");
            let ran = workspace.shell(&format!("script -qec '{command}' /dev/null"));
            ran.stdout.replace('\r', "")
        };
        let at_pipe = workspace.shell(&format!("{program} {arguments}")).stdout;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let narrow = on_terminal(60, "dumb");
        // Commands in backquotes stay whole, for copying.
        let is_long = |line: &str| line.chars().count() > 60 && !line.contains('`');
        assert!(!narrow.lines().any(is_long), "{narrow}");
        assert!(narrow.lines().count() > at_pipe.lines().count(), "{narrow}\n{at_pipe}");
        assert_eq!(words(&narrow), words(&at_pipe));
        assert!(!at_pipe.contains('\u{1b}') && !narrow.contains('\u{1b}'), "{narrow}");
        let colored = on_terminal(60, "xterm");
        assert_ne!(colored, narrow);
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), narrow);
    }
}
