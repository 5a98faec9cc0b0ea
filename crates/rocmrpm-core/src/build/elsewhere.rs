//! Finds what a command lacks in the build folders of other chroots and pins.

use crate::files::names_in;
use crate::workspace::{Workspace, parse_folder_name};

/// Returns the help for a command that finds nothing in the workspace's chroot although other
/// chroots have this file or folder in their build folders.
pub fn find_elsewhere(workspace: &Workspace, what: &str) -> Option<String> {
    let own = workspace.build_dir();
    let names = names_in(own.parent()?).ok()?.into_iter();
    let there: Vec<String> =
        names.filter(|name| own.with_file_name(name).join(what).exists()).collect();
    let chroots = there.iter().filter(|name| {
        matches!(parse_folder_name(name), (chroot, Some(pins))
            if chroot != workspace.chroot.name && pins.is_empty())
    });
    let options: Vec<String> = chroots.map(|name| format!("`--chroot {name}`")).collect();
    if !options.is_empty() {
        return Some(format!("for another chroot there is one: pass {}", options.join(" or ")));
    }
    let pins = there.iter().filter(|name| own.file_name() != Some(name.as_ref()));
    let options: Vec<String> = pins.filter_map(|name| pin_options(workspace, name)).collect();
    (!options.is_empty())
        .then(|| format!("for other pins there is one: pass {}", options.join(" or ")))
}

/// Returns the options that select the build folders of the chosen chroot with other pins from the
/// command line; `None` if there are none.
pub fn find_other_pins(workspace: &Workspace) -> Option<String> {
    let own = workspace.build_dir();
    let names = names_in(own.parent()?).ok()?.into_iter();
    let others = names.filter(|name| own.file_name() != Some(name.as_ref()));
    let options: Vec<String> = others.filter_map(|name| pin_options(workspace, &name)).collect();
    (!options.is_empty()).then(|| format!("pass {}", options.join(" or ")))
}

/// Returns the options that select a build folder of the chosen chroot with overridden pins.
fn pin_options(workspace: &Workspace, folder: &str) -> Option<String> {
    let (chroot, pins) = parse_folder_name(folder);
    let pins = pins.filter(|pins| chroot == workspace.chroot.name && !pins.is_empty())?;
    // The name of the folder has only the beginning of a commit.
    if pins.values().any(|version| version.contains("_git")) {
        return None;
    }
    let pins: Vec<String> =
        pins.iter().map(|(name, version)| format!("--pin {name}={version}")).collect();
    Some(format!("`{}`", pins.join(" ")))
}
