//! Tests the component `rocmrpm`, which packages this program: what its pin and its spec state
//! follows from Cargo.toml, `Cargo.lock`, and the list of programs that rocmrpm runs.
//! `tests/laboratory/own_package.rs` builds and installs it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{REPOSITORY, Workspace};
use rocmrpm::process::{Command, install_help};

const SPEC: &str = "specs-templates/rocmrpm/rocmrpm.spec.tera";

/// Licenses of C code that a crate compiles, whose manifest states only the license of its Rust
/// code. Sources: zstd/LICENSE and xz/COPYING in these crates.
const BUNDLED: &[(&str, &str)] = &[("liblzma-sys", "0BSD"), ("zstd-sys", "BSD-3-Clause")];

fn read(path: &str) -> String {
    fs_err::read_to_string(Path::new(REPOSITORY).join(path)).unwrap()
}

/// Returns the names and licenses of the workspace's crates and of those that they link, as
/// `%cargo_license` of Fedora determines them.
fn linked() -> BTreeMap<String, String> {
    let args = "tree --workspace --locked --offline --edges no-build,no-dev,no-proc-macro --no-dedupe \
                --prefix none --target x86_64-unknown-linux-gnu --format {p}|{l}";
    let tree = Command::new(env!("CARGO")).args(args.split_whitespace()).cwd(Path::new(REPOSITORY));
    let tree = tree.text().unwrap();
    let lines = tree.lines().filter_map(|line| line.split_once('|'));
    let name = |package: &str| package.split(' ').next().unwrap().to_owned();
    lines.map(|(package, license)| (name(package), license.to_owned())).collect()
}

/// Returns licenses as one SPDX expression: each once, in parentheses if it offers a choice.
fn expression<'a>(licenses: impl Iterator<Item = &'a str>) -> String {
    let one = |license: &str| {
        // Before cargo required SPDX, manifests separated choices by a slash.
        let license = license.replace('/', " OR ");
        let choices: BTreeSet<&str> = license.split(" OR ").map(str::trim).collect();
        let joined = Vec::from_iter(choices.iter().copied()).join(" OR ");
        if choices.len() > 1 { format!("({joined})") } else { joined }
    };
    let all: BTreeSet<String> = licenses.map(one).collect();
    Vec::from_iter(all).join(" AND ")
}

/// Returns the values of a tag in the spec of the package `rocmrpm`.
fn tag(name: &str) -> Vec<String> {
    let spec = read(SPEC);
    let main = spec.split("\n%package").next().unwrap();
    let values = main.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values.map(|value| value.trim().to_owned()).collect()
}

#[test]
fn license_covers_every_linked_crate_and_bundled_code() {
    let linked = linked();
    assert!(linked.len() > 100 && linked.values().all(|license| !license.is_empty()), "{linked:?}");
    for (name, _) in BUNDLED {
        assert!(
            linked.contains_key(*name),
            "`{name}` is not linked any more: remove it from the spec"
        );
    }
    let bundled = BUNDLED.iter().map(|(_, license)| *license);
    let expected = expression(linked.values().map(String::as_str).chain(bundled));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let spec = read(SPEC).replacen(&tag("License")[0], &expected, 1);
        fs_err::write(Path::new(REPOSITORY).join(SPEC), spec).unwrap();
    }
    assert_eq!(tag("License"), [expected], "UPDATE_GOLDEN=1 writes it");
}

#[test]
fn joins_licenses_to_an_expression() {
    let licenses = ["MIT/Apache-2.0", "Apache-2.0 OR MIT", "Zlib", "Unlicense/MIT", "Zlib"];
    assert_eq!(
        expression(licenses.into_iter()),
        "(Apache-2.0 OR MIT) AND (MIT OR Unlicense) AND Zlib"
    );
}

#[test]
fn pins_the_version_of_cargo_toml() {
    let version = |file: &str, table: &str| -> toml::Value {
        let file: toml::Table = read(file).parse().unwrap();
        file[table].as_table().unwrap().get("package").unwrap_or(&file[table])["version"].clone()
    };
    assert_eq!(version("pins/stable.toml", "rocmrpm"), version("Cargo.toml", "workspace"));
}

#[test]
fn builds_with_the_rust_of_cargo_toml() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let oldest = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let required = tag("BuildRequires");
    for name in ["cargo", "rust"] {
        assert!(
            required.contains(&format!("{name} >= {oldest}")),
            "{name} >= {oldest}: {required:?}"
        );
    }
}

#[test]
fn requires_the_packages_of_programs_that_doctor_checks() {
    let doctor = Workspace::empty().run(&["doctor", "--json"]).document("rocmrpm/doctor/2");
    let (required, optional) = (tag("Requires"), [tag("Recommends"), tag("Suggests")].concat());
    let mut packages = BTreeSet::new();
    for tool in doctor["tools"].as_array().unwrap() {
        let help = install_help(tool["tool"].as_str().unwrap());
        // Debian's name of the compiler has no package on Fedora.
        let Some(package) = help.strip_prefix("on Fedora: `dnf install ") else { continue };
        let package = package.split('`').next().unwrap().to_owned();
        let list = if tool["required"] == true { &required } else { &optional };
        assert!(list.contains(&package), "{package}, of {tool}: {list:?}");
        packages.insert(package);
    }
    // Crates are vendored by cargo.
    packages.insert("cargo".to_owned());
    let listed: BTreeSet<String> = required.into_iter().chain(optional).collect();
    assert_eq!(listed, packages);
}
