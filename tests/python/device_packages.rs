//! Tests components with a package and a wheel for each GPU target, as AMD's: rpmbuild builds them,
//! dnf, uv and pip choose the targets, and the gate refuses archives that are missing or not wanted.
//! dnf5's solver is in `tests/laboratory/device_packages.rs`. Offline, except for the tools; needs
//! rpmbuild, createrepo_c, gcc and dnf.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::{self, Workspace, device, names_in, ran};
use crate::tools::{PYTHON, alone, tool};

const SHARED: &str = "specs-templates/_shared/device-packages.tera";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.replace(
        "mock-configs/rocm/host.toml",
        "version-header = \"/usr/include/hip/hip_version.h\"",
        "version = \"7.14\"",
    );
    let shared = std::path::Path::new(support::REPOSITORY).join(SHARED);
    workspace.write(SHARED, std::fs::read(shared).unwrap());
    device::add(&workspace);
    workspace
}

/// Returns the packages that dnf would install for these names, in an empty root.
#[track_caller]
fn dnf(workspace: &Workspace, names: &[&str], weak: bool) -> Vec<String> {
    let repository = workspace.built("repository");
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["reposdir", "logdir"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let option = |name: &str| format!("--setopt={name}={}", folder.path().join(name).display());
    command
        .args(["--mount", "dnf", "--assumeno", "--releasever=43", "--repo=x", "--nogpgcheck"])
        .arg(format!("--installroot={}", folder.path().join("root").display()))
        .arg(format!("--repofrompath=x,file://{}", repository.display()))
        .args(["reposdir", "cachedir", "logdir", "persistdir"].map(option))
        .arg(format!("--setopt=install_weak_deps={}", u8::from(weak)))
        .args(["--setopt=module_platform_id=platform:f43", "install"])
        .args(names);
    let ran = ran(&mut command);
    let rows = ran.stdout.lines().filter(|line| line.starts_with(" k"));
    let mut found: Vec<String> =
        rows.map(|row| row.split_whitespace().next().unwrap().to_owned()).collect();
    found.sort();
    assert!(!found.is_empty(), "{ran}");
    found
}

/// Returns the names of the component's packages.
fn packages(workspace: &Workspace) -> BTreeSet<String> {
    let rpms = names_in(&workspace.built("results/k")).into_iter();
    let rpms = rpms.filter(|name| name.ends_with(".x86_64.rpm"));
    rpms.map(|name| name.split("-1.0-").next().unwrap().to_owned()).collect()
}

/// Returns METADATA of a wheel with this name.
#[track_caller]
fn metadata(workspace: &Workspace, name: &str) -> String {
    rocmrpm::wheel::read(&wheel(workspace, name)).unwrap().metadata
}

/// Returns the path of the wheel with this name.
#[track_caller]
fn wheel(workspace: &Workspace, name: &str) -> std::path::PathBuf {
    let folder = workspace.built("wheels/k");
    let wheels = names_in(&folder).into_iter();
    let wheels: Vec<String> = wheels.filter(|file| file.split('-').next() == Some(name)).collect();
    let [file] = wheels.as_slice() else { panic!("{wheels:?} in {:?}", names_in(&folder)) };
    folder.join(file)
}

#[test]
fn packages_and_wheels_install_the_code_of_chosen_targets() {
    let workspace = workspace();
    workspace.build().exits(0);
    let split = ["device-gfx1100", "device-gfx1201", "gfx-all", "gfx1100", "gfx1201"];
    let split = split.map(|suffix| format!("k-{suffix}"));
    assert_eq!(
        packages(&workspace),
        [&["k".to_owned()][..], &split].concat().into_iter().collect()
    );

    let all = ["k", "k-device-gfx1100", "k-device-gfx1201", "k-gfx-all"];
    let one = ["k", "k-device-gfx1201", "k-gfx1201"];
    assert_eq!(dnf(&workspace, &["k"], false), all);
    assert_eq!(dnf(&workspace, &["k-gfx1201"], true), one);
    assert_eq!(dnf(&workspace, &["k", "k-gfx1201"], true), one);

    let version = "1.0+rocm7.14.gfx1100.gfx1201.1";
    let main = metadata(&workspace, "k");
    let expected = format!(
        "Provides-Extra: device-gfx1100\n\
         Requires-Dist: k-device-gfx1100=={version}; extra == \"device-gfx1100\"\n\
         Provides-Extra: device-gfx1201\n\
         Requires-Dist: k-device-gfx1201=={version}; extra == \"device-gfx1201\"\n\
         Provides-Extra: device-all\n\
         Requires-Dist: k-device-gfx1100=={version}; extra == \"device-all\"\n\
         Requires-Dist: k-device-gfx1201=={version}; extra == \"device-all\"\n"
    );
    assert!(main.contains(&expected), "{main}");
    assert_eq!(main.matches("Requires-Dist").count(), 4, "{main}");
    assert_eq!(
        metadata(&workspace, "k_device_gfx1201"),
        format!(
            "Metadata-Version: 2.1\nName: k-device-gfx1201\nVersion: {version}\n\
             Summary: GPU code of k for gfx1201\nLicense: MIT\nRequires-Dist: k=={version}\n\
             Description-Content-Type: text/markdown\n\n\
             Installed with `k[device-gfx1201]`.\n"
        )
    );
    workspace.run(&["wheel", "--check"]).exits(0);

    let environment = tempfile::tempdir().unwrap();
    let index = format!("file://{}", workspace.built("index/simple").display());
    let run = |name: &str, args: &[&str]| {
        let command = alone(tool(name)).args(args).cwd(environment.path());
        let line = command.line();
        command.text().unwrap_or_else(|error| panic!("{line}: {error}"))
    };
    let archives = || {
        let files = walkdir::WalkDir::new(environment.path()).sort_by_file_name().into_iter();
        let names = files.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("k_gfx")).collect::<Vec<_>>()
    };
    run("uv", &["--no-config", "venv", "--quiet", "--python", PYTHON, "venv"]);
    let uv = ["--no-config", "pip", "install", "--python", "venv/bin/python", "--default-index"];
    run("uv", &[&uv[..], &[&index, "k[device-gfx1201]"]].concat());
    assert_eq!(archives(), ["k_gfx1201.kpack"]);
    let pip = ["--python", "venv/bin/python", "install", "--quiet", "--index-url", &index];
    run("pip", &[&pip[..], &["k[device-all]"]].concat());
    assert_eq!(archives(), ["k_gfx1100.kpack", "k_gfx1201.kpack"]);
    run("uv", &["--no-config", "pip", "check", "--python", "venv/bin/python"]);
    let code = wheel(&workspace, "k_device_gfx1201");
    run("twine", &["check", "--strict", code.to_str().unwrap()]);

    // The build lacks the code for a wanted target.
    std::fs::remove_file(workspace.path(device::archive_of("gfx1201"))).unwrap();
    workspace
        .build()
        .exits(10)
        .reports(["%files lists files that were not installed", "k/.kpack/*gfx1201{,:*}.kpack"]);
    // It has code for an unwanted target, which is in no package of its own.
    device::add_archive(&workspace, "gfx1201");
    device::set_targets(&workspace, &["gfx1201"]);
    workspace.build().exits(1).reports([
        "k/.kpack/k_gfx1100.kpack: found a kpack archive for gfx1100",
        "expected only in a package that provides rocm-gfx(gfx1100) [kpack-archive-misplaced]",
    ]);

    // A single target needs no choice.
    std::fs::remove_file(workspace.path(device::archive_of("gfx1100"))).unwrap();
    workspace.build().exits(0);
    assert_eq!(packages(&workspace), ["k".to_owned(), "k-gfx1201".to_owned()].into());
    let version = "1.0+rocm7.14.gfx1201.1";
    let main = metadata(&workspace, "k");
    assert!(main.contains(&format!("\nRequires-Dist: k-device-gfx1201=={version}\n")), "{main}");
    assert!(metadata(&workspace, "k_device_gfx1201").contains(&format!("k=={version}\n")));
}
