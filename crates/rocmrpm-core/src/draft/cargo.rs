//! Reads what Cargo.toml says about a program in Rust. Its crates are vendored.

use std::collections::BTreeSet;
use std::path::Path;

use super::project::Project;
use crate::closure::generate::member::{UNPACK_CRATES, build_rust};
use crate::closure::generate::rust;
use crate::error::{Error, Kind};
use crate::sources::read_inside;
use crate::workspace::pin::Pin;

pub(super) fn project(pin: &Pin, root: &Path) -> Result<Project, Error> {
    let top = manifest(root, "Cargo.toml");
    let packages = packages(root, &top);
    let mut project = Project {
        file: "Cargo.toml",
        // Otherwise %cargo_install also installs the source of the library.
        globals: "%global cargo_install_lib 0\n",
        ..Project::default()
    };
    for (folder, package) in &packages {
        let programs = programs(root, folder, package);
        if programs.is_empty() {
            continue;
        }
        programs.iter().for_each(|name| project.installed.add_program(name));
        project.install += &match folder.as_str() {
            "" => "%cargo_install\n".to_owned(),
            folder => format!("cd {folder}\n%cargo_install\ncd -\n"),
        };
        let stated = |key: &str| inherited(&top, package, key);
        if project.summary.is_empty() {
            project.summary = stated("description").unwrap_or_default();
            project.home = stated("homepage").or_else(|| stated("repository"));
            // Older manifests separate alternatives by a slash (The Cargo Book, "The license and
            // license-file fields").
            let alternatives =
                |text: String| text.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
            project.license = stated("license").map(alternatives);
        }
    }
    if project.installed.is_empty() {
        let message = format!("Cargo.toml of `{}` makes no program", pin.component);
        return Err(Error::new(Kind::Usage, message)
            .with_help("add the program that uses this crate: its crates are vendored with it"));
    }
    let lock_file = read_inside(root, "Cargo.lock").ok().flatten();
    let Some(lock_file) = lock_file else {
        let message = format!("the source of `{}` has no Cargo.lock", pin.component);
        return Err(Error::new(Kind::Usage, message).with_help(
            "use a source that has it, such as `--git`: without it, crates cannot be vendored",
        ));
    };
    project.build_requires.insert("cargo-rpm-macros >= 26".into());
    // Only crates that are not in the source have one.
    if String::from_utf8_lossy(&lock_file).contains("\nsource = ") {
        project.rust = rust::project(root, &["Cargo.toml".into(), "Cargo.lock".into()]);
        project.prep += UNPACK_CRATES;
    }
    project.prep += "\n%cargo_prep -N";
    project.build =
        "%cargo_build\n".to_owned() + &project.rust.as_ref().map(build_rust).unwrap_or_default();
    project.check = "%cargo_test\n".into();
    Ok(project)
}

fn manifest(root: &Path, path: &str) -> toml::Table {
    let bytes = read_inside(root, path).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&bytes).parse().unwrap_or_default()
}

/// Returns the packages that cargo builds in the top folder, each with its folder: the one there, or
/// else the members of its workspace.
fn packages(root: &Path, top: &toml::Table) -> Vec<(String, toml::Table)> {
    if top.contains_key("package") {
        return vec![(String::new(), top.clone())];
    }
    let workspace = |key: &str| Some(top.get("workspace")?.get(key)?.as_array()?.clone());
    let members = workspace("default-members").or_else(|| workspace("members")).unwrap_or_default();
    let mut folders = BTreeSet::new();
    for member in members.iter().filter_map(toml::Value::as_str).filter(|path| is_inside(path)) {
        match member.strip_suffix("/*") {
            Some(parent) => {
                let below = crate::files::names_in(&root.join(parent)).unwrap_or_default();
                folders.extend(below.into_iter().map(|name| format!("{parent}/{name}")));
            }
            None => drop(folders.insert(member.to_owned())),
        }
    }
    let package = |folder: String| {
        let table = manifest(root, &format!("{folder}/Cargo.toml"));
        (is_inside(&folder) && table.contains_key("package")).then_some((folder, table))
    };
    folders.into_iter().filter_map(package).collect()
}

