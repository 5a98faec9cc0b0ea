//! That `dnf install python3-vllm-rocm` would install: dnf5's own solver says so for the pin
//! set `stable`, with the metadata of Fedora 43 and of AMD's ROCm as the package tables have
//! them, and with packages made from the rendered specs and the distributions' real METADATA;
//! and it says what is missing, whatever is taken away. Needs the pip index of this machine's
//! pip.
//!
//! What the tables do not have is not proved: the versions that the release's packages require,
//! and the SONAMEs of what is compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::lab;
use super::support::{Workspace, names_in};

/// Where [`lab::solver`] is, and what it is asked, in the laboratory.
const TABLES: &str = "mock-configs/packages/fedora-43.tsv mock-configs/packages/amdrocm-7.14.tsv";

/// Where the runtime's distributions lie; the rendered spec says where that is.
const PRIVATE: &str = "%{site}";

/// What PyTorch's metadata on the index name and our builds of it do not: CUDA's libraries, and
/// Triton, which the specs name.
const OF_THE_INDEX: [&str; 3] = ["nvidia-", "cuda-", "triton"];

#[test]
fn dnf5_installs_vllm_and_names_whatever_is_taken_away() {
    let workspace = Workspace::stack().with_shared_cache();
    let closure = workspace.run(&["closure", "vllm", "--json"]).exits(0).json();
    workspace.run(&["render"]).exits(0);
    let members: BTreeMap<&str, &Value> =
        closure["members"].as_array().unwrap().iter().map(|member| (text(&member["name"]), member)).collect();
    let at = |place: &str| -> Vec<&str> {
        members.iter().filter(|(_, member)| member["place"] == place).map(|(name, _)| *name).collect()
    };
    for place in ["system", "rpm", "private"] {
        assert!(!at(place).is_empty(), "nothing is {place}: {closure}");
    }

    let plan = plan(&workspace, &members, &closure);
    workspace.write("plan.json", serde_json::to_vec(&plan).unwrap());
    // What only the release's own packages require, they bring themselves: no package is known of it.
    let packages = at("system").into_iter().filter_map(|name| members[name]["offer"]["package"].as_str());
    let systems: BTreeSet<&str> = packages.collect();
    // What Fedora has of the private members stays where it is.
    let also = at("private").into_iter().filter_map(|name| members[name]["offer"]["package"].as_str());
    workspace.write("known.json", serde_json::to_vec(&known(&members)).unwrap());
    lab::hand_over(&workspace);
    let script = format!(
        "python3 {solver} release {TABLES} --known known.json --to /tmp/fedora >/dev/null\n\
         python3 {solver} stubs plan.json --to /tmp/stack >/dev/null\n\
         rpm -qp --provides /tmp/stack/x86_64/vllm-rocm-runtime-*.rpm >runtime-provides\n\
         python3 {solver} solve /tmp/stack /tmp/fedora --install python3-vllm-rocm --also {also}",
        solver = lab::SOLVER,
        also = also.collect::<Vec<_>>().join(" "),
    );
    let solved = lab::script(&workspace, &script).exits(0).json();
    let said = text(&solved["said"]);
    let installed = transaction(&solved["transaction"], said);
    transaction(&solved["also"], text(&solved["also-said"]));

    let rpms: BTreeSet<String> = at("rpm").into_iter().map(|name| package(&workspace, &plan, name)).collect();
    let expected =
        systems.iter().copied().chain(rpms.iter().map(String::as_str)).chain(["vllm-rocm-runtime"]);
    for package in expected {
        assert!(installed.contains(package), "{package} is not installed: {said}");
    }

    // The runtime has its members for itself.
    let provides = workspace.read("runtime-provides");
    for name in at("private") {
        let bundled = format!("bundled(python3dist({name})) = ");
        assert!(provides.lines().any(|line| line.starts_with(&bundled)), "no {bundled}: {provides}");
    }
    assert!(!provides.lines().any(|line| line.starts_with("python3")), "{provides}");

    assert_eq!(solved["alone"]["solved"], true, "{}", solved["alone"]);
    let without = solved["without"].as_object().unwrap();
    assert_eq!(without.keys().map(String::as_str).collect::<BTreeSet<_>>(), installed);
    for (package, answer) in without {
        let said = text(&answer["said"]);
        assert_eq!(answer["solved"], false, "without {package}: {said}");
        let dist = members.iter().find(|(_, member)| member["offer"]["package"] == package.as_str());
        let dist = dist.map(|(name, _)| (*name).to_owned()).or_else(|| dist_of(&workspace, &plan, package));
        // `python3.14dist(x)`, `(python3dist(x) < 2 with ...)`, `x = 1`: the member is named.
        let named = |line: &&str| {
            let by_package = line.contains(&format!("nothing provides {package} "))
                || line.contains(&format!("nothing provides {package}("));
            let by_dist = dist.iter().any(|dist| line.contains(&format!("dist({dist})")));
            line.contains("nothing provides ") && (by_package || by_dist)
        };
        let itself =
            package == "python3-vllm-rocm" && said.contains("No match for argument: python3-vllm-rocm");
        let python = package == "python3" && said.contains("nothing provides python(abi)");
        assert!(itself || python || said.lines().any(|line| named(&line)), "without {package}: {said}");
    }
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Returns the names of the packages of a transaction that only installs.
#[track_caller]
fn transaction<'a>(transaction: &'a Value, said: &str) -> BTreeSet<&'a str> {
    let sections = transaction.as_object().unwrap();
    assert!(sections.contains_key("Installing"), "{said}");
    let only = ["Installing", "Installing dependencies"];
    assert!(sections.keys().all(|section| only.contains(&section.as_str())), "{said}");
    sections.values().flat_map(|section| section.as_object().unwrap().keys()).map(String::as_str).collect()
}

