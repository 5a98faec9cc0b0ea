//! Container files: renders them from pins, components and a chroot in several flavors, builds
//! images with an engine, and checks whether an image matches the pins. It does not build RPMs or
//! wheels.

mod check;
mod engine;
mod error;
mod files;
mod images;
mod labels;
mod launch;
mod prerequisites;
mod spoof;
mod values;

pub use check::{Difference, check};
pub use engine::{Engine, EngineError};
pub use error::ContainerError;
pub use files::{wanted, write, write_all};
pub use images::{ImageError, lock_images};
pub use launch::{Launch, LaunchError, Runner};
pub use prerequisites::check_prerequisites;

use std::collections::BTreeMap;

use crate::error::Error;
use crate::rpms::signing::key_file;
use crate::stack::Stack;
use crate::template::Templates;
use crate::text::visible;
use crate::tier::Tier;
use crate::workspace::{Component, Container, Flavor, PackagesFrom, Workspace};
use values::{
    AptValues, ContainerValues, apt, how_to, in_quotes, indexes, quoted_all, repositories,
};

/// The built-in templates.
const TEMPLATES: [(&str, &str); 11] = [
    ("env.tera", include_str!("templates/env.tera")),
    ("fedora.tera", include_str!("templates/fedora.tera")),
    ("head.tera", include_str!("templates/head.tera")),
    ("labels.tera", include_str!("templates/labels.tera")),
    ("others.tera", include_str!("templates/others.tera")),
    ("repositories.tera", include_str!("templates/repositories.tera")),
    ("rpms.tera", include_str!("templates/rpms.tera")),
    ("toolbox.tera", include_str!("templates/toolbox.tera")),
    ("ubuntu.tera", include_str!("templates/ubuntu.tera")),
    ("user.tera", include_str!("templates/user.tera")),
    ("versions.tera", include_str!("templates/versions.tera")),
];

/// Releases of Ubuntu by their version of Python. Source: the package `python3` of each release.
const UBUNTU: [(&str, &str); 2] = [("3.12", "24.04"), ("3.14", "26.04")];

/// Fedora's packages that rocmrpm runs, for the flavor `toolbox`: those that its own package requires
/// or recommends, and `dnf builddep`. A test compares the two.
pub const TOOLS: &[&str] = &[
    "cargo",
    "copr-cli",
    "createrepo_c",
    "curl",
    "dnf5",
    "dnf5-plugins",
    "git-core",
    "gnupg2",
    "mock",
    "python3",
    "rpm-build",
    "rpm-sign",
    "uv",
];

/// Returns the name of a flavor's container file: `Containerfile.fedora43` for the chroot's own
/// image, `Containerfile.fedora43-ubuntu`, and `Containerfile.NAME` for an image that others
/// built.
pub fn file_name(chroot: &str, flavor: &Flavor) -> String {
    let chroot = chroot.replace('-', "");
    match flavor {
        Flavor::Fedora => format!("Containerfile.{chroot}"),
        Flavor::Ubuntu | Flavor::Vulkan | Flavor::Toolbox => {
            format!("Containerfile.{chroot}-{}", flavor.name())
        }
        Flavor::Other(name) => format!("Containerfile.{name}"),
    }
}

/// Returns the default name of a flavor's image.
pub fn image_name(stack: &Stack<'_>, flavor: &Flavor) -> String {
    labels::title(&stack.workspace.manifest.name, flavor)
}

/// Renders the container file of a flavor for the workspace's chosen chroot. The output depends
/// only on the workspace, not on what has been built.
pub fn render(stack: &Stack<'_>, flavor: &Flavor) -> Result<String, Error> {
    let workspace = stack.workspace;
    let settings = workspace.manifest.containers.get(flavor).cloned().unwrap_or_default();
    let image = pinned(workspace, base(workspace, flavor, &settings)?);
    let env = &settings.env;
    let risks = risks(workspace, &settings, &image, flavor);
    let (components, packages) = packages(stack, flavor)?;
    let labels = labels::labels(stack, flavor, &components, &risks, contents(&settings))?;
    let file = file_name(&workspace.chroot.name, flavor);
    let local = flavor.has_builds() && settings.from == PackagesFrom::Local;
    if matches!(flavor, Flavor::Fedora | Flavor::Vulkan | Flavor::Toolbox) {
        workspace.chroot.check_keys()?;
    }
    let apt = if *flavor == Flavor::Ubuntu { apt(workspace)? } else { None };
    let values = ContainerValues {
        stack: &workspace.manifest.name,
        chroot: if flavor.is_for_chroot() { &workspace.chroot.name } else { "" },
        flavor: flavor.name(),
        image: from_line(&image),
        python: &workspace.chroot.python,
        risks: &risks,
        how_to: how_to(stack, flavor, &file, local, settings.foreign.as_ref()),
        local: local.then(|| format!("build/{}", workspace.chroot.name)),
        local_key: workspace
            .manifest
            .signing_key
            .as_ref()
            .map_or_else(String::new, |_| key_file(&workspace.manifest.name)),
        packages,
        specs: format!("build/{}/specs", workspace.chroot.name),
        repositories: repositories(workspace, settings.from)?,
        apt: apt.map(|source| AptValues::new(source, &workspace.manifest.gpu_targets)),
        indexes: indexes(workspace, local),
        versions: labels::versions(&labels).iter().map(|line| in_quotes(line)).collect(),
        labels: quoted_all(&labels),
        env: quoted_all(env),
    };
    let template = match flavor {
        Flavor::Fedora | Flavor::Vulkan => "fedora.tera",
        Flavor::Ubuntu => "ubuntu.tera",
        Flavor::Toolbox => "toolbox.tera",
        Flavor::Other(_) => "others.tera",
    };
    // The including template ends the line after an included one.
    let templates = TEMPLATES.map(|(name, text)| (name.to_owned(), text.trim_end().to_owned()));
    Ok(Templates::parse(templates)?.render(template, &values)? + "\n")
}

