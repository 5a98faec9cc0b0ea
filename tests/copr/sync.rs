//! Tests `rocmrpm copr sync`: first a difference, then none.

use serde_json::json;

use crate::site::Copr;
use crate::stack::{CHROOT, PROJECT, PROJECT_TOML, Stack};
use crate::support::Ran;

fn changed(copr: &Copr) -> usize {
    let changes =
        ["POST /api_3/project/add", "PUT /api_3/project/edit", "PUT /api_3/project-chroot/edit"];
    copr.requests()
        .iter()
        .filter(|request| changes.iter().any(|change| request.starts_with(change)))
        .count()
}

/// Returns the keys that a dry run reports as different.
fn differences(stack: &Stack) -> Vec<String> {
    let document =
        stack.run(&["copr", "sync", "--dry-run", "--json"]).document("rocmrpm/copr-sync/1");
    let changes = document["changes"].as_array().unwrap().clone();
    changes.iter().map(|change| change["key"].as_str().unwrap().to_owned()).collect()
}

fn sync(stack: &Stack) -> Ran {
    stack.run(&["copr", "sync"])
}

#[test]
fn shows_differences_and_applies_them() {
    let stack = Stack::new();
    let dry = stack.run(&["copr", "sync", "--dry-run"]);
    assert!(dry.exits(1).stdout.contains(CHROOT) && dry.stdout.contains("lib 1.0"), "{dry}");
    assert_eq!((changed(&stack.copr), stack.copr.state()["projects"].get(PROJECT)), (0, None));

    sync(&stack).exits(0).reports(["Created"]);
    let project = stack.copr.state()["projects"][PROJECT].clone();
    assert_eq!(project["description"], "# ROCm for gfx1151\n\nlib 1.0\n");
    assert_eq!(project["enable_net"], false);
    assert_eq!(project["follow_fedora_branching"], false);
    assert!(project["chroots"].get(CHROOT).is_some());

    // Settings that COPR does not show are set each time, in one call.
    let calls = changed(&stack.copr) + 1;
    sync(&stack).exits(0).reports(["Unchanged"]);
    let dry = stack.run(&["copr", "sync", "--dry-run"]);
    assert_eq!((dry.exits(0).stdout.as_str(), changed(&stack.copr)), ("", calls));

    // Another version changes only the description.
    stack.workspace.replace(
        "pins/stable.toml",
        "[lib]\nversion = \"1.0\"",
        "[lib]\nversion = \"1.1\"",
    );
    let dry = stack.run(&["copr", "sync", "--dry-run"]);
    assert!(dry.exits(1).stdout.contains("-lib 1.0\n+lib 1.1"), "{dry}");
    assert_eq!(differences(&stack), ["description"]);
    sync(&stack).exits(0).reports(["Changed"]);
    assert_eq!(differences(&stack), [""; 0]);
}

#[test]
fn restores_changed_settings_and_keeps_the_rest() {
    let stack = Stack::new();
    let settings = format!(
        "bootstrap = \"on\"\nisolation = \"simple\"\nnetwork = true\nunlisted = true\npriority = 7\n\n\
         [chroot.{CHROOT}]\nrepositories = [\"https://example.org/rocm/$basearch\"]\npackages = [\"gcc\", \"make\"]\n"
    );
    let project = stack.workspace.read(PROJECT_TOML);
    stack.workspace.write(PROJECT_TOML, format!("{project}{settings}"));
    let chroot = stack.workspace.read("mock-configs/fedora-43.toml");
    let additional = "additional-packages = [\"cmake\", \"make\"]\n";
    stack.workspace.write("mock-configs/fedora-43.toml", format!("{chroot}{additional}"));
    sync(&stack).exits(0);
    assert_eq!(differences(&stack), [""; 0]);
    let at_first = stack.copr.state()["projects"][PROJECT].clone();
    assert_eq!(at_first["bootstrap"], "on");
    assert_eq!(at_first["repo_priority"], 7);
    let chroot = &at_first["chroots"][CHROOT];
    assert_eq!(chroot["additional_repos"], json!(["https://example.org/rocm/$basearch"]));
    assert_eq!(chroot["additional_packages"], json!(["gcc", "make", "cmake"]));
    assert_eq!(at_first["devel_mode"], true);

    let others = [
        ["--instructions", "none"],
        ["--bootstrap", "on"],
        ["--module-hotfixes", "on"],
        ["--appstream", "on"],
        ["--packit-forge-project-allowed", "github.com/someone/else"],
    ];
    stack.copr.cli(&[&["modify", PROJECT][..], &others.concat()].concat()).exits(0);
    stack
        .copr
        .cli(&["edit-chroot", &format!("{PROJECT}/{CHROOT}"), "--packages", "clang"])
        .exits(0);
    let changed = ["instructions", "module-hotfixes", "appstream", "packit-forge-projects"];
    assert_eq!(differences(&stack), [&changed[..], &["packages"]].concat());
    sync(&stack).exits(0);
    assert_eq!(differences(&stack), [""; 0]);
    assert_eq!(stack.copr.state()["projects"][PROJECT], at_first);
}

