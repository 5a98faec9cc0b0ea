//! The values for the templates of container files, quoted for their context: a shell, `LABEL`,
//! `ENV`. Does not choose the packages or the labels of an image.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::ContainerError;
use super::image_name;
use crate::gpu::GpuTarget;
use crate::rpms::signing::key_file;
use crate::stack::Stack;
use crate::text::quote;
use crate::workspace::{
    AptSource, Flavor, ForeignImage, IndexSource, MANIFEST, PackagesFrom, RocmSource, Workspace,
};

/// dnf's priority of the stack's own repository: ahead of every other.
const OWN_PRIORITY: i64 = 10;

#[derive(Serialize)]
pub(super) struct ContainerValues<'a> {
    pub stack: &'a str,
    /// Empty if the image contains nothing that rocmrpm builds.
    pub chroot: &'a str,
    pub flavor: &'a str,
    pub image: String,
    pub python: &'a str,
    pub risks: &'a [String],
    pub how_to: Vec<String>,
    /// The build folder, if packages come from it.
    pub local: Option<String>,
    /// The file in the local repository with the key that it is signed with; empty if it is not
    /// signed.
    pub local_key: String,
    pub packages: Vec<&'a str>,
    /// The folder with the rendered specs, relative to the workspace.
    pub specs: String,
    pub repositories: Vec<RepositoryValues>,
    pub apt: Option<AptValues>,
    pub indexes: Vec<String>,
    pub labels: Vec<NameAndValue>,
    /// The lines of the file with the versions, escaped for single quotes in a shell.
    pub versions: Vec<String>,
    pub env: Vec<NameAndValue>,
}

#[derive(Serialize)]
pub(super) struct RepositoryValues {
    pub id: String,
    /// Escaped for single quotes in a shell, like `gpg_key`.
    pub url: String,
    pub gpg_key: String,
    /// Whether the metadata is signed as well.
    pub signed_metadata: bool,
    pub priority: i64,
}

#[derive(Serialize)]
pub(super) struct AptValues {
    pub url: String,
    pub suite: String,
    pub gpg_key: String,
    pub packages: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct NameAndValue {
    pub name: String,
    /// Quoted for a container file.
    pub value: String,
}

pub(super) fn repositories(
    workspace: &Workspace,
    from: PackagesFrom,
) -> Result<Vec<RepositoryValues>, ContainerError> {
    let mut repositories: Vec<RepositoryValues> = workspace
        .chroot
        .repositories
        .iter()
        .map(|r| RepositoryValues {
            id: r.id.clone(),
            url: in_quotes(&r.url),
            gpg_key: in_quotes(&r.gpg_key),
            signed_metadata: false,
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
                gpg_key: manifest
                    .signing_key
                    .as_ref()
                    .map_or_else(String::new, |_| in_quotes(&key)),
                signed_metadata: manifest.signing_key.is_some(),
                priority: OWN_PRIORITY,
            });
        }
        PackagesFrom::Copr => {
            let Some(copr) = &workspace.copr else {
                return Err(ContainerError::NoPlace { place: "COPR", file: "copr/project.toml" });
            };
            let copr = copr.of_definition(&workspace.chroot.name);
            repositories.push(RepositoryValues {
                id: copr.repository_id(),
                url: in_quotes(&copr.repository_url()),
                gpg_key: in_quotes(&copr.key_url()),
                signed_metadata: false,
                priority: OWN_PRIORITY,
            });
        }
    }
    Ok(repositories)
}

pub(super) fn apt(workspace: &Workspace) -> Result<Option<&AptSource>, ContainerError> {
    match (workspace.manifest.wheel_rocm, &workspace.provider.ubuntu) {
        (RocmSource::RocmSdk | RocmSource::Bundled, _) => Ok(None),
        (RocmSource::System, Some(source)) => Ok(Some(source)),
        (RocmSource::System, None) => {
            Err(ContainerError::NoRocm { provider: workspace.provider.name.clone() })
        }
    }
}

impl AptValues {
    /// Returns the values of a source for a stack with these GPU targets.
    pub fn new(source: &AptSource, targets: &[GpuTarget]) -> Self {
        let AptSource { url, suite, gpg_key, packages } = source.clone();
        let packages = packages.iter().flat_map(|name| name.for_targets(targets)).collect();
        Self { url, suite, gpg_key, packages }
    }
}

/// Returns pip's options for the indexes. The lock has a digest for everything that is installed,
/// so an outside index cannot substitute another file.
pub(super) fn indexes(workspace: &Workspace, local: bool) -> Vec<String> {
    let rules = &workspace.manifest.index;
    // A closed index is enough by itself.
    let outside = if rules.closed && local { &[][..] } else { &rules.outside };
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

/// Returns the commands that turn the file into a running container.
pub(super) fn how_to(
    stack: &Stack<'_>,
    flavor: &Flavor,
    file: &str,
    local: bool,
    foreign: Option<&ForeignImage>,
) -> Vec<String> {
    let name = image_name(stack, flavor);
    let chroot = &stack.workspace.chroot.name;
    let mut lines = Vec::new();
    if local {
        lines.push(format!("rocmrpm build --chroot {chroot}"));
    }
    if *flavor == Flavor::Ubuntu {
        lines.push(format!("rocmrpm requirements --resolve --chroot {chroot}"));
    }
    if *flavor == Flavor::Toolbox {
        lines.push(format!("rocmrpm build --until spec --chroot {chroot}"));
    }
    lines.push(format!("podman build -t {name} -f {file} ."));
    if *flavor == Flavor::Toolbox {
        lines.push(format!("toolbox create --image localhost/{name} {name}"));
        lines.push(format!("toolbox enter {name}"));
        return lines;
    }
    let devices = match flavor {
        Flavor::Vulkan => "--device /dev/dri",
        _ => "--device /dev/kfd --device /dev/dri",
    };
    let options = foreign
        .map(|foreign| foreign.run.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "))
        .filter(|options| !options.is_empty());
    let options = options.unwrap_or_else(|| "-it".to_owned());
    lines.push(format!("podman run {devices} --group-add keep-groups {options} {name}"));
    lines
}

pub(super) fn quoted_all(values: &BTreeMap<String, String>) -> Vec<NameAndValue> {
    values
        .iter()
        .map(|(name, value)| NameAndValue { name: name.clone(), value: quoted(value) })
        .collect()
}

/// Escapes a value for use between single quotes in a shell.
pub(super) fn in_quotes(value: &str) -> String {
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
    fn escapes_quotes() {
        assert_eq!(in_quotes("file:///it's/$basearch"), r"file:///it'\''s/$basearch");
        assert_eq!(quoted("a \"$b\"\n\\"), "\"a \\\"\\$b\\\" \\\\\"");
    }
}
