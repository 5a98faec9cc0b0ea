//! The folders of experiments: builds with pins from the command line keep their results apart from
//! those of the pin set.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

use super::component::Component;
use super::pins::Overrides;
use crate::digest::Sha256;
use crate::names::{ComponentName, is_version};

/// Starts each overridden pin in the name of a build folder. Chroots, components, and versions do
/// not contain it.
const SEPARATOR: char = '@';

/// The longest name of a build folder, in bytes. File systems allow 255.
const LONGEST: usize = 200;

/// What of a template can depend on the versions of other components.
const VERSIONS: &str = r"\bversions\s*(\.[A-Za-z_]|\[|\|)|\bin versions\b|__tera_context";

/// Returns the name of the build folder of a chroot with these pins, such as `fedora-43@torch-2.12`.
pub(super) fn folder_name<'p>(
    chroot: &str,
    pins: impl Iterator<Item = (&'p ComponentName, &'p str)>,
) -> String {
    // rpm refuses `^` in paths.
    let pins: String =
        pins.map(|(name, version)| format!("@{name}-{}", version.replace('^', "_"))).collect();
    match chroot.len() + pins.len() > LONGEST {
        true => format!("{chroot}{SEPARATOR}{}", &Sha256::of_bytes(&pins).to_string()[..16]),
        false => format!("{chroot}{pins}"),
    }
}

/// Returns the chroot and the overridden pins of a build folder with this name; `None` for the pins
/// if the name is too long to contain them.
pub fn parse_folder_name(name: &str) -> (&str, Option<Overrides>) {
    let mut parts = name.split(SEPARATOR);
    let chroot = parts.next().unwrap_or(name);
    let pin = |part: &str| {
        let (name, version) = part.rsplit_once('-')?;
        is_version(version).then(|| (name.to_owned(), version.to_owned()))
    };
    (chroot, parts.map(pin).collect())
}

/// Returns the components whose results the overridden pins can change: those that are overridden or
/// require one, and those whose specs state versions of others.
pub(super) fn affected<'c>(
    root: &Path,
    components: impl Iterator<Item = &'c Component> + Clone,
    is_overridden: impl Fn(&ComponentName) -> bool,
) -> std::io::Result<BTreeSet<ComponentName>> {
    let pattern = Regex::new(VERSIONS).expect("a test compiles it");
    let mentions = |path: &Path| fs_err::read_to_string(path).map(|text| pattern.is_match(&text));
    let shared = root.join("specs-templates/_shared");
    let mut in_shared = false;
    if shared.is_dir() {
        for entry in fs_err::read_dir(shared)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "tera") {
                in_shared |= mentions(&path)?;
            }
        }
    }
    let mut affected = BTreeSet::new();
    for component in components.clone() {
        let name = &component.name;
        if in_shared
            || is_overridden(name)
            || component.closure.is_some()
            || mentions(&component.template)?
        {
            affected.insert(name.clone());
        }
    }
    // Until nothing is added: what requires an affected component is affected, too.
    loop {
        let requires = |component: &&Component| {
            !affected.contains(&component.name)
                && component.requires.iter().any(|required| {
                    affected.iter().any(|name: &ComponentName| name.as_str() == required.value)
                })
        };
        let more: Vec<ComponentName> =
            components.clone().filter(requires).map(|component| component.name.clone()).collect();
        if more.is_empty() {
            return Ok(affected);
        }
        affected.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_state_the_pins() {
        let names = ["torch-rocm", "triton"].map(|name| ComponentName::parse(name).unwrap());
        let pins = names.iter().zip(["2.12.0~rc1", "3.7+x"]);
        let name = folder_name("fedora-43", pins.clone());
        assert_eq!(name, "fedora-43@torch-rocm-2.12.0~rc1@triton-3.7+x");
        let (chroot, parsed) = parse_folder_name(&name);
        let expected = pins.map(|(name, version)| (name.to_string(), version.to_owned())).collect();
        assert_eq!((chroot, parsed), ("fedora-43", Some(expected)));
        assert_eq!(parse_folder_name("host"), ("host", Some(Overrides::new())));
        let long = "1".repeat(300);
        let name = folder_name("host", [(&names[0], long.as_str())].into_iter());
        assert_eq!((name.len(), parse_folder_name(&name)), (21, ("host", None)));
    }

    #[test]
    fn finds_versions_in_templates_but_not_in_prose() {
        let pattern = Regex::new(VERSIONS).unwrap();
        for used in ["<{ versions.torch }>", "<{ versions['a'] }>", "<@ for k, v in versions @>"] {
            assert!(pattern.is_match(used), "{used}");
        }
        for prose in ["at their versions.\n", "pinned versions, and", "other versions than"] {
            assert!(!pattern.is_match(prose), "{prose}");
        }
    }
}
