//! Tests `rocmrpm verify` with folders: an empty one, a system that the packages break, and checks
//! that cannot run. Needs rpmbuild, createrepo_c, dnf, rpm, tar, busybox and unshare.

use std::path::Path;
use std::process::Command;

use crate::support;
use crate::support::{Parts, Workspace, ran};

const MODULE: &str = "site=%{buildroot}%{_datadir}/site-packages\n\
    mkdir -p $site/<{ name }>\ntouch $site/<{ name }>/__init__.py\n";
const FILES: &str = "%{_datadir}/site-packages/*";

/// Returns a workspace with `good`, which uses ROCm, and with `bad`, which has an unavailable
/// dependency.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    let toml = |name: &str| format!("[container]\npackages = [\"{name}\"]\n");
    let (good, bad) = (toml("good"), toml("bad"));
    workspace.component(
        "good",
        &Parts {
            toml: &good,
            preamble: "# <{ rocm.prefix }>",
            install: MODULE,
            files: FILES,
            ..Parts::default()
        },
    );
    workspace.component(
        "bad",
        &Parts { toml: &bad, preamble: "Requires: no-such-thing >= 3", ..Parts::default() },
    );
    workspace.run(&["build", "--until", "rpm"]).exits(0);
    workspace
}

/// Returns a workspace with only `good`.
fn good() -> Workspace {
    let workspace = workspace();
    std::fs::remove_dir_all(workspace.path("specs-templates/bad")).unwrap();
    let pins = workspace.read("pins/stable.toml");
    workspace.write("pins/stable.toml", pins.split_once("[bad]").unwrap().0);
    workspace.run(&["build", "--until", "rpm"]).exits(0);
    workspace
}

/// Lists everything below a folder with sizes and times.
fn listing(dir: &Path) -> Vec<String> {
    let entries = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter().map(Result::unwrap);
    entries
        .map(|entry| {
            let meta = entry.metadata().unwrap();
            format!("{} {} {:?}", entry.path().display(), meta.len(), meta.modified().unwrap())
        })
        .collect()
}

fn check<'a>(json: &'a serde_json::Value, id: &str) -> (&'a str, &'a str) {
    let found = json["checks"].as_array().unwrap().iter().find(|check| check["id"] == id);
    let found = found.unwrap_or_else(|| panic!("no check {id} in {json}"));
    (found["outcome"].as_str().unwrap(), found["detail"].as_str().unwrap())
}

#[test]
fn empty_root_shows_what_can_be_installed() {
    let workspace = workspace();
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_str().unwrap();
    let done = workspace.run(&["verify", "--root", path, "--json"]);
    let json = done.exits(1).json();
    assert_eq!(json["schema"], "rocmrpm/verify/1");
    assert_eq!(check(&json, "install good"), ("pass", ""));
    let (outcome, detail) = check(&json, "install bad");
    assert!(
        outcome == "fail" && detail.contains("nothing provides no-such-thing >= 3"),
        "{detail}"
    );
    assert_eq!(check(&json, "file-conflicts"), ("pass", ""));
    assert_eq!(check(&json, "import good"), ("not-run", "good is not installed"));
    // Only checks that concern the stack are listed.
    let foreign = json["checks"].as_array().unwrap().iter().any(|check| check["id"] == "vllm");
    assert!(!foreign, "{json}");
    if !Path::new("/dev/kfd").exists() {
        let (outcome, detail) = check(&json, "rocminfo");
        assert!(outcome == "not-run" && detail.contains("no GPU"), "{detail}");
    }
    let number = |outcome: &str| {
        json["checks"].as_array().unwrap().iter().filter(|c| c["outcome"] == outcome).count()
    };
    assert_eq!(json["failed"], number("fail"));
    assert_eq!(json["passed"], number("pass"));
    assert_eq!(json["not_run"], number("not-run"));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    let text = workspace.run(&["verify", "--root", path]);
    let tally = format!(
        "{} passed, {} failed, {} not run in ",
        number("pass"),
        number("fail"),
        number("not-run")
    );
    assert!(text.exits(1).stdout.contains(&tally), "{text}");
    assert!(text.stdout.contains("FAIL     install bad"), "{text}");
}

