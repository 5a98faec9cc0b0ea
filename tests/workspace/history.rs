//! Release and changelog from the git history of pins, templates and sources. rpm reads every
//! rendered spec.

use crate::support;
use crate::support::Workspace;

const SPEC: &str = "Name: <{ name }>
Version: <{ version }>
Release: <{ release }>
Summary: A test
License: MIT
Source0: <{ source_url }>
<@ for patch in patches @>Patch: <{ patch }>
<@ endfor @>BuildArch: noarch

%description
A test.

%files

%changelog
<{ changelog }>
";

const PINS: &str =
    "[one]\nversion = \"1.0\"\npath = \"src/one\"\n\n[two]\nversion = \"7\"\npath = \"src/two/\"\n";

/// Returns a workspace of two components, without git.
fn plain() -> Workspace {
    let workspace = Workspace::init();
    workspace.write("pins/stable.toml", PINS);
    for name in ["one", "two"] {
        workspace.write(format!("specs-templates/{name}/component.toml"), "");
        workspace.write(format!("specs-templates/{name}/{name}.spec.tera"), SPEC);
        workspace.write(format!("src/{name}/file.txt"), "1\n");
    }
    workspace
}

/// Returns the same workspace with everything committed once.
fn committed() -> Workspace {
    let workspace = plain();
    workspace.commit("Begin");
    workspace
}

/// Returns what rpm reads in a rendered spec: `VERSION-RELEASE`, then a line per changelog entry,
/// newest first: `DAY VERSION-RELEASE TEXT`.
#[track_caller]
fn history_with(workspace: &Workspace, name: &str, args: &[&str]) -> Vec<String> {
    workspace.run(&[&["render"], args].concat()).exits(0);
    let pin = args.iter().find_map(|arg| arg.split_once('='));
    let pin = pin.map_or(String::new(), |(name, version)| format!("@{name}-{version}"));
    let spec = workspace.path(format!("build/fedora-43{pin}/specs/{name}.spec"));
    support::rpmspec(&spec, &["-P"]);
    let head = support::rpmspec(&spec, &["-q", "--qf", "%{version}-%{release}\\n"]);
    let format = "[%{changelogtime:day} %{changelogname} | %{changelogtext}\\n]";
    let entries = support::rpmspec(&spec, &["-q", "--qf", format]);
    let entries = entries.lines().map(|line| line.replace("Ada Lovelace <ada@example.org> - ", ""));
    head.lines().map(str::to_owned).chain(entries).collect()
}

#[track_caller]
fn history(workspace: &Workspace, name: &str) -> Vec<String> {
    history_with(workspace, name, &[])
}

const BY_US: &str = "rocmrpm <rocmrpm@localhost> - ";

#[test]
fn release_is_1_without_git() {
    let workspace = plain();
    let wanted = ["1.0-1.fc43".to_owned(), format!("Mon Jan 01 1990 {BY_US}1.0-1 | - Version 1.0")];
    assert_eq!(history(&workspace, "one"), wanted);
}

#[test]
fn release_counts_commits_of_the_component() {
    let workspace = committed();
    assert_eq!(history(&workspace, "one"), ["1.0-1.fc43", "Mon Jan 05 2026 1.0-1 | - Begin"]);

    workspace.write("specs-templates/one/one.spec.tera", SPEC.replace("A test.", "A better test."));
    workspace.commit("Describe it better");
    workspace.write("README.md", "unrelated\n");
    workspace.commit("Say what this is");
    workspace.write("src/two/file.txt", "2\n");
    workspace.commit("Change the other source");
    workspace.write("src/one/file.txt", "2\n");
    workspace.commit("Change the source");
    workspace.write("specs-templates/_shared/header.tera", "# shared\n");
    workspace.commit("Change what all specs share");
    assert_eq!(
        history(&workspace, "one"),
        [
            "1.0-4.fc43",
            "Sat Jan 10 2026 1.0-4 | - Change what all specs share",
            "Fri Jan 09 2026 1.0-3 | - Change the source",
            "Tue Jan 06 2026 1.0-2 | - Describe it better",
            "Mon Jan 05 2026 1.0-1 | - Begin",
        ]
    );
    assert_eq!(
        history(&workspace, "two"),
        [
            "7-3.fc43",
            "Sat Jan 10 2026 7-3 | - Change what all specs share",
            "Thu Jan 08 2026 7-2 | - Change the other source",
            "Mon Jan 05 2026 7-1 | - Begin",
        ]
    );
}

