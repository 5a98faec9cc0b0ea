//! Tests runs that are stopped, killed, or fail in one component: what remains, and that the next
//! run resumes. Offline; needs rpmbuild and createrepo_c.

use crate::support;
use crate::support::documents;
use crate::support::{Parts, Running, Workspace, processes_with, template, text_of, wait_until};

/// Returns a sleep duration that no other process on this machine uses as an argument.
fn unique_seconds(workspace: &Workspace) -> String {
    let digits: u64 = workspace
        .root()
        .to_string_lossy()
        .bytes()
        .fold(7, |n, b| n * 31 % 999_999_937 + u64::from(b));
    format!("3600.{}{digits}", std::process::id())
}

/// Returns a `%build` that signals its start and then sleeps, unless the file `go` exists.
fn sleeper(workspace: &Workspace, name: &str) -> String {
    let root = workspace.root();
    format!(
        "touch '{root}/{name}.started'\n[ -e '{root}/go' ] || sleep {seconds}\n",
        root = root.display(),
        seconds = unique_seconds(workspace)
    )
}

/// Waits for the children to exit, which takes a moment after a signal.
#[track_caller]
fn assert_ended(workspace: &Workspace) {
    wait_until("the children have ended", || processes_with(&unique_seconds(workspace)).is_empty());
}

fn add_sleeper(workspace: &Workspace, name: &str, toml: &str) {
    workspace
        .component(name, &Parts { toml, build: &sleeper(workspace, name), ..Parts::default() });
}

/// Starts a build and waits until a component sleeps in its `%build`.
fn start_and_sleep(workspace: &Workspace, name: &str) -> Running {
    let running = workspace.start(&["build"]);
    let started = workspace.path(format!("{name}.started"));
    wait_until("the build sleeps", || {
        started.exists() && !processes_with(&unique_seconds(workspace)).is_empty()
    });
    running
}

fn check_signal_stops_the_build(signal: &str) {
    let workspace = Workspace::new();
    add_sleeper(&workspace, "first", "");
    let before = workspace.sources();
    let running = start_and_sleep(&workspace, "first");
    running.signal(signal);
    running
        .finish()
        .exits(130)
        .reports(["interrupted", "help: run the same command again to resume"])
        .never_reports("Failed");
    assert_ended(&workspace);
    workspace.assert_nothing_of("first");
    std::fs::remove_file(workspace.path("first.started")).unwrap();
    assert_eq!(workspace.sources(), before);

    workspace.write("go", "");
    workspace.build().exits(0).reports(["Built first", "1 built, 0 fresh"]);
    workspace.assert_whole("first");
}

#[test]
fn ctrl_c_ends_children_and_the_next_run_resumes() {
    check_signal_stops_the_build("INT");
}

#[test]
fn sigterm_acts_like_ctrl_c() {
    check_signal_stops_the_build("TERM");
}

#[test]
fn kills_a_child_that_ignores_sigterm() {
    let workspace = Workspace::new();
    let build = format!(
        "trap '' TERM\n{}",
        sleeper(&workspace, "stubborn").replace("|| sleep", "|| exec sleep")
    );
    workspace.component("stubborn", &Parts { build: &build, ..Parts::default() });
    let running = start_and_sleep(&workspace, "stubborn");
    running.signal("INT");
    running.finish().exits(130);
    assert_ended(&workspace);
}

#[test]
fn timeout_ends_the_build_and_explains_how_to_raise_it() {
    let workspace = Workspace::new();
    add_sleeper(&workspace, "slow", "timeout = \"2 s\"\n");
    let help =
        "help: raise `timeout` in the component.toml of `slow`, or pass a longer `--timeout`";
    let ran = workspace.build();
    ran.exits(11).reports(["the build of `slow` exceeded its time limit of 2 s", help]);
    assert_ended(&workspace);
    workspace.assert_nothing_of("slow");
    // The command line takes precedence over the component.
    workspace.replace("specs-templates/slow/component.toml", "2 s", "1 h");
    workspace.run(&["build", "--timeout", "1 min 1 s", "--until", "spec"]).exits(0);
    workspace
        .run(&["build", "--timeout", "3s"])
        .exits(11)
        .reports(["exceeded its time limit of 3 s"]);
    assert_ended(&workspace);

    workspace.write("go", "");
    workspace.build().exits(0).reports(["1 built, 0 fresh"]);
    workspace.assert_whole("slow");
    // The timeout affects no package.
    workspace.replace("specs-templates/slow/component.toml", "1 h", "2 h");
    workspace.build().exits(0).reports(["0 built, 1 fresh"]);
}