/// Returns the labels with the tier of each component of an image, from the tiers of the packages
/// that it installs. A container file does not have them, because they depend on the build.
pub fn tier_labels(
    stack: &Stack<'_>,
    flavor: &Flavor,
    tiers: &BTreeMap<String, Option<Tier>>,
) -> Result<BTreeMap<String, String>, Error> {
    let (components, _) = packages(stack, flavor)?;
    Ok(labels::tiers(&components, tiers))
}

/// Returns the labels that an image of a flavor must have.
fn wanted_labels(stack: &Stack<'_>, flavor: &Flavor) -> Result<BTreeMap<String, String>, Error> {
    let settings = stack.workspace.manifest.containers.get(flavor).cloned().unwrap_or_default();
    let image = pinned(stack.workspace, base(stack.workspace, flavor, &settings)?);
    let (components, _) = packages(stack, flavor)?;
    let risks = risks(stack.workspace, &settings, &image, flavor);
    let mut wanted = labels::labels(stack, flavor, &components, &risks, contents(&settings))?;
    wanted.insert("org.opencontainers.image.base.name".to_owned(), from_line(&image));
    Ok(wanted)
}

fn base(
    workspace: &Workspace,
    flavor: &Flavor,
    settings: &Container,
) -> Result<String, ContainerError> {
    if let Flavor::Other(name) = flavor {
        if settings.foreign.is_none() {
            return Err(unknown(workspace, name));
        }
        let presented = settings.env.get(spoof::VARIABLE);
        if let Some(version) = presented.filter(|v| spoof::is_useless(workspace, v)) {
            let presented = visible(version);
            return Err(ContainerError::NoSpoof { flavor: name.clone(), presented });
        }
    }
    if let Some(base) = &settings.base {
        return Ok(base.clone());
    }
    let chroot = &workspace.chroot;
    match flavor {
        Flavor::Fedora | Flavor::Vulkan if chroot.container_image.is_empty() => {
            Err(ContainerError::NoImage { chroot: chroot.name.clone() })
        }
        Flavor::Fedora | Flavor::Vulkan => Ok(chroot.container_image.clone()),
        Flavor::Ubuntu => {
            let release = UBUNTU.iter().find(|(python, _)| *python == chroot.python);
            let (_, release) = release
                .ok_or_else(|| ContainerError::NoUbuntu { python: chroot.python.clone() })?;
            Ok(format!("docker.io/library/ubuntu:{release}"))
        }
        Flavor::Toolbox if chroot.container_image.is_empty() => {
            Err(ContainerError::NoImage { chroot: chroot.name.clone() })
        }
        // Fedora publishes both under the same host and with the same tags.
        Flavor::Toolbox => Ok(chroot.container_image.replace("/fedora:", "/fedora-toolbox:")),
        Flavor::Other(name) => Err(unknown(workspace, name)),
    }
}

/// Returns an image with the digest in the lock of the pin set, unless its name has one.
fn pinned(workspace: &Workspace, image: String) -> String {
    match workspace.pins.images.get(&image) {
        Some(digest) => format!("{image}@sha256:{digest}"),
        None => image,
    }
}

/// Returns an error if neither rocmrpm nor the workspace defines a flavor.
pub fn check_flavor(workspace: &Workspace, flavor: &Flavor) -> Result<(), ContainerError> {
    match flavor {
        Flavor::Other(name) if !workspace.manifest.containers.contains_key(flavor) => {
            Err(unknown(workspace, name))
        }
        _ => Ok(()),
    }
}