/// Returns what the tables do not tell of the release's packages: which distributions they hold,
/// where their names do not say so, and which of the release they require. That is what the
/// locked versions require, without bounds: those of the release's version nobody knows here.
fn known(members: &BTreeMap<&str, &Value>) -> Value {
    let mut known: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for (name, member) in members {
        let Some(package) = member["offer"]["package"].as_str() else { continue };
        if package != format!("python3-{name}") {
            known.entry(package).or_default().0.insert(name);
        }
        let edges = member["required_by"].as_array().unwrap().iter().filter(|_| member["place"] == "system");
        for from in edges.filter_map(|edge| members.get(text(&edge["from"]))) {
            if let (Some("system"), Some(package)) =
                (from["place"].as_str(), from["offer"]["package"].as_str())
            {
                known.entry(package).or_default().1.insert(name);
            }
        }
    }
    let entry = |(package, (dists, requires)): (&str, _)| {
        (package.to_owned(), json!({ "dists": dists, "requires": requires }))
    };
    Value::Object(known.into_iter().map(entry).collect())
}

/// Returns what stand-ins are made of: for each component its spec and its distributions.
fn plan(workspace: &Workspace, members: &BTreeMap<&str, &Value>, closure: &Value) -> Value {
    let metadata = Metadata::of(workspace);
    let mut components: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut private = Vec::new();
    for (name, member) in members {
        let version = member["version"].as_str().unwrap_or_default();
        match (text(&member["place"]), member["made_by"].as_str()) {
            ("rpm", Some(own)) => {
                let fields = metadata.get(name, version).unwrap_or_else(|| nothing_required(name, version));
                components.insert(own.into(), vec![metadata.entry(workspace, name, version, &ours(&fields))]);
            }
            ("rpm", None) => {
                let fields =
                    metadata.get(name, version).unwrap_or_else(|| panic!("no METADATA of {name} {version}"));
                components.insert((*name).into(), vec![metadata.entry(workspace, name, version, &fields)]);
            }
            ("private", _) => {
                let fields =
                    metadata.get(name, version).unwrap_or_else(|| panic!("no METADATA of {name} {version}"));
                private.push(metadata.entry(workspace, name, version, &fields));
            }
            _ => {}
        }
    }
    components.insert("vllm-rocm-runtime".into(), private);
    // What vLLM's spec names beside the closure.
    let toml: toml::Table = workspace.read("specs-templates/vllm/component.toml").parse().unwrap();
    for name in toml["requires"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        let version = version_of(workspace, name);
        let fields = nothing_required(name, &version);
        let entry = || vec![metadata.entry(workspace, name, &version, &fields)];
        components.entry(name.into()).or_insert_with(entry);
    }
    // The component's own, as its build writes them from its requirement files.
    let root = text(&closure["distribution"]);
    let mut of_root: BTreeSet<&str> = BTreeSet::new();
    for member in members.values() {
        let edges = member["required_by"].as_array().unwrap().iter().filter(|edge| edge["from"] == root);
        of_root.extend(edges.map(|edge| text(&edge["requirement"])));
    }
    let version = version_of(workspace, "vllm");
    let mut fields = nothing_required(root, &version);
    of_root.iter().for_each(|requirement| fields += &format!("Requires-Dist: {requirement}\n"));
    components.insert("vllm".into(), vec![metadata.entry(workspace, root, &version, &fields)]);

    let entry = |(component, dists): (&String, &Vec<Value>)| {
        let folder = (component == "vllm-rocm-runtime").then_some(PRIVATE);
        json!({ "component": component, "spec": spec(workspace, component), "dists": dists, "folder": folder })
    };
    components.iter().map(entry).collect()
}

