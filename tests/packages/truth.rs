//! Tests that build records and labels match the inputs: build keys, environment, targets and
//! labels, sources that change during a run, and a repository that follows the workspace. Offline;
//! needs rpmbuild, createrepo_c and unshare.

use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::documents;
use crate::support::{
    Parts, Running, Transcript, Workspace, names_in, ran, template, text_of, wait_until,
};
use rocmrpm::digest::Sha256;
use serde_json::{Value, json};

/// The ROCm provider in a [`Workspace`].
const PROVIDER: &str = "mock-configs/rocm/host.toml";

/// The `%install` of a Python distribution without code.
const INSTALL_PYTHON: &str = "\
site=%{buildroot}/usr/lib/python<{ chroot.python }>/site-packages
info=$site/<{ name }>-<{ version }>.dist-info
install -d $info
echo > $site/<{ name }>.py
printf 'Metadata-Version: 2.1\\nName: <{ name }>\\nVersion: <{ version }>\\n' > $info/METADATA
printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' > $info/WHEEL";

/// Returns a workspace with ROCm 7.1, independent of this machine.
fn with_rocm() -> Workspace {
    let workspace = Workspace::new();
    workspace.replace(
        PROVIDER,
        "version-header = \"/usr/include/hip/hip_version.h\"",
        "version = \"7.1\"",
    );
    workspace
}

fn add_python(workspace: &Workspace, name: &str, toml: &str) {
    let files = "/usr/lib/python<{ chroot.python }>/site-packages/*";
    workspace.component(name, &Parts { toml, install: INSTALL_PYTHON, files, ..Parts::default() });
}

/// Returns a component's step in a plan.
#[track_caller]
fn step(workspace: &Workspace, name: &str, args: &[&str]) -> Value {
    let plan = workspace.run(&[&["plan", "--json"], args].concat());
    let plan = plan.exits(0).json();
    let steps = plan["steps"].as_array().unwrap();
    steps.iter().find(|step| step["component"] == name).unwrap().clone()
}

/// Returns the only wheel of a component.
#[track_caller]
fn wheel(workspace: &Workspace, name: &str) -> String {
    let mut wheels = names_in(&workspace.built("wheels").join(name));
    wheels.retain(|file| file.ends_with(".whl"));
    assert_eq!(wheels.len(), 1, "{wheels:?}");
    wheels.remove(0)
}

/// Returns the names of the RPMs in a folder.
fn rpms(dir: &Path) -> Vec<String> {
    let mut names = names_in(dir);
    names.retain(|name| name.ends_with(".rpm"));
    names
}

#[test]
fn dist_tag_is_part_of_the_build_key() {
    let workspace = Workspace::new();
    workspace.component("demo", &Parts::default());
    // Its Release has no dist tag, so only the key can differ.
    workspace.replace(&template("demo"), "<{ release }>", "1");
    workspace.replace("mock-configs/host.toml", "\"host\"\n", "\"host\"\ndist = \".t1\"\n");
    workspace.build().exits(0);
    assert_eq!(step(&workspace, "demo", &[])["stale"], false);
    workspace.replace("mock-configs/host.toml", ".t1", ".t2");
    Transcript::block("docs/concepts/build-keys.md", "rocmrpm plan").run(&workspace).exits(0);
    assert_eq!(step(&workspace, "demo", &[])["reasons"], json!(["chroot changed"]));
    workspace.build().exits(0).reports(["1 built, 0 fresh"]);
    assert_eq!(step(&workspace, "demo", &[])["stale"], false);
}

#[test]
fn mock_config_template_is_part_of_the_mock_build_key() {
    let workspace = Workspace::quickstart(&["rocm-smoke"]);
    let key = |builder: &str| {
        step(&workspace, "rocm-smoke", &["--chroot", "fedora-43", "--builder", builder])["key"]
            .clone()
    };
    let (mock, host) = (key("mock"), key("host"));
    assert_eq!(key("mock"), mock);
    let file = "mock-configs/mock.cfg.tera";
    workspace.write(file, workspace.read(file) + "\nconfig_opts['rpmbuild_networking'] = True\n");
    assert_ne!(key("mock"), mock);
    assert_eq!(key("host"), host);
}

