//! Tests `rocmrpm reproduce` with the `host` builder: what is identical, what differs and why, and
//! that accepted results stay unchanged. Offline; needs rpmbuild, createrepo_c and a C compiler.

use std::path::Path;
use std::process::Command;

use crate::support::{
    Parts, Transcript, Workspace, names_in, processes_with, ran, template, wait_until,
};
use rocmrpm::digest::Sha256;

/// Returns a workspace with one built component; the script runs in `%build` and may change its
/// file `hello`.
fn built(build: &str) -> Workspace {
    let workspace = Workspace::new();
    workspace.component("demo", &Parts { build, ..Parts::default() });
    workspace.build().exits(0);
    workspace
}

#[test]
fn reproduces_a_deterministic_build() {
    let workspace = built("sed -i s/hello/goodbye/ hello");
    let before = workspace.assert_whole("demo");
    let ran = Transcript::block("docs/guides/build.md", "rocmrpm reproduce demo").run(&workspace);
    assert!(!ran.exits(0).stdout.contains("warning"), "{ran}");
    // The template may have changed since; reproduce rebuilds the recorded build.
    workspace.replace(&template("demo"), "goodbye", "farewell");
    let document = workspace.run(&["reproduce", "demo", "--json"]).exits(0).json();
    assert_eq!(document["schema"], "rocmrpm/reproduce/1");
    assert_eq!(document["identical"], true);
    assert_eq!(document["packages"][0]["same_bytes"], true);
    assert_eq!(workspace.assert_whole("demo"), before);
    assert_eq!(names_in(&workspace.built("reproduce/demo/rpms")), ["demo-1.0-1.noarch.rpm"]);
    let kept = std::fs::read_to_string(workspace.built("reproduce/demo/reproduce.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&kept).unwrap(), document);
}

#[test]
fn reports_build_times_in_files() {
    let workspace = built("date +'built %s.%N' > hello");
    let before = workspace.assert_whole("demo");
    let ran = workspace.run(&["reproduce", "demo"]);
    ran.exits(1).reports(["Differs demo 1.0-1"]);
    for part in [
        "demo-1.0-1.noarch.rpm  differs, 1 file identical",
        "/usr/share/demo/hello: content (a timestamp)",
        "- built 1",
        "cause: the file contains the time of the build: use SOURCE_DATE_EPOCH",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{ran}");
    }
    let document = workspace.run(&["reproduce", "demo", "--json"]).exits(1).json();
    assert_eq!(document["identical"], false);
    let file = &document["packages"][0]["files"][0];
    assert_eq!(
        (&file["path"], &file["causes"][0]),
        (&"/usr/share/demo/hello".into(), &"timestamp".into())
    );
    assert_eq!(file["differences"][0]["what"], "sha256");
    assert_eq!(workspace.assert_whole("demo"), before);
}

#[test]
fn reports_build_folders_and_different_order() {
    let workspace = built("pwd > hello");
    let ran = workspace.run(&["reproduce", "demo"]);
    ran.exits(1);
    assert!(ran.stdout.contains("/usr/share/demo/hello: content (the build folder)"), "{ran}");
    assert!(ran.stdout.contains("-ffile-prefix-map"), "{ran}");

    // Sorts in ascending order the first time and in descending order afterwards.
    let there = "/order-was-here";
    let workspace = Workspace::new();
    let flag = format!("{}{there}", workspace.root().display());
    let build = format!(
        "if [ -e '{flag}' ]; then seq 20 -1 1; else seq 20; touch '{flag}'; fi > hello\nchmod \"$([ -s '{flag}.2' ] && echo 755 || echo 644)\" hello; echo x >> '{flag}.2'"
    );
    let install =
        "install -d %{buildroot}%{_datadir}/demo\ncp -p hello %{buildroot}%{_datadir}/demo/";
    workspace.component("demo", &Parts { build: &build, install, ..Parts::default() });
    workspace.build().exits(0);
    let ran = workspace.run(&["reproduce", "demo"]);
    ran.exits(1);
    assert!(ran.stdout.contains("content (a different order)"), "{ran}");
    assert!(ran.stdout.contains("mode: 0644 -> 0755"), "{ran}");
}

#[test]
fn reports_differing_elf_sections() {
    let workspace = Workspace::new();
    let build = "echo 'const char *when(void) { return WHEN; }' > when.c\n\
                 gcc -shared -fPIC -o libwhen.so -DWHEN=\"\\\"$(date +%%s.%%N)\\\"\" when.c";
    let install = "install -Dpm 755 libwhen.so %{buildroot}%{_libdir}/libwhen.so";
    let parts = Parts {
        preamble: "# arch",
        build,
        install,
        files: "%{_libdir}/libwhen.so",
        ..Parts::default()
    };
    workspace.component("demo", &parts);
    workspace.build().exits(0);
    let document = workspace.run(&["reproduce", "demo", "--json"]).exits(1).json();
    let file = &document["packages"][0]["files"][0];
    let sections = file["sections"].as_array().unwrap();
    assert!(sections.iter().any(|section| section["name"] == ".rodata"), "{document}");
    assert_eq!(file["causes"], serde_json::json!(["timestamp"]));
}

#[test]
fn rejects_missing_and_changed_results() {
    let workspace = Workspace::new();
    workspace.component("demo", &Parts::default());
    let ran = workspace.run(&["reproduce", "demo"]);
    ran.exits(3).reports(["`demo` has no results to reproduce", "help: build it first: "]);
    workspace.run(&["reproduce", "dmeo"]).exits(2).reports(["dmeo"]);
    workspace.build().exits(0);
    let rpm = workspace.built("results/demo/demo-1.0-1.noarch.rpm");
    let mut bytes = std::fs::read(&rpm).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::remove_file(&rpm).unwrap();
    std::fs::write(&rpm, bytes).unwrap();
    workspace.run(&["reproduce", "demo"]).exits(20).reports(["has changed since the build"]);
}

#[test]
fn killed_run_changes_no_results_and_leaves_no_interfering_children() {
    let workspace = Workspace::new();
    let (go, seconds) = (workspace.write("go", ""), format!("3600.{}", std::process::id()));
    let build = format!("[ -e '{}' ] || sleep {seconds}", go.display());
    workspace.component("demo", &Parts { build: &build, ..Parts::default() });
    workspace.build().exits(0);
    let before = workspace.assert_whole("demo");
    std::fs::remove_file(&go).unwrap();
    let running = workspace.start(&["reproduce", "demo"]);
    wait_until("the build sleeps", || !processes_with(&seconds).is_empty());
    running.signal("KILL");
    running.finish();
    assert_eq!(workspace.assert_whole("demo"), before);
    assert!(!workspace.built("reproduce/demo/reproduce.json").exists());
    workspace.build().exits(0).reports(["0 built, 1 fresh"]);
    workspace.write("go", "");
    workspace.run(&["reproduce", "demo"]).exits(0).reports(["Reproduced demo"]);
    wait_until("the children have ended", || processes_with(&seconds).is_empty());
    // The timeout applies here too.
    std::fs::remove_file(&go).unwrap();
    workspace.write("specs-templates/demo/component.toml", "timeout = \"2 s\"\n");
    workspace
        .run(&["reproduce", "demo"])
        .exits(11)
        .reports(["the build of `demo` exceeded its time limit of 2 s"]);
    assert_eq!(workspace.assert_whole("demo"), before);
}

/// Runs git in a folder with a fixed author and date.
fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "Ada")
            .env(format!("GIT_{role}_EMAIL"), "ada@example.org");
        command.env(format!("GIT_{role}_DATE"), "@1767614400 +0000");
    }
    ran(&mut command).exits(0);
}