#[test]
fn plan_estimates_time_from_earlier_builds() {
    let workspace = Workspace::new();
    for name in ["known", "new"] {
        workspace.component(name, &Parts::default());
    }
    let seconds = |ran: &support::Ran| {
        (ran.json()["seconds"].clone(), ran.json()["seconds_unknown_of"].clone())
    };
    let before = workspace.run(&["plan", "--json"]);
    assert_eq!(seconds(&before), (serde_json::Value::Null, serde_json::json!([])));
    workspace.run(&["build", "known"]).exits(0);
    // Measured: 2 h for the build and the inspection.
    let times = "{\"schema\": \"rocmrpm/times/1\", \"seconds\": {\"build\": 7000, \"fetch\": 200}, \"finished\": \"\"}";
    std::fs::write(workspace.built("results/known/times.json"), times).unwrap();
    workspace.run(&["plan"]).exits(0).never_reports("about");
    workspace.replace(&template("known"), "A component of a test.", "Another description.");
    let ran = workspace.run(&["plan"]);
    ran.exits(0).reports([
        "about 2 h on",
        "based on earlier builds; not counted because never built here: new",
    ]);
    let ran = workspace.run(&["plan", "--json"]);
    assert_eq!(ran.json()["seconds_unknown_of"], serde_json::json!(["new"]));
    assert!((7200.0..7260.0).contains(&ran.json()["seconds"].as_f64().unwrap()), "{ran}");
}

#[test]
fn does_not_rebuild_components_built_before_the_stop() {
    let workspace = Workspace::new();
    let counted = format!("echo x >> '{}/count'", workspace.root().display());
    workspace.component("first", &Parts { build: &counted, ..Parts::default() });
    add_sleeper(&workspace, "second", "requires = [\"first\"]\n");
    let running = start_and_sleep(&workspace, "second");
    running.signal("INT");
    running.finish().exits(130).reports(["Built first"]);
    workspace.assert_whole("first");
    workspace.assert_nothing_of("second");

    workspace.write("go", "");
    workspace
        .build()
        .exits(0)
        .reports(["Built second", "1 built, 1 fresh"])
        .never_reports("Built first");
    assert_eq!(workspace.read("count"), "x\n");
    assert_eq!(
        support::names_in(&workspace.built("repository"))
            .iter()
            .filter(|n| n.ends_with(".rpm"))
            .count(),
        2
    );
}

#[test]
fn killed_run_leaves_no_results_and_no_interfering_children() {
    let workspace = Workspace::new();
    add_sleeper(&workspace, "first", "");
    let running = start_and_sleep(&workspace, "first");
    running.signal("KILL");
    assert_eq!(running.finish().code, None);
    workspace.assert_nothing_of("first");

    workspace.write("go", "");
    workspace.build().exits(0).reports(["Built first"]);
    workspace.assert_whole("first");
    assert_ended(&workspace);
}

#[test]
fn rebuilds_incomplete_results() {
    // Results without a record or with a truncated file do not count.
    let workspace = Workspace::new();
    workspace.component("first", &Parts::default());
    workspace.build().exits(0);
    std::fs::remove_file(workspace.built("results/first/build.json")).unwrap();
    workspace.run(&["plan"]).exits(0);
    workspace.build().exits(0).reports(["1 built, 0 fresh"]);
    workspace.assert_whole("first");
    let rpm = workspace.built("results/first/first-1.0-1.noarch.rpm");
    std::fs::write(&rpm, &std::fs::read(&rpm).unwrap()[..100]).unwrap();
    let plan = workspace.run(&["plan"]);
    assert!(plan.exits(0).stdout.contains("first-1.0-1.noarch.rpm changed on disk"), "{plan}");
    workspace.build().exits(0).reports(["1 built, 0 fresh"]);
    workspace.assert_whole("first");
}

