//! The container file: rendered from pins, components and a chroot, in flavours; the image that
//! an engine builds of it, and whether an image is what the pins say.

mod check;
mod engine;
mod labels;

pub use check::{Difference, check};
pub use engine::{Engine, EngineError};

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Diagnose, Error, Kind};
use crate::rpms::signing::key_file;
use crate::stack::Stack;
use crate::template::Templates;
use crate::workspace::{
    AptSource, Component, Container, Flavour, IndexSource, MANIFEST, PackagesFrom, RocmSource, Workspace,
};

/// The templates, part of the program.
const TEMPLATES: [(&str, &str); 8] = [
    ("env.tera", include_str!("templates/env.tera")),
    ("fedora.tera", include_str!("templates/fedora.tera")),
    ("head.tera", include_str!("templates/head.tera")),
    ("labels.tera", include_str!("templates/labels.tera")),
    ("others.tera", include_str!("templates/others.tera")),
    ("rpms.tera", include_str!("templates/rpms.tera")),
    ("ubuntu.tera", include_str!("templates/ubuntu.tera")),
    ("user.tera", include_str!("templates/user.tera")),
];

/// dnf's priority of the stack's own repository: before every other.
const OWN_PRIORITY: i64 = 10;

/// Releases of Ubuntu by their Python. Source: the package `python3` of each release.
const UBUNTU: [(&str, &str); 2] = [("3.12", "24.04"), ("3.14", "26.04")];

/// AMD's image with vLLM that is known to work with another GPU's name (version 0.10.2rc1 with
/// ROCm 7.1.1, as of 2025-12-06).
const SPOOF_BASE: &str =
    "docker.io/rocm/vllm-dev@sha256:a92fa9cb915027468e85e147f4dd1c87f026d7974610280546a2a1f94a146889";

/// Ollama's image for AMD GPUs; upstream moves the tag.
const OLLAMA_BASE: &str = "docker.io/ollama/ollama:rocm";

/// Why there is no container file.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The chroot names no image to start from.
    #[error("the chroot `{chroot}` has no `container-image` to start from")]
    NoImage {
        /// The chroot.
        chroot: String,
    },
    /// No component says what belongs into the image.
    #[error("no component names packages for the image")]
    NoPackages {
        /// The key that would.
        key: &'static str,
        /// Such a package.
        example: &'static str,
    },
    /// No release of Ubuntu is known to have the chroot's Python.
    #[error("no release of Ubuntu is known to have Python {python}, which the wheels are for")]
    NoUbuntu {
        /// The Python.
        python: String,
    },
    /// The wheels want the system's ROCm, and the provider has none for Ubuntu.
    #[error("the ROCm provider `{provider}` has no packages for Ubuntu")]
    NoRocm {
        /// The provider.
        provider: String,
    },
    /// Packages are to come from a place that the workspace does not name.
    #[error("the container file's packages are to come from {place}, which the workspace does not name")]
    NoPlace {
        /// The place.
        place: &'static str,
        /// Where it would be named.
        file: &'static str,
    },
}

impl Diagnose for ContainerError {
    fn kind(&self) -> Kind {
        Kind::Config
    }

    fn hints(&self) -> Vec<String> {
        vec![match self {
            Self::NoImage { chroot } => format!(
                "add such as `container-image = \"registry.fedoraproject.org/fedora:43\"` to mock-configs/{chroot}.toml"
            ),
            Self::NoPackages { key, example } => {
                format!("add such as `{key} = [\"{example}\"]` below `[container]` in a component.toml")
            }
            Self::NoUbuntu { .. } => {
                "name an image that has it, as `base` below `[container.ubuntu]` in rocmrpm.toml".into()
            }
            Self::NoRocm { provider } => format!(
                "add `[ubuntu]` with url, suite, gpg-key and packages to mock-configs/rocm/{provider}.toml, or state `rocm = \"rocm-sdk\"` below `[wheels]` in rocmrpm.toml"
            ),
            Self::NoPlace { file, .. } => format!("name it in {file}, or state `from = \"local\"`"),
        }]
    }
}

#[derive(Serialize)]
struct Values<'a> {
    stack: &'a str,
    /// Empty where the image holds nothing that we build.
    chroot: &'a str,
    flavour: &'a str,
    image: String,
    python: &'a str,
    risks: &'a [String],
    how_to: Vec<String>,
    /// The build folder, where packages come from it.
    local: Option<String>,
    /// The key that the local repository is signed with, a file in it; empty if it is not.
    local_key: String,
    packages: Vec<&'a str>,
    repositories: Vec<RepositoryValues>,
    apt: Option<AptValues>,
    indexes: Vec<String>,
    labels: Vec<NameAndValue>,
    env: Vec<NameAndValue>,
}