/// Builds with this umask and, with `one_core`, with one job.
fn build_with(workspace: &Workspace, umask: &str, one_core: bool) {
    let program = if one_core { "exec taskset -c 0 \"$0\"" } else { "exec \"$0\"" };
    let script = format!("umask {umask}; {program} build --chroot host");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_rocmrpm")]);
    workspace.settle(&mut command);
    ran(&mut command).exits(0);
}

#[test]
fn wheel_is_identical_across_folders_umasks_and_job_counts() {
    let first = Workspace::quickstart(&["rocm-smoke"]);
    git(&first.root(), &["init", "--quiet"]);
    first.write(".gitignore", "build/\n");
    git(&first.root(), &["add", "--all"]);
    git(&first.root(), &["commit", "--quiet", "--message", "Add everything"]);
    let second = Workspace::new();
    std::fs::remove_dir_all(second.root()).unwrap();
    git(second.holder(), &["clone", "--quiet", first.root().to_str().unwrap(), "workspace"]);
    build_with(&first, "022", false);
    build_with(&second, "077", true);
    let digests = |workspace: &Workspace, folder: &str, ending: &str| {
        let folder = workspace.built(folder);
        let names = names_in(&folder).into_iter().filter(|name| name.ends_with(ending));
        let digests: Vec<_> =
            names.map(|name| (Sha256::of_file(&folder.join(&name)).unwrap().0, name)).collect();
        assert!(!digests.is_empty(), "no *{ending} in {}", folder.display());
        digests
    };
    let both = |folder, ending| (digests(&first, folder, ending), digests(&second, folder, ending));
    // The SRPMs differ, so their digests must not affect the wheel.
    let (one, two) = both("results/rocm-smoke", ".src.rpm");
    assert_ne!(one, two);
    let (one, two) = both("results/rocm-smoke", ".x86_64.rpm");
    assert_eq!(one, two);
    let (one, two) = both("wheels/rocm-smoke", ".whl");
    assert_eq!(one, two);
}
