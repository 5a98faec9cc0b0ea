//! vLLM's package, built with its target without device code: setup.py, metadata, the service, and
//! the programs of the private prefix.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{Ran, Workspace, names_in, ran, text_of};
use super::{REPOSITORY, repository};

/// Edits for Debian 12's setuptools, which is older than license expressions.
const EDITS: &str = r#"
[[edit]]
file = "pyproject.toml"
find = 'license = "Apache-2.0"'
replace = 'license = { text = "Apache-2.0" }'
matches = 1
reason = "for setuptools before 77"

[[edit]]
file = "pyproject.toml"
find = 'license-files = ["LICENSE"]'
replace = ''
matches = 1
reason = "for setuptools before 77"
"#;

/// Returns a workspace with vLLM in the version of the pin set `stable`, without device code.
fn workspace() -> Workspace {
    let workspace = repository("vllm", "stable");
    let component = "specs-templates/vllm/component.toml";
    let toml = workspace.read(component);
    let requires = toml.lines().find(|line| line.starts_with("requires = ")).unwrap();
    workspace.replace(component, requires, "requires = []");
    workspace.replace(component, "VLLM_TARGET_DEVICE = \"rocm\"", "VLLM_TARGET_DEVICE = \"empty\"");
    workspace.replace(component, "device-code = true", "device-code = false");
    workspace.write(component, workspace.read(component) + EDITS);
    workspace
}

/// Builds vLLM and returns its package.
#[track_caller]
fn built(workspace: &Workspace, architecture: &str) -> PathBuf {
    workspace.run(&["build", "vllm"]).exits(0).reports(["Built vllm 1 RPM", "Wheel vllm-0.20.2+"]);
    // Files for only the RPM are not in the wheel.
    let folder = workspace.built("wheels/vllm");
    let wheel = names_in(&folder).into_iter().find(|name| name.ends_with(".whl")).unwrap();
    let mut list = Command::new("/usr/bin/python3");
    let list =
        ran(list.args(["-m", "zipfile", "--list"]).arg(folder.join(wheel))).exits(0).stdout.clone();
    assert!(!list.contains("vllm-venv") && !list.contains(".service"), "{list}");
    let record = workspace.assert_whole("vllm");
    assert_eq!(record["version"], "0.20.2");
    let rpm = record["outputs"].as_array().unwrap().iter().map(|output| text_of(&output["file"]));
    let rpm = rpm.into_iter().find(|file| file.ends_with(&format!(".{architecture}.rpm")));
    workspace.built("results/vllm").join(rpm.expect("a package for this architecture"))
}

#[track_caller]
fn query(workspace: &Workspace, rpm: &Path, what: &str) -> String {
    let mut command = Command::new("rpm");
    command.args(["-qp", what]).arg(rpm);
    workspace.settle(&mut command);
    ran(&mut command).exits(0).stdout.clone()
}

/// Unpacks a package into an empty folder.
fn unpacked(workspace: &Workspace, rpm: &Path) -> PathBuf {
    let root = workspace.holder().join("root");
    std::fs::create_dir(&root).unwrap();
    let unpack = format!("rpm2cpio '{}' | cpio --quiet -idm", rpm.display());
    ran(Command::new("sh").args(["-c", &unpack]).current_dir(&root)).exits(0);
    root
}

/// Runs systemd's own check of the service, which finds the programs below `root`.
fn verified(root: &Path) -> Ran {
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    verify.arg(format!("--root={}", root.display())).arg("vllm@test.service");
    ran(&mut verify)
}

#[test]
fn vllm_without_device_code_becomes_a_package() {
    let workspace = workspace();
    let rpm = built(&workspace, "noarch");
    let query = |what: &str| query(&workspace, &rpm, what);
    let (files, provides, requires) = (query("--list"), query("--provides"), query("--requires"));
    for file in
        ["/usr/bin/vllm", "site-packages/vllm/__init__.py", "site-packages/vllm/_version.py"]
    {
        assert!(files.lines().any(|line| line.ends_with(file)), "{file}: {files}");
    }
    let compiled: Vec<_> = files.lines().filter(|line| line.ends_with(".so")).collect();
    assert!(compiled.is_empty(), "{compiled:?}");
    // The system's Python can import it.
    assert!(provides.contains("python3dist(vllm) = 0.20.2\n"), "{provides}");
    let root = unpacked(&workspace, &rpm);
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    assert!(text("usr/bin/vllm-python").ends_with("exec /usr/bin/python3 -s \"$@\"\n"));
    assert!(!text("usr/bin/vllm-venv").contains("PREFIX"));
    assert!(
        provides.contains("vllm-rocm = 0.20.2-1\n") && !provides.contains("rocm-gfx"),
        "{provides}"
    );
    // Packages of the release are required in any later version, members that the closure packages
    // in exactly this version; upstream's own bounds remain.
    for requirement in ["dist(lark) >= 1.2.2\n", "dist(compressed-tensors) = 0.15.0.1\n"] {
        assert!(requires.contains(requirement), "{requirement}: {requires}");
    }
    assert!(requires.contains("dist(llguidance) < 1.4 with"), "{requires}");
    assert!(!requires.contains("torch") && !requires.contains("dist(setuptools)"), "{requires}");
}