/// `bad` fails, `above` depends on it, `aside` does not.
fn with_a_failure() -> Workspace {
    let workspace = Workspace::new();
    workspace.component("bad", &Parts { build: "exit 7", ..Parts::default() });
    workspace.component("above", &Parts { toml: "requires = [\"bad\"]\n", ..Parts::default() });
    // Its memory requirement keeps it from running next to `bad`.
    workspace
        .component("aside", &Parts { toml: "memory-per-job = \"9000 GB\"\n", ..Parts::default() });
    workspace.replace("specs-templates/bad/component.toml", "", "memory-per-job = \"9000 GB\"\n");
    workspace
}

#[test]
fn skips_dependents_of_a_failure_with_the_reason() {
    let workspace = with_a_failure();
    let ran = workspace.run(&["build", "above"]);
    ran.exits(10)
        .reports(["`bad` failed in %build", "Skipped above: requires `bad`, which was not built"]);
    workspace.assert_nothing_of("bad");
    workspace.assert_nothing_of("above");
    documents::read(&workspace.built("work/bad/failure.json"), "rocmrpm/failure/1");
    let status = workspace.run(&["status", "--json"]);
    let status = status.exits(0).document("rocmrpm/status/1");
    let states: Vec<_> = status["components"].as_array().unwrap().iter().collect();
    assert_eq!(
        (text_of(&states[2]["component"]), text_of(&states[2]["state"])),
        ("bad".into(), "failed".into())
    );
    assert!(text_of(&states[2]["error"]).contains("%build"), "{status}");
    assert_eq!(text_of(&states[0]["state"]), "not-built");
    workspace.replace(&template("bad"), "exit 7", "true");
    workspace.run(&["build", "above"]).exits(0).reports(["2 built, 0 fresh"]);
    let status = workspace.run(&["status"]);
    status
        .exits(0)
        .prints(["above      passed", "bad        passed"])
        .reports(["1 component never"]);
}

#[test]
fn follows_the_log_of_a_running_build_and_cleans_what_it_leaves() {
    let workspace = Workspace::new();
    workspace.run(&["log"]).exits(2).reports(["nothing was built for `host`"]);
    let root = workspace.root();
    let wait = format!("echo begins; until [ -e {}/go ]; do sleep 0.1; done", root.display());
    workspace.component("first", &Parts { build: &wait, ..Parts::default() });
    let running = workspace.start(&["build"]);
    let log = workspace.built("work/first/logs/build.log");
    wait_until("the build waits", || {
        fs_err::read_to_string(&log).is_ok_and(|log| log.contains("begins"))
    });
    workspace.run(&["status"]).exits(0).prints(["first      running"]);
    workspace.run(&["clean"]).exits(20).reports(["another rocmrpm process is using"]);
    let follower = workspace.start(&["log", "--follow", "first"]);
    workspace.write("go", "");
    running.finish().exits(0);
    let log = follower.finish();
    assert!(log.exits(0).stdout.contains("Executing(%install)"), "{log}");
    assert_eq!(workspace.run(&["log"]).exits(0).stdout, log.stdout);
    workspace.run(&["log", "--list"]).exits(0).prints(["build.log", "srpm.log"]);
    workspace.run(&["log", "first", "buil.log"]).exits(2).reports(["did you mean `build.log`?"]);

    workspace.replace(&template("first"), "%build", "%build\nexit 7");
    workspace.build().exits(10);
    let listed = workspace.run(&["clean", "--dry-run"]).exits(0).stdout.clone();
    assert_eq!(listed, format!("{}\n", workspace.built("work").display()));
    assert!(workspace.built("work/first").exists());
    workspace.run(&["clean", "first"]).exits(0).reports(["Freed"]);
    assert!(!workspace.built("work/first").exists());
    workspace.assert_whole("first");
    workspace.run(&["status", "first"]).exits(0).prints(["first      passed"]);
    workspace.run(&["clean", "--all"]).exits(0);
    assert_eq!(support::names_in(&workspace.built("")), [".lock"]);
}

#[test]
fn keep_going_builds_components_independent_of_the_failure() {
    let workspace = with_a_failure();
    let ran = workspace.run(&["build", "--keep-going", "--json"]);
    ran.exits(10).reports(["Built aside", "Skipped above: requires `bad`, which was not built"]);
    let document = ran.json();
    let outcome = |name: &str| {
        let components = document["components"].as_array().unwrap();
        support::text_of(&components.iter().find(|c| c["component"] == name).unwrap()["outcome"])
    };
    assert_eq!(
        [outcome("bad"), outcome("above"), outcome("aside")],
        ["failed", "skipped", "built"]
    );
    assert_eq!(document["complete"], false);
    workspace.assert_whole("aside");
    workspace.replace(&template("bad"), "exit 7", "true");
    workspace.build().exits(0).reports(["2 built, 1 fresh"]);
}