#[test]
fn user_environment_does_not_reach_the_build() {
    let workspace = Workspace::new();
    let home = workspace.cache().join("../home");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join(".rpmmacros"), "%a_macro users-own\n").unwrap();
    let build = "env > environment\necho \"macro=%{?a_macro}\" >> environment";
    let install = "install -Dpm 644 environment %{buildroot}%{_datadir}/demo/environment\n\
                   cp environment '{root}/environment'";
    let install = install.replace("{root}", &workspace.root().to_string_lossy());
    workspace.component("demo", &Parts { build, install: &install, ..Parts::default() });
    let mut command = workspace.command(&["build"]);
    let names = [
        "CC",
        "CFLAGS",
        "CMAKE_PREFIX_PATH",
        "HIP_PATH",
        "LD_LIBRARY_PATH",
        "LDFLAGS",
        "MAKEFLAGS",
        "PIP_INDEX_URL",
        "PYTHONPATH",
        "PYTORCH_ROCM_ARCH",
        "ROCM_PATH",
        "SETUPTOOLS_SCM_PRETEND_VERSION",
        "XDG_CONFIG_HOME",
    ];
    for name in names {
        command.env(name, "/users-own");
    }
    let path = format!("{}:/users-own", std::env::var("PATH").unwrap());
    command.env("PATH", path).env("HOME", &home).env("LC_ALL", "C");
    ran(&mut command).exits(0);
    workspace.assert_whole("demo");
    let seen = workspace.read("environment");
    assert!(!seen.contains("users-own"), "{seen}");
    assert!(seen.ends_with("\nmacro=\n"), "{seen}");
    assert!(seen.contains("LC_ALL=C.UTF-8"), "{seen}");
    assert!(!seen.contains(&format!("HOME={}\n", home.display())), "{seen}");
}

#[test]
fn wheel_labels_match_the_rpms() {
    let workspace = with_rocm();
    add_python(&workspace, "demo", "");
    workspace.build().exits(0);
    let old = "demo-1.0+rocm7.1.gfx1151.1-py3-none-any.whl";
    assert_eq!(wheel(&workspace, "demo"), old);

    workspace.replace("rocmrpm.toml", "gfx1151", "gfx1100");
    workspace.replace(PROVIDER, "7.1", "7.9");
    workspace.run(&["wheel", "--chroot", "host"]).exits(0);
    assert_eq!(wheel(&workspace, "demo"), old);
    std::fs::remove_dir_all(workspace.built("wheels")).unwrap();
    workspace.run(&["wheel", "--chroot", "host"]).exits(0);
    assert_eq!(wheel(&workspace, "demo"), old);

    workspace.build().exits(0);
    assert_eq!(wheel(&workspace, "demo"), "demo-1.0+rocm7.9.gfx1100.1-py3-none-any.whl");
    assert_eq!(workspace.assert_whole("demo")["rocm"], "7.9");
}

#[test]
fn makes_wheels_only_from_undamaged_rpms() {
    let workspace = with_rocm();
    add_python(&workspace, "demo", "");
    workspace.build().exits(0);
    let whole = wheel(&workspace, "demo");
    let rpm = rpms(&workspace.built("results/demo")).remove(0);
    std::fs::write(workspace.built("results/demo").join(rpm), "damaged").unwrap();
    std::fs::remove_dir_all(workspace.built("wheels")).unwrap();
    let ran = workspace.run(&["wheel"]);
    ran.exits(0)
        .reports(["warning: the results of `demo` are damaged; rebuild it to get its wheels"]);
    assert_eq!(ran.stdout, "");
    // The bytes are the same as before; no run may remember that they gave no wheel.
    workspace.build().exits(0).reports(["1 built, 0 fresh", "(1 wheel)"]);
    assert_eq!(wheel(&workspace, "demo"), whole);
}

