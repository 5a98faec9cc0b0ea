//! What upstream's own sources say to our specs: the sdists on the pip index that this
//! machine's pip uses, unpacked by `%prep` with every edit and patch, for each pin set;
//! and packages that need no GPU compiler, built from them. Needs the network, rpmbuild
//! and what `tools/setup.sh` lists for tests.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail as the test may")]

#[path = "real_prep/packages.rs"]
mod packages;
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Parts, Ran, Workspace, names_in, ran, text_of};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// Makes a workspace with this one component of the repository, as the pin set has
/// it; what it requires is there as a stand-in.
fn repository(component: &str, set: &str) -> Workspace {
    let workspace = Workspace::new();
    for folder in ["_shared", component] {
        let from = Path::new(REPOSITORY).join("specs-templates").join(folder);
        for name in names_in(&from) {
            let text = std::fs::read(from.join(&name)).unwrap();
            workspace.write(Path::new("specs-templates").join(folder).join(name), text);
        }
    }
    let toml: toml::Table =
        workspace.read(format!("specs-templates/{component}/component.toml")).parse().unwrap();
    for required in toml.get("requires").and_then(toml::Value::as_array).into_iter().flatten() {
        workspace.component(required.as_str().unwrap(), &Parts::default());
    }
    let pins = std::fs::read_to_string(Path::new(REPOSITORY).join("pins").join(format!("{set}.toml")));
    let own = [format!("[{component}]"), format!("[{component}.")];
    let mut ours = false;
    let mut kept = workspace.read("pins/stable.toml");
    for line in pins.unwrap().lines() {
        if line.starts_with('[') {
            ours = own.iter().any(|table| line.starts_with(table.as_str()));
        }
        if ours {
            kept += &format!("{line}\n");
        }
    }
    workspace.write("pins/stable.toml", kept);
    workspace
}

/// Puts a folder in the place of the crates: those from git repositories cannot be had
/// everywhere, and `%prep` only unpacks them.
fn without_crates(workspace: &Workspace) {
    if workspace.read("pins/stable.toml").contains("[vllm.sources.crates]") {
        for file in [".cargo/config.toml", "vendor/one/Cargo.toml"] {
            workspace.write(Path::new("src/crates").join(file), "");
        }
        workspace.replace("pins/stable.toml", "cargo-vendor = \"rust/Cargo.lock\"", "path = \"src/crates\"");
    }
}

/// Runs `%prep` of a component's source package.
fn prep(workspace: &Workspace, component: &str) -> Ran {
    workspace.run(&["build", component, "--until", "srpm"]).exits(0);
    let folder = workspace.built("srpms").join(component);
    let srpm = names_in(&folder).into_iter().find(|name| name.ends_with(".src.rpm")).unwrap();
    let mut command = Command::new("rpmbuild");
    command
        .arg("--load")
        .arg(Path::new(REPOSITORY).join("src/build/fallback.macros"))
        .arg("--define")
        .arg(format!("_topdir {}", workspace.path("top").display()))
        .args(["-rp", "--nodeps", "--noclean"])
        .arg(folder.join(srpm));
    workspace.settle(&mut command);
    ran(&mut command)
}

/// Returns the only folder that `%prep` left.
fn prepared(workspace: &Workspace) -> PathBuf {
    let build = workspace.path("top/BUILD");
    let folders: Vec<_> = names_in(&build).into_iter().filter(|name| build.join(name).is_dir()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    build.join(&folders[0])
}

/// Returns the requirements of a file of upstream's, without comments.
fn requirements(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '-'])).map(str::to_owned).collect()
}

/// Returns a value of upstream's pyproject.toml, or of one of our files.
fn toml_at(file: &Path, keys: &[&str]) -> toml::Value {
    let text = std::fs::read_to_string(file).unwrap();
    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    keys.iter().fold(toml::Value::Table(table), |value, key| value[*key].clone())
}

