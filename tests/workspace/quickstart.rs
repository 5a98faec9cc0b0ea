//! The quickstart from end to end, on a copy of `examples/quickstart`: packages, records,
//! repository, wheels, index, an installed `rocm-smoke`; and that packages with wrong device code
//! or linkage are not accepted. Offline, except for one test. Needs rpmbuild, createrepo_c, dnf,
//! pip, venv and a HIP compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::transcript::{constant, in_pages};
use crate::support::{Parts, Ran, Transcript, Workspace, names_in, ran, template, text_of};
use crate::tools;
use rocmrpm::digest::Sha256;
use rocmrpm::machine::PYTHON;

fn smoke() -> Workspace {
    Workspace::quickstart(&["rocm-smoke"])
}

fn build(workspace: &Workspace) -> Ran {
    workspace.run(&["build", "--chroot", "host"])
}

/// Runs another program in the workspace.
fn other(workspace: &Workspace, program: impl AsRef<Path>, args: &[&str]) -> Ran {
    let mut command = Command::new(program.as_ref());
    command.args(args).env_remove("PIP_INDEX_URL").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    workspace.settle(&mut command);
    ran(&mut command)
}

/// Returns the only file of a folder with this ending.
#[track_caller]
fn only(dir: &Path, ending: &str) -> PathBuf {
    let mut found: Vec<String> =
        names_in(dir).into_iter().filter(|n| n.ends_with(ending)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    dir.join(found.remove(0))
}

fn smoke_rpm(workspace: &Workspace) -> PathBuf {
    only(&workspace.built("results/rocm-smoke"), ".x86_64.rpm")
}

#[test]
fn one_command_builds_everything() {
    let workspace = smoke();
    let container = workspace.read("Containerfile.fedora43");
    let before = workspace.sources();
    build(&workspace).exits(0).reports([
        "Built rocm-smoke 1 RPM",
        "Indexed 1 distribution",
        "Finished 1 built, 0 fresh",
        "build/host/results/rocm-smoke/python3-rocm-smoke-1.0.0-1.x86_64.rpm",
        "repository      build/host/repository",
        "pip index       build/host/index/simple (1 wheel)",
        "container file",
    ]);
    let record = workspace.assert_whole("rocm-smoke");
    assert_eq!(record["schema"], "rocmrpm/build/2");
    assert_eq!(
        [&record["version"], &record["chroot"], &record["builder"]],
        ["1.0.0", "host", "host"]
    );
    assert_eq!(record["gpu_targets"], serde_json::json!(["gfx1151"]));
    for input in ["spec", "source", "GPU targets", "chroot", "ROCm provider", "builder"] {
        assert!(record["inputs"][input].is_string(), "{input}: {record}");
    }
    let times = std::fs::read_to_string(workspace.built("results/rocm-smoke/times.json")).unwrap();
    let times: serde_json::Value = serde_json::from_str(&times).unwrap();
    for phase in ["fetch", "srpm", "build"] {
        assert!(times["seconds"][phase].as_f64().is_some_and(|s| s >= 0.0), "{phase}: {times}");
    }
    assert_eq!(record["sources"][0]["file"], "rocm-smoke-1.0.0.tar.gz");
    let inspection =
        std::fs::read_to_string(workspace.built("results/rocm-smoke/inspection.json")).unwrap();
    let inspection: serde_json::Value = serde_json::from_str(&inspection).unwrap();
    assert!(text_of(&inspection["schema"]).starts_with("rocmrpm/"), "{inspection}");
    let judgement =
        std::fs::read_to_string(workspace.built("results/rocm-smoke/judgement.json")).unwrap();
    let judgement: serde_json::Value = serde_json::from_str(&judgement).unwrap();
    assert!(judgement["seconds"].as_f64().is_some_and(|s| s >= 0.0), "{judgement}");
    workspace
        .run(&["wheel", "--check", "--chroot", "host"])
        .exits(0)
        .reports(["Verified 1 wheel", "no differences"]);

    // The container file has the pins of this copy, which has one component less.
    let rendered = workspace.read("Containerfile.fedora43");
    assert!(rendered.contains("python3-rocm-smoke") && rendered != container, "{rendered}");
    let mut after = workspace.sources();
    after.insert("Containerfile.fedora43".to_owned(), container.into_bytes());
    assert_eq!(after, before);

    let again = build(&workspace);
    again.exits(0).reports(["Finished 0 built, 1 fresh"]).never_reports("Built");
    let plan = workspace.run(&["plan", "--chroot", "host"]);
    assert!(plan.exits(0).stdout.contains("fresh  nothing changed"), "{plan}");

    dnf_reads_the_repository(&workspace);
    inspect_reports_targets_and_linkage(&workspace);
    the_wheel_installs_and_runs(&workspace);
    tools::assert_accepted(&only(&workspace.built("wheels/rocm-smoke"), ".whl"));
}

fn dnf_reads_the_repository(workspace: &Workspace) {
    let repository =
        format!("--repofrompath=built,file://{}", workspace.built("repository").display());
    let cache = format!("--setopt=cachedir={}", workspace.cache().join("dnf").display());
    let state = format!("--setopt=persistdir={}", workspace.cache().join("state").display());
    let logs = format!("--setopt=logdir={}", workspace.cache().join("logs").display());
    let query = ["repoquery", "-q", "--requires", "python3-rocm-smoke"];
    let ran = other(
        workspace,
        "dnf",
        &[
            &[&repository, "--repo=built", &cache, &state, &logs, "--setopt=reposdir=/dev/null"],
            &query[..],
        ]
        .concat(),
    );
    assert!(ran.exits(0).stdout.contains("libamdhip64.so"), "{ran}");
}

fn inspect_reports_targets_and_linkage(workspace: &Workspace) {
    let wheel = only(&workspace.built("wheels/rocm-smoke"), ".whl");
    for path in [smoke_rpm(workspace), wheel] {
        let path = path.to_str().unwrap();
        let text = workspace.run(&["inspect", path]);
        for part in ["librocm_smoke.so", "gfx1151", "libamdhip64.so.", "no findings"] {
            assert!(text.exits(0).stdout.contains(part), "{part}: {text}");
        }
        let json = workspace.run(&["inspect", "--json", path]).json();
        let file = &json["subjects"][0]["files"][0];
        assert_eq!(file["device"][0]["target"], "gfx1151", "{json}");
        let needed = file["elf"]["needed"].as_array().unwrap();
        assert!(needed.iter().any(|n| text_of(n).starts_with("libamdhip64.so.")), "{json}");
    }
}

fn the_wheel_installs_and_runs(workspace: &Workspace) {
    let venv = workspace.cache().join("venv");
    other(workspace, PYTHON, &["-m", "venv", venv.to_str().unwrap()]).exits(0);
    let index = format!("file://{}", workspace.built("index/simple").display());
    let pip = venv.join("bin/pip");
    let install = ["--isolated", "install", "--no-cache-dir", "--index-url", &index, "rocm-smoke"];
    other(workspace, &pip, &install).exits(0);
    other(workspace, &pip, &["check"]).exits(0);
    let program = venv.join("bin/rocm-smoke");
    let targets = other(workspace, &program, &["--list-targets"]);
    assert_eq!(targets.exits(0).stdout, "gfx1151\n");
    let run = other(workspace, &program, &[]);
    if Path::new("/dev/kfd").exists() {
        // With a GPU, it works or reports what does not.
        assert!(matches!(run.code, Some(0 | 1 | 4)), "{run}");
    } else {
        run.exits(3).reports(["error: no GPU found"]);
    }
}

/// The command in setup.py, and one that compiles for another GPU.
const RIGHT: &str = "command = compiler(targets, work)";
const WRONG: &str = "targets = [\"gfx1100\"]; command = compiler(targets, work)";
const SETUP: &str = "src/rocm-smoke/setup.py";

/// Returns the digests of wheels, and of the headers of RPMs, which contain the digests of their
/// files.
fn digests(workspace: &Workspace) -> BTreeMap<String, String> {
    let mut digests = BTreeMap::new();
    for folder in ["results", "repository", "wheels", "index/packages"] {
        for entry in walkdir::WalkDir::new(workspace.built(folder)).into_iter().map(Result::unwrap)
        {
            let path = entry.path();
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if name.ends_with(".whl") {
                digests.insert(name, Sha256::of_file(path).unwrap().0.to_string());
            } else if name.ends_with(".rpm") {
                let format = "%{SHA256HEADER}";
                let query =
                    other(workspace, "rpm", &["-qp", "--qf", format, path.to_str().unwrap()]);
                digests.insert(name, query.exits(0).stdout.clone());
            }
        }
    }
    digests
}

#[test]
fn builds_are_reproducible_and_a_failed_rebuild_keeps_results() {
    let workspace = smoke();
    build(&workspace).exits(0);
    let first = digests(&workspace);
    assert_eq!(first.len(), 5, "{first:?}");
    std::fs::remove_dir_all(workspace.path("build")).unwrap();
    build(&workspace).exits(0).reports(["1 built, 0 fresh"]);
    assert_eq!(digests(&workspace), first);

    workspace.replace(SETUP, RIGHT, WRONG);
    build(&workspace).exits(1).reports(["gpu-target-missing"]);
    assert_eq!(digests(&workspace), first);
    workspace.assert_whole("rocm-smoke");
}

#[test]
fn detects_an_undeclared_gpu_target() {
    let workspace = smoke();
    workspace.replace(SETUP, RIGHT, WRONG);
    let failed = build(&workspace);
    failed.exits(1).has_one_help_per_error();
    Transcript::block("docs/guides/failures.md", "rocmrpm build --chroot host")
        .assert_prints(&failed.stderr);
    workspace.assert_nothing_of("rocm-smoke");
    workspace.assert_nothing_of("rocm_smoke");
    assert!(failed.reference("Retry").contains(" build rocm-smoke "));
    assert!(std::fs::read_dir(failed.reference("Log")).unwrap().count() > 0);
    assert!(
        std::fs::read_to_string(failed.reference("Report")).unwrap().contains("gpu-target-missing")
    );

    workspace.replace(SETUP, WRONG, RIGHT);
    build(&workspace).exits(0).reports(["1 built, 0 fresh"]);
    workspace.assert_whole("rocm-smoke");
}

#[test]
fn warns_about_code_for_unrequested_targets() {
    let workspace = smoke();
    workspace.replace(
        SETUP,
        RIGHT,
        "targets = [*targets, \"gfx1100\"]; command = compiler(targets, work)",
    );
    let ran = build(&workspace);
    ran.exits(0).reports([
        "warning: rocm-smoke: ",
        "gfx1100",
        "[gpu-target-unexpected]",
        "1 built, 0 fresh",
    ]);
    workspace.assert_whole("rocm-smoke");
}

/// A component with one library, linked with these flags.
fn library(workspace: &Workspace, toml: &str, flags: &str) {
    let build = format!(
        "echo 'int demo(void) {{ return 1; }}' > demo.c\n\
         $(command -v gcc || command -v clang-19) -shared -fPIC demo.c -o libdemo.so -Wl,-soname,libdemo.so.1 {flags}"
    );
    let parts = Parts {
        toml,
        preamble: "# arch\n%global _build_id_links none",
        build: &build,
        install: "install -Dpm 755 libdemo.so %{buildroot}%{_libdir}/libdemo.so.1",
        files: "%{_libdir}/libdemo.so.1",
        ..Parts::default()
    };
    workspace.component("demo", &parts);
}

#[test]
fn detects_a_runpath_into_the_build_folder() {
    let workspace = Workspace::new();
    library(&workspace, "", "-Wl,--enable-new-dtags,-rpath,$PWD");
    // rpm's own check, if installed, would fail first.
    workspace.replace(
        &template("demo"),
        "%global debug_package",
        "%global __brp_check_rpaths %{nil}\n%global debug_package",
    );
    workspace.build().exits(1).reports([
        "`demo` did not pass inspection",
        "libdemo.so.1",
        workspace.built("work/demo/build").to_str().unwrap(),
        "help: ",
    ]);
    workspace.assert_nothing_of("demo");
    workspace.replace(&template("demo"), "-Wl,--enable-new-dtags,-rpath,$PWD", "");
    workspace.build().exits(0);
    workspace.assert_whole("demo");
}

#[test]
fn detects_missing_device_code() {
    let workspace = Workspace::new();
    library(&workspace, "[inspect]\ndevice-code = true\n", "");
    workspace.build().exits(1).reports(["`demo` did not pass inspection", "device code", "help: "]);
    workspace.assert_nothing_of("demo");
    workspace.write("specs-templates/demo/component.toml", "");
    workspace.build().exits(0);
    workspace.assert_whole("demo");
}

/// Fails unless the README shows this output. `make quickstart` runs in the folder above, where git
/// has the history of the releases and the container file; parallel builds print their lines in any
/// order.
#[track_caller]
fn assert_is_in_readme(workspace: &Workspace, built: &Ran) {
    let page = Transcript::block("README.md", "make quickstart");
    let releases = regex::Regex::new(r"-\d+\.(src|noarch|x86_64)\.rpm|gfx1151\.\d+-").unwrap();
    let lines = |text: &str| {
        let text = releases.replace_all(text, "-[RELEASE]").into_owned();
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        // A build of more than a minute prints how long it has run.
        lines.retain(|line| !line.ends_with(" so far"));
        lines.sort();
        lines.join("\n")
    };
    let page = page.text().replace("$ make quickstart\n...\n", "");
    let page = page.replace("/home/me/rocmrpm/examples/quickstart", "/home/me/my-stack");
    let page = page.replace("examples/quickstart/", "").replace("target/debug/", "");
    let page = page.replace("   Unchanged ", "    Rendered ");
    let output = in_pages(workspace, &format!("{}{}", built.stderr, built.stdout));
    let output = output.replace(env!("CARGO_BIN_EXE_rocmrpm"), "rocmrpm");
    similar_asserts::assert_eq!(lines(&page), lines(&constant(&output)));
}

/// Needs the pip index of this machine, which has the source of amdsmi.
#[test]
fn builds_the_whole_quickstart_with_an_sdist_from_the_index() {
    let workspace = Workspace::quickstart(&["amdsmi", "rocm-smoke"]);
    assert_is_in_readme(&workspace, build(&workspace).exits(0));
    let record = workspace.assert_whole("amdsmi");
    let pinned = "3e622e48c630b889045a6f57387455cdf082066348718172dd8af6d275baf8f2";
    assert_eq!(record["sources"][0]["sha256"], pinned);
    workspace.assert_whole("rocm-smoke");
    // With the source in the cache, no network is needed.
    std::fs::remove_dir_all(workspace.path("build")).unwrap();
    let offline = ["build", "--chroot", "host", "--offline", "amdsmi"];
    workspace.run(&offline).exits(0).reports(["1 built, 0 fresh"]);
}