#[test]
fn builds_independent_components_concurrently() {
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(cores >= 2, "this test needs two cores");
    let workspace = Workspace::new();
    let root = workspace.root();
    // Each build waits for the other; run sequentially, the first would time out.
    for (name, other) in [("one", "two"), ("two", "one")] {
        let build = format!(
            "touch '{0}/{name}.here'\nfor i in $(seq 600); do [ -e '{0}/{other}.here' ] && exit 0; sleep 0.1; done\nexit 1",
            root.display()
        );
        workspace.component(
            name,
            &Parts { toml: "memory-per-job = \"1 MB\"\n", build: &build, ..Parts::default() },
        );
    }
    workspace.build().exits(0).reports(["2 built, 0 fresh"]);
}

#[test]
fn builds_sequentially_if_memory_is_short() {
    let workspace = Workspace::new();
    for name in ["one", "two"] {
        // mkdir fails if the other build is running.
        let build = format!(
            "mkdir '{0}/at-work'\nsleep 1\nrmdir '{0}/at-work'",
            workspace.root().display()
        );
        workspace.component(
            name,
            &Parts { toml: "memory-per-job = \"9000 GB\"\n", build: &build, ..Parts::default() },
        );
    }
    workspace.build().exits(0).reports(["2 built, 0 fresh"]);
}

#[test]
fn rejects_a_concurrent_run() {
    let workspace = Workspace::new();
    add_sleeper(&workspace, "first", "");
    let root = workspace.root();
    workspace.replace(
        &template("first"),
        "|| sleep",
        "|| for i in $(seq 600); do sleep 0.1; [ ! -e '",
    );
    workspace.replace(
        &template("first"),
        "[ ! -e '",
        &format!("[ ! -e '{}/go' ] || break; done #", root.display()),
    );
    let running = workspace.start(&["build"]);
    wait_until("the build runs", || workspace.path("first.started").exists());
    let second = workspace.build();
    second.exits(20).reports([
        "another rocmrpm process is using",
        "build/host",
        "help: pass `--wait` to `build`",
    ]);
    workspace.write("go", "");
    running.finish().exits(0).reports(["1 built, 0 fresh"]);
    workspace.assert_whole("first");
}

#[test]
fn restores_a_missing_repository_without_a_build() {
    let workspace = Workspace::new();
    workspace.component("first", &Parts::default());
    workspace.build().exits(0);
    std::fs::remove_dir_all(workspace.built("repository")).unwrap();
    workspace.build().exits(0).reports(["0 built, 1 fresh"]);
    assert!(workspace.built("repository/repodata/repomd.xml").exists());
    assert!(workspace.built("repository/first-1.0-1.noarch.rpm").exists());
}

#[test]
fn sighup_ends_children() {
    let workspace = Workspace::new();
    add_sleeper(&workspace, "first", "");
    let running = start_and_sleep(&workspace, "first");
    running.signal("HUP");
    assert_eq!(running.finish().code, Some(130));
    assert_ended(&workspace);
}

#[test]
fn signal_ends_waiting_for_a_locked_repository() {
    let workspace = Workspace::new();
    workspace.component("first", &Parts::default());
    workspace.build().exits(0);
    let lock = std::fs::File::create(workspace.built("repository/.lock")).unwrap();
    lock.lock().unwrap();
    let running = workspace.start(&["build"]);
    // It stops whether it is already waiting or not.
    std::thread::sleep(std::time::Duration::from_secs(2));
    running.signal("TERM");
    running.finish().exits(130).reports(["interrupted"]);
    drop(lock);
    workspace.build().exits(0);
}