fn vllm_is_prepared(set: &str) {
    let workspace = repository("vllm", set);
    without_crates(&workspace);
    prep(&workspace, "vllm").exits(0);
    let source = prepared(&workspace);
    let pyproject = source.join("pyproject.toml");

    // What the pins say of Python is upstream's own word.
    let python = toml_at(&workspace.path("pins/stable.toml"), &["vllm", "python"]);
    let requires = toml_at(&pyproject, &["project", "requires-python"]);
    assert_eq!(text_of_toml(&python).replace(' ', ""), text_of_toml(&requires).replace(' ', ""));

    // All targets of component.toml are built where they are asked for.
    let cmake = std::fs::read_to_string(source.join("CMakeLists.txt")).unwrap();
    let line = cmake.lines().find(|line| line.starts_with("set(HIP_SUPPORTED_ARCHS ")).unwrap();
    let upstream: Vec<&str> = line.split('"').nth(1).unwrap().split(';').collect();
    let ours = toml_at(&workspace.path("specs-templates/vllm/component.toml"), &["gpu-targets"]);
    for target in ours.as_array().unwrap() {
        assert!(upstream.contains(&target.as_str().unwrap()), "{set}: {target} is not in {upstream:?}");
    }

    // One version of each distribution in a release: nothing is asked for exactly, but
    // for another machine.
    for file in ["requirements/common.txt", "requirements/rocm.txt"] {
        for requirement in requirements(&source.join(file)) {
            let (requirement, marker) = requirement.split_once(';').unwrap_or((&requirement, ""));
            let exact = requirement.contains("==") && marker.trim() != "platform_machine == \"s390x\"";
            assert!(!exact, "{set}, {file}: {requirement}");
            assert!(!requirement.starts_with("setuptools") || !requirement.contains('<'), "{requirement}");
        }
    }
    let build = toml_at(&pyproject, &["build-system", "requires"]).to_string();
    assert!(build.contains("torch >= ") && !build.contains("ninja") && !build.contains('<'), "{build}");
    // cargo, which runs in this folder, finds the crates and nothing of rustup's.
    assert!(!source.join("rust-toolchain.toml").exists());
    for file in ["rust/Cargo.lock", ".cargo/config.toml", "vendor/one/Cargo.toml"] {
        assert_eq!(source.join(file).exists(), set != "stable", "{file}");
    }
}

fn text_of_toml(value: &toml::Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn vllm_without_rust_is_prepared() {
    vllm_is_prepared("stable");
}

#[test]
fn vllm_with_its_rust_frontend_is_prepared() {
    vllm_is_prepared("current");
}

#[test]
fn vllm_for_the_newest_pytorch_is_prepared() {
    vllm_is_prepared("edge");
}

#[test]
fn an_edit_that_upstream_outran_stops_the_build() {
    let workspace = repository("vllm", "stable");
    workspace.replace("specs-templates/vllm/component.toml", "find = 'numba == '", "find = 'numba === '");
    let prep = prep(&workspace, "vllm");
    assert_ne!(prep.code, Some(0), "{prep}");
    prep.says(["requirements/rocm.txt: expected 1 times, found 0 times: numba === "]);
}

/// vLLM's target without device code proves the packaging: setup.py, metadata, files.
#[test]
fn vllm_without_device_code_becomes_a_package() {
    let workspace = repository("vllm", "stable");
    let component = "specs-templates/vllm/component.toml";
    let toml = workspace.read(component);
    let requires = toml.lines().find(|line| line.starts_with("requires = ")).unwrap();
    workspace.replace(component, requires, "requires = []");
    workspace.replace(component, "VLLM_TARGET_DEVICE = \"rocm\"", "VLLM_TARGET_DEVICE = \"empty\"");
    workspace.replace(component, "device-code = true", "device-code = false");
    // Debian 12's setuptools is older than licence expressions.
    let toml = workspace.read(component);
    workspace.write(
        component,
        toml + r#"
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
"#,
    );
    workspace.run(&["build", "vllm"]).exits(0).says(["Built vllm 1 RPM", "Wheel vllm-0.20.2+"]);
    let record = workspace.assert_whole("vllm");
    assert_eq!(record["version"], "0.20.2");
    let rpm = record["outputs"].as_array().unwrap().iter().map(|output| text_of(&output["file"]));
    let rpm = rpm.into_iter().find(|file| file.ends_with(".noarch.rpm")).expect("a noarch package");
    let rpm = workspace.built("results/vllm").join(rpm);
    let query = |what: &str| {
        let mut command = Command::new("rpm");
        command.args(["-qp", what]).arg(&rpm);
        workspace.settle(&mut command);
        ran(&mut command).exits(0).stdout.clone()
    };
    let (files, provides, requires) = (query("--list"), query("--provides"), query("--requires"));
    for file in ["/usr/bin/vllm", "site-packages/vllm/__init__.py", "site-packages/vllm/_version.py"] {
        assert!(files.lines().any(|line| line.ends_with(file)), "{file}: {files}");
    }
    let compiled: Vec<_> = files.lines().filter(|line| line.ends_with(".so")).collect();
    assert!(compiled.is_empty(), "{compiled:?}");
    assert!(provides.contains("python3dist(vllm) = 0.20.2\n"), "{provides}");
    assert!(provides.contains("vllm-rocm = 0.20.2-1\n") && !provides.contains("rocm-gfx"), "{provides}");
    // Exact versions became lower bounds, and upstream's own bounds stayed.
    for requirement in ["dist(lark) >= 1.2.2\n", "dist(compressed-tensors) >= 0.15.0.1\n"] {
        assert!(requires.contains(requirement), "{requirement}: {requires}");
    }
    assert!(requires.contains("dist(llguidance) < 1.4 with"), "{requires}");
    assert!(!requires.contains("torch") && !requires.contains("dist(setuptools)"), "{requires}");
}