/// Returns the error for a flavor that the workspace does not define.
fn unknown(workspace: &Workspace, name: &str) -> ContainerError {
    let own = Flavor::OWN.iter().chain(workspace.manifest.containers.keys());
    let mut known: Vec<String> = own.map(|flavor| flavor.name().to_owned()).collect();
    known.sort_unstable();
    known.dedup();
    ContainerError::UnknownFlavor { flavor: visible(name), known }
}

/// Returns what those who built an image state about its contents.
fn contents(settings: &Container) -> Option<&str> {
    settings.foreign.as_ref()?.contents.as_deref()
}

/// Returns an image in the form that `FROM` accepts: engines reject a tag next to a digest, so only
/// the digest is kept.
fn from_line(image: &str) -> String {
    let Some((name, digest)) = image.split_once('@') else { return image.to_owned() };
    let (path, last) = name.rsplit_once('/').map_or(("", name), |(path, last)| (path, last));
    let last = last.split(':').next().unwrap_or(last);
    if path.is_empty() { format!("{last}@{digest}") } else { format!("{path}/{last}@{digest}") }
}

/// Lists the risks of using an image.
fn risks(workspace: &Workspace, settings: &Container, image: &str, flavor: &Flavor) -> Vec<String> {
    let mut risks: Vec<String> = match flavor {
        Flavor::Fedora | Flavor::Toolbox => Vec::new(),
        Flavor::Ubuntu => {
            vec!["wheels built on Fedora run with Ubuntu's libraries: a fallback".into()]
        }
        Flavor::Vulkan => vec![
            "no ROCm: programs use Vulkan, which processes prompts fast but generates tokens more slowly than HIP".into(),
        ],
        Flavor::Other(name) => {
            let by = settings.foreign.as_ref().map_or(name, |foreign| &foreign.built_by);
            vec![format!("built by {by}: not built, not inspected and not supported by this stack")]
        }
    };
    if let Some(presented) = settings.env.get(spoof::VARIABLE) {
        risks.extend(spoof::risk(workspace, presented));
    }
    if !image.contains('@') {
        risks.push("the base image is not pinned by a digest: it can change at any time".into());
    }
    risks
}

/// Returns the components in an image, and the packages that provide them.
fn packages<'w>(
    stack: &Stack<'w>,
    flavor: &Flavor,
) -> Result<(Vec<&'w Component>, Vec<&'w str>), ContainerError> {
    let key = match flavor {
        Flavor::Fedora | Flavor::Ubuntu => "packages",
        Flavor::Vulkan => "vulkan-packages",
        Flavor::Toolbox => return Ok((Vec::new(), TOOLS.to_vec())),
        Flavor::Other(_) => return Ok((Vec::new(), Vec::new())),
    };
    let vulkan = *flavor == Flavor::Vulkan;
    let of = |c: &'w Component| if vulkan { &c.vulkan_packages } else { &c.container_packages };
    // Members generated for a closure do not become wheels.
    let there = |c: &&'w Component| match flavor {
        Flavor::Vulkan => !of(c).is_empty(),
        Flavor::Ubuntu => c.generated.is_none() && !c.outside_images,
        _ => !c.outside_images,
    };
    let components: Vec<&Component> = stack.order().iter().copied().filter(there).collect();
    let mut packages: Vec<&str> =
        components.iter().flat_map(|c| of(c)).map(|at| at.value.as_str()).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        let example = if vulkan { "llama-cpp-vulkan" } else { "python3-vllm-rocm" };
        return Err(ContainerError::NoPackages { key, example });
    }
    Ok((components, packages))
}

/// Returns whether the chosen chroot supports a flavor: there are packages to install, a base
/// image, and ROCm if the flavor needs it.
pub fn is_possible(stack: &Stack<'_>, flavor: &Flavor) -> bool {
    let workspace = stack.workspace;
    let settings = workspace.manifest.containers.get(flavor).cloned().unwrap_or_default();
    packages(stack, flavor).is_ok()
        && base(workspace, flavor, &settings).is_ok()
        && (*flavor != Flavor::Ubuntu || values::apt(workspace).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_container_files_by_chroot_and_flavor() {
        assert_eq!(file_name("fedora-43", &Flavor::Fedora), "Containerfile.fedora43");
        assert_eq!(file_name("fedora-43", &Flavor::Ubuntu), "Containerfile.fedora43-ubuntu");
        assert_eq!(file_name("fedora-43", &Flavor::Other("spoof".into())), "Containerfile.spoof");
    }

    #[test]
    fn from_line_replaces_the_tag_with_the_digest() {
        assert_eq!(from_line("localhost:5000/a/b:1"), "localhost:5000/a/b:1");
        assert_eq!(from_line("localhost:5000/a/b:1@sha256:00"), "localhost:5000/a/b@sha256:00");
        assert_eq!(from_line("b:1@sha256:00"), "b@sha256:00");
    }
}
