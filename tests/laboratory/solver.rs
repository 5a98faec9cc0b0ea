//! Tests that `dnf install python3-vllm-rocm` succeeds for each pin set and chroot with a written
//! closure. dnf5's own solver uses the headers of the RPMs in rocmrpm's proof, packed from the
//! locked wheels, and the release's metadata in the package tables. It must name every removed
//! package and every additional required library. Needs the index configured for pip.
//!
//! It does not cover data missing from the tables: the versions that the release's packages
//! require.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocmrpm::build::system;
use rocmrpm::proof::Target;
use rocmrpm::rpms::Relations;
use rocmrpm::workspace::Selection;
use serde_json::{Value, json};

use super::lab;
use super::support::{Workspace, names_in};

const ROOT: &str = "python3-vllm-rocm";
const RUNTIME: &str = "vllm-rocm-runtime";

#[test]
fn dnf5_installs_each_written_closure_and_names_removed_packages() {
    // Each needs a processor for some minutes, with pauses for downloads.
    std::thread::scope(|scope| {
        for stem in names_in(&Workspace::stack().path("specs-templates/generated")) {
            scope.spawn(move || {
                // Each workspace is handed over to the laboratory's user.
                let workspace = Workspace::stack().with_shared_cache();
                let manifest: toml::Table = workspace.read("rocmrpm.toml").parse().unwrap();
                let default = manifest["stack"]["default-chroot"].as_str().unwrap().to_owned();
                let (pins, chroot) = stem.split_once('.').unwrap_or((stem.as_str(), &default));
                Closure::of(&workspace, pins, chroot).solve();
            });
        }
    });
}

/// A written closure with a proof by rocmrpm.
struct Closure<'w> {
    workspace: &'w Workspace,
    chroot: rocmrpm::workspace::Workspace,
    members: BTreeMap<String, Value>,
    /// The headers of the stack's packages, by package.
    stack: BTreeMap<String, Relations>,
    /// The hand-written components.
    own: Vec<Value>,
}

impl<'w> Closure<'w> {
    fn of(workspace: &'w Workspace, pins: &str, chroot: &str) -> Self {
        let args = ["closure", "vllm", "--check", "--json", "--pins", pins, "--chroot", chroot];
        let document = workspace.run(&args).exits(0).json();
        let members = document["members"].as_array().unwrap();
        let members =
            members.iter().map(|member| (text(&member["name"]).to_owned(), member.clone()));
        let components = document["proof"]["components"].as_array().unwrap();
        let folder = workspace.path("stack");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut stack = BTreeMap::new();
        for rpm in components.iter().flat_map(|component| component["rpms"].as_array().unwrap()) {
            let rpm = PathBuf::from(text(rpm));
            std::fs::copy(&rpm, folder.join(rpm.file_name().unwrap())).unwrap();
            let relations = Relations::read(&rpm).unwrap();
            stack.insert(relations.package.clone(), relations);
        }
        let selection = Selection {
            chroot: Some(chroot.into()),
            pins: Some(pins.into()),
            ..Selection::default()
        };
        let loaded = rocmrpm::workspace::Workspace::load(&workspace.root(), &selection).unwrap();
        let own =
            components.iter().filter(|component| component["basis"] == "spec").cloned().collect();
        Self { workspace, chroot: loaded, members: members.collect(), stack, own }
    }

    fn at(&self, place: &str) -> Vec<&str> {
        let found: Vec<&str> = self
            .members
            .iter()
            .filter(|(_, m)| m["place"] == place)
            .map(|(name, _)| name.as_str())
            .collect();
        assert!(!found.is_empty(), "nothing is {place}");
        found
    }

    /// Returns the release's packages for these members.
    fn offered(&self, names: Vec<&str>) -> BTreeSet<&str> {
        names
            .into_iter()
            .filter_map(|name| self.members[name]["offer"]["package"].as_str())
            .collect()
    }

    fn solve(&self) {
        let Self { workspace, stack, .. } = self;
        workspace.write("known.json", serde_json::to_vec(&self.known()).unwrap());
        let tables = self.chroot.chroot.packages.iter().chain(&self.chroot.provider.packages);
        let tables: Vec<String> =
            tables.map(|table| format!("mock-configs/packages/{}.tsv", table.value)).collect();
        // Fedora's packages of the private members can be installed next to them.
        let also: Vec<&str> = self.offered(self.at("private")).into_iter().collect();
        let each: Vec<String> =
            self.own.iter().flat_map(packages).filter(|name| name != ROOT).collect();
        lab::hand_over(workspace);
        let script = format!(
            "rm -rf /tmp/stack && cp -r stack /tmp/stack && createrepo_c --quiet /tmp/stack\n\
             python3 {solver} release {tables} --known known.json --to /tmp/fedora >/dev/null\n\
             python3 {solver} solve /tmp/stack /tmp/fedora --install {ROOT} --also {also} --each {each}",
            solver = lab::SOLVER,
            tables = tables.join(" "),
            also = also.join(" "),
            each = each.join(" "),
        );
        let solved = lab::script(workspace, &script).exits(0).json();
        let output = text(&solved["output"]);
        let installed = transaction(&solved["transaction"], output);
        transaction(&solved["also"], text(&solved["also-output"]));
        for (name, answer) in solved["each"].as_object().unwrap() {
            let words = text(&answer["output"]);
            assert!(
                transaction(&answer["transaction"], words).contains(name.as_str()),
                "{name}: {words}"
            );
        }
        for package in self.offered(self.at("system")).into_iter().chain([RUNTIME]) {
            assert!(installed.contains(package), "{package} is not installed: {output}");
        }
        for name in self.at("rpm") {
            let provides = format!("python3dist({name})");
            let made =
                stack.values().find(|package| package.provides.iter().any(|p| p.name == provides));
            let made = made.unwrap_or_else(|| panic!("no package provides {provides}"));
            assert!(
                installed.contains(made.package.as_str()),
                "{} is not installed: {output}",
                made.package
            );
        }
        self.assert_private_members_are_bundled();
        assert_eq!(solved["alone"]["solved"], true, "{}", solved["alone"]);
        self.assert_each_is_needed(&installed, &solved);
    }

