//! The container file: rendered from pins, components and a chroot; installs what
//! the components name from the workspace's repository. Building an image of it is
//! podman's or buildah's business.

use serde::Serialize;

use crate::digest::Sha256;
use crate::error::{Diagnose, Error, Kind};
use crate::sources;
use crate::spec::rocm_version;
use crate::stack::Stack;
use crate::template::Templates;
use crate::workspace::{Source, Workspace};

/// The template, part of the program.
const TEMPLATE: &str = include_str!("Containerfile.tera");

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
    NoPackages,
}

impl Diagnose for ContainerError {
    fn kind(&self) -> Kind {
        Kind::Config
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoImage { chroot } => vec![format!(
                "add such as `container-image = \"registry.fedoraproject.org/fedora:43\"` to mock-configs/{chroot}.toml"
            )],
            Self::NoPackages => {
                vec!["add such as `packages = [\"python3-vllm-rocm\"]` below `[container]` in a component.toml".into()]
            }
        }
    }
}

#[derive(Serialize)]
struct Values<'a> {
    stack: &'a str,
    file_name: String,
    image: String,
    chroot: &'a str,
    repository: String,
    packages: Vec<&'a str>,
    repositories: Vec<RepositoryValues<'a>>,
    labels: Vec<Label>,
}

#[derive(Serialize)]
struct RepositoryValues<'a> {
    id: &'a str,
    /// As it stands between single quotes of a shell, and so the key's.
    url: String,
    gpg_key: String,
    priority: i64,
}

#[derive(Serialize)]
struct Label {
    name: String,
    /// Quoted as a container file wants it.
    value: String,
}

/// Returns the container file's name for a chroot: `Containerfile.fedora43`.
pub fn file_name(chroot: &str) -> String {
    format!("Containerfile.{}", chroot.replace('-', ""))
}

/// Renders the container file for the workspace's chosen chroot. The same workspace
/// gives the same bytes, whether or not anything was built.
pub fn render(stack: &Stack<'_>) -> Result<String, Error> {
    let workspace = stack.workspace;
    let chroot = &workspace.chroot;
    if chroot.container_image.is_empty() {
        return Err(ContainerError::NoImage { chroot: chroot.name.clone() }.into());
    }
    let mut packages: Vec<&str> =
        stack.order().iter().flat_map(|c| &c.container_packages).map(|at| at.value.as_str()).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Err(ContainerError::NoPackages.into());
    }
    let values = Values {
        stack: &workspace.manifest.name,
        file_name: file_name(&chroot.name),
        image: chroot.container_image.clone(),
        chroot: &chroot.name,
        repository: format!("build/{}/repository", chroot.name),
        packages,
        repositories: chroot
            .repositories
            .iter()
            .map(|r| RepositoryValues {
                id: &r.id,
                url: in_quotes(&r.url),
                gpg_key: in_quotes(&r.gpg_key),
                priority: r.priority,
            })
            .collect(),
        labels: labels(workspace, stack)?,
    };
    let name = "Containerfile.tera";
    Ok(Templates::parse([(name.to_owned(), TEMPLATE.to_owned())])?.render(name, &values)?)
}

/// Lists what went in: every pin with version, origin and digest.
fn labels(workspace: &Workspace, stack: &Stack<'_>) -> Result<Vec<Label>, Error> {
    let mut labels = Vec::new();
    let mut add = |name: String, value: &str| labels.push(Label { name, value: quoted(value) });
    let own = "io.rocmrpm";
    add("org.opencontainers.image.title".into(), &workspace.manifest.name);
    add("org.opencontainers.image.base.name".into(), &workspace.chroot.container_image);
    add(format!("{own}.pins"), &workspace.pins.name);
    add(format!("{own}.pins.sha256"), &Sha256::of_bytes(&workspace.pins.file.text).to_string());
    let dirty = workspace.pins.pins.values().any(|at| at.value.overridden);
    if dirty {
        add(format!("{own}.dirty"), "true");
    }
    let targets: Vec<_> = workspace.manifest.gpu_targets.iter().map(|t| t.as_str()).collect();
    add(format!("{own}.gpu-targets"), &targets.join(" "));
    let rocm = format!("{} {}", workspace.provider.name, rocm_version(&workspace.provider)?);
    add(format!("{own}.rocm"), &rocm);
    for component in stack.order() {
        let pin = workspace.pin(component);
        let name = |what: &str| format!("{own}.component.{}.{what}", component.name);
        add(name("version"), &pin.version);
        match &pin.source {
            Source::Url { url, sha256 } => {
                add(name("source"), &sources::shown_url(url));
                add(name("sha256"), &digest(*sha256));
            }
            Source::Sdist { project, sha256 } => {
                add(name("source"), &format!("pkg:pypi/{project}@{}", pin.version));
                add(name("sha256"), &digest(*sha256));
            }
            Source::Git { url, commit, .. } => {
                add(name("source"), &sources::shown_url(url));
                add(name("commit"), commit.as_deref().unwrap_or("not pinned"));
            }
            // Never a component's main source.
            Source::Crates { .. } => {}
            Source::Folder { path } => {
                add(name("source"), &path.to_string_lossy());
                add(name("digest"), &sources::identity(pin, &workspace.root)?);
            }
        }
    }
    Ok(labels)
}

fn digest(sha256: Option<Sha256>) -> String {
    sha256.map_or_else(|| "not pinned".to_owned(), |digest| digest.to_string())
}

/// Writes a value so that it can stand between single quotes of a shell.
fn in_quotes(value: &str) -> String {
    value.replace('\'', r"'\''")
}

/// Quotes a value for `LABEL`. Source: Dockerfile reference, "LABEL" and
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
        assert_eq!(file_name("fedora-43"), "Containerfile.fedora43");
        assert_eq!(in_quotes("file:///it's/$basearch"), r"file:///it'\''s/$basearch");
        assert_eq!(quoted("a \"$b\"\n\\"), "\"a \\\"\\$b\\\" \\\\\"");
    }
}
