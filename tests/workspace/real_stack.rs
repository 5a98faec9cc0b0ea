//! Tests the repository's own stack, each pin set for each chroot, as far as possible without its
//! sources: which components are left out and why, that rpm, rpmlint and `rocmrpm lint` accept
//! every spec, that all requirements exist, and that the locks are valid. `real_prep.rs` tests it
//! with the sources.
//!
//! Pin sets, chroots and components are read from the folders, not listed here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::other_gpus::{example, stack_for};
use crate::support;
use crate::support::{REPOSITORY, Ran, Workspace};
use pep440_rs::{Version, VersionSpecifiers};
use toml::{Table, Value};

/// A pin set's specs for all chroots, in a copy of the workspace.
struct Set {
    name: String,
    workspace: Workspace,
}

impl Set {
    /// Returns each pin set of the repository in a separate copy.
    fn all() -> Vec<Self> {
        let set = |name| Self { name, workspace: stack_for(&["gfx1151"]) };
        sets().into_iter().map(set).collect()
    }

    /// Returns each pin set of the repository, in a copy with the files of an example.
    fn all_of_example(name: &str) -> Vec<Self> {
        let set = |set| Self { name: set, workspace: example(name) };
        sets().into_iter().map(set).collect()
    }

    /// Returns the components that the plan for a chroot builds.
    fn built(&self, chroot: &str) -> BTreeSet<String> {
        let plan = self.run(chroot, &["plan", "--json"]).exits(0).document("rocmrpm/plan/2");
        let steps = plan["steps"].as_array().unwrap().iter();
        steps.map(|step| step["component"].as_str().unwrap().to_owned()).collect()
    }

    /// Runs a command for this set and a chroot.
    fn run(&self, chroot: &str, args: &[&str]) -> Ran {
        self.workspace.run(&[args, &["--pins", &self.name, "--chroot", chroot]].concat())
    }

    /// Renders the specs for a chroot.
    fn render(&self, chroot: &str) -> Vec<PathBuf> {
        self.run(chroot, &["render"]).exits(0);
        let specs = fs_err::read_dir(self.workspace.path(format!("build/{chroot}/specs"))).unwrap();
        let mut specs: Vec<_> = specs.map(|entry| entry.unwrap().path()).collect();
        specs.sort();
        assert!(!specs.is_empty(), "{} for {chroot}", self.name);
        specs
    }