/// Returns the repositories that dnf5 gets for a project besides its own.
fn dependencies(stack: &Stack, project: &str) -> Vec<String> {
    let answer = stack.copr.api(&format!("rpmrepo/{project}/fedora-43"));
    let list = answer["dependencies"].as_array().unwrap().clone();
    list.iter().map(|entry| entry["data"]["pattern"].as_str().unwrap().to_owned()).collect()
}

const REPOSITORY: &str =
    "\n[[repositories]]\nid = \"gpu\"\nurl = \"https://example.org/gpu/$basearch\"\n";

#[test]
fn users_get_the_repositories_of_all_chroots_with_the_project() {
    let stack = Stack::new();
    let definition = "mock-configs/fedora-43.toml";
    let plain = stack.workspace.read(definition);
    stack.workspace.write(definition, plain.clone() + REPOSITORY);
    sync(&stack).exits(0);
    assert_eq!(dependencies(&stack, PROJECT), ["https://example.org/gpu/$basearch"]);
    assert_eq!(differences(&stack), [""; 0]);

    let other = [
        "modify",
        PROJECT,
        "--bootstrap",
        "default",
        "--runtime-repo-dependency",
        "https://example.com/x",
    ];
    stack.copr.cli(&other).exits(0);
    assert_eq!(differences(&stack), ["runtime-repositories"]);
    // It affects no build.
    stack.push().exits(0);
    let ran = sync(&stack);
    let change =
        "runtime-repositories: https://example.com/x → https://example.org/gpu/$basearch\n";
    assert_eq!(ran.exits(0).stdout, change);
    assert_eq!(dependencies(&stack, PROJECT), ["https://example.org/gpu/$basearch"]);

    stack.workspace.write(definition, plain);
    assert_eq!(differences(&stack), ["runtime-repositories", "repositories"]);
    sync(&stack).exits(0);
    assert_eq!(dependencies(&stack, PROJECT), [""; 0]);
}