fn is_inside(path: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-*".contains(&b);
    path.bytes().all(plain)
        && !path.starts_with(['/', '-'])
        && !path.split('/').any(|part| part == "..")
}

/// Returns a value of `[package]`, which may be that of the workspace.
fn inherited(top: &toml::Table, package: &toml::Table, key: &str) -> Option<String> {
    let value = package.get("package")?.get(key)?;
    let value = match value.get("workspace").and_then(toml::Value::as_bool) {
        Some(true) => top.get("workspace")?.get("package")?.get(key)?,
        _ => value,
    };
    value.as_str().map(str::to_owned)
}

/// Returns the programs of a package that cargo builds with its default features. Source: The Cargo
/// Book, "Cargo Targets".
fn programs(root: &Path, folder: &str, manifest: &toml::Table) -> BTreeSet<String> {
    let package = manifest.get("package");
    let of_package = |key: &str| package.and_then(|package| package.get(key));
    let name = of_package("name").and_then(toml::Value::as_str).unwrap_or_default();
    let src = root.join(folder).join("src");
    let mut programs = BTreeSet::new();
    if of_package("autobins").and_then(toml::Value::as_bool) != Some(false) {
        if src.join("main.rs").is_file() {
            programs.insert(name.to_owned());
        }
        for entry in crate::files::names_in(&src.join("bin")).unwrap_or_default() {
            match entry.strip_suffix(".rs") {
                Some(stem) => drop(programs.insert(stem.to_owned())),
                None if src.join("bin").join(&entry).join("main.rs").is_file() => {
                    programs.insert(entry);
                }
                None => {}
            }
        }
    }
    let default = manifest.get("features").and_then(|features| features.get("default")?.as_array());
    for bin in manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten() {
        let text = |key: &str| bin.get(key).and_then(toml::Value::as_str);
        let Some(own) = text("name") else { continue };
        // The name replaces the one that follows from the path.
        let path = text("path").unwrap_or_default();
        match path.strip_prefix("src/bin/").and_then(|path| path.strip_suffix(".rs")) {
            Some(stem) => programs.remove(stem),
            None => path == "src/main.rs" && programs.remove(name),
        };
        let needs = bin.get("required-features").and_then(toml::Value::as_array);
        let is_on = |feature: &toml::Value| default.is_some_and(|all| all.contains(feature));
        match needs.is_none_or(|needs| needs.iter().all(is_on)) {
            true => programs.insert(own.to_owned()),
            false => programs.remove(own),
        };
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> BTreeSet<String> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        let top = manifest(dir.path(), "Cargo.toml");
        let of = |(folder, package): &(String, toml::Table)| {
            programs(dir.path(), folder, package)
                .into_iter()
                .map(|name| format!("{folder}:{name}"))
                .collect::<Vec<_>>()
        };
        packages(dir.path(), &top).iter().flat_map(of).collect()
    }

    #[test]
    fn finds_programs() {
        let package = "[package]\nname = \"a\"\n";
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(found(&[("Cargo.toml", package), ("src/lib.rs", "")]), list(&[]));
        let bins = format!(
            "{package}[[bin]]\nname = \"b\"\npath = \"src/main.rs\"\n[[bin]]\nname = \"c\"\nrequired-features = [\"x\"]\n"
        );
        let files = [
            ("src/main.rs", ""),
            ("src/bin/c.rs", ""),
            ("src/bin/d/main.rs", ""),
            ("src/bin/e.rs", ""),
        ];
        let of = |text| found(&[&[("Cargo.toml", text)], &files[..]].concat());
        assert_eq!(of(&bins), list(&[":b", ":d", ":e"]));
        assert_eq!(
            of(&format!("{bins}[features]\ndefault = [\"x\"]\n")),
            list(&[":b", ":c", ":d", ":e"])
        );
        let workspace = "[workspace]\nmembers = [\"crates/*\", \"../out\"]\n";
        let members = [
            ("crates/a/Cargo.toml", package),
            ("crates/a/src/main.rs", ""),
            ("crates/b/src/main.rs", ""),
        ];
        assert_eq!(
            found(&[&[("Cargo.toml", workspace)], &members[..]].concat()),
            list(&["crates/a:a"])
        );
    }
}