#[test]
fn overridden_pin_marks_dependents_dirty_and_keeps_accepted_results() {
    let workspace = with_rocm();
    add_python(&workspace, "base", "");
    add_python(&workspace, "above", "requires = [\"base\"]\n");
    add_python(&workspace, "aside", "");
    workspace.build().exits(0);
    let accepted = || {
        let folders = ["results", "repository", "wheels", "index/packages"];
        folders.map(|folder| {
            let entries = walkdir::WalkDir::new(workspace.built(folder)).sort_by_file_name();
            let files = entries.into_iter().map(Result::unwrap).filter(|e| e.file_type().is_file());
            files
                .map(|e| (e.path().to_owned(), fs_err::read(e.path()).unwrap()))
                .collect::<Vec<_>>()
        })
    };
    let before = accepted();
    let ran = workspace.run(&["build", "--pin", "base=2.0"]);
    ran.exits(0).reports(["2 built, 1 fresh"]);
    assert!(accepted() == before, "the experiment changed accepted results");
    let experiment = workspace.path("build/host@base-2.0");
    ran.reports(["inspect build/host@base-2.0/results/above/*.rpm"]);
    for (name, version, dirty) in
        [("base", "2.0", true), ("above", "1.0", true), ("aside", "1.0", false)]
    {
        let (release, label) = if dirty { ("1~dirty", ".dirty.1") } else { ("1", ".1") };
        let folder = if dirty { experiment.clone() } else { workspace.built("") };
        let rpms = rpms(&folder.join("results").join(name));
        let expected = format!("{name}-{version}-{release}.");
        assert!(rpms.len() == 2 && rpms.iter().all(|rpm| rpm.starts_with(&expected)), "{rpms:?}");
        let wheels = names_in(&experiment.join("wheels").join(name));
        let wheel = format!("{name}-{version}+rocm7.1.gfx1151{label}-py3-none-any.whl");
        assert!(wheels.contains(&wheel), "{wheels:?}");
        let record = std::fs::read(folder.join("results").join(name).join("build.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        assert_eq!([&record["dirty"], &record["version"]], [&json!(dirty), &json!(version)]);
    }
    // Both have results that nothing has to build again.
    workspace.build().exits(0).reports(["0 built, 3 fresh"]);
    workspace.run(&["build", "--pin", "base=2.0"]).exits(0).reports(["0 built, 3 fresh"]);
    for dir in ["repository", "wheels/above"] {
        let dirty = |dir: &Path| names_in(dir).iter().any(|name| name.contains("dirty"));
        assert!(dirty(&experiment.join(dir)) && !dirty(&workspace.built(dir)), "{dir}");
    }
}

#[test]
fn commands_find_the_folder_of_an_experiment() {
    let workspace = Workspace::new();
    let fails = "[ \"<{ version }>\" = 1.0 ]";
    workspace.component("base", &Parts { build: fails, ..Parts::default() });
    workspace.build().exits(0);
    let pin = ["--pin", "base=2.0"];
    let failed = workspace.run(&[&["build"], &pin[..]].concat());
    failed.exits(10).reports(["`base` failed in %build"]);
    assert!(failed.reference("Log").contains("build/host@base-2.0/work/base/logs"), "{failed}");
    let shell = failed.reference("Shell");
    assert!(shell.contains("--pin base=2.0"), "{shell}");
    workspace.shell(&format!("{shell} -- pwd")).exits(0).prints(["build/host@base-2.0/work/base"]);

    let status = workspace.run(&["status"]);
    status.exits(0).prints(["base       passed"]);
    status.reports(["results for other pins: pass `--pin base=2.0`"]);
    let status = workspace.run(&[&["status"], &pin[..]].concat());
    status.exits(0).prints(["base       failed"]).never_reports("other pins");
    let log =
        |pin: &[&str]| workspace.run(&[&["log", "base"], pin].concat()).exits(0).stdout.clone();
    assert!(log(&pin).contains("RPM build errors") && !log(&[]).contains("RPM build errors"));

    workspace.replace(&template("base"), fails, "true");
    workspace.run(&[&["build"], &pin[..]].concat()).exits(0);
    let report = workspace.run(&["inspect", "build/host@base-2.0/results/base"]);
    report.exits(0);
    workspace.run(&[&["clean", "--all"], &pin[..]].concat()).exits(0).reports(["Freed"]);
    assert!(!workspace.path("build/host@base-2.0").exists());
    workspace.assert_whole("base");
}

/// Returns the modification times of a wheel and its note.
fn written(workspace: &Workspace, name: &str) -> [std::time::SystemTime; 2] {
    let dir = workspace.built("wheels").join(name);
    let at = |file: &str| std::fs::metadata(dir.join(file)).unwrap().modified().unwrap();
    [at(&wheel(workspace, name)), at("wheels.json")]
}

#[test]
fn rebuilds_wheels_when_their_requirements_change() {
    let workspace = with_rocm();
    let files = "/usr/lib/python<{ chroot.python }>/site-packages/*";
    for (name, requires) in [("base", ""), ("above", "base >= 1"), ("aside", "numpy")] {
        let line =
            format!("\n[ -z '{requires}' ] || echo 'Requires-Dist: {requires}' >> $info/METADATA");
        let install = format!("{INSTALL_PYTHON}{line}");
        workspace.component(name, &Parts { install: &install, files, ..Parts::default() });
    }
    workspace.build().exits(0);
    let [base, aside] = ["base", "aside"].map(|name| written(&workspace, name));
    let metadata = |name: &str, version: &str| {
        let dir = workspace.built("wheels").join(name);
        let wheel = rocmrpm::wheel::read(&dir.join(wheel(&workspace, name))).unwrap();
        assert!(wheel.metadata.contains(version), "{}", wheel.metadata);
    };
    metadata("above", "Requires-Dist: base==1.0+rocm7.1.gfx1151.1\n");
    metadata("aside", "Requires-Dist: numpy\n");

    workspace.replace("pins/stable.toml", "[base]\nversion = \"1.0\"", "[base]\nversion = \"2.0\"");
    workspace.build().exits(0).reports(["1 built, 2 fresh"]);
    metadata("above", "Requires-Dist: base==2.0+rocm7.1.gfx1151.1\n");
    assert_ne!(written(&workspace, "base"), base);
    assert_eq!(written(&workspace, "aside"), aside, "its inputs did not change");

    // The inspection rules do not affect its bytes.
    let note = workspace.built("wheels/aside/wheels.json");
    documents::read(&note, "rocmrpm/wheels/2");
    let text = std::fs::read_to_string(&note).unwrap();
    assert!(text.contains("\"set of rules\": \""), "{text}");
    std::fs::write(&note, text.replace("\"set of rules\": \"", "\"set of rules\": \"0")).unwrap();
    workspace.run(&["wheel"]).exits(0).never_reports("Wheel aside");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), text, "the wheels were not reinspected");
    assert_eq!(written(&workspace, "aside")[0], aside[0]);

    // Wheel settings do not affect packages, and the plan says so.
    let packages = step(&workspace, "aside", &[])["key"].clone();
    workspace
        .write("specs-templates/aside/component.toml", "[wheel]\nleave-out = [\"*/aside.py\"]\n");
    let planned = step(&workspace, "aside", &[]);
    assert_eq!((&planned["plan"], &planned["key"]), (&json!("fresh"), &packages));
    assert_eq!(planned["wheels"], json!(["list of files left out changed"]));
    let plan = workspace.run(&["plan"]);
    let wanted = "its wheels are stale: list of files left out changed";
    assert!(plan.exits(0).stdout.contains(wanted), "{plan}");
    workspace.build().exits(0).reports(["0 built, 3 fresh", "Wheel aside"]);
    assert_eq!(step(&workspace, "aside", &[])["wheels"], json!([]));
}