    /// Returns the components except vLLM, if it is built but its closure is not written.
    fn without_closure(&self, chroot: &str) -> Option<Vec<String>> {
        let plan = self.run(chroot, &["plan", "--json"]);
        plan.exits(0);
        let missing = plan.stderr.contains("closure of `vllm` is not written");
        let plan = plan.document("rocmrpm/plan/2");
        let names = plan["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["component"].as_str().unwrap());
        let others = names.filter(|name| *name != "vllm").map(str::to_owned).collect();
        missing.then_some(others)
    }

    /// Reads a TOML file of the workspace.
    fn toml(&self, file: &str) -> Table {
        self.workspace.read(file).parse().unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Returns the components that the set pins, and those of its closure for a chroot.
    fn pinned(&self, chroot: &str) -> BTreeSet<String> {
        let default = self.toml("rocmrpm.toml")["stack"]["default-chroot"].as_str() == Some(chroot);
        let stem = if default { self.name.clone() } else { format!("{}.{chroot}", self.name) };
        let mut pinned: BTreeSet<_> =
            self.toml(&format!("pins/{}.toml", self.name)).keys().cloned().collect();
        let generated = format!("pins/{stem}.generated.toml");
        if self.workspace.path(&generated).is_file() {
            pinned.extend(self.toml(&generated).keys().cloned());
        }
        pinned
    }
}

/// Returns the names of the TOML files in a folder of the repository.
fn tables(folder: &str) -> Vec<String> {
    let entries = fs_err::read_dir(Path::new(REPOSITORY).join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(!names.is_empty(), "{folder}");
    names
}

/// Returns the pin sets of the repository, without generated ones.
fn sets() -> Vec<String> {
    tables("pins").into_iter().filter(|name| !name.ends_with(".generated")).collect()
}

/// Returns the chroots of a Fedora release: all but this machine.
fn releases() -> Vec<String> {
    tables("mock-configs").into_iter().filter(|name| name != "host").collect()
}

fn text<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list(table: &Table, key: &str) -> Vec<String> {
    let values = table.get(key).and_then(Value::as_array).into_iter().flatten();
    values.map(|value| value.as_str().unwrap().to_owned()).collect()
}

/// Returns the components that must be left out, with the start of the reason, from only the files
/// of the workspace.
fn reasons(set: &Set, chroot: &str) -> BTreeMap<String, String> {
    let pins = set.toml(&format!("pins/{}.toml", set.name));
    let wanted = list(set.toml("rocmrpm.toml")["stack"].as_table().unwrap(), "gpu-targets");
    let chroot = set.toml(&format!("mock-configs/{chroot}.toml"));
    let provider = set.toml(&format!("mock-configs/rocm/{}.toml", text(&chroot, "rocm-provider")));
    let brought = list(&provider, "brings");
    let of = |name: &str| set.toml(&format!("specs-templates/{name}/component.toml"));
    let mut reasons = BTreeMap::new();
    for (name, pin) in &pins {
        let (pin, component) = (pin.as_table().unwrap(), of(name));
        let python = VersionSpecifiers::from_str(text(pin, "python")).unwrap();
        let has = Version::from_str(text(&chroot, "python"));
        let targets = list(&component, "gpu-targets");
        let reason = if brought.contains(name) {
            format!("the ROCm provider `{}` already includes it", text(&chroot, "rocm-provider"))
        } else if has.is_ok_and(|has| !python.contains(&has)) {
            "upstream allows Python ".to_owned()
        } else if component.contains_key("gpu-targets")
            && !wanted.iter().any(|w| targets.contains(w))
        {
            "upstream supports none of the workspace's GPU targets".to_owned()
        } else {
            continue;
        };
        reasons.insert(name.clone(), reason);
    }
    // Components whose requirements are left out and not provided.
    loop {
        let lost = pins.keys().filter(|name| !reasons.contains_key(*name)).find_map(|name| {
            let is_lost =
                |required: &String| reasons.contains_key(required) && !brought.contains(required);
            let required = list(&of(name), "requires").into_iter().find(is_lost)?;
            Some((name.clone(), format!("it requires `{required}`, which is left out")))
        });
        match lost {
            Some((name, reason)) => reasons.insert(name, reason),
            None => return reasons,
        };
    }
}

/// Fails unless every pinned component is rendered, or left out for the expected reason.
fn check_plans(sets: &[Set]) {
    for set in sets {
        for chroot in releases() {
            let place = format!("{} for {chroot}", set.name);
            let specs = set.render(&chroot);
            let plan = set.run(&chroot, &["plan", "--json"]).exits(0).document("rocmrpm/plan/2");
            let component =
                |entry: &serde_json::Value| entry["component"].as_str().unwrap().to_owned();
            let built: BTreeSet<_> =
                plan["steps"].as_array().unwrap().iter().map(component).collect();
            assert_eq!(built.len(), specs.len(), "{place}: {specs:?}");
            let expected = reasons(set, &chroot);
            let mut all: BTreeSet<_> = expected.keys().cloned().collect();
            for left in plan["left_out"].as_array().unwrap() {
                let (name, reason) = (component(left), left["reason"].as_str().unwrap());
                let begins = expected.get(&name);
                let begins =
                    begins.unwrap_or_else(|| panic!("{place}: `{name}` is left out: {reason}"));
                assert!(
                    reason.starts_with(begins.as_str()),
                    "{place}: `{name}`: {reason}, not {begins}"
                );
                assert!(!built.contains(&name), "{place}: {name}");
            }
            assert_eq!(plan["left_out"].as_array().unwrap().len(), expected.len(), "{place}");
            all.extend(built);
            assert_eq!(all, set.pinned(&chroot), "{place}");
        }
    }
}

#[test]
fn every_component_is_rendered_or_left_out_for_the_expected_reason() {
    let sets = Set::all();
    check_plans(&sets);
    let keys = |set: &Set| set.toml(&format!("pins/{}.toml", set.name)).keys().cloned().collect();
    let pinned: BTreeSet<String> = sets.iter().flat_map::<Vec<_>, _>(keys).collect();
    let folders = fs_err::read_dir(Path::new(REPOSITORY).join("specs-templates")).unwrap();
    let components: BTreeSet<_> = folders
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('_') && name != "generated")
        .collect();
    assert_eq!(components, pinned, "each is in some pin set");
}

/// Fails unless rpm reads every spec without a message.
fn parse_specs(sets: &[Set]) {
    let mut seen = BTreeSet::new();
    for set in sets {
        for chroot in tables("mock-configs") {
            let config = set.toml(&format!("mock-configs/{chroot}.toml"));
            let dist = format!("dist {}", text(&config, "dist"));
            let fedora = format!("fedora {}", text(&config, "release"));
            let defines = ["--define", dist.as_str(), "--define", fedora.as_str()];
            let arguments = if chroot == "host" { &[] } else { &defines[..] };
            for spec in set.render(&chroot) {
                // Pin sets share many specs.
                if !seen.insert((chroot.clone(), fs_err::read_to_string(&spec).unwrap())) {
                    continue;
                }
                let parsed = support::rpmspec(&spec, &[&["-P"], arguments].concat());
                for left in ["<{", "<@", "@>", "<#"] {
                    assert!(!parsed.contains(left), "{} for {chroot}: `{left}`", spec.display());
                }
            }
        }
    }
}

#[test]
fn rpm_reads_every_spec_without_a_message() {
    parse_specs(&Set::all());
}

/// Runs rpmlint on specs with only the given configuration.
fn rpmlint(workspace: &Workspace, args: &[&str], specs: &[PathBuf]) -> (i32, String) {
    let done = std::process::Command::new("rpmlint")
        .args(args)
        .args(specs)
        .env("XDG_CONFIG_HOME", workspace.holder().join("home"))
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap_or_else(|error| panic!("rpmlint: {error} (package: rpmlint)"));
    let output =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done.status.code().unwrap(), output)
}

#[test]
fn rpmlint_reports_only_accepted_findings() {
    let config = Path::new(REPOSITORY).join("tools/rpmlint.toml");
    let strict = ["--strict", "--config", config.to_str().unwrap()];
    let sets = Set::all();
    let mut specs: Vec<PathBuf> = sets
        .iter()
        .flat_map(|set| releases().into_iter().flat_map(|chroot| set.render(&chroot)))
        .collect();
    let mut seen = BTreeSet::new();
    specs.retain(|spec| seen.insert(fs_err::read_to_string(spec).unwrap()));
    let workspace = &sets[0].workspace;
    let (code, output) = rpmlint(workspace, &strict, &specs);
    let counted = format!("{} specfiles checked; 0 errors, 0 warnings", specs.len());
    assert!(code == 0 && output.contains(&counted), "{code}\n{output}");

    // rpmlint reports a mistake.
    let wrong = sets[0].workspace.path("wrong.spec");
    fs_err::write(&wrong, fs_err::read_to_string(&specs[0]).unwrap().replace("\n%prep\n", "\n"))
        .unwrap();
    let (code, output) = rpmlint(workspace, &strict, std::slice::from_ref(&wrong));
    assert!(code != 0 && output.contains("no-%prep-section"), "{code}\n{output}");

    // Each filter has its reason above it, and matches something.
    let text = fs_err::read_to_string(&config).unwrap();
    let (code, all) = rpmlint(workspace, &["--strict", "--config", "/dev/null"], &specs);
    assert_ne!(code, 0, "{all}");
    let table: Table = text.parse().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for filter in list(&table, "Filters") {
        let at = lines.iter().position(|line| line.trim() == format!("'{filter}',"));
        let at = at.unwrap_or_else(|| panic!("not on a line of its own: {filter}"));
        assert!(lines[at - 1].trim().starts_with('#'), "no reason: {filter}");
        // Search as rpmlint does.
        let search = "import re, sys; sys.exit(not re.search(sys.argv[1], sys.argv[2], re.M))";
        let found =
            std::process::Command::new("python3").args(["-c", search, &filter, &all]).status();
        assert!(found.unwrap().success(), "matches nothing: {filter}\n{all}");
    }
}

/// Returns the findings of `rocmrpm lint`: severity, rule, and subject.
fn findings(ran: &Ran) -> Vec<(String, String, String)> {
    let document = ran.document("rocmrpm/lint/2");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let findings = document["findings"].as_array().unwrap().iter();
    findings.map(|f| (text(&f["severity"]), text(&f["id"]), text(&f["found"]))).collect()
}

/// Fails if lint finds an error, or cannot check a requirement.
fn lint(sets: &[Set]) {
    for set in sets {
        for chroot in releases() {
            let place = format!("{} for {chroot}", set.name);
            let mut specs = set.render(&chroot).len();
            let mut ran = set.run(&chroot, &["lint", "--json"]);
            if let Some(others) = set.without_closure(&chroot) {
                let command =
                    format!("rocmrpm closure --pins {} --chroot {chroot} --write", set.name);
                ran.exits(3).reports([&command]);
                let others: Vec<&str> = others.iter().map(String::as_str).collect();
                specs = others.len();
                ran = set.run(&chroot, &[&["lint", "--json"], others.as_slice()].concat());
            }
            let found = findings(&ran);
            let errors: Vec<_> =
                found.iter().filter(|(severity, ..)| severity == "error").collect();
            assert!(errors.is_empty(), "{place}: {errors:#?}");
            // Every requirement could be checked.
            let unknown: Vec<_> =
                found.iter().filter(|(_, id, _)| id == "requirement-unchecked").collect();
            assert!(unknown.is_empty(), "{place}: {unknown:#?}");
            let document = ran.exits(0).document("rocmrpm/lint/2");
            assert_eq!(document["specs"].as_array().unwrap().len(), specs, "{place}");
        }
    }
}

#[test]
fn lint_finds_no_errors_and_knows_every_requirement() {
    lint(&Set::all());
}

/// Fails unless every pin set works for every chroot, as far as possible without sources.
fn supports(sets: &[Set]) {
    check_plans(sets);
    parse_specs(sets);
    lint(sets);
    for set in sets {
        let check = ["lock", "--check", "--offline", "--pins", set.name.as_str()];
        set.workspace.run(&check).exits(0).reports(["Checked"]);
    }
}

#[test]
fn supports_radeon_gpus() {
    let sets = Set::all_of_example("radeon");
    supports(&sets);
    let current = sets.iter().find(|set| set.name == "current").unwrap();
    // vLLM uses aiter on RDNA 4, and compiles nothing of it for other GPUs.
    assert!(current.built("fedora-44").contains("aiter"));
    let spec = current.workspace.read("build/fedora-44/specs/python-aiter-rocm.spec");
    assert!(spec.contains("\nBuildArch:      noarch\n") && spec.contains("AITER_TRITON_ONLY=1"));
    assert!(!spec.contains("composable"), "{spec}");
    let spec = current.workspace.read("build/fedora-44/specs/aotriton.spec");
    assert!(!spec.contains("bundled(aiter-kernels)") && !spec.contains("aotriton-aiter"), "{spec}");
}

#[test]
fn supports_instinct_gpus() {
    let sets = Set::all_of_example("instinct");
    supports(&sets);
    for set in &sets {
        let built = set.built("fedora-44");
        let specs = set.workspace.path("build/fedora-44/specs");
        let spec = |name: &str| fs_err::read_to_string(specs.join(name)).unwrap();
        assert!(built.contains("mori"), "{}: {built:?}", set.name);
        // vLLM before 0.28 uses another aiter.
        assert_eq!(built.contains("aiter"), set.name != "stable", "{}", set.name);
        let aotriton = spec("aotriton.spec");
        assert!(aotriton.contains("Provides:       bundled(aiter-kernels) = "), "{aotriton}");
        let place = if set.name == "stable" { "third_party/aiter" } else { "build/v3src/aiter" };
        assert!(aotriton.contains(&format!(" {place}\n")), "{aotriton}");
        if built.contains("aiter") {
            let aiter = spec("python-aiter-rocm.spec");
            for full in ["GPU_ARCHS='gfx942'", "save_files -l aiter aiter_meta", "ExclusiveArch:"] {
                assert!(aiter.contains(full), "{full} is not in {aiter}");
            }
            assert!(!aiter.contains("AITER_TRITON_ONLY"), "{aiter}");
        }
    }
}

/// Proves that the test above knows the packages of every chroot.
#[test]
fn lint_reports_a_package_that_no_release_has() {
    let set = &Set::all()[0];
    let template = "specs-templates/llama-cpp/llama-cpp-rocm.spec.tera";
    set.workspace.replace(
        template,
        "\n%description",
        "\nBuildRequires: rocmrpm-no-such-package\n\n%description",
    );
    for chroot in releases() {
        let found = findings(set.run(&chroot, &["lint", "llama-cpp", "--json"]).exits(1));
        let missing = found.iter().any(|(_, id, what)| {
            id == "requirement-missing" && what.ends_with(" rocmrpm-no-such-package")
        });
        assert!(missing, "{chroot}: {found:#?}");
    }
}

#[test]
fn locks_are_valid_without_cache_and_network() {
    for set in Set::all() {
        let file = format!("pins/{}.lock", set.name);
        assert!(set.workspace.path(&file).is_file(), "{file}");
        let check = ["lock", "--check", "--offline", "--pins", set.name.as_str()];
        set.workspace.run(&check).exits(0).reports(["Checked", &file]);
        // A changed commit makes the lock invalid.
        let pins = format!("pins/{}.toml", set.name);
        let text = set.workspace.read(&pins);
        let commit = text.lines().find(|line| line.starts_with("commit = ")).unwrap();
        let commit = commit.split('"').nth(1).unwrap();
        set.workspace.replace(&pins, commit, &"1".repeat(40));
        assert_ne!(set.workspace.run(&check).code, Some(0), "{file}");
    }
}
