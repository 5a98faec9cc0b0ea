//! Tests the specs with upstream's sources: the sdists on the pip index of this machine, unpacked
//! by `%prep` with every edit and patch, for each pin set; and packages that need no GPU compiler,
//! built from them. Needs the network, rpmbuild and the packages that `tools/setup.sh` lists for
//! tests.

mod packages;
mod vllm;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use crate::support;
use crate::support::{Parts, Workspace, names_in, text_of};

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// Returns a workspace with a single component of the repository, in the version of the pin set,
/// and stand-ins for the components that it requires.
fn repository(component: &str, set: &str) -> Workspace {
    let workspace = Workspace::new().with_shared_cache();
    // The machine has no Triton, which imports in %check need.
    let chroot = workspace.read("mock-configs/host.toml");
    workspace.write("mock-configs/host.toml", chroot + "[macros]\n\"_without_check\" = \"1\"\n");
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
    let pins =
        std::fs::read_to_string(Path::new(REPOSITORY).join("pins").join(format!("{set}.toml")));
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

/// Returns the names of the TOML files in a folder of the repository.
fn tables(folder: &str) -> Vec<String> {
    let names = names_in(&Path::new(REPOSITORY).join(folder)).into_iter();
    let names: Vec<_> =
        names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned)).collect();
    assert!(!names.is_empty(), "{folder}");
    names
}

/// Returns the repository's own workspace, in which a small folder stands in for each source of
/// this pin set that the pip index does not have.
fn stack(set: &str) -> Workspace {
    let workspace = Workspace::stack().with_shared_cache();
    // Instead of crates, the configuration that `cargo vendor` prints.
    workspace.write(
        "src/stand-in/.cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"vendored-sources\"\n\n\
         [source.vendored-sources]\ndirectory = \"vendor\"\n",
    );
    workspace.write("src/stand-in/vendor/one/Cargo.toml", "");
    let file = format!("pins/{set}.toml");
    let mut pins: toml_edit::DocumentMut = workspace.read(&file).parse().unwrap();
    for (_, pin) in pins.iter_mut() {
        stand_in(pin.as_table_mut().unwrap());
    }
    workspace.write(file, pins.to_string());
    // The lock is for the replaced sources.
    std::fs::remove_file(workspace.path(format!("pins/{set}.lock"))).unwrap();
    workspace
}

fn stand_in(pin: &mut toml_edit::Table) {
    let sources = pin.get_mut("sources").and_then(toml_edit::Item::as_table_mut);
    for (_, source) in sources.into_iter().flat_map(toml_edit::Table::iter_mut) {
        stand_in(source.as_table_mut().unwrap());
    }
    if !pin.contains_key("sdist") {
        pin.retain(|key, _| ["version", "python", "sources"].contains(&key));
        pin.insert("path", toml_edit::value("src/stand-in"));
    }
}

/// Calls `work` for each pin set of the repository, with its workspace.
fn in_each_set(work: impl Fn(&str, &Workspace) + Sync) {
    std::thread::scope(|scope| {
        for set in tables("pins").into_iter().filter(|set| !set.ends_with(".generated")) {
            let work = &work;
            scope.spawn(move || work(&set, &stack(&set)));
        }
    });
}

/// Returns the components of a set that are built for a chroot.
fn steps(workspace: &Workspace, choice: &[&str]) -> Vec<String> {
    let plan = workspace.run(&[&["plan", "--json"], choice].concat());
    let plan = plan.exits(0).json();
    plan["steps"].as_array().unwrap().iter().map(|step| text_of(&step["component"])).collect()
}

/// rpmbuild fails if the pins lack a file that a spec names.
#[test]
fn every_spec_becomes_a_source_package() {
    // Pin sets and chroots share many specs, and each is packed once.
    let packed = Mutex::new(BTreeSet::new());
    in_each_set(|set, workspace| {
        for chroot in tables("mock-configs").iter().filter(|name| *name != "host") {
            let choice = ["--pins", set, "--chroot", chroot];
            let rendered =
                workspace.run(&[&["build", "--until", "spec", "--json"], &choice[..]].concat());
            let rendered = rendered.exits(0).json();
            let mut components = Vec::new();
            for spec in rendered["specs"].as_array().unwrap() {
                if packed.lock().unwrap().insert(text_of(&spec["sha256"])) {
                    components.push(text_of(&spec["component"]));
                }
            }
            assert_eq!(
                rendered["specs"].as_array().unwrap().len(),
                steps(workspace, &choice).len()
            );
            if components.is_empty() {
                continue;
            }
            let named: Vec<&str> = components.iter().map(String::as_str).collect();
            workspace.run(&[&["build", "--until", "srpm"], &choice[..], &named].concat()).exits(0);
            let folder = workspace.path(format!("build/{chroot}/srpms"));
            components.sort();
            assert_eq!(names_in(&folder), components, "{set} for {chroot}");
            for component in components {
                let files = names_in(&folder.join(&component));
                let packages = files.iter().filter(|name| name.ends_with(".src.rpm")).count();
                assert_eq!(packages, 1, "{set} for {chroot}: {component}: {files:?}");
            }
        }
    });
}