#[test]
fn repository_of_one_chroot_needs_its_own_project() {
    let stack = Stack::new();
    let definition = stack.workspace.read("mock-configs/fedora-43.toml");
    stack.workspace.write("mock-configs/fedora-44.toml", definition.replace("43", "44"));
    stack.workspace.write("mock-configs/fedora-43.toml", definition + REPOSITORY);
    stack.workspace.replace(PROJECT_TOML, "chroots = [", "chroots = [\"fedora-44-x86_64\", ");
    // On Fedora 44, dnf could install a library from it instead of Fedora's.
    let note = "users must add https://example.org/gpu/$basearch themselves";
    sync(&stack).exits(0).reports([note, "[chroot.fedora-43-x86_64]"]);
    assert_eq!(dependencies(&stack, PROJECT), [""; 0]);

    let toml = stack.workspace.read(PROJECT_TOML);
    stack
        .workspace
        .write(PROJECT_TOML, format!("{toml}\n[chroot.{CHROOT}]\nproject = \"rocm-43\"\n"));
    let ran = sync(&stack);
    assert!(!ran.exits(0).stderr.contains(note), "{ran}");
    let projects = stack.copr.state()["projects"].clone();
    let chroots = |project: &str| -> Vec<String> {
        let all = projects[project]["chroots"].as_object().unwrap();
        let kept = all.iter().filter(|(_, chroot)| chroot["delete_after_days"].is_null());
        kept.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(
        (chroots(PROJECT), chroots("alice/rocm-43")),
        (vec!["fedora-44-x86_64".into()], vec![CHROOT.into()])
    );
    assert_eq!(dependencies(&stack, PROJECT), [""; 0]);
    assert_eq!(dependencies(&stack, "alice/rocm-43"), ["https://example.org/gpu/$basearch"]);
    let dry = stack.run(&["copr", "sync", "--dry-run"]);
    assert_eq!(dry.exits(0).stdout, "");
    // Its builds go there.
    stack.run(&["copr", "push", "other", "--chroot", "fedora-43"]).exits(0);
    let builds = stack.copr.builds();
    let of: Vec<&str> = builds.iter().map(|build| build["project"].as_str().unwrap()).collect();
    assert_eq!(of, ["alice/rocm-43"]);
}

#[test]
fn reports_missing_permissions() {
    let stack = Stack::synced();
    stack.workspace.replace(PROJECT_TOML, "# ROCm for", "# Other words for");
    stack.copr.control(&json!({"expired": ["alice"]}));
    let page = format!("{}/api", stack.copr.url);
    sync(&stack).exits(3).reports(["expired", page.as_str()]);
    stack.copr.control(&json!({}));
    stack.copr.log_in("bob", "bob-token-of-30-characters");
    sync(&stack).exits(30).reports(["Only owners and admins may update their projects."]);
    stack.copr.log_in("alice", "");
    sync(&stack).exits(3).reports([page.as_str()]);
    stack.copr.log_in("alice", crate::site::TOKEN);
    sync(&stack).exits(0);
}

/// `make copr-test` runs this test with COPR's own frontend, too.
#[test]
fn resets_the_settings_of_a_chroot() {
    let stack = Stack::synced();
    // COPR shows the bootstrap only for a build.
    stack.run(&["copr", "push", "other"]).exits(0);
    let chroot = format!("{PROJECT}/{CHROOT}");
    let settings = || {
        let chroot = stack.copr.cli(&["get-chroot", &chroot]).json();
        let config = format!("build-chroot/build-config?build_id=1&chrootname={CHROOT}");
        [chroot, stack.copr.api(&config)["bootstrap"].clone()]
    };
    let before = settings();
    let comps = stack.copr.path("groups.xml");
    std::fs::write(&comps, "<comps/>").unwrap();
    let own = [
        "--isolation=simple",
        "--bootstrap=off",
        "--modules=nodejs:20,!perl:5.38",
        "--rpmbuild-with=doc",
        "--rpmbuild-without=check",
        &format!("--upload-comps={}", comps.display()),
    ];
    let lines = [
        "isolation: simple → unchanged",
        "bootstrap: off → unchanged",
        "modules: !perl:5.38 nodejs:20 → none",
        "rpmbuild --with: doc → none",
        "rpmbuild --without: check → none",
        "comps: groups.xml → nothing",
    ];
    for (own, line) in own.into_iter().zip(lines) {
        stack.copr.cli(&["edit-chroot", &chroot, own]).exits(0);
        assert_ne!(settings(), before, "{own}");
        let key = line.split_once(": ").unwrap().0;
        stack.push().exits(3).reports([format!("`{key}` of {CHROOT}")]);
        assert_eq!(sync(&stack).exits(0).stdout, format!("{CHROOT}: {line}\n"));
        assert_eq!(settings(), before, "{own}");
    }
    stack.copr.cli(&[&["edit-chroot", &chroot][..], &own].concat()).exits(0);
    assert_eq!(differences(&stack).len(), lines.len());
    sync(&stack).exits(0);
    assert_eq!(settings(), before);
    assert_eq!(differences(&stack), [""; 0]);
}

#[test]
fn rejects_auto_prune_before_any_change() {
    let stack = Stack::synced();
    let calls = changed(&stack.copr);
    let project = stack.workspace.read(PROJECT_TOML);
    stack.workspace.write(PROJECT_TOML, format!("{project}auto-prune = false\n"));
    sync(&stack).exits(3).reports(["only COPR's administrators", "remove `auto-prune`"]);
    assert_eq!(changed(&stack.copr), calls);
}

#[test]
fn rejects_removing_a_chroot_with_running_builds() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"hold": {"other": "running"}}));
    let push = stack.start(&["copr", "push", "other"]);
    crate::support::wait_until("it runs", || stack.copr.states() == ["other running"]);
    let definition = stack.workspace.read("mock-configs/fedora-43.toml");
    stack.workspace.write("mock-configs/fedora-44.toml", definition.replace("43", "44"));
    stack.workspace.replace(PROJECT_TOML, CHROOT, "fedora-44-x86_64");
    sync(&stack).exits(30).reports(["build 1 is still in progress", "copr cancel"]);
    stack.copr.control(&json!({}));
    push.finish().exits(0);
    sync(&stack).exits(0);
}

#[test]
fn rejects_publishing_at_once_with_rejected_builds() {
    let stack = Stack::synced();
    stack.copr.control(&json!({"define": {"other": {"broken": "1"}}}));
    stack.run(&["copr", "push", "other"]).exits(1);
    let project = stack.workspace.read(PROJECT_TOML);
    stack.workspace.write(PROJECT_TOML, format!("{project}publish = \"at-once\"\n"));
    sync(&stack).exits(1).reports(["did not pass inspection", "copr-cli delete-build 1"]);
    assert_eq!(stack.copr.state()["projects"][PROJECT]["devel_mode"], true);
    stack.copr.cli(&["delete-build", "1"]).exits(0);
    sync(&stack).exits(0).reports(["Changed"]);
}