#[test]
fn new_version_restarts_the_release_at_1() {
    let workspace = committed();
    workspace.write("src/one/file.txt", "2\n");
    workspace.commit("Change the source");
    workspace.replace("pins/stable.toml", "\"1.0\"", "\"1.1\"");
    workspace.commit("one 1.1");
    assert_eq!(
        history(&workspace, "one"),
        [
            "1.1-1.fc43",
            "Wed Jan 07 2026 1.1-1 | - one 1.1",
            "Tue Jan 06 2026 1.0-2 | - Change the source",
            "Mon Jan 05 2026 1.0-1 | - Begin",
        ]
    );
    assert_eq!(
        history(&workspace, "two")[0],
        "7-1.fc43",
        "the pin of another component is irrelevant"
    );
    workspace.replace("pins/stable.toml", "src/one\"", "src/two\"");
    workspace.commit("Take another source");
    assert_eq!(history(&workspace, "one")[0], "1.1-2.fc43", "the same version from elsewhere");
}

#[test]
fn returning_version_restarts_the_release_at_1() {
    let workspace = committed();
    workspace.replace("pins/stable.toml", "\"1.0\"", "\"1.1\"");
    workspace.commit("one 1.1");
    workspace.replace("pins/stable.toml", "\"1.1\"", "\"1.0\"");
    workspace.commit("Back to 1.0");
    assert_eq!(
        history(&workspace, "one")[..2],
        ["1.0-1.fc43", "Wed Jan 07 2026 1.0-1 | - Back to 1.0"]
    );
}

type Change = fn(&Workspace);

#[test]
fn uncommitted_changes_are_dirty() {
    let changes: [(&str, Change); 4] = [
        ("template", |workspace| {
            drop(workspace.write("specs-templates/one/one.spec.tera", format!("{SPEC}\n")))
        }),
        ("patch", |workspace| drop(workspace.write("specs-templates/one/new.patch", "x\n"))),
        ("source", |workspace| drop(workspace.write("src/one/new.txt", "x\n"))),
        ("pin", |workspace| workspace.replace("pins/stable.toml", "src/one", "src/two")),
    ];
    for (what, change) in changes {
        let workspace = committed();
        change(&workspace);
        let wanted =
            format!("Mon Jan 05 2026 {BY_US}1.0-2~dirty | - Changes that are not committed");
        let found = history(&workspace, "one");
        assert_eq!(
            found,
            ["1.0-2~dirty.fc43", &wanted, "Mon Jan 05 2026 1.0-1 | - Begin"],
            "{what}"
        );
        assert_eq!(history(&workspace, "two")[0], "7-1.fc43", "{what}");
        workspace.commit("Commit it");
        assert_eq!(history(&workspace, "one")[0], "1.0-2.fc43", "{what}");
    }
}

#[test]
fn uncommitted_version_is_a_dirty_first_release() {
    let workspace = committed();
    workspace.replace("pins/stable.toml", "\"1.0\"", "\"1.1\"");
    let found = history(&workspace, "one");
    assert_eq!(found[0], "1.1-1~dirty.fc43");
    workspace.commit("one 1.1");
    assert_eq!(history(&workspace, "one")[0], "1.1-1.fc43");
}

#[test]
fn overridden_pin_is_dirty_everywhere() {
    let workspace = committed();
    let wanted =
        format!("Mon Jan 05 2026 {BY_US}1.2-1~dirty | - Version 1.2 from the command line");
    assert_eq!(
        history_with(&workspace, "one", &["--pin", "one=1.2"])[..2],
        ["1.2-1~dirty.fc43", &wanted]
    );
    let plan =
        workspace.run(&["plan", "--pin", "one=1.2", "--json"]).exits(0).document("rocmrpm/plan/2");
    let steps: Vec<_> = plan["steps"].as_array().into_iter().flatten().collect();
    let found: Vec<_> =
        steps.iter().map(|s| (s["component"].as_str(), s["dirty"].as_bool())).collect();
    assert_eq!(found, [(Some("one"), Some(true)), (Some("two"), Some(false))]);
    // The same version is dirty, too, because no digest verifies its source.
    assert_eq!(history_with(&workspace, "one", &["--pin", "one=1.0"])[0], "1.0-2~dirty.fc43");
}