#[test]
fn rejects_two_components_with_the_same_distribution() {
    let workspace = with_rocm();
    add_python(&workspace, "one", "");
    add_python(&workspace, "two", "");
    let path = template("two");
    workspace.replace(&path, "Name: <{ name }>", "Name: One");
    workspace.replace(&path, "$site/<{ name }>-", "$site/One-");
    workspace.build().exits(3).reports(["`one` and `two` both provide the distribution `one`"]);
    assert!(!workspace.built("wheels").exists());
}

#[test]
fn component_gets_only_targets_that_upstream_supports() {
    let workspace = with_rocm();
    workspace.replace("rocmrpm.toml", "[\"gfx1151\"]", "[\"gfx1100\", \"gfx1151\"]");
    workspace.replace(
        PROVIDER,
        "gpu-macros = []",
        "gpu-macros = [\"first_list\", \"second_list\"]",
    );
    let exports =
        "<@ for export in exports @>export <{ export.name }>='<{ export.value }>'\n<@ endfor @>";
    for (name, toml) in [("every", ""), ("some", "gpu-targets = [\"gfx1151\", \"gfx942\"]\n")] {
        let file = workspace.path(format!("{name}.targets"));
        let build = format!(
            "{exports}echo %first_list %second_list $PYTORCH_ROCM_ARCH > '{}'",
            file.display()
        );
        workspace.component(name, &Parts { toml, build: &build, ..Parts::default() });
    }
    workspace.build().exits(0);
    let both = "gfx1100;gfx1151";
    assert_eq!(workspace.read("every.targets"), format!("{both} {both} {both}\n"));
    assert_eq!(workspace.read("some.targets"), "gfx1151 gfx1151 gfx1151\n");
    assert_eq!(workspace.assert_whole("every")["gpu_targets"], json!(["gfx1100", "gfx1151"]));
    assert_eq!(workspace.assert_whole("some")["gpu_targets"], json!(["gfx1151"]));
}

/// Starts a build of `first` and then `second`; returns once `first` waits for the file `go`.
fn start_and_wait(workspace: &Workspace) -> Running {
    let build = format!(
        "touch '{0}/first.started'\nfor i in $(seq 600); do [ -e '{0}/go' ] && exit 0; sleep 0.1; done\nexit 1",
        workspace.root().display()
    );
    workspace.component("first", &Parts { build: &build, ..Parts::default() });
    workspace.component("second", &Parts { toml: "requires = [\"first\"]\n", ..Parts::default() });
    let patch = "--- a/hello\n+++ b/hello\n@@ -1 +1 @@\n-hello\n+good day\n";
    workspace.write("specs-templates/second/0001-words.patch", patch);
    let running = workspace.start(&["build"]);
    wait_until("the build runs", || workspace.path("first.started").exists());
    running
}