    /// Checks that the runtime bundles its members.
    fn assert_private_members_are_bundled(&self) {
        let provides = &self.stack[RUNTIME].provides;
        for name in self.at("private") {
            let bundled = format!("bundled(python3dist({name}))");
            assert!(provides.iter().any(|provided| provided.name == bundled), "no {bundled}");
        }
        assert!(
            !provides.iter().any(|provided| provided.name.starts_with("python3")),
            "{provides:?}"
        );
    }

    fn assert_each_is_needed(&self, installed: &BTreeSet<&str>, solved: &Value) {
        let own: BTreeSet<&str> =
            self.stack.keys().map(String::as_str).filter(|name| installed.contains(name)).collect();
        for change in ["without", "requiring"] {
            let answers = solved[change].as_object().unwrap();
            assert_eq!(
                answers.keys().map(String::as_str).collect::<BTreeSet<_>>(),
                own,
                "{change}"
            );
            for (package, answer) in answers {
                let output = text(&answer["output"]);
                assert_eq!(answer["solved"], false, "{change} {package}: {output}");
                let named = |line: &str| match change {
                    "requiring" => line.contains(&format!(
                        "nothing provides libnothing.so.1()(64bit) needed by {package}-"
                    )),
                    _ => self.names(package, line),
                };
                let itself =
                    package == ROOT && output.contains(&format!("No match for argument: {ROOT}"));
                assert!(itself || output.lines().any(named), "{change} {package}: {output}");
            }
        }
    }

    /// Returns whether dnf5 reports a package as missing: `python3.14dist(x)`, `(python3dist(x) < 2
    /// with ...)`, `x = 1`.
    fn names(&self, package: &str, line: &str) -> bool {
        let provides = self.stack[package].provides.iter().map(|provided| provided.name.as_str());
        line.contains("nothing provides ")
            && provides.into_iter().any(|name| {
                line.contains(&format!("{name} ")) || name.contains('(') && line.contains(name)
            })
    }

    /// Returns facts about the release's packages that the tables lack: libraries, files,
    /// distributions that cannot be derived from names, and requirements on other packages of the
    /// release. The requirements are those of the locked versions, without bounds.
    fn known(&self) -> Value {
        let mut known: BTreeMap<String, Known> = BTreeMap::new();
        for (name, member) in &self.members {
            let Some(package) = member["offer"]["package"].as_str() else { continue };
            if package != format!("python3-{name}") {
                known.entry(package.into()).or_default().dists.insert(name.clone());
            }
            let edges = member["required_by"].as_array().unwrap().iter();
            for edge in edges.filter(|_| member["place"] == "system") {
                let Some(from) = self.members.get(text(&edge["from"])) else { continue };
                if let (Some("system"), Some(package)) =
                    (from["place"].as_str(), from["offer"]["package"].as_str())
                {
                    known.entry(package.into()).or_default().requires.insert(name.clone());
                }
            }
        }
        let mut provide = |package: &str, provided: String| {
            known.entry(package.to_owned()).or_default().provides.insert(provided);
        };
        let target = Target::of(&self.chroot).unwrap();
        target.files().for_each(|(path, package)| provide(package, path.to_owned()));
        provide("python3", format!("python(abi) = {}", self.chroot.chroot.python));
        target
            .libraries()
            .for_each(|(soname, package)| provide(package, format!("{soname}()(64bit)")));
        // No table lists the symbol versions of libraries; assume those up to the chroot's newest.
        let system = system(&self.chroot).unwrap();
        for required in self.stack.values().flat_map(|package| &package.requires) {
            let name = &required.relation.name;
            let library = name.strip_suffix(")(64bit)").and_then(|name| name.split_once('('));
            if let Some((soname, version)) = library.filter(|(_, version)| !version.is_empty())
                && let Some(package) = system.package(soname)
                && system.newest(version).is_none_or(|(_, old_enough)| old_enough)
            {
                provide(package, name.clone());
            }
        }
        let entry = |(package, Known { dists, requires, provides }): (String, Known)| {
            (package, json!({ "dists": dists, "requires": requires, "provides": provides }))
        };
        Value::Object(known.into_iter().map(entry).collect())
    }
}

/// Known facts about a package of the release.
#[derive(Default)]
struct Known {
    dists: BTreeSet<String>,
    requires: BTreeSet<String>,
    provides: BTreeSet<String>,
}

/// Returns the packages of a component in the proof.
fn packages(component: &Value) -> Vec<String> {
    let rpms = component["rpms"].as_array().unwrap().iter();
    rpms.map(|rpm| Relations::read(Path::new(text(rpm))).unwrap().package).collect()
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Returns the package names of a transaction that only installs packages.
#[track_caller]
fn transaction<'a>(transaction: &'a Value, output: &str) -> BTreeSet<&'a str> {
    let sections = transaction.as_object().unwrap();
    assert!(sections.contains_key("Installing"), "{output}");
    let only = ["Installing", "Installing dependencies"];
    assert!(sections.keys().all(|section| only.contains(&section.as_str())), "{output}");
    sections
        .values()
        .flat_map(|section| section.as_object().unwrap().keys())
        .map(String::as_str)
        .collect()
}