#[test]
fn checks_that_programs_can_use_the_gpu() {
    let workspace = good();
    let strix_halo = format!("{}/tests/machines/strix-halo", env!("CARGO_MANIFEST_DIR"));
    let mut command = workspace.command(&["verify", "--root", &strix_halo, "--json"]);
    command.env("HSA_OVERRIDE_GFX_VERSION", "11.0.0");
    let json = ran(&mut command).exits(1).json();
    for passed in ["driver", "access", "kernel", "firmware", "memory", "environment"] {
        assert_eq!(check(&json, &format!("gpu-{passed}")), ("pass", ""), "{json}");
    }
    let (outcome, detail) = check(&json, "gpu-override");
    let parts = ["code for gfx1100 on gfx1151", "run `unset HSA_OVERRIDE_GFX_VERSION`"];
    assert!(outcome == "fail" && parts.iter().all(|part| detail.contains(part)), "{detail}");
    let root = tempfile::tempdir().unwrap();
    let done = workspace.run(&["verify", "--root", root.path().to_str().unwrap(), "--json"]);
    let json = done.json();
    let (outcome, detail) = check(&json, "gpu");
    assert!(outcome == "not-run" && detail.contains("no AMD GPU found below"), "{detail}");
}

#[test]
fn checks_all_packages_if_none_is_named_and_never_passes_without_any() {
    let workspace = Workspace::new();
    workspace.component("plain", &Parts::default());
    let root = tempfile::tempdir().unwrap();
    let verify = ["verify", "--root", root.path().to_str().unwrap()];
    workspace.run(&verify).exits(1).reports([
        "no package of the stack was checked",
        "none is built for `host`",
        "help: ",
    ]);
    workspace.run(&["build", "--until", "rpm"]).exits(0);
    let verified = workspace.run(&verify);
    assert!(verified.exits(0).stdout.contains("install plain"), "{verified}");
    // Nothing here uses ROCm.
    let json = workspace.run(&[&verify[..], &["--json"]].concat()).exits(0).json();
    let checks = json["checks"].as_array().unwrap();
    let ids: Vec<&str> = checks.iter().map(|check| check["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["install plain", "file-conflicts", "wheels"]);
    // Another chroot has the packages.
    workspace.write(
        "mock-configs/other.toml",
        "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
         base-config = \"fedora-43-x86_64.cfg\"\nrocm-provider = \"host\"\n",
    );
    let other = [&verify[..], &["--chroot", "other"]].concat();
    workspace.run(&other).exits(1).reports(["pass `--chroot host`"]);
    for command in ["status", "log"] {
        workspace.run(&[command, "--chroot", "other"]).reports(["pass `--chroot host`"]);
    }
}

#[test]
fn verifies_a_system_root_without_changing_it() {
    let workspace = good();
    let holder = tempfile::tempdir().unwrap();
    let root = holder.path().join("root");
    let bin = root.join("bin");
    for folder in ["bin", "tmp", "dev", "proc", "var/lib/rpm"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
    for name in ["sh", "true", "test", "touch", "ls", "readlink"] {
        std::os::unix::fs::symlink("busybox", bin.join(name)).unwrap();
    }
    // A python that only knows `good` and tries to leave a file behind.
    let python = "#!/bin/sh\ntouch /written 2>/dev/null && exit 9\n\
                  case \"$*\" in *good*) exit 0;; esac\necho 'ModuleNotFoundError: no' >&2\nexit 1\n";
    std::fs::write(bin.join("python3"), python).unwrap();
    std::fs::set_permissions(
        bin.join("python3"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let rpm = support::names_in(&workspace.built("results/good"))
        .into_iter()
        .find(|name| name.ends_with("noarch.rpm"))
        .unwrap();
    let install = |dbpath: &Path, rpm: &Path| {
        ran(Command::new("rpm")
            .arg("--dbpath")
            .arg(dbpath)
            .args(["-i", "--justdb", "--nodeps", "--ignorearch", "--noscripts"])
            .arg(rpm))
        .exits(0);
    };
    install(&root.join("var/lib/rpm"), &workspace.built("results/good").join(rpm));
    let before = listing(&root);
    let verify = || workspace.run(&["verify", "--root", root.to_str().unwrap(), "--json"]);
    let done = verify();
    let json = done.json();
    assert_eq!(check(&json, "import good"), ("pass", ""), "{json}");
    assert_eq!(check(&json, "file-conflicts"), ("pass", ""));
    assert_eq!(check(&json, "no-spoof"), ("pass", ""));
    assert_eq!(check(&json, "install good").0, "pass");
    assert_eq!(listing(&root), before);

    // The component's own checks.
    let toml = "specs-templates/good/component.toml";
    let old = workspace.read(toml);
    workspace.write(
        toml,
        old.clone()
            + "[[check]]\nid = \"set\"\nwhat = \"it is set for {gpu-target}\"\nenv = [\"GOOD_SET\"]\n\
               run = \"echo ${GOOD_SET-unset}\"\nprints = \"set for {gpu-target}\"\n\
               [[check]]\nid = \"skipped\"\nwhat = \"x\"\nif = \"false\"\notherwise = \"not today\"\n\
               run = \"exit 1\"\n\
               [[check]]\nid = \"serve\"\nwhat = \"x\"\nby-hand = \"run it yourself\"\n",
    );
    let verify_set = |value: &str| {
        let args = ["verify", "--root", root.to_str().unwrap(), "--json"];
        ran(workspace.command(&args).env("GOOD_SET", value)).json()
    };
    let json = verify_set("set for gfx1151");
    assert_eq!(check(&json, "set"), ("pass", ""), "{json}");
    assert_eq!(check(&json, "skipped"), ("not-run", "not today"));
    assert_eq!(check(&json, "serve"), ("not-run", "run it yourself"));
    assert_eq!(check(&verify_set("x"), "set"), ("fail", "its output lacks `set for gfx1151`"));
    let args = ["verify", "--root", root.to_str().unwrap(), "--json"];
    let untrusted = ran(workspace.command(&args).env("ROCMRPM_TRUST", "")).json();
    let help =
        format!("the workspace is not trusted; run `rocmrpm trust {}`", workspace.root().display());
    assert_eq!(check(&untrusted, "set"), ("not-run", help.as_str()));
    assert_eq!(check(&untrusted, "no-spoof"), ("pass", ""));
    workspace
        .write(toml, old.clone() + "[[check]]\nid = \"rocminfo\"\nwhat = \"x\"\nrun = \"x\"\n");
    workspace
        .run(&args)
        .exits(3)
        .reports(["the check `rocminfo` of every stack with ROCm has the same ID"]);
    workspace.write(toml, old.clone() + "[[check]]\nid = \"a\"\nwhat = \"x\"\nif = \"true\"\n");
    workspace
        .run(&args)
        .exits(3)
        .reports(["a check has either `run` or `by-hand`", "`if` and `otherwise` belong together"]);
    workspace.write(toml, old);

    // Another package contains the same file with different content.
    let other = Workspace::new();
    let rival = format!("{MODULE}mkdir -p $site/good\necho rival > $site/good/__init__.py\n");
    other.component("rival", &Parts { install: &rival, files: FILES, ..Parts::default() });
    other.run(&["build", "--until", "rpm"]).exits(0);
    let rpm = support::names_in(&other.built("results/rival"))
        .into_iter()
        .find(|name| name.ends_with("noarch.rpm"))
        .unwrap();
    ran(Command::new("rpm")
        .arg("--dbpath")
        .arg(root.join("var/lib/rpm"))
        .args(["-e", "--justdb", "good"]))
    .exits(0);
    install(&root.join("var/lib/rpm"), &other.built("results/rival").join(rpm));
    let json = verify().exits(1).json();
    let (outcome, detail) = check(&json, "file-conflicts");
    assert!(
        outcome == "fail" && detail.contains("good/__init__.py") && detail.contains("rival"),
        "{detail}"
    );
}

#[test]
fn rejects_a_missing_root() {
    let workspace = Workspace::new();
    workspace.run(&["verify"]).exits(2);
    workspace.run(&["verify", "--root", "/no/such/folder"]).exits(20).reports(["/no/such/folder"]);
}

/// Creates a user site-packages folder with code that Python loads at startup.
fn planted(home: &Path, mark: &Path) {
    let version =
        ran(Command::new("python3")
            .args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]));
    let site = home.join(format!(".local/lib/python{}/site-packages", version.stdout.trim()));
    std::fs::create_dir_all(&site).unwrap();
    let code = format!("open({:?}, 'w').close()\n", mark.display().to_string());
    std::fs::write(site.join("usercustomize.py"), code).unwrap();
}

#[test]
fn verifies_this_machine_without_code_from_home_or_current_folder() {
    let workspace = good();
    let (home, mark) = (workspace.path("home"), workspace.path("pwned"));
    planted(&home, &mark);
    // `importlib.metadata` imports it.
    let shadow = format!("open({:?}, 'w').close()\n", mark.display().to_string());
    workspace.write("csv.py", &shadow);
    let mut command = workspace.command(&["verify", "--root", "/", "--json"]);
    command.env("HOME", &home).env("PYTHONPATH", workspace.root());
    let json = ran(&mut command).json();
    // The check that needs Python did run.
    assert_eq!(check(&json, "no-pip-cmake").0, "pass", "{json}");
    assert!(!mark.exists(), "planted code ran");
    // The planted code works if it is not blocked.
    ran(Command::new("python3").args(["-c", ""]).env("HOME", &home)).exits(0);
    assert!(mark.exists(), "this Python ignores usercustomize.py");
}

#[test]
fn root_gets_no_credentials_and_an_empty_home() {
    let workspace = good();
    let holder = tempfile::tempdir().unwrap();
    let root = holder.path().join("root");
    for folder in ["bin", "tmp/.local", "dev"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for name in ["sh", "true", "env", "ls"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    // The checklist shows the last output line of a failed program.
    let python = "#!/bin/sh\necho $(env) home: $(ls -A \"$HOME\")\nexit 1\n";
    std::fs::write(root.join("bin/python3"), python).unwrap();
    std::fs::set_permissions(
        root.join("bin/python3"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let mut command = workspace.command(&["verify", "--root", root.to_str().unwrap(), "--json"]);
    command
        .env("AWS_SECRET_ACCESS_KEY", "s3cret")
        .env("PYTHONPATH", "/tmp")
        .env("ROCM_PATH", "/no/rocm");
    let json = ran(&mut command).json();
    let (outcome, seen) = check(&json, "no-pip-cmake");
    assert_eq!(outcome, "fail");
    assert!(seen.contains("HOME=/tmp") && seen.ends_with("home:"), "{seen}");
    assert!(!seen.contains("s3cret") && !seen.contains("PYTHONPATH"), "{seen}");
    assert_eq!(check(&json, "rocm-path").0, "fail");
}

#[test]
fn smoke_computes_and_compares_with_the_last_run() {
    let workspace = good();
    let bin = workspace.holder().join("bin");
    fs_err::create_dir(&bin).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let junit = workspace.holder().join("junit.xml");
    let run = |more: &[&str]| {
        let args = ["verify", "--root", "/", "--json", "--junit", junit.to_str().unwrap()];
        let mut command = workspace.command(&[&args, more].concat());
        ran(command.env("PATH", &path))
    };
    let missing = run(&["--smoke"]).document("rocmrpm/verify/1");
    assert_eq!(check(&missing, "smoke").0, "not-run");
    assert!(check(&missing, "smoke").1.contains("install the package `stack-smoke`"), "{missing}");

    // The program as it is in the repository, with Debian's PyTorch if that is installed.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("smoke");
    let program = bin.join("stack-smoke");
    let script = format!(
        "#!/bin/sh\nexport PYTHONPATH='{}'\nexec /usr/bin/python3 -B -m stack_smoke \"$@\"\n",
        source.display()
    );
    fs_err::write(&program, script).unwrap();
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&program, runs).unwrap();
    let first = run(&["--bench"]).document("rocmrpm/verify/1");
    let torch = Command::new("/usr/bin/python3").args(["-c", "import torch"]).status().unwrap();
    let computes = if torch.success() { "pass" } else { "not-run" };
    for id in ["cpu-matmul", "cpu-lapack", "cpu-convolution", "bench-cpu-matmul"] {
        assert_eq!(check(&first, &format!("smoke {id}")).0, computes, "{id}: {first}");
    }
    if !Path::new("/dev/kfd").exists() {
        let (outcome, detail) = check(&first, "smoke matmul");
        assert_eq!(outcome, "not-run", "{detail}");
        assert!(detail.contains("no GPU that ROCm can use"), "{detail}");
    }
    let text = fs_err::read_to_string(&junit).unwrap();
    assert!(text.contains(" classname=\"smoke cpu-lapack\""), "{text}");
    assert_eq!(text.matches("<skipped ").count() as u64, first["not_run"].as_u64().unwrap());
    assert_eq!(first["worse"], serde_json::json!([]));

    // What passed in the last run and does not now is a finding.
    let kept = workspace.cache().join("verify");
    let kept = fs_err::read_dir(kept).unwrap().next().unwrap().unwrap().path();
    let mut last: serde_json::Value =
        serde_json::from_str(&fs_err::read_to_string(&kept).unwrap()).unwrap();
    let checks = last["checks"].as_array_mut().unwrap();
    checks.iter_mut().find(|check| check["id"] == "vllm-serve").unwrap()["outcome"] = "pass".into();
    fs_err::write(&kept, last.to_string()).unwrap();
    let second = run(&["--smoke"]);
    second.exits(1);
    let second = second.document("rocmrpm/verify/1");
    assert_eq!(second["worse"][0]["text"], "vllm-serve passed in the last run");
    // A damaged file costs only the comparison, and another program's output is an error.
    fs_err::write(&kept, "{").unwrap();
    assert_eq!(run(&["--smoke"]).document("rocmrpm/verify/1")["worse"], serde_json::json!([]));
    fs_err::write(&program, "#!/bin/sh\necho hello\n").unwrap();
    run(&["--smoke"]).exits(20).reports(["cannot read the results of stack-smoke"]);
}