#[test]
fn waits_for_a_process_that_uses_the_build_folder() {
    let workspace = Workspace::new();
    add_sleeper(&workspace, "first", "");
    let first = start_and_sleep(&workspace, "first");
    workspace
        .run(&["build"])
        .exits(20)
        .reports(["another rocmrpm process is using", "help: pass `--wait` to `build`"]);
    let log = workspace.path("second.log");
    let second = workspace.start_with(&["build", "--wait"], |command| {
        command.stderr(std::fs::File::create(&log).unwrap());
    });
    let printed = || std::fs::read_to_string(&log).unwrap();
    wait_until("it waits", || printed().contains("waiting for the rocmrpm process"));
    workspace.write("go", "");
    first.signal("INT");
    first.finish().exits(130);
    second.finish().exits(0);
    assert!(printed().contains("Built first"), "{}", printed());
}

#[test]
fn builds_again_on_request_and_previews_builds() {
    let workspace = Workspace::new();
    for name in ["first", "second"] {
        workspace.component(name, &Parts::default());
    }
    let preview = workspace.run(&["build", "--dry-run", "--jobs", "1"]);
    assert_eq!(preview.exits(0).stdout.matches("it was never built").count(), 2, "{preview}");
    workspace.assert_nothing_of("first");
    workspace.run(&["build", "-j1"]).exits(0).reports(["2 built, 0 fresh"]);
    workspace.run(&["build", "--force", "second"]).exits(0).reports(["Built second", "1 built"]);
    let preview = workspace.run(&["build", "--force", "--dry-run"]);
    assert_eq!(preview.exits(0).stdout.matches("it was requested").count(), 2, "{preview}");
    workspace.run(&["build"]).exits(0).reports(["0 built, 2 fresh"]);
    workspace.run(&["build", "--jobs", "0"]).exits(2);
}

/// A failure stops what requires the component, and nothing else: users get the repository, wheels,
/// and index of all others.
#[test]
fn failed_component_that_nothing_requires_stops_nothing_else() {
    let workspace = Workspace::new();
    // It is first in order, and the others cannot run beside it.
    let alone = "memory-per-job = \"9000 GB\"\n";
    workspace.component("bad", &Parts { toml: alone, build: "exit 7", ..Parts::default() });
    let metadata = "printf 'Metadata-Version: 2.1\\nName: module\\nVersion: 1.0\\n'";
    let folder = "%{python3_sitelib}/module-1.0.dist-info";
    workspace.component(
        "module",
        &Parts {
            toml: alone,
            preamble: "BuildRequires: python3-devel",
            install: &format!(
                "mkdir -p %{{buildroot}}{folder}\n{metadata} > %{{buildroot}}{folder}/METADATA\n\
                 echo 'x = 1' > %{{buildroot}}%{{python3_sitelib}}/module.py\n"
            ),
            files: &format!("%{{python3_sitelib}}/module.py\n{folder}"),
            ..Parts::default()
        },
    );
    let ran = workspace.build();
    ran.exits(10).reports([
        "`bad` failed in %build",
        "Built module",
        "Indexed 1 distribution",
        "Incomplete 1 failed, 0 skipped, 1 up to date",
        "without what failed",
    ]);
    let repository = support::names_in(&workspace.built("repository"));
    assert!(repository.iter().any(|name| name == "repodata"), "{repository:?}");
    let pages = support::names_in(&workspace.built("index/simple/module"));
    assert!(pages.iter().any(|name| name == "index.html"), "{pages:?}");
}

#[test]
fn warns_before_a_long_build_of_uncommitted_changes() {
    let workspace = Workspace::new();
    workspace
        .component("large", &Parts { toml: "memory-per-job = \"3 GB\"\n", ..Parts::default() });
    workspace.component("small", &Parts::default());
    workspace.git(&["init", "--quiet"]);
    workspace.commit("Begin");
    let warning = "will be built from uncommitted changes, and again after the commit";
    workspace.write("src/large/hello", "changed\n");
    workspace.write("src/small/hello", "changed\n");
    let build = || workspace.run(&["build", "--until", "rpm"]);
    build().exits(0).reports([&format!("`large` {warning}")]).never_reports("`small` will");
    // It took less than ten minutes.
    workspace.write("src/large/hello", "changed again\n");
    build().exits(0).never_reports(warning);
    workspace.commit("Change both");
    build().exits(0).never_reports(warning).reports(["2 built"]);
}

