//! Renders the mock config of a chroot from `mock-configs/mock.cfg.tera`. Options for a single
//! build go on mock's command line instead.

use std::path::Path;

use serde::Serialize;

use crate::build::BuildError;
use crate::digest::Sha256;
use crate::template::Templates;
use crate::text::file_url;
use crate::workspace::{Repository, Workspace};

/// The path of the mock config's template in the workspace.
pub(super) const TEMPLATE: &str = "mock-configs/mock.cfg.tera";

/// dnf's priority of the packages that this workspace built: ahead of every other repository.
const LOCAL_PRIORITY: i64 = 10;

/// The first line of a key in the format that dnf reads (RFC 9580, section 6.2).
const KEY_BEGINS: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

#[derive(Serialize)]
struct MockValues<'a> {
    root: String,
    base_config: &'a str,
    dist: &'a str,
    additional_packages: Vec<&'a str>,
    repositories: Vec<RepositoryValues<'a>>,
    macros: Vec<MacroValues<'a>>,
    key_files: Vec<KeyFile>,
}

#[derive(Serialize)]
struct RepositoryValues<'a> {
    id: &'a str,
    url: String,
    gpg_key: String,
    priority: i64,
}

#[derive(Serialize)]
struct MacroValues<'a> {
    name: &'a str,
    value: &'a str,
}

/// A key in a file on this machine.
#[derive(Serialize)]
struct KeyFile {
    path: String,
    text: String,
}

/// Renders the mock config. All components of a chroot share it, and with it mock's cache of the
/// build root.
pub(super) fn render(workspace: &Workspace, repository: &Path) -> Result<String, BuildError> {
    let chroot = &workspace.chroot;
    let text = fs_err::read_to_string(workspace.root.join(TEMPLATE))?;
    let mut repositories = vec![RepositoryValues {
        id: "rocmrpm-local",
        // dnf splits a base URL at spaces and commas, and expands variables at `$`.
        url: file_url(repository),
        gpg_key: String::new(),
        priority: LOCAL_PRIORITY,
    }];
    let mut key_files = Vec::new();
    for repository in &chroot.repositories {
        repositories.push(RepositoryValues {
            id: &repository.id,
            url: repository.url.clone(),
            gpg_key: key_url(workspace, repository, &mut key_files)?,
            priority: repository.priority,
        });
    }
    let macros = chroot.macros.iter();
    let values = MockValues {
        root: root_name(workspace),
        base_config: &chroot.base_config,
        dist: &chroot.dist,
        additional_packages: chroot
            .additional_packages
            .iter()
            .map(|at| at.value.as_str())
            .collect(),
        repositories,
        macros: macros.map(|(name, value)| MacroValues { name, value }).collect(),
        key_files,
    };
    Ok(Templates::parse([(TEMPLATE.to_owned(), text)])?.render(TEMPLATE, &values)?)
}

/// Returns the name of the build roots and of their cache. It is unique to this workspace, because
/// another checkout may have other definitions.
fn root_name(workspace: &Workspace) -> String {
    let folder = fs_err::canonicalize(&workspace.root).unwrap_or_else(|_| workspace.root.clone());
    let digest = Sha256::of_bytes(folder.as_os_str().as_encoded_bytes()).to_string();
    format!("{}-{}-{}", workspace.manifest.name, workspace.chroot.name, &digest[..8])
}

/// Returns the URL of a repository's key, and collects the text of a key that is in a file.
fn key_url(
    workspace: &Workspace,
    repository: &Repository,
    files: &mut Vec<KeyFile>,
) -> Result<String, BuildError> {
    let key = &repository.gpg_key;
    // The package distribution-gpg-keys is in the bootstrap root as well.
    let seen_everywhere = key.starts_with("file:///usr/share/distribution-gpg-keys/");
    if key.is_empty() || seen_everywhere || key.contains("://") && !key.starts_with("file://") {
        return Ok(key.clone());
    }
    let path = workspace.root.join(key.trim_start_matches("file://"));
    let path = std::path::absolute(path)?;
    let wrong = |message: String| BuildError::Chroot {
        message,
        help: format!(
            "fix `gpg-key` of the repository `{}` in {}",
            repository.id, workspace.chroot.file.name
        ),
    };
    let text = fs_err::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    if !text.trim_start().starts_with(KEY_BEGINS) {
        return Err(wrong(format!("`{}` is not an armored public key", path.display())));
    }
    files.push(KeyFile { path: path.to_string_lossy().into_owned(), text });
    Ok(file_url(&path))
}
