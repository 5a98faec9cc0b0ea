//! Tests with the real mock what users do between builds: a shell before a build, the output of
//! builds, and other versions with `--pin`. Requires ROCMRPM_LAB_MOCK to name a checkout of mock.

use super::lab;
use super::support::{Parts, Ran, Workspace, names_in, template};

/// Runs rocmrpm for the chroot in mock.
fn rocmrpm(workspace: &Workspace, args: &[&str]) -> Ran {
    let (args, command) = match args.iter().position(|arg| *arg == "--") {
        Some(at) => args.split_at(at),
        None => (args, &[][..]),
    };
    lab::rocmrpm(workspace, &[args, &["--chroot", "fedora-43"], command].concat())
}

fn workspace(name: &str) -> Workspace {
    assert!(
        std::env::var_os("ROCMRPM_LAB_MOCK").is_some(),
        "ROCMRPM_LAB_MOCK does not name a checkout of mock"
    );
    Workspace::small(name)
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn shell_opens_before_a_build_with_requirements_and_prepared_sources() {
    let workspace = workspace("laboratory-mock-shell");
    workspace.component("ground", &Parts::default());
    let above = Parts {
        toml: "requires = [\"ground\"]\n",
        preamble: "BuildRequires: ground\nBuildRequires: gcc",
        prep: "%autosetup -p1 -n <{ source_dir }>\necho patched >> hello",
        build: "false",
        ..Parts::default()
    };
    workspace.component("above", &above);
    lab::hand_over(&workspace);

    let sources = "cat /builddir/build/BUILD/*/above-1.0/hello";
    let look = format!("pwd; id -un; rpm -q ground; command -v gcc; {sources}");
    let shell = |script: &str| rocmrpm(&workspace, &["shell", "above", "--", "sh", "-c", script]);

    // What it requires does not exist yet.
    let missing = shell("true");
    missing.exits(10).reports([
        "warning: `above` requires `ground`, which is not built",
        "`above` failed in BuildRequires: no repository of the chroot provides ground",
    ]);
    rocmrpm(&workspace, &["build", "--until", "rpm", "ground"]).exits(0);
    let inside = shell(&look);
    inside.exits(0).reports(["Building (1/1) above %prep", "Entering /var/lib/mock/"]);
    let lines: Vec<&str> = inside.stdout.lines().collect();
    assert_eq!(lines[..2], ["/builddir/build/BUILD", "mockbuild"], "{inside}");
    assert!(lines[2].starts_with("ground-1.0-1"), "{inside}");
    assert_eq!(lines[3..], ["/usr/bin/gcc", "hello", "patched"], "{inside}");
    assert_eq!(shell("exit 7").exits(7).stdout, "");
    // It is no build: nothing failed, and nothing is accepted.
    assert!(!workspace.path("build/fedora-43/work/above").exists(), "{inside}");

    // The same root, as long as nothing changes.
    shell("touch /builddir/build/BUILD/mine").exits(0).never_reports("Building (1/1)");
    shell("ls /builddir/build/BUILD/mine").exits(0);
    workspace.replace(&template("above"), "echo patched", "echo changed");
    let changed = shell(&format!("ls /builddir/build/BUILD/mine; {sources}"));
    changed.exits(0).reports(["Building (1/1) above %prep"]);
    assert_eq!(changed.stdout, "hello\nchanged\n", "{changed}");

    // A failed build leaves its own root, which later changes do not replace.
    let failed = rocmrpm(&workspace, &["build", "above"]);
    failed.exits(10).reports(["`above` failed in %build"]);
    workspace.replace(&template("above"), "echo changed", "echo again");
    let left = shell(sources);
    assert_eq!(left.exits(0).stdout, "hello\nchanged\n", "{left}");
    left.never_reports("Building (1/1)");
    workspace.replace(&template("above"), "\nfalse\n", "\ntrue\n");
    rocmrpm(&workspace, &["build", "--until", "rpm", "above"]).exits(0).reports(["Built above"]);
    // A successful build leaves none.
    assert_eq!(shell(sources).exits(0).stdout, "hello\nagain\n");
    rocmrpm(&workspace, &["clean"]).exits(0).reports(["build/fedora-43/shell"]);
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn shell_before_a_build_fails_as_the_build_does() {
    let workspace = workspace("laboratory-mock-shell-fails");
    let prep = "echo no such source; false";
    workspace.component("unprepared", &Parts { prep, ..Parts::default() });
    lab::hand_over(&workspace);
    let args = ["shell", "unprepared", "--", "true"];
    let failed = rocmrpm(&workspace, &args);
    failed.exits(10).reports(["`unprepared` failed in %prep", "no such source"]);
    failed.has_one_help_per_error();
    let log = workspace.read("build/fedora-43/shell/unprepared/logs/prep/build.log");
    assert!(log.contains("no such source"), "{log}");
    // Nothing of the failed preparation is entered.
    rocmrpm(&workspace, &args).exits(10);
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn verbose_shows_the_output_of_the_build_while_it_runs() {
    let workspace = workspace("laboratory-mock-verbose");
    let build = "echo on-stdout; echo on-stderr >&2; sleep 4; echo last-line";
    workspace.component("talking", &Parts { build, ..Parts::default() });
    lab::hand_over(&workspace);
    // Each line with the seconds at which it was printed.
    let script = format!(
        "{} build -v --until rpm --chroot fedora-43 talking 2>&1 | \
         while IFS= read -r line; do echo \"$SECONDS $line\"; done",
        lab::PROGRAM
    );
    let ran = lab::script(&workspace, &script);
    ran.exits(0);
    let at = |what: &str| {
        let line = ran.stdout.lines().find(|line| line.ends_with(what));
        let line = line.unwrap_or_else(|| panic!("no {what}\n{ran}"));
        line.split(' ').next().unwrap().parse::<u32>().unwrap()
    };
    assert!(at("on-stdout") + 2 <= at("last-line"), "{ran}");
    assert!(at("on-stderr") + 2 <= at("last-line"), "{ran}");
    assert!(ran.stdout.contains("Built talking 1 RPM"), "{ran}");
    let log = workspace.read("build/fedora-43/results/talking/logs/rpm/build.log");
    for line in log.lines().filter(|line| line.starts_with("on-")) {
        assert_eq!(ran.stdout.matches(&format!(" {line}\n")).count(), 1, "{ran}");
    }
    let quiet = rocmrpm(&workspace, &["build", "--force", "--until", "rpm", "talking"]);
    quiet.exits(0).never_reports("on-stdout");
}

/// Returns the file that a build of `user` made, with the version of what it was built with.
fn seen_by(workspace: &Workspace, folder: &str) -> String {
    let script = format!(
        "cd $(mktemp -d); rpm2cpio $OLDPWD/build/{folder}/results/user/user-*.noarch.rpm | \
         cpio -id --quiet; cat usr/share/user/hello"
    );
    lab::script(workspace, &script).exits(0).stdout.clone()
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn experiments_with_pins_are_built_with_their_own_packages() {
    let workspace = workspace("laboratory-mock-pins");
    workspace.component("used", &Parts::default());
    let user = Parts {
        toml: "requires = [\"used\"]\n",
        preamble: "BuildRequires: used",
        install: "mkdir -p %{buildroot}%{_datadir}/user\nrpm -q used > %{buildroot}%{_datadir}/user/hello",
        ..Parts::default()
    };
    workspace.component("user", &user);
    lab::hand_over(&workspace);
    rocmrpm(&workspace, &["build", "--until", "rpm", "user"])
        .exits(0)
        .reports(["2 built, 0 fresh"]);
    assert!(seen_by(&workspace, "fedora-43").starts_with("used-1.0-"));

    let experiment = ["build", "--until", "rpm", "user", "--pin", "used=2.0"];
    rocmrpm(&workspace, &experiment).exits(0).reports(["2 built, 0 fresh"]);
    assert!(seen_by(&workspace, "fedora-43@used-2.0").starts_with("used-2.0-"));
    rocmrpm(&workspace, &experiment).exits(0).reports(["0 built, 2 fresh"]);
    // The results of the set are as before, and so is what the next build uses.
    assert!(seen_by(&workspace, "fedora-43").starts_with("used-1.0-"));
    rocmrpm(&workspace, &["build", "--until", "rpm", "user", "--force"])
        .exits(0)
        .reports(["1 built, 1 fresh"]);
    assert!(seen_by(&workspace, "fedora-43").starts_with("used-1.0-"));
    // The experiment has a build root of its own, before and after a failure.
    let version = ["shell", "user", "--pin", "used=2.0", "--", "rpm", "-q", "used"];
    assert!(rocmrpm(&workspace, &version).exits(0).stdout.starts_with("used-2.0-"));
    let version = ["shell", "user", "--", "rpm", "-q", "used"];
    assert!(rocmrpm(&workspace, &version).exits(0).stdout.starts_with("used-1.0-"));
}

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn reports_packages_that_a_component_uses_but_does_not_require() {
    let workspace = workspace("laboratory-mock-undeclared");
    workspace.component("library", &Parts::default());
    let silent = Parts { preamble: "BuildRequires: library", ..Parts::default() };
    workspace.component("silent", &silent);
    lab::hand_over(&workspace);
    rocmrpm(&workspace, &["build", "--until", "rpm", "library"]).exits(0);
    let help = "add `\"library\"` to `requires` in specs-templates/silent/component.toml";
    rocmrpm(&workspace, &["build", "--until", "rpm", "silent"]).exits(0).reports([
        "warning: `silent` was built with library, but does not require `library`: it is not rebuilt when \
         that changes",
        help,
    ]);
    let experiment = ["build", "--until", "rpm", "library", "--pin", "library=2.0"];
    let refused = rocmrpm(&workspace, &experiment);
    refused.exits(3).reports([
        "`silent` was built with library, which the pins of this command replace, but `silent` does not \
         require `library`",
        &format!("help: {help}"),
    ]);
    let experiments = workspace.path("build/fedora-43@library-2.0/results");
    assert!(!experiments.exists(), "{:?}", names_in(&experiments));
    workspace.write("specs-templates/silent/component.toml", "requires = [\"library\"]\n");
    rocmrpm(&workspace, &experiment).exits(0).reports(["Built library"]);
    let all = ["build", "--until", "rpm", "silent", "--pin", "library=2.0"];
    rocmrpm(&workspace, &all).exits(0).never_reports("was built with library");
}