#[derive(Serialize)]
struct RepositoryValues {
    id: String,
    /// As it stands between single quotes of a shell, and so the key's.
    url: String,
    gpg_key: String,
    priority: i64,
}

#[derive(Serialize)]
struct AptValues {
    url: String,
    suite: String,
    gpg_key: String,
    packages: Vec<String>,
}

#[derive(Serialize)]
struct NameAndValue {
    name: String,
    /// Quoted as a container file wants it.
    value: String,
}

/// Returns the name of a flavour's container file: `Containerfile.fedora43` for the chroot's own
/// image, `Containerfile.fedora43-ubuntu`, and `Containerfile.ollama` where no chroot takes part.
pub fn file_name(chroot: &str, flavour: Flavour) -> String {
    let chroot = chroot.replace('-', "");
    match flavour {
        Flavour::Fedora => format!("Containerfile.{chroot}"),
        Flavour::Ubuntu | Flavour::Vulkan => format!("Containerfile.{chroot}-{}", flavour.name()),
        Flavour::Spoof | Flavour::Ollama => format!("Containerfile.{}", flavour.name()),
    }
}

/// Returns the name that the image of a flavour gets where nobody asks for another.
pub fn image_name(stack: &Stack<'_>, flavour: Flavour) -> String {
    labels::title(&stack.workspace.manifest.name, flavour)
}

/// Renders the container file of a flavour for the workspace's chosen chroot. The same workspace
/// gives the same bytes, whether or not anything was built.
pub fn render(stack: &Stack<'_>, flavour: Flavour) -> Result<String, Error> {
    let workspace = stack.workspace;
    let settings = workspace.manifest.containers.get(&flavour).cloned().unwrap_or_default();
    let image = base(workspace, flavour, &settings)?;
    let risks = risks(flavour, &image);
    let (components, packages) = packages(stack, flavour)?;
    let labels = labels::labels(stack, flavour, &components, &risks)?;
    let file = file_name(&workspace.chroot.name, flavour);
    let built_here = flavour.is_built_here();
    let local = built_here && settings.from == PackagesFrom::Local;
    let apt = if flavour == Flavour::Ubuntu { apt(workspace)? } else { None };
    let values = Values {
        stack: &workspace.manifest.name,
        chroot: if built_here { &workspace.chroot.name } else { "" },
        flavour: flavour.name(),
        image: from_line(&image),
        python: &workspace.chroot.python,
        risks: &risks,
        how_to: how_to(stack, flavour, &file, local),
        local: local.then(|| format!("build/{}", workspace.chroot.name)),
        local_key: workspace
            .manifest
            .signing_key
            .as_ref()
            .map_or_else(String::new, |_| key_file(&workspace.manifest.name)),
        packages,
        repositories: repositories(workspace, settings.from)?,
        apt: apt.map(AptValues::from),
        indexes: indexes(workspace, local),
        labels: quoted_all(&labels),
        env: quoted_all(&environment(flavour, &settings)),
    };
    let template = match flavour {
        Flavour::Fedora | Flavour::Vulkan => "fedora.tera",
        Flavour::Ubuntu => "ubuntu.tera",
        Flavour::Spoof | Flavour::Ollama => "others.tera",
    };
    // Where one ends, the template that includes it ends the line.
    let templates = TEMPLATES.map(|(name, text)| (name.to_owned(), text.trim_end().to_owned()));
    Ok(Templates::parse(templates)?.render(template, &values)? + "\n")
}

/// Returns the labels that an image of a flavour has to have.
fn wanted_labels(stack: &Stack<'_>, flavour: Flavour) -> Result<BTreeMap<String, String>, Error> {
    let settings = stack.workspace.manifest.containers.get(&flavour).cloned().unwrap_or_default();
    let image = base(stack.workspace, flavour, &settings)?;
    let (components, _) = packages(stack, flavour)?;
    let mut wanted = labels::labels(stack, flavour, &components, &risks(flavour, &image))?;
    wanted.insert("org.opencontainers.image.base.name".to_owned(), from_line(&image));
    Ok(wanted)
}

fn base(workspace: &Workspace, flavour: Flavour, settings: &Container) -> Result<String, ContainerError> {
    if let Some(base) = &settings.base {
        return Ok(base.clone());
    }
    let chroot = &workspace.chroot;
    match flavour {
        Flavour::Fedora | Flavour::Vulkan if chroot.container_image.is_empty() => {
            Err(ContainerError::NoImage { chroot: chroot.name.clone() })
        }
        Flavour::Fedora | Flavour::Vulkan => Ok(chroot.container_image.clone()),
        Flavour::Ubuntu => {
            let release = UBUNTU.iter().find(|(python, _)| *python == chroot.python);
            let (_, release) =
                release.ok_or_else(|| ContainerError::NoUbuntu { python: chroot.python.clone() })?;
            Ok(format!("docker.io/library/ubuntu:{release}"))
        }
        Flavour::Spoof => Ok(SPOOF_BASE.to_owned()),
        Flavour::Ollama => Ok(OLLAMA_BASE.to_owned()),
    }
}