/// Returns the rendered spec of a component, which has the name of its template.
fn spec(workspace: &Workspace, component: &str) -> String {
    for folder in
        [format!("specs-templates/{component}"), format!("specs-templates/generated/stable/{component}")]
    {
        let folder = workspace.path(folder);
        if folder.exists() {
            let spec =
                names_in(&folder).into_iter().find_map(|name| name.strip_suffix(".tera").map(str::to_owned));
            return format!("build/fedora-43/specs/{}", spec.unwrap());
        }
    }
    panic!("no component {component}");
}

/// Returns the package of a member that is an RPM: the first one of its spec with files.
fn package(workspace: &Workspace, plan: &Value, dist: &str) -> String {
    let component = plan.as_array().unwrap().iter().find(|one| one["dists"][0]["name"] == dist);
    let spec = workspace.read(text(&component.unwrap_or_else(|| panic!("nothing makes {dist}"))["spec"]));
    let files = spec.lines().find_map(|line| line.strip_prefix("%files -n ")).unwrap();
    files.split(' ').next().unwrap().to_owned()
}

/// Returns the distribution of a package that a stand-in is made of.
fn dist_of(workspace: &Workspace, plan: &Value, package: &str) -> Option<String> {
    plan.as_array().unwrap().iter().find_map(|one| {
        let spec = workspace.read(text(&one["spec"]));
        let found = spec.lines().any(|line| line.split(' ').take(3).eq(["%files", "-n", package]));
        found.then(|| one["dists"][0]["name"].as_str().map(str::to_owned)).flatten()
    })
}

fn version_of(workspace: &Workspace, component: &str) -> String {
    let pins: toml::Table = workspace.read("pins/stable.toml").parse().unwrap();
    pins[component]["version"].as_str().unwrap().to_owned()
}

fn nothing_required(name: &str, version: &str) -> String {
    format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
}

/// Returns METADATA of the index as our own builds have them.
fn ours(text: &str) -> String {
    let foreign = |line: &str| {
        line.strip_prefix("Requires-Dist: ")
            .is_some_and(|rest| OF_THE_INDEX.iter().any(|name| rest.starts_with(name)))
    };
    text.lines().filter(|line| !foreign(line)).map(|line| format!("{line}\n")).collect()
}

/// The METADATA in rocmrpm's cache, as the index had them.
struct Metadata(BTreeMap<(String, String), PathBuf>);

impl Metadata {
    fn of(workspace: &Workspace) -> Self {
        let mut found = BTreeMap::new();
        let mut folders = vec![workspace.cache().join("sha256")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().flatten() {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(path);
                } else if let Some((name, version)) = name_and_version(&path) {
                    found.insert((name, version), path);
                }
            }
        }
        Self(found)
    }

    fn get(&self, name: &str, version: &str) -> Option<String> {
        let path = self.0.get(&(name.to_owned(), version.to_owned()))?;
        Some(std::fs::read_to_string(path).unwrap())
    }

    /// Writes METADATA for the laboratory, without the description below the fields.
    fn entry(&self, workspace: &Workspace, name: &str, version: &str, text: &str) -> Value {
        let path = format!("metadata/{name}");
        workspace.write(&path, text.split("\n\n").next().unwrap().trim_end().to_owned() + "\n");
        json!({ "name": name, "version": version, "metadata": format!("{}/{path}", lab::WORKSPACE) })
    }
}

/// Returns the name, normalized, and the version of METADATA; `None` where a file is none.
fn name_and_version(path: &Path) -> Option<(String, String)> {
    if std::fs::metadata(path).ok()?.len() > 1 << 20 {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let fields = text.strip_prefix("Metadata-Version:")?;
    let field = |name: &str| fields.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let name = field("Name:")?.to_lowercase().replace(['_', '.'], "-");
    Some((name, field("Version:")?.to_owned()))
}
