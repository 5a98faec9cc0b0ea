//! Tests how Release follows from a given history.

use std::sync::Arc;

use super::*;
use crate::closure;
use crate::git::testing;
use crate::workspace::document::At;
use crate::workspace::testing::sample as workspace;
use crate::workspace::{ClosureRules, Source};

#[test]
fn date_without_history_is_the_epoch_or_the_earliest() {
    for (epoch, date) in [
        (None, EARLIEST),
        (Some("yesterday"), EARLIEST),
        (Some("0"), EARLIEST),
        (Some(" 1700000000\n"), 1_700_000_000),
    ] {
        assert_eq!(date_of_epoch(epoch), date, "{epoch:?}");
    }
}

#[test]
fn closure_pins_count_only_without_an_own_pin() {
    let dir = tempfile::tempdir().unwrap();
    let set = Arc::new(workspace(dir.path(), "fedora-43").pins.clone());
    let name = ComponentName::parse("one").unwrap();
    for (own, closures, pins) in [(true, 0, 1), (true, 2, 1), (false, 2, 2), (false, 0, 0)] {
        let closures = (0..closures).map(|n: usize| (n.to_string(), set.clone())).collect();
        let pinned = Pinned { own: own.then(|| set.clone()), closures };
        assert_eq!(pins_of(&pinned, &name).count(), pins);
    }
}

/// Returns a history with commits that change these paths, oldest first, one day apart.
fn history(workspace: &Workspace, commits: &[&[&str]]) -> History {
    let mut history = History { scope: Scope::of(workspace), ..History::default() };
    for (at, paths) in commits.iter().enumerate() {
        let hash = format!("{at:040x}");
        if paths.contains(&"pins/stable.toml") {
            let own = Some(Arc::new(workspace.pins.clone()));
            history.sets.insert(hash.clone(), Pinned { own, closures: BTreeMap::new() });
        }
        let commit = Commit {
            hash,
            seconds: EARLIEST + 86_400 * i64::try_from(at).unwrap(),
            author: "A".into(),
            email: "a@example.org".into(),
            subject: format!("Commit {at}"),
            changes: paths.iter().map(|path| ((*path).to_owned(), None)).collect(),
        };
        history.commits.insert(0, commit);
    }
    history
}

fn release(workspace: &Workspace, history: &History, name: &str) -> String {
    let stack = Stack::new(workspace).unwrap();
    history.release(&stack, workspace.component(name).unwrap()).release
}

const BEGIN: &[&str] = &["rocmrpm.toml", "pins/stable.toml", "src/one/a", "src/two/a"];

#[test]
fn release_counts_commits_of_the_component() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path(), "fedora-43");
    for (paths, one, two) in [
        (&["README.md"][..], "1", "1"),
        (&["src/two/a"], "1", "2"),
        (&["src/one/a"], "2", "2"),
        (&["src/one-more/a"], "1", "1"),
        (&["specs-templates/one/one.spec.tera"], "2", "2"),
        (&["specs-templates/_shared/x.tera"], "2", "2"),
        (&["mock-configs/fedora-44.toml"], "2", "2"),
        (&["mock-configs/mock.cfg.tera"], "2", "2"),
        (&["mock-configs/host.toml"], "1", "1"),
        (&["pins/stable.toml"], "1", "1"),
    ] {
        let history = history(&workspace, &[BEGIN, paths]);
        let found = ["one", "two"].map(|name| release(&workspace, &history, name));
        assert_eq!(found, [one, two].map(|number| format!("{number}%{{?dist}}")), "{paths:?}");
    }
}

#[test]
fn uncommitted_mock_template_affects_only_mock() {
    let dir = tempfile::tempdir().unwrap();
    for (chroot, expected) in [("fedora-43", "2~dirty%{?dist}"), ("host", "1%{?dist}")] {
        let workspace = workspace(dir.path(), chroot);
        let mut history = history(&workspace, &[BEGIN]);
        assert_eq!(release(&workspace, &history, "one"), "1%{?dist}");
        history.uncommitted.insert("mock-configs/mock.cfg.tera".into());
        assert_eq!(release(&workspace, &history, "one"), expected, "{chroot}");
    }
}

#[test]
fn uncommitted_file_affects_the_component_and_its_dependents() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path(), "fedora-43");
    for (path, one, two) in [
        ("src/one/a", true, true),
        ("src/two/a", false, true),
        ("src/one-more/a", false, false),
        ("specs-templates/_shared/x.tera", true, true),
        ("mock-configs/host.toml", false, false),
        ("pins/stable.toml", false, false),
    ] {
        let mut history = history(&workspace, &[BEGIN]);
        history.uncommitted.insert(path.into());
        let dirty = |name: &str| release(&workspace, &history, name).contains("~dirty");
        assert_eq!((dirty("one"), dirty("two")), (one, two), "{path}");
    }
}

