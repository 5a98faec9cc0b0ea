//! Lists the names in a workspace from its folders, for completions in shells. Reads no file, so
//! that a mistake in one does not get in the way, and follows no link. Shells insert these names
//! into command lines, so names that would need quotes are left out: a folder of an untrusted
//! workspace could be called `$(command)`.

use std::path::Path;

use super::layout::{GENERATED, GENERATED_PINS};
use crate::names::{ComponentName, is_plain};

/// The folder of components.
const COMPONENTS: &str = "specs-templates";

/// Returns the components that packagers wrote, in order.
pub fn components(root: &Path) -> Vec<String> {
    components_in(&root.join(COMPONENTS))
}

/// Returns the components that `rocmrpm closure --write` wrote for any pin set and chroot, in order.
pub fn generated_components(root: &Path) -> Vec<String> {
    let generated = root.join(COMPONENTS).join(GENERATED);
    let mut names: Vec<String> =
        folders(&generated).iter().flat_map(|stem| components_in(&generated.join(stem))).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the chroots, in order.
pub fn chroots(root: &Path) -> Vec<String> {
    toml_files(&root.join("mock-configs"))
}

/// Returns the pin sets that packagers wrote, in order.
pub fn pin_sets(root: &Path) -> Vec<String> {
    let mut names = toml_files(&root.join("pins"));
    names.retain(|name| !name.ends_with(GENERATED_PINS));
    names
}

/// Returns the flavors of images that others built, in order: those with a container file.
pub fn foreign_flavors(root: &Path) -> Vec<String> {
    let chroots: Vec<String> = chroots(root).iter().map(|name| name.replace('-', "")).collect();
    let files = entries(root, std::fs::FileType::is_file);
    let flavors = files.iter().filter_map(|name| name.strip_prefix("Containerfile."));
    let of_chroot = |name: &&str| chroots.iter().any(|chroot| name.starts_with(chroot.as_str()));
    flavors.filter(|name| !of_chroot(name)).map(str::to_owned).collect()
}

fn components_in(dir: &Path) -> Vec<String> {
    let mut names = folders(dir);
    names.retain(|name| {
        ComponentName::parse(name).is_some() && dir.join(name).join("component.toml").is_file()
    });
    names
}

fn folders(dir: &Path) -> Vec<String> {
    entries(dir, std::fs::FileType::is_dir)
}

fn toml_files(dir: &Path) -> Vec<String> {
    let names = entries(dir, std::fs::FileType::is_file);
    names.iter().filter_map(|name| name.strip_suffix(".toml")).map(str::to_owned).collect()
}

/// Returns the plain names of a folder's entries of a type; none if the folder cannot be read.
fn entries(dir: &Path, is_wanted: impl Fn(&std::fs::FileType) -> bool) -> Vec<String> {
    let real = fs_err::symlink_metadata(dir).is_ok_and(|metadata| metadata.is_dir());
    let entries = if real { fs_err::read_dir(dir).ok() } else { None };
    let entries = entries.into_iter().flatten().filter_map(Result::ok);
    let wanted = entries.filter(|entry| entry.file_type().is_ok_and(|kind| is_wanted(&kind)));
    let names = wanted.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_plain(name)).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "not = [TOML").unwrap();
        }
        dir
    }

    #[test]
    fn lists_flavors_of_foreign_images_by_their_files() {
        let dir = workspace(&[
            "mock-configs/fedora-43.toml",
            "Containerfile.fedora43",
            "Containerfile.fedora43-ubuntu",
            "Containerfile.ollama",
            "Containerfile.$(x)",
            "other",
        ]);
        assert_eq!(foreign_flavors(dir.path()), ["ollama"]);
    }

    #[test]
    fn lists_names_of_folders_and_files_without_reading_them() {
        let dir = workspace(&[
            "specs-templates/torch/component.toml",
            "specs-templates/aotriton/component.toml",
            "specs-templates/_shared/x.tera",
            "specs-templates/unfinished/x.spec.tera",
            "specs-templates/generated/stable/python-a/component.toml",
            "specs-templates/generated/stable.fedora-44/python-a/component.toml",
            "specs-templates/generated/stable.fedora-44/python-b/component.toml",
            "mock-configs/host.toml",
            "mock-configs/fedora-43.toml",
            "mock-configs/mock.cfg.tera",
            "mock-configs/rocm/amdrocm.toml",
            "pins/stable.toml",
            "pins/stable.lock",
            "pins/stable.fedora-44.generated.toml",
        ]);
        let root = dir.path();
        assert_eq!(components(root), ["aotriton", "torch"]);
        assert_eq!(generated_components(root), ["python-a", "python-b"]);
        assert_eq!(chroots(root), ["fedora-43", "host"]);
        assert_eq!(pin_sets(root), ["stable"]);
    }

    #[test]
    fn leaves_out_names_that_a_shell_would_interpret() {
        let dir = workspace(&[
            "specs-templates/$(id)/component.toml",
            "specs-templates/a b/component.toml",
            "specs-templates/a;b/component.toml",
            "mock-configs/`id`.toml",
            "pins/-x.toml",
            "pins/\u{1b}[2J.toml",
        ]);
        let root = dir.path();
        assert_eq!([components(root), chroots(root), pin_sets(root)], [[""; 0]; 3]);
    }

    #[test]
    fn follows_no_link_and_accepts_missing_folders() {
        let outside = workspace(&["x/component.toml", "y.toml"]);
        let dir = tempfile::tempdir().unwrap();
        for folder in [COMPONENTS, "pins"] {
            std::os::unix::fs::symlink(outside.path(), dir.path().join(folder)).unwrap();
        }
        let root = dir.path();
        let all = [components(root), generated_components(root), chroots(root), pin_sets(root)];
        assert_eq!(all, [[""; 0]; 4]);
    }
}