#[test]
fn commit_subjects_reach_the_changelog_unchanged() {
    let workspace = committed();
    workspace.write("src/one/file.txt", "2\n");
    workspace.commit("Use 100% of %{cores} and %(id) `id` \"$HOME\" <{ x }> – ü");
    let found = history(&workspace, "one");
    assert_eq!(
        found[1],
        "Tue Jan 06 2026 1.0-2 | - Use 100% of %{cores} and %(id) `id` \"$HOME\" <{ x }> – ü"
    );
    // A line that starts like an entry or a section remains text.
    workspace.write("src/one/file.txt", "3\n");
    workspace.commit("%files of it\n\n%package x");
    assert_eq!(history(&workspace, "one")[1], "Wed Jan 07 2026 1.0-3 | - %files of it");
}

#[test]
fn changelog_dates_are_in_order() {
    let workspace = committed();
    for (day, subject) in [(10, "Ten"), (5, "Five"), (20, "Twenty"), (-20_000, "Long ago")] {
        workspace.write("src/one/file.txt", subject);
        workspace.commit_on(day, subject);
    }
    let found = history(&workspace, "one");
    assert_eq!(found[0], "1.0-5.fc43");
    let days: Vec<&str> = found[1..].iter().map(|line| &line[4..15]).collect();
    assert_eq!(days, ["Jan 01 1990"; 5], "no entry is newer than the one above it");
    let subjects: Vec<&str> =
        found[1..].iter().filter_map(|line| line.split("| - ").nth(1)).collect();
    assert_eq!(subjects, ["Long ago", "Twenty", "Five", "Ten", "Begin"]);
}

#[test]
fn merge_counts_once_with_its_resulting_pins() {
    let workspace = committed();
    workspace.git(&["checkout", "--quiet", "-b", "update"]);
    workspace.replace("pins/stable.toml", "\"1.0\"", "\"1.1\"");
    workspace.commit_on(1, "one 1.1");
    workspace.git(&["checkout", "--quiet", "main"]);
    workspace.replace("pins/stable.toml", "\"7\"", "\"8\"");
    workspace.commit_on(2, "two 8");
    workspace.git(&["merge", "--quiet", "--no-ff", "--message", "Merge the update", "update"]);
    let found = history(&workspace, "one");
    assert_eq!(found[0], "1.1-1.fc43");
    assert!(found[1].ends_with("1.1-1 | - Merge the update"), "{found:?}");
    assert_eq!(history(&workspace, "two")[0], "8-1.fc43");
}

#[test]
fn warns_about_a_shallow_clone() {
    let workspace = committed();
    for text in ["2\n", "3\n"] {
        workspace.write("src/one/file.txt", text);
        workspace.commit(&format!("Change the source to {text}"));
    }
    let shallow = Workspace::empty();
    let url = format!("file://{}", workspace.root().display());
    shallow.git(&["clone", "--quiet", "--depth", "1", &url, "."]);
    shallow
        .run(&["render"])
        .exits(0)
        .reports(["warning: the git clone is shallow", "git fetch --unshallow"]);
    let found = history(&shallow, "one");
    assert_eq!(found[0], "1.0-1.fc43");
    shallow.git(&["fetch", "--quiet", "--unshallow"]);
    assert_eq!(history(&shallow, "one")[0], "1.0-3.fc43");
}

#[test]
fn repository_without_commits_has_no_history() {
    let workspace = plain();
    workspace.git(&["init", "--quiet"]);
    assert_eq!(history(&workspace, "one")[0], "1.0-1~dirty.fc43");
}

#[test]
fn workspace_may_be_a_subfolder_of_its_repository() {
    let outer = Workspace::empty();
    let inner = plain();
    for (name, bytes) in inner.files() {
        let path = outer.path(format!("packages/ä b/{name}"));
        fs_err::create_dir_all(path.parent().unwrap_or(&path)).unwrap_or_default();
        fs_err::write(path, bytes).unwrap_or_default();
    }
    outer.commit("Begin");
    outer.write("src/one/file.txt", "not the workspace's\n");
    outer.commit("Outside");
    outer.write("packages/ä b/src/one/file.txt", "2\n");
    outer.commit("Inside");
    outer.run(&["-C", "packages/ä b", "render"]).exits(0);
    let spec = outer.path("packages/ä b/build/fedora-43/specs/one.spec");
    let head = support::rpmspec(&spec, &["-q", "--qf", "%{version}-%{release}\\n"]);
    assert_eq!(head, "1.0-2.fc43\n");
}