/// Returns an image as `FROM` takes it: engines refuse a tag beside a digest, which says more.
fn from_line(image: &str) -> String {
    let Some((name, digest)) = image.split_once('@') else { return image.to_owned() };
    let (path, last) = name.rsplit_once('/').map_or(("", name), |(path, last)| (path, last));
    let last = last.split(':').next().unwrap_or(last);
    if path.is_empty() { format!("{last}@{digest}") } else { format!("{path}/{last}@{digest}") }
}

/// Says what one takes on with an image.
fn risks(flavour: Flavour, image: &str) -> Vec<String> {
    let mut risks: Vec<String> = match flavour {
        Flavour::Fedora => Vec::new(),
        Flavour::Ubuntu => vec!["wheels that were built on Fedora, on Ubuntu's libraries: a fallback".into()],
        Flavour::Vulkan => vec![
            "no ROCm and no vLLM: llama.cpp by Vulkan, whose prompts are fast and whose tokens come slower than by HIP".into(),
        ],
        Flavour::Spoof => vec![
            "runs code for gfx1100 on gfx1151 (HSA_OVERRIDE_GFX_VERSION): wrong results, illegal instructions and crashes are possible".into(),
            "not built, not inspected and not supported by this stack".into(),
        ],
        Flavour::Ollama => {
            vec!["built by Ollama: not built, not inspected and not supported by this stack".into()]
        }
    };
    if !flavour.is_built_here() && !image.contains('@') {
        risks.push("the base image is not pinned by a digest: it can be another one tomorrow".into());
    }
    risks
}

/// Returns the components that an image holds, and the packages that bring them.
fn packages<'w>(
    stack: &Stack<'w>,
    flavour: Flavour,
) -> Result<(Vec<&'w Component>, Vec<&'w str>), ContainerError> {
    let key = match flavour {
        Flavour::Fedora | Flavour::Ubuntu => "packages",
        Flavour::Vulkan => "vulkan-packages",
        Flavour::Spoof | Flavour::Ollama => return Ok((Vec::new(), Vec::new())),
    };
    let vulkan = flavour == Flavour::Vulkan;
    let of = |c: &'w Component| if vulkan { &c.vulkan_packages } else { &c.container_packages };
    let components: Vec<&Component> =
        stack.order().iter().copied().filter(|c| !vulkan || !of(c).is_empty()).collect();
    let mut packages: Vec<&str> = components.iter().flat_map(|c| of(c)).map(|at| at.value.as_str()).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        let example = if vulkan { "llama-cpp-vulkan" } else { "python3-vllm-rocm" };
        return Err(ContainerError::NoPackages { key, example });
    }
    Ok((components, packages))
}

/// Tells whether there is something to put into the image of a flavour.
pub fn has_content(stack: &Stack<'_>, flavour: Flavour) -> bool {
    packages(stack, flavour).is_ok()
}

fn repositories(workspace: &Workspace, from: PackagesFrom) -> Result<Vec<RepositoryValues>, ContainerError> {
    let mut repositories: Vec<RepositoryValues> = workspace
        .chroot
        .repositories
        .iter()
        .map(|r| RepositoryValues {
            id: r.id.clone(),
            url: in_quotes(&r.url),
            gpg_key: in_quotes(&r.gpg_key),
            priority: r.priority,
        })
        .collect();
    match from {
        PackagesFrom::Local => {}
        PackagesFrom::Published => {
            let manifest = &workspace.manifest;
            let Some(url) = &manifest.repository.url else {
                let place = "the published repository (`[repository] url`)";
                return Err(ContainerError::NoPlace { place, file: MANIFEST });
            };
            let key = format!("{}/{}", url.trim_end_matches('/'), key_file(&manifest.name));
            repositories.push(RepositoryValues {
                id: manifest.name.clone(),
                url: in_quotes(url),
                gpg_key: manifest.signing_key.as_ref().map_or_else(String::new, |_| in_quotes(&key)),
                priority: OWN_PRIORITY,
            });
        }
        PackagesFrom::Copr => {
            let Some(copr) = &workspace.copr else {
                return Err(ContainerError::NoPlace { place: "COPR", file: "copr/project.toml" });
            };
            // Source: frontend/coprs_frontend/coprs/templates/coprs/copr_dir.repo of fedora-copr/copr.
            let url =
                format!("https://download.copr.fedorainfracloud.org/results/{}/{}", copr.owner, copr.project);
            repositories.push(RepositoryValues {
                id: workspace.manifest.name.clone(),
                url: in_quotes(&format!("{url}/fedora-$releasever-$basearch/")),
                gpg_key: in_quotes(&format!("{url}/pubkey.gpg")),
                priority: OWN_PRIORITY,
            });
        }
    }
    Ok(repositories)
}