#[test]
fn vllm_with_a_private_prefix_has_a_service_and_no_public_metadata() {
    let workspace = workspace();
    let closure = "specs-templates/generated/stable/closure.toml";
    workspace.write(closure, std::fs::read(Path::new(REPOSITORY).join(closure)).unwrap());
    // The other packages of the closure are not needed to build this one.
    workspace.write("pins/stable.generated.toml", "");
    let rpm = built(&workspace, "x86_64");

    let (provides, requires) =
        (query(&workspace, &rpm, "--provides"), query(&workspace, &rpm, "--requires"));
    assert!(provides.contains("vllm-rocm = 0.20.2-1\n"), "{provides}");
    assert!(!provides.contains("dist(vllm)"), "{provides}");
    assert!(requires.contains("vllm-rocm-runtime(x86-64) = 0.20.2\n"), "{requires}");
    assert!(
        !requires.contains("/bin/python3\n") || requires.contains("/usr/bin/python3\n"),
        "{requires}"
    );
    let format = "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILENAMES}\n]";
    let mut command = Command::new("rpm");
    command.args(["-qp", "--qf", format]).arg(&rpm);
    workspace.settle(&mut command);
    let modes = ran(&mut command).exits(0).stdout.clone();
    for line in [
        "drwxr-x--- vllm /var/lib/vllm\n",
        "drwxr-x--- root /etc/vllm\n",
        "-rw-r----- root /etc/vllm/example.env\n",
        "-rwxr-xr-x root /usr/bin/vllm-python\n",
        "-rwxr-xr-x root /usr/bin/vllm-venv\n",
    ] {
        assert!(modes.contains(line), "{line}: {modes}");
    }

    let root = unpacked(&workspace, &rpm);
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    assert_eq!(text("usr/lib/sysusers.d/vllm.conf"), "u vllm - \"vLLM server\" /var/lib/vllm -\n");
    assert_eq!(text("usr/share/vllm/constraints.txt"), "vllm==0.20.2\n");
    // It sets nothing: the service of this name reports what is missing.
    let set = |line: &&str| !line.is_empty() && !line.starts_with('#');
    assert_eq!(text("etc/vllm/example.env").lines().find(set), None);

    std::fs::create_dir(root.join("bin")).unwrap();
    std::fs::copy("/bin/sh", root.join("bin/sh")).unwrap();
    let ran = verified(&root);
    assert_eq!((ran.exits(0).stdout.as_str(), ran.stderr.as_str()), ("", ""));
    let unit = "usr/lib/systemd/system/vllm@.service";
    let service = text(unit);
    assert!(service.contains("\nEnvironmentFile=/etc/vllm/%i.env\n"), "{service}");
    for (from, to) in
        [("/usr/bin/vllm serve", "/usr/bin/vlm serve"), ("Restart=on-failure", "Restart=maybe")]
    {
        std::fs::write(root.join(unit), service.replace(from, to)).unwrap();
        assert_ne!(verified(&root).code, Some(0), "{to}");
    }
}

/// Runs the command with which systemd stops a service that has no model.
#[test]
fn service_without_a_model_names_the_file_to_edit() {
    let template = Path::new(REPOSITORY).join("specs-templates/_shared/vllm-service.tera");
    let template = std::fs::read_to_string(template).unwrap();
    let line =
        template.lines().find_map(|line| line.strip_prefix("ExecStartPre=/bin/sh -c '")).unwrap();
    // Expand it as rpm and then systemd do.
    let script = line.trim_end_matches('\'').replace("$$", "$").replace("%%i", "test");
    let script = script.replace("%{_sysconfdir}", "/etc");
    let run = |model: &str| ran(Command::new("/bin/sh").args(["-c", &script]).env("MODEL", model));
    run("").exits(78).reports(["MODEL is not set in /etc/vllm/test.env"]);
    run("org/model").exits(0);
}