fn check_edit_during_build_is_rejected(file: &str, from: &str, to: &str, what: &str) {
    let workspace = Workspace::new();
    let running = start_and_wait(&workspace);
    workspace.replace(file, from, to);
    workspace.write("go", "");
    running.finish().exits(20).reports([
        "Built first",
        &format!("the {what} of `second` changed while rocmrpm was running"),
        "help: run the same command again",
    ]);
    workspace.assert_nothing_of("second");
    assert_eq!(step(&workspace, "second", &[])["reasons"], json!(["it was never built"]));
    workspace.build().exits(0).reports(["Built second", "1 built, 1 fresh"]);
    let record = workspace.assert_whole("second");
    assert_eq!(step(&workspace, "second", &[])["key"], record["key"]);
}

#[test]
fn rejects_a_source_changed_during_the_run() {
    let file = "src/second/hello";
    check_edit_during_build_is_rejected(file, "hello\n", "hello\nthere\n", "source");
}

#[test]
fn rejects_a_patch_changed_during_the_run() {
    let file = "specs-templates/second/0001-words.patch";
    check_edit_during_build_is_rejected(file, "good day", "good bye", "patch 0001-words.patch");
}

/// If the test runs as root, changes the owner of a workspace to `nobody` because root may write
/// everywhere. Returns a command that runs rocmrpm as that user.
fn as_an_ordinary_user(workspace: &Workspace, args: &[&str]) -> Command {
    let program = workspace.cache().join("../rocmrpm");
    // The target folder may only be readable by root.
    std::fs::copy(env!("CARGO_BIN_EXE_rocmrpm"), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(args);
    workspace.settle(&mut command);
    if rustix::process::geteuid().is_root() {
        const NOBODY: u32 = 65534;
        for entry in walkdir::WalkDir::new(workspace.root().parent().unwrap()) {
            lchown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

#[test]
fn removes_read_only_leftovers_of_a_failed_build() {
    let workspace = Workspace::new();
    std::fs::create_dir_all(workspace.cache()).unwrap();
    let build =
        "mkdir -p locked/deeper\ntouch locked/deeper/file\nchmod 555 locked/deeper locked\nexit 1";
    workspace.component("demo", &Parts { build, ..Parts::default() });
    let mut command = as_an_ordinary_user(&workspace, &["build"]);
    ran(&mut command).exits(10).reports(["`demo` failed in %build"]);
    let found = walkdir::WalkDir::new(workspace.built("work")).into_iter().flatten();
    let locked = found.filter(|entry| entry.file_name() == "locked").map(|e| e.metadata().unwrap());
    assert_eq!(locked.map(|m| m.permissions().mode() & 0o777).collect::<Vec<_>>(), [0o555]);
    // Build again, while it fails and after the fix.
    ran(&mut as_an_ordinary_user(&workspace, &["build"]))
        .exits(10)
        .reports(["`demo` failed in %build"]);
    workspace.replace(&template("demo"), build, "true");
    ran(&mut as_an_ordinary_user(&workspace, &["build"])).exits(0).reports(["1 built, 0 fresh"]);
    workspace.assert_whole("demo");
    assert_eq!(names_in(&workspace.built("work")), Vec::<String>::new());
}

/// Adds a component with these BuildRequires, and others printed by `%generate_buildrequires`.
fn component_requiring(workspace: &Workspace, preamble: &str, generated: &[&str]) {
    let lines: Vec<String> = generated.iter().map(|line| format!("echo '{line}'")).collect();
    let section = format!("\n%generate_buildrequires\n{}", lines.join("\n"));
    let prep = format!("%autosetup -p1 -n <{{ source_dir }}>\n{section}");
    workspace.component("demo", &Parts { preamble, prep: &prep, ..Parts::default() });
}

#[test]
fn records_unchecked_build_requires() {
    let workspace = Workspace::new();
    let generated = ["no-such-library-devel", "git-core >= 98", "python3"];
    component_requiring(&workspace, "BuildRequires: python3 >= 99", &generated);
    let ran = workspace.build();
    if Path::new("/var/lib/dpkg/status").exists() {
        let unchecked = ["git-core >= 98", "no-such-library-devel", "python3 >= 99"];
        ran.exits(0)
            .reports([format!("unchecked BuildRequires of demo: {}", unchecked.join(", "))]);
        assert_eq!(workspace.assert_whole("demo")["unchecked_build_requires"], json!(unchecked));
    } else {
        // On RPM-based machines, rpm itself checks.
        ran.exits(10).reports(["`demo` failed in BuildRequires", "python3 >= 99"]);
    }
}

#[test]
fn reports_missing_generated_build_requires_before_the_build() {
    let workspace = Workspace::new();
    component_requiring(&workspace, "", &["ninja-build"]);
    if Path::new("/var/lib/dpkg/status").exists() {
        ran(&mut workspace.build_without_ninja()).exits(40).reports([
            "BuildRequires of `demo` are not installed: ninja-build",
            "help: run `apt-get install ninja-build`",
        ]);
        assert!(!workspace.built("work/demo/logs/build.log").exists());
    } else {
        // On RPM-based machines, rpm itself checks by package.
        component_requiring(&workspace, "", &["no-such-package"]);
        workspace.build().exits(10).reports(["`demo` failed in BuildRequires", "no-such-package"]);
    }
    workspace.assert_nothing_of("demo");
}

/// Removes a component from the workspace.
fn remove_component(workspace: &Workspace, name: &str) {
    std::fs::remove_dir_all(workspace.path("specs-templates").join(name)).unwrap();
    let pins = workspace.read("pins/stable.toml");
    let kept: String = pins
        .split_inclusive("\n\n")
        .filter(|table| !table.starts_with(&format!("[{name}]")))
        .collect();
    workspace.write("pins/stable.toml", kept);
}

#[test]
fn repository_wheels_and_index_follow_the_workspace() {
    let workspace = with_rocm();
    for name in ["kept", "other"] {
        add_python(&workspace, name, "");
    }
    // Each has an RPM, a folder of wheels, a wheel, its metadata, and a page of the index.
    let published = || {
        let mut names = rpms(&workspace.built("repository"));
        names.extend(names_in(&workspace.built("wheels")));
        let packages = workspace.built("index/packages");
        names.extend(names_in(&packages).iter().flat_map(|name| names_in(&packages.join(name))));
        names.extend(names_in(&workspace.built("index/simple")));
        names
    };
    let of = |part: &str| published().iter().filter(|name| name.contains(part)).count();
    workspace.build().exits(0).reports(["2 built, 0 fresh"]);
    let metadata =
        std::fs::read_to_string(workspace.built("repository/repodata/repomd.xml")).unwrap();
    assert_eq!((of("kept"), of("other")), (5, 5), "{:?}", published());

    remove_component(&workspace, "other");
    workspace.build().exits(0).reports(["0 built, 1 fresh", "(1 wheel)"]);
    assert_eq!((of("kept"), of("other")), (5, 0), "{:?}", published());
    let changed =
        std::fs::read_to_string(workspace.built("repository/repodata/repomd.xml")).unwrap();
    assert_ne!(changed, metadata);
    let page = std::fs::read_to_string(workspace.built("index/simple/index.html")).unwrap();
    assert!(page.contains("kept") && !page.contains("other"), "{page}");

    // The last one is removed, too.
    workspace.component("plain", &Parts::default());
    remove_component(&workspace, "kept");
    workspace.build().exits(0).reports(["1 built, 0 fresh", "(0 wheels)"]);
    // An empty folder records that a component has no wheel.
    assert_eq!((of("kept"), of("plain")), (0, 2), "{:?}", published());
}

#[test]
fn retry_command_repeats_the_options() {
    let workspace = with_rocm();
    let chroot = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
                  base-config = \"fedora-43-x86_64.cfg\"\nrocm-provider = \"host\"\n";
    workspace.write("mock-configs/other.toml", chroot);
    workspace.write("pins/edge.toml", "");
    workspace.component("demo", &Parts { build: "exit 7", ..Parts::default() });
    std::fs::rename(workspace.path("pins/stable.toml"), workspace.path("pins/edge.toml")).unwrap();
    workspace.write("pins/stable.toml", "");
    let args = ["--chroot", "other", "--pins", "edge", "--pin", "demo=2.0", "--builder", "host"];
    let failed = workspace.run(&[&["build", "--until", "rpm"], &args[..]].concat());
    let retry = failed.exits(10).reference("Retry");
    for pair in args.chunks(2) {
        assert!(retry.contains(&pair.join(" ")), "{pair:?}: {retry}");
    }
    assert!(retry.contains("--until rpm"), "{retry}");
    workspace.shell(&retry).exits(10).reports(["`demo` failed in %build"]);
    workspace.replace(&template("demo"), "exit 7", "true");
    // The command works from any folder.
    workspace.shell(&format!("cd / && {retry}")).exits(0).reports(["1 built, 0 fresh"]);
    let built = workspace.path("build/other@demo-2.0");
    assert_eq!(
        rpms(&built.join("results/demo")),
        ["demo-2.0-1~dirty.fc43.noarch.rpm", "demo-2.0-1~dirty.fc43.src.rpm"]
    );
    assert!(!built.join("wheels").exists() && !built.join("index").exists());
    let record: Value =
        serde_json::from_slice(&std::fs::read(built.join("results/demo/build.json")).unwrap())
            .unwrap();
    assert_eq!(["version", "builder"].map(|key| text_of(&record[key])), ["2.0", "host"]);
}

#[test]
fn reports_all_errors_in_templates_and_pins_together() {
    let workspace = Workspace::new();
    for (name, word) in [("one", "no_such_one"), ("two", "no_such_two")] {
        let build = format!("<{{ {word} }}>");
        workspace.component(name, &Parts { build: &build, ..Parts::default() });
    }
    for name in ["three", "four"] {
        workspace.component(name, &Parts::default());
        let file = workspace.write(format!("files/{name}-1.0.tar.gz"), "x");
        workspace.pin(name, &format!("url = \"file://{}\"", file.display()));
    }
    let templates = [
        "no_such_one",
        "specs-templates/one/one.spec.tera:",
        "no_such_two",
        "specs-templates/two/two.spec.tera:",
    ];
    let pins = ["the pin of `four` 1.0 has no sha256", "the pin of `three` 1.0 has no sha256"];
    for command in ["plan", "build"] {
        workspace
            .run(&[command])
            .exits(3)
            .reports(templates.iter().chain(&pins))
            .reports(["`rocmrpm lock`"]);
    }
    workspace.replace(&template("one"), "<{ no_such_one }>", "true");
    workspace.replace(&template("two"), "<{ no_such_two }>", "true");
    workspace.build().exits(3).reports(pins).reports(["help: run `rocmrpm lock`"]);
    let digest = Sha256::of_bytes("x");
    for name in ["three", "four"] {
        let url =
            format!("file://{}", workspace.path(format!("files/{name}-1.0.tar.gz")).display());
        workspace.pin(name, &format!("url = \"{url}\"\nsha256 = \"{digest}\""));
    }
    workspace.run(&["plan"]).exits(0);
}

#[test]
fn rejects_two_components_with_the_same_package() {
    let workspace = with_rocm();
    workspace.component("demo", &Parts::default());
    workspace.component("other", &Parts::default());
    workspace.build().exits(0);
    let spec = workspace.read(template("other"));
    workspace
        .write(template("other"), spec.replace("Name:           other", "Name:           demo"));
    let clash = "`other` and `demo` both provide the package `demo-1.0-1.noarch.rpm`";
    workspace.build().exits(3).reports([clash, "remove it from one of the two templates"]);
    workspace.assert_whole("other");
    workspace.write(template("other"), spec);
    workspace.build().exits(0);
}

#[test]
fn damaged_result_does_not_prevent_its_rebuild() {
    let workspace = with_rocm();
    workspace.component("demo", &Parts::default());
    workspace.build().exits(0);
    let rpm = workspace.built("results/demo/demo-1.0-1.noarch.rpm");
    let size = std::fs::metadata(&rpm).unwrap().len();
    std::fs::remove_file(&rpm).unwrap();
    std::fs::write(&rpm, vec![0; usize::try_from(size).unwrap()]).unwrap();
    std::fs::remove_dir_all(workspace.built("repository")).unwrap();
    workspace
        .build()
        .exits(2)
        .reports(["demo-1.0-1.noarch.rpm: not a readable RPM", "remove its folder"]);
    workspace.write("src/demo/hello", "changed\n");
    workspace.build().exits(0).reports(["1 built, 0 fresh"]);
}

/// Returns the JSON output of `rocmrpm wheel --check`.
#[track_caller]
fn verified(workspace: &Workspace, code: i32) -> Value {
    workspace.run(&["wheel", "--check", "--json"]).exits(code).json()
}

#[test]
fn verifies_wheels_against_the_rpms_of_their_build() {
    let workspace = with_rocm();
    add_python(&workspace, "demo", "");
    workspace
        .run(&["wheel", "--check"])
        .exits(0)
        .reports(["no component with a Python distribution has been built"]);
    workspace.build().exits(0);
    let proof = workspace.run(&["wheel", "--check"]);
    proof.exits(0).reports(["Verified 1 wheel: 1 file", "no differences"]);
    for part in [
        "= 1 file (1 B) is identical to the RPM's",
        "-Version: 1.0",
        "+Version: 1.0+rocm7.1",
        "sboms/rocmrpm.cdx.json",
    ] {
        assert!(proof.stdout.contains(part), "{part}: {proof}");
    }
    let document = verified(&workspace, 0);
    assert_eq!(
        (&document["schema"], &document["identical"]),
        (&json!("rocmrpm/wheel-verify/1"), &json!(true))
    );

    // The wheel contains its build key and stays unchanged when the packages are inspected again.
    let name = wheel(&workspace, "demo");
    let path = workspace.built("wheels/demo").join(&name);
    let (bytes, build) =
        (std::fs::read(&path).unwrap(), workspace.built("results/demo/build.json"));
    let digest = Sha256::of_file(&build).unwrap().0.to_string();
    let mut archive = zip::ZipArchive::new(std::fs::File::open(&path).unwrap()).unwrap();
    let info = format!("{}.dist-info", name.split("-py3").next().unwrap());
    let provenance = archive.by_name(&format!("{info}/rocmrpm.json")).unwrap();
    let provenance: Value = serde_json::from_reader(provenance).unwrap();
    let record: Value = serde_json::from_slice(&std::fs::read(&build).unwrap()).unwrap();
    assert_eq!(provenance["build_key"], record["key"]);
    workspace.write("specs-templates/demo/component.toml", "[inspect]\ndevice-code = false\n");
    workspace.build().exits(0).reports(["1 RPM, reinspected"]);
    assert_eq!(Sha256::of_file(&build).unwrap().0.to_string(), digest);
    assert!(std::fs::read(&path).unwrap() == bytes, "the wheel changed");
    assert_eq!(verified(&workspace, 0)["identical"], json!(true));

    std::fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    let document = verified(&workspace, 1);
    let difference = &document["components"][0]["wheels"][0]["differences"][0];
    assert!(text_of(&difference["what"]).contains("after its central directory"), "{document}");
    workspace.run(&["wheel", "--check"]).exits(1).reports([
        "Differs 1 wheel",
        "1 difference",
        "help: ",
    ]);
    std::fs::write(&path, bytes).unwrap();

    // Another RPM of the same size.
    let rpm = workspace.built("results/demo").join(&rpms(&workspace.built("results/demo"))[0]);
    let mut bytes = std::fs::read(&rpm).unwrap();
    // The package name in the lead, which rpm ignores.
    bytes[12] ^= 1;
    std::fs::write(&rpm, bytes).unwrap();
    let document = verified(&workspace, 1);
    let difference = &document["components"][0]["rpm_differences"][0];
    assert!(text_of(&difference["what"]).contains("build.json"), "{document}");
    assert_eq!(difference["found"], json!(Sha256::of_file(&rpm).unwrap().0));
}

#[test]
fn leave_out_must_match_and_removes_files_from_wheels() {
    let workspace = with_rocm();
    add_python(&workspace, "demo", "[wheel]\nleave-out = [\"/usr/lib64/cmake/*\"]\n");
    workspace.build().exits(3).reports([
        "`leave-out` of `demo` lists `/usr/lib64/cmake/*`, which matches no file in its packages",
        "help: ",
    ]);
    let wheels = workspace.built("wheels/demo");
    assert!(!wheels.exists() || names_in(&wheels).is_empty(), "{:?}", names_in(&wheels));
    add_python(&workspace, "demo", "[wheel]\nleave-out = [\"*/demo.py\"]\n");
    workspace.build().exits(0);
    let path = workspace.built("wheels/demo").join(wheel(&workspace, "demo"));
    let archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let names: Vec<&[u8]> = archive.file_names_raw().collect();
    assert!(!names.contains(&&b"demo.py"[..]) && names.len() == 5, "{names:?}");
}

#[test]
fn srpm_does_not_need_required_components() {
    let workspace = Workspace::new();
    workspace.component("base", &Parts::default());
    let requires = Parts { toml: "requires = [\"base\"]\n", ..Parts::default() };
    workspace.component("above", &requires);
    workspace.component("aside", &requires);
    let digest = Sha256::of_bytes("not in the cache");
    workspace.pin(
        "base",
        &format!("url = \"https://example.invalid/base.tar.gz\"\nsha256 = \"{digest}\""),
    );

    let srpm = ["build", "--until", "srpm", "--offline"];
    workspace.run(&[&srpm[..], &["above"]].concat()).exits(0).reports(["1 built, 0 fresh"]);
    // The SRPM that was built alone is not packed again with others.
    let all = workspace.run(&[&srpm[..], &["--keep-going"]].concat());
    all.exits(30).reports(["base.tar.gz", "Incomplete 1 failed, 0 skipped, 2 up to date"]);
    all.reports([" aside.spec"]).never_reports("Skipped").never_reports(" above.spec");
    // RPMs need it.
    workspace
        .run(&["build", "--until", "rpm", "--offline", "above"])
        .exits(30)
        .reports(["Skipped above"]);
}