fn apt(workspace: &Workspace) -> Result<Option<&AptSource>, ContainerError> {
    match (workspace.manifest.wheel_rocm, &workspace.provider.ubuntu) {
        (RocmSource::RocmSdk, _) => Ok(None),
        (RocmSource::System, Some(source)) => Ok(Some(source)),
        (RocmSource::System, None) => {
            Err(ContainerError::NoRocm { provider: workspace.provider.name.clone() })
        }
    }
}

impl From<&AptSource> for AptValues {
    fn from(source: &AptSource) -> Self {
        let AptSource { url, suite, gpg_key, packages } = source.clone();
        Self { url, suite, gpg_key, packages }
    }
}

/// Returns pip's options for the indexes. What is installed has its digest in the lock, so that
/// an outside index cannot put another file in the place of ours.
fn indexes(workspace: &Workspace, local: bool) -> Vec<String> {
    let outside = &workspace.manifest.outside;
    let own = local.then(|| "file:///run/rocmrpm/index/simple".to_owned());
    let urls = outside.iter().filter_map(|index| match index {
        IndexSource::Url(url) => Some(crate::sources::shown_url(url)),
        IndexSource::Pip => None,
    });
    let all = own.into_iter().chain(urls);
    let pip = outside.contains(&IndexSource::Pip);
    let option = |(n, url): (usize, String)| {
        let option = if n == 0 && !pip { "--index-url" } else { "--extra-index-url" };
        format!("{option} '{}'", in_quotes(&url))
    };
    all.enumerate().map(option).collect()
}

fn environment(flavour: Flavour, settings: &Container) -> BTreeMap<String, String> {
    let mut env = settings.env.clone();
    if flavour == Flavour::Spoof {
        // ROCr's override of what the GPU says it is: gfx1100 is 11.0.0.
        env.entry("HSA_OVERRIDE_GFX_VERSION".to_owned()).or_insert_with(|| "11.0.0".to_owned());
    }
    env
}

/// Returns the commands that lead from the file to a running container.
fn how_to(stack: &Stack<'_>, flavour: Flavour, file: &str, local: bool) -> Vec<String> {
    let name = image_name(stack, flavour);
    let chroot = &stack.workspace.chroot.name;
    let mut lines = Vec::new();
    if local {
        lines.push(format!("rocmrpm build --chroot {chroot}"));
    }
    if flavour == Flavour::Ubuntu {
        lines.push(format!("rocmrpm requirements --resolve --chroot {chroot}"));
    }
    lines.push(format!("podman build -t {name} -f {file} ."));
    let devices = match flavour {
        Flavour::Vulkan => "--device /dev/dri",
        _ => "--device /dev/kfd --device /dev/dri",
    };
    let rest = match flavour {
        Flavour::Ollama => format!("-p 127.0.0.1:11434:11434 -v ollama:/home/rocm/.ollama:U {name}"),
        _ => format!("-it {name}"),
    };
    lines.push(format!("podman run {devices} --group-add keep-groups {rest}"));
    lines
}

fn quoted_all(values: &BTreeMap<String, String>) -> Vec<NameAndValue> {
    values.iter().map(|(name, value)| NameAndValue { name: name.clone(), value: quoted(value) }).collect()
}

/// Writes a value so that it can stand between single quotes of a shell.
fn in_quotes(value: &str) -> String {
    value.replace('\'', r"'\''")
}

/// Quotes a value for `LABEL` and `ENV`. Source: Dockerfile reference, "LABEL" and
/// "Environment replacement".
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '$') {
            text.push('\\');
        }
        text.push(if c.is_control() { ' ' } else { c });
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels() {
        assert_eq!(file_name("fedora-43", Flavour::Fedora), "Containerfile.fedora43");
        assert_eq!(file_name("fedora-43", Flavour::Ubuntu), "Containerfile.fedora43-ubuntu");
        assert_eq!(file_name("fedora-43", Flavour::Spoof), "Containerfile.spoof");
        assert_eq!(in_quotes("file:///it's/$basearch"), r"file:///it'\''s/$basearch");
        assert_eq!(quoted("a \"$b\"\n\\"), "\"a \\\"\\$b\\\" \\\\\"");
    }

    #[test]
    fn a_digest_takes_the_tags_place() {
        assert_eq!(from_line("localhost:5000/a/b:1"), "localhost:5000/a/b:1");
        assert_eq!(from_line("localhost:5000/a/b:1@sha256:00"), "localhost:5000/a/b@sha256:00");
        assert_eq!(from_line("b:1@sha256:00"), "b@sha256:00");
    }
}