#[test]
fn dependents_of_a_changed_component_get_a_new_release() {
    let workspace = plain();
    workspace.write("specs-templates/two/component.toml", "requires = [\"one\"]\n");
    workspace.commit("Begin");
    workspace.write("src/one/file.txt", "2\n");
    assert_eq!(history(&workspace, "two")[0], "7-2~dirty.fc43");
    workspace.commit("Change the source of one");
    assert_eq!(
        history(&workspace, "two")[..2],
        ["7-2.fc43", "Tue Jan 06 2026 7-2 | - Change the source of one"]
    );
    workspace.replace("pins/stable.toml", "\"1.0\"", "\"1.1\"");
    workspace.commit("Take one 1.1");
    assert_eq!(history(&workspace, "two")[0], "7-3.fc43");
    assert_eq!(history(&workspace, "one")[0], "1.1-1.fc43");
}

#[test]
fn inspection_settings_do_not_change_the_release() {
    let workspace = committed();
    let file = "specs-templates/one/component.toml";
    assert_eq!(history(&workspace, "one")[0], "1.0-1.fc43");
    workspace.write(file, "[inspect]\ndevice-code = false\n");
    assert_eq!(history(&workspace, "one")[0], "1.0-1.fc43");
    workspace.commit("Promise no device code");
    assert_eq!(history(&workspace, "one").len(), 2);
    // A change that affects the build makes a new release, even if it also changes settings that do
    // not.
    workspace.write(file, "[env]\nA = \"1\"\n");
    assert_eq!(history(&workspace, "one")[0], "1.0-2~dirty.fc43");
    workspace.commit("Set a variable");
    assert_eq!(history(&workspace, "one")[0], "1.0-2.fc43");
    let offline = "[[offline]]\nfile = \"setup.py\"\nby = \"not-reached\"\nwith = \"why\"\n";
    workspace.write(file, format!("[env]\nA = \"1\"\n[inspect]\ndevice-code = true\n{offline}"));
    workspace.commit("Promise device code, and no download");
    assert_eq!(history(&workspace, "one")[0], "1.0-2.fc43");
    let chroot = "mock-configs/fedora-43.toml";
    workspace.write(
        chroot,
        format!("{}\n[libraries]\n\"libfoo.so.1\" = \"foo\"\n", workspace.read(chroot)),
    );
    assert_eq!(history(&workspace, "one")[0], "1.0-2.fc43");
    // Removing it is a change, too.
    workspace.write(file, "");
    assert_eq!(history(&workspace, "one")[0], "1.0-3~dirty.fc43");
}

#[test]
fn output_settings_do_not_change_the_release() {
    let workspace = committed();
    let step = |name: &str| {
        let plan = workspace.run(&["plan", "--json"]).exits(0).document("rocmrpm/plan/2");
        let mut steps = plan["steps"].as_array().into_iter().flatten();
        let step = steps.find(|step| step["component"] == name).cloned().unwrap_or_default();
        (step["key"].to_string(), step["release"].to_string(), step["dirty"].to_string())
    };
    let before = step("one");
    let (component, manifest) = ("specs-templates/one/component.toml", "rocmrpm.toml");
    workspace.write(component, "[wheel]\nleave-out = [\"/usr/lib64/cmake/*\"]\n");
    assert_eq!(step("one"), before);
    workspace.commit("Leave files out of the wheel");
    assert_eq!(step("one"), before);
    let text = workspace.read(manifest);
    let (text, _) = text.split_once("[wheels]").unwrap();
    for tables in
        ["[wheels]\nrocm = \"rocm-sdk\"\n", "[index]\noutside = [\"pip\"]\ntracks = \"pip\"\n", ""]
    {
        workspace.write(manifest, format!("{text}\n{tables}"));
        assert_eq!(step("one"), before, "{tables}");
        workspace.commit(&format!("Take {tables}"));
        assert_eq!(step("one"), before, "{tables}");
    }
    assert_eq!(history(&workspace, "one"), ["1.0-1.fc43", "Mon Jan 05 2026 1.0-1 | - Begin"]);
    // The rest of the file affects the build.
    workspace.replace(manifest, "gfx1151", "gfx1100");
    assert_eq!(history(&workspace, "one")[0], "1.0-2~dirty.fc43");
    workspace.commit("Build for another GPU");
    assert_eq!(history(&workspace, "one")[0], "1.0-2.fc43");
}