#[test]
fn concurrent_rebuilds_replace_results_that_the_repository_reads() {
    let workspace = Workspace::new();
    let names = ["one", "two", "three", "four"];
    for name in names {
        let toml = "memory-per-job = \"1 MB\"\n";
        workspace.component(name, &Parts { toml, ..Parts::default() });
    }
    for round in 0..5 {
        // Other names for the RPMs each time.
        let pins = names.map(|n| format!("[{n}]\nversion = \"1.{round}\"\npath = \"src/{n}\"\n"));
        workspace.write("pins/stable.toml", pins.join("\n"));
        workspace.run(&["build", "--until", "rpm"]).exits(0).reports(["4 built, 0 fresh"]);
    }
}

#[test]
fn verbose_build_shows_the_output_of_each_component() {
    let workspace = Workspace::new();
    let parts = Parts { build: "echo from a build; printf 'red\\033[31m\\n'", ..Parts::default() };
    workspace.component("first", &parts);
    let ran = workspace.run(&["build", "-v"]);
    ran.exits(0).reports([
        "\n+ echo from a build\n",
        "\nfrom a build\n",
        "\nred[31m\n",
        "Built first",
    ]);
    workspace.component("second", &parts);
    workspace
        .run(&["build", "--force", "--verbose", "--jobs", "1"])
        .exits(0)
        .reports(["\nfirst: from a build\n", "\nsecond: from a build\n"]);
    workspace.run(&["build", "--force"]).exits(0).never_reports("from a build");
    workspace.run(&["build", "--force", "-vq"]).exits(0).never_reports("from a build");
}

#[test]
fn progress_line_shows_the_time_left_once_builds_are_known() {
    let workspace = Workspace::new();
    workspace.component("first", &Parts { build: "sleep 5", ..Parts::default() });
    let program = env!("CARGO_BIN_EXE_rocmrpm");
    let on_terminal = || {
        let build = format!("env -u CI TERM=xterm {program} build --force --until rpm");
        let ran = workspace.shell(&format!("script -qec 'stty cols 100; {build}' /dev/null"));
        ran.exits(0).stdout.clone()
    };
    let first = on_terminal();
    assert!(first.contains("0/1") && !first.contains("left"), "{first}");
    let second = on_terminal();
    assert!(second.contains(" s left"), "{second}");
}

#[test]
fn plan_shows_that_only_the_release_changed() {
    let workspace = Workspace::new();
    workspace.component("first", &Parts::default());
    workspace.commit("Begin");
    workspace.run(&["build", "--until", "rpm"]).exits(0);
    workspace
        .write("specs-templates/first/README", "It is in the history, but no build reads it.\n");
    workspace.commit("Describe first");
    let why = "spec changed only in its Release, 1 to 2";
    workspace.run(&["plan"]).exits(0).prints([why]);
    workspace.replace(&template("first"), "A component of a test.", "Another description.");
    let ran = workspace.run(&["plan"]);
    ran.exits(0).prints(["spec changed"]);
    assert!(!ran.stdout.contains("only in its Release"), "{ran}");
}

#[test]
fn shell_enters_prepared_sources_before_a_build_and_after_it() {
    let workspace = Workspace::new();
    let tool = "mkdir -p %{buildroot}%{_bindir}\nprintf '#!/bin/sh\\necho tool works\\n' > t\n\
                install -m 755 t %{buildroot}%{_bindir}/test-tool";
    let parts = Parts { install: tool, files: "%{_bindir}/test-tool", ..Parts::default() };
    workspace.component("first", &parts);
    let parts = Parts { toml: "requires = [\"first\"]\n", ..Parts::default() };
    workspace.component("second", &parts);
    let inside = ["shell", "second", "--", "sh", "-c", "pwd; ls; test-tool; exit 7"];
    let folder = workspace.built("prep/second/build/rpmbuild/BUILD/second-1.0");
    let ran = workspace.run(&inside);
    ran.exits(7).reports([
        "`second` requires `first`, which is not built",
        &format!("Entering {}", folder.display()),
        "test-tool: not found",
    ]);
    assert_eq!(ran.stdout, format!("{}\nhello\n", folder.display()));
    workspace.run(&["build", "--until", "rpm"]).exits(0);
    let ran = workspace.run(&inside);
    ran.exits(7).never_reports("not built");
    assert!(ran.stdout.ends_with("hello\ntool works\n"), "{ran}");
    workspace.run(&["shell", "third"]).exits(2).reports(["there is no component `third`"]);
}