/// Runs `%prep` with every edit and patch, and checks what upstream would download.
#[test]
fn sdists_are_prepared_and_need_no_network() {
    in_each_set(|set, workspace| {
        let pins = toml_at(&workspace.path(format!("pins/{set}.toml")), &[]);
        let mut components = steps(workspace, &["--pins", set]);
        components
            .retain(|component| pins.get(component).is_some_and(|pin| pin.get("sdist").is_some()));
        assert!(!components.is_empty(), "{set}");
        for component in &components {
            let run = |args: &[&str]| {
                let ran = workspace.run(&[args, &[component, "--pins", set, "--json"]].concat());
                ran.exits(0).json()
            };
            let prepared = run(&["prep"]);
            let status = run(&["patch", "status"]);
            let edits = status["components"][0]["edits"].as_array().unwrap().iter();
            let applied = edits.filter(|edit| edit["state"] == "applies").count();
            assert_eq!(prepared["edits"], applied, "{set} {component}: {status}");
            run(&["audit"]);
            if component == "vllm" {
                check_vllm_against_its_pins(
                    set,
                    workspace,
                    Path::new(&text_of(&prepared["folder"])),
                );
            }
        }
    });
}

/// Returns the requirements of an upstream file, without comments.
fn requirements(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '-']))
        .map(str::to_owned)
        .collect()
}

/// Returns a value of a TOML file.
fn toml_at(file: &Path, keys: &[&str]) -> toml::Value {
    let text = std::fs::read_to_string(file).unwrap();
    let table: toml::Table =
        text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    keys.iter().fold(toml::Value::Table(table), |value, key| value[*key].clone())
}

fn check_vllm_against_its_pins(set: &str, workspace: &Workspace, source: &Path) {
    let pyproject = source.join("pyproject.toml");
    let pin = toml_at(&workspace.path(format!("pins/{set}.toml")), &["vllm"]);

    // The pins have the Python range of upstream.
    let requires = toml_at(&pyproject, &["project", "requires-python"]);
    assert_eq!(
        text_of_toml(&pin["python"]).replace(' ', ""),
        text_of_toml(&requires).replace(' ', "")
    );

    // Upstream supports all targets of component.toml.
    let cmake = std::fs::read_to_string(source.join("CMakeLists.txt")).unwrap();
    let line = cmake.lines().find(|line| line.starts_with("set(HIP_SUPPORTED_ARCHS ")).unwrap();
    let upstream: Vec<&str> = line.split('"').nth(1).unwrap().split(';').collect();
    let ours = toml_at(&workspace.path("specs-templates/vllm/component.toml"), &["gpu-targets"]);
    for target in ours.as_array().unwrap() {
        assert!(
            upstream.contains(&target.as_str().unwrap()),
            "{set}: {target} is not in {upstream:?}"
        );
    }

    // A release has one version of each distribution, so only members of the closure and
    // requirements for other machines may have an exact version.
    let lock = workspace.path(format!("pins/{set}.requirements.lock"));
    let lock = std::fs::read_to_string(lock).unwrap_or_default();
    let decided =
        toml_at(&workspace.path("specs-templates/vllm/component.toml"), &["closure", "member"]);
    let in_closure = |requirement: &str| {
        let name = requirement.split(['[', '=', ' ']).next().unwrap_or_default().replace('_', "-");
        let dropped = |member: &toml::Value| {
            member["name"].as_str() == Some(&name) && member.get("without").is_some()
        };
        lock.contains(&format!("\n{name}=="))
            || !lock.is_empty() && decided.as_array().unwrap().iter().any(dropped)
    };
    for file in ["requirements/common.txt", "requirements/rocm.txt"] {
        for requirement in requirements(&source.join(file)) {
            let (requirement, marker) = requirement.split_once(';').unwrap_or((&requirement, ""));
            let exact =
                requirement.contains("==") && marker.trim() != "platform_machine == \"s390x\"";
            assert!(!exact || in_closure(requirement), "{set}, {file}: {requirement}");
            assert!(
                !requirement.starts_with("setuptools") || !requirement.contains('<'),
                "{requirement}"
            );
        }
    }
    let build = toml_at(&pyproject, &["build-system", "requires"]).to_string();
    assert!(
        build.contains("torch >= ") && !build.contains("ninja") && !build.contains('<'),
        "{build}"
    );
    // cargo runs in this folder and finds the crates, but no toolchain file of rustup.
    assert!(!source.join("rust-toolchain.toml").exists());
    let crates = pin.get("sources").and_then(|sources| sources.get("crates")).is_some();
    for file in ["rust/Cargo.lock", ".cargo/config.toml", "vendor/one/Cargo.toml"] {
        assert_eq!(source.join(file).exists(), crates, "{set}: {file}");
    }
}

fn text_of_toml(value: &toml::Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn outdated_edit_stops_the_build() {
    let workspace = repository("amdsmi", "stable");
    workspace.replace(
        "specs-templates/amdsmi/component.toml",
        "find = 'possible",
        "find = 'impossible",
    );
    let file = "amdsmi/amdsmi_wrapper.py";
    workspace.run(&["prep", "amdsmi"]).exits(10).reports([
        "`amdsmi` failed in %prep: an `[[edit]]` does not match",
        &format!("{file}: expected 1 times, found 0 times: impossible"),
    ]);
}