#[test]
fn component_without_history_has_the_first_release() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path(), "fedora-43");
    let stack = Stack::new(&workspace).unwrap();
    let history = history(&workspace, &[]);
    let first = history.release(&stack, workspace.component("one").unwrap());
    assert_eq!((first.release.as_str(), first.dirty), ("1%{?dist}", false));
    assert!(first.seconds >= EARLIEST);
    assert!(first.changelog.ends_with("- 1.0-1\n- Version 1.0\n"), "{}", first.changelog);
}

#[test]
fn only_uncommitted_pin_changes_make_a_component_dirty() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path(), "fedora-43");
    let name = ComponentName::parse("two").unwrap();
    for (version, uncommitted, dirty) in
        [("7", true, false), ("8", true, true), ("7", false, false), ("8", false, false)]
    {
        let mut history = history(&workspace, &[BEGIN]);
        let mut changed = workspace.clone();
        changed.pins.pins.get_mut(&name).unwrap().value.version = version.into();
        for path in ["pins/stable.toml", "pins/stable.lock", "pins/stable.generated.toml"] {
            history.uncommitted = uncommitted.then(|| path.to_owned()).into_iter().collect();
            let found = release(&changed, &history, "two").contains("~dirty");
            assert_eq!(found, dirty, "{version} {uncommitted} {path}");
            assert!(
                !release(&changed, &history, "one").contains("~dirty"),
                "the pin of another component"
            );
        }
    }
}

#[test]
fn changelog_names_uncommitted_changes() {
    let dir = tempfile::tempdir().unwrap();
    let mut workspace = workspace(dir.path(), "fedora-43");
    let mut history = history(&workspace, &[BEGIN]);
    history.uncommitted.insert("src/one/a".into());
    let newest = |workspace: &Workspace| {
        let stack = Stack::new(workspace).unwrap();
        let release = history.release(&stack, workspace.component("one").unwrap());
        release.changelog.lines().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let who = "* Mon Jan 01 1990 rocmrpm <rocmrpm@localhost> - 1.0-2~dirty";
    assert_eq!(newest(&workspace), [who, "- Changes that are not committed"]);
    let name = ComponentName::parse("one").unwrap();
    workspace.pins.pins.get_mut(&name).unwrap().value.overridden = true;
    assert_eq!(newest(&workspace), [who, "- Version 1.0 from the command line"]);
}

#[test]
fn closure_decisions_affect_only_their_component() {
    let dir = tempfile::tempdir().unwrap();
    let mut workspace = workspace(dir.path(), "fedora-43");
    let two = ComponentName::parse("two").unwrap();
    workspace.components.get_mut(&two).unwrap().closure = Some(closure::testing::rules(&[]));
    let mut history = history(&workspace, &[BEGIN]);
    history.uncommitted.insert("specs-templates/generated/stable/closure.toml".into());
    let dirty = |name: &str| release(&workspace, &history, name).contains("~dirty");
    assert_eq!((dirty("one"), dirty("two")), (false, true));
}

#[test]
fn closure_rpms_are_older_than_those_of_the_release() {
    let dir = tempfile::tempdir().unwrap();
    let mut workspace = workspace(dir.path(), "fedora-43");
    let names = ["one", "two"].map(|name| ComponentName::parse(name).unwrap());
    let [one, two] = names;
    let at = |value: &str| At { value: value.to_owned(), span: 0..0 };
    workspace.components.get_mut(&two).unwrap().generated = Some(at("one"));
    for (runtime, expected) in [("one-runtime", "0.1%{?dist}"), ("two", "1%{?dist}")] {
        let rules = ClosureRules { runtime: Some(at(runtime)), ..closure::testing::rules(&[]) };
        workspace.components.get_mut(&one).unwrap().closure = Some(rules);
        let history = history(&workspace, &[BEGIN]);
        assert_eq!(release(&workspace, &history, "two"), expected, "{runtime}");
        assert_eq!(release(&workspace, &history, "one"), "1%{?dist}");
    }
}

#[test]
fn only_definitions_count_for_build_roots() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = workspace(dir.path(), "fedora-43");
    let commits: [&[&str]; 6] = [
        BEGIN,
        &["specs-templates/_shared/x.tera"],
        &["mock-configs/mock.cfg.tera"],
        &["mock-configs/fedora-43.toml"],
        &["mock-configs/fedora-44.toml"],
        &["mock-configs/rocm/fedora.toml", "README.md"],
    ];
    assert_eq!(history(&workspace, &commits).shared_commits(), 3);
}

