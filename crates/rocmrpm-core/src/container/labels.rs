//! The labels of an image: its contents and its risks. Comparing them is up to `check`.

use std::collections::BTreeMap;

use crate::digest::Sha256;
use crate::error::Error;
use crate::sources;
use crate::spec::rocm_version;
use crate::stack::Stack;
use crate::tier::Tier;
use crate::workspace::pin::shown_folder;
use crate::workspace::{Component, Flavor, Pin, Source, Workspace};

/// The prefix of all labels that rocmrpm defines.
const OWN: &str = "io.rocmrpm";

/// The label with the flavor of an image.
pub(super) const FLAVOR: &str = "io.rocmrpm.flavor";

/// Returns the labels of an image except for the name of its base image: the flavor, the risks,
/// and for every pin that rocmrpm builds its version, origin and digest.
pub(super) fn labels(
    stack: &Stack<'_>,
    flavor: &Flavor,
    components: &[&Component],
    risks: &[String],
    contents: Option<&str>,
) -> Result<BTreeMap<String, String>, Error> {
    let workspace = stack.workspace;
    let mut labels = BTreeMap::new();
    let mut add = |name: &str, value: &str| labels.insert(name.to_owned(), value.to_owned());
    add("org.opencontainers.image.title", &title(&workspace.manifest.name, flavor));
    add(FLAVOR, flavor.name());
    if !risks.is_empty() {
        add(&format!("{OWN}.risk"), &risks.join("; "));
    }
    if let Some(contents) = contents {
        add(&format!("{OWN}.vendor"), contents);
    }
    if flavor.is_for_chroot() {
        add(&format!("{OWN}.chroot"), &workspace.chroot.name);
    }
    if *flavor == Flavor::Toolbox {
        // toolbox refuses images without this label.
        add("com.github.containers.toolbox", "true");
    }
    if !flavor.has_builds() {
        return Ok(labels);
    }
    add(&format!("{OWN}.pins"), &workspace.pins.name);
    add(&format!("{OWN}.pins.sha256"), &Sha256::of_bytes(&workspace.pins.file.text).to_string());
    if workspace.pins.pins.values().any(|at| at.value.overridden) {
        add(&format!("{OWN}.dirty"), "true");
    }
    if *flavor != Flavor::Vulkan {
        let targets: Vec<_> = workspace.manifest.gpu_targets.iter().map(|t| t.as_str()).collect();
        add(&format!("{OWN}.gpu-targets"), &targets.join(" "));
        let rocm = format!("{} {}", workspace.provider.name, rocm_version(&workspace.provider)?);
        add(&format!("{OWN}.rocm"), &rocm);
    }
    for component in components {
        for (what, value) in of_component(workspace, component)? {
            labels.insert(format!("{OWN}.component.{}.{what}", component.name), value);
        }
    }
    Ok(labels)
}

/// Returns the lines of the file with the versions in an image: what its labels state, which programs
/// in a container cannot read.
pub(super) fn versions(labels: &BTreeMap<String, String>) -> Vec<String> {
    let own = |(name, value): (&String, &String)| {
        let name = name.strip_prefix(OWN)?.strip_prefix('.')?;
        Some(format!("{name}={value}"))
    };
    labels.iter().filter_map(own).collect()
}

/// Returns the labels with the tier of each component of an image, which is `none` without a record.
pub(super) fn tiers(
    components: &[&Component],
    tiers: &BTreeMap<String, Option<Tier>>,
) -> BTreeMap<String, String> {
    let label = |component: &&Component| {
        let tier = tiers.get(component.name.as_str()).copied().flatten();
        (format!("{OWN}.tier.{}", component.name), tier.map_or("none", Tier::name).to_owned())
    };
    components.iter().map(label).collect()
}

/// Returns the name of an image of a flavor.
pub(super) fn title(stack: &str, flavor: &Flavor) -> String {
    match flavor {
        Flavor::Fedora => stack.to_owned(),
        other => format!("{stack}-{}", other.name()),
    }
}

/// Returns whether a label describes a component of the image.
pub(super) fn is_of_component(name: &str) -> bool {
    name.strip_prefix(OWN).is_some_and(|rest| rest.starts_with(".component."))
}

fn of_component(
    workspace: &Workspace,
    component: &Component,
) -> Result<Vec<(&'static str, String)>, Error> {
    let pin = workspace.pin(component);
    let mut labels = vec![("version", pin.version.clone())];
    match &pin.source {
        Source::Url { url, sha256 } => {
            labels.push(("source", sources::shown_url(url)));
            labels.push(("sha256", digest(*sha256)));
        }
        Source::Sdist { project, sha256 } => {
            labels.push(("source", format!("pkg:pypi/{project}@{}", pin.version)));
            labels.push(("sha256", digest(*sha256)));
        }
        Source::Wheel { sha256, .. } => {
            labels.push(("source", distributions(pin).join(" ")));
            // A single digest covers all wheels.
            labels.push(match pin.sources.is_empty() {
                true => ("sha256", digest(*sha256)),
                false => {
                    let all = sources::identities(pin, &workspace.root)?;
                    let lines: String =
                        all.into_iter().map(|(_, identity)| identity + "\n").collect();
                    ("digest", format!("wheels:{}", Sha256::of_bytes(lines)))
                }
            });
        }
        Source::Git { url, commit, .. } => {
            labels.push(("source", sources::shown_url(url)));
            labels.push(("commit", commit.clone().unwrap_or_else(|| "not pinned".to_owned())));
        }
        // Never a component's main source.
        Source::Crates { .. } => {}
        Source::Folder { path, .. } => {
            labels.push(("source", shown_folder(path).into_owned()));
            labels.push(("digest", sources::identity(pin, &workspace.root)?));
        }
    }
    Ok(labels)
}

/// Returns the package URLs of a pin's distributions. Those of wheels come from the file names,
/// because a component that holds several wheels has a different name than each of them.
fn distributions(pin: &Pin) -> Vec<String> {
    let of = |(_, pin): (&str, &Pin)| match &pin.source {
        Source::Wheel { file, .. } => {
            let version = file.split('-').nth(1).unwrap_or_default();
            crate::wheel::wheel_project(file).map(|project| format!("pkg:pypi/{project}@{version}"))
        }
        Source::Sdist { project, .. } => Some(format!("pkg:pypi/{project}@{}", pin.version)),
        _ => None,
    };
    pin.all_sources().filter_map(of).collect()
}

fn digest(sha256: Option<Sha256>) -> String {
    sha256.map_or_else(|| "not pinned".to_owned(), |digest| digest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ComponentName;

    #[test]
    fn names_every_distribution() {
        let wheel = |version: &str, file: &str| {
            let component = ComponentName::parse("runtime").unwrap();
            Pin::new(component, version, Source::Wheel { file: file.into(), sha256: None })
        };
        let mut pin = wheel("7", "aio_http-3.14.5-cp314-cp314-manylinux_2_28_x86_64.whl");
        assert_eq!(distributions(&pin), ["pkg:pypi/aio-http@3.14.5"]);
        pin.sources.insert("click".into(), wheel("8.5.1", "click-8.5.1-py3-none-any.whl"));
        let sdist = Source::Sdist { project: "docopt".into(), sha256: None };
        pin.sources.insert("docopt".into(), Pin { source: sdist, ..wheel("0.6.2", "") });
        let all = ["pkg:pypi/aio-http@3.14.5", "pkg:pypi/click@8.5.1", "pkg:pypi/docopt@0.6.2"];
        assert_eq!(distributions(&pin), all);
    }
}