fn git(dir: &std::path::Path, args: &[&str]) {
    testing::git(dir).args(args).output().unwrap();
}

#[test]
fn counts_commits_in_a_subfolder() {
    let dir = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| git(dir.path(), args);
    let workspace = workspace(&dir.path().join("deep/ws"), "fedora-43");
    let count = || commits_of(&workspace, &["rocmrpm.toml".to_owned()]).unwrap();
    let none = Commits { number: 0, dirty: false, seconds: no_date() };
    assert_eq!(count(), none, "not a repository");
    git(&["init", "--quiet"]);
    assert_eq!(count(), Commits { dirty: true, ..none }, "no commit");
    git(&["add", "deep"]);
    git(&["commit", "--quiet", "-m", "one"]);
    assert_eq!(count(), Commits { number: 1, dirty: false, seconds: 1_767_323_045 });
    fs_err::write(workspace.root.join("rocmrpm.toml"), "changed").unwrap();
    assert_eq!(count(), Commits { number: 1, dirty: true, seconds: 1_767_323_045 });
}

#[test]
fn reads_pins_changes_and_ignored_sources_from_git() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let workspace = workspace(root, "fedora-43");
    let write =
        |path: &str, text: &str| crate::files::write_atomically(&root.join(path), text).unwrap();
    let read = || History::read(&workspace).unwrap();
    let commit = || {
        git(root, &["add", "."]);
        git(root, &["commit", "--quiet", "-m", "x"]);
    };
    assert!(read().commits.is_empty(), "not a repository");
    git(root, &["init", "--quiet"]);
    assert!(read().uncommitted.contains("pins/stable.toml"), "no commit");
    write(".gitignore", "*.o\n");
    commit();

    // Of ignored files, only those packed into a source count.
    for path in ["src/one/x.o", "src/one/.git/x.o", "src/one/build/x.o", "src/x.o", "build/x.o"] {
        write(path, "");
    }
    assert_eq!(read().uncommitted, BTreeSet::from(["src/one/x.o".to_owned()]));

    // Each commit that changes pins has the pins at that time.
    let closure = "pins/stable.generated.toml";
    write(closure, "[three]\nversion = \"3\"\nsdist = \"three\"\n");
    commit();
    write("mock-configs/fedora-43.toml", "release = \"44\"\n");
    commit();
    let history = read();
    assert_eq!(history.commits.len(), 3);
    assert_eq!(history.sets.len(), 2);
    let pins: Vec<_> = history.sets[&history.commits[1].hash].closures.iter().collect();
    let [(path, set)] = pins[..] else { panic!("{pins:?}") };
    assert_eq!((path.as_str(), set.pins.len()), (closure, 1));

    // A timeout affects no package, whether committed or not.
    let component = "specs-templates/one/component.toml";
    write(component, "timeout = \"1 h\"\n");
    assert!(!read().uncommitted.contains(component));
    commit();
    assert!(!read().commits[0].changes.contains_key(component));
    write(component, "requires = []\n");
    assert!(read().uncommitted.contains(component));
    commit();
    assert!(read().commits[0].changes.contains_key(component));
    assert_eq!(read().warning, None);
}

#[test]
fn listed_paths_of_a_source_affect_its_component() {
    let pin = |path: &str, paths: &[&str]| {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        Pin::new(
            ComponentName::parse("one").unwrap(),
            "1",
            Source::Folder { path: path.into(), paths },
        )
    };
    assert_eq!(folders(&pin("src/one", &[])), ["src/one"]);
    assert_eq!(folders(&pin("", &["./src/", "Cargo.toml"])), ["src", "Cargo.toml"]);
    assert_eq!(folders(&pin("a", &["b"])), ["a/b"]);
}

#[test]
fn warns_about_a_shallow_clone() {
    let dir = tempfile::tempdir().unwrap();
    let (full, shallow) = (dir.path().join("full"), dir.path().join("shallow"));
    workspace(&full, "fedora-43");
    git(&full, &["init", "--quiet"]);
    git(&full, &["add", "."]);
    for text in ["one", "two"] {
        git(&full, &["commit", "--quiet", "--allow-empty", "-m", text]);
    }
    let url = format!("file://{}", full.display());
    git(dir.path(), &["clone", "--quiet", "--depth=1", &url, "shallow"]);
    let history = History::read(&workspace(&shallow, "fedora-43")).unwrap();
    assert!(history.warning.unwrap().contains("git fetch --unshallow"));
}
