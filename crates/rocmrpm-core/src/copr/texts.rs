//! Renders the description and the instructions of a project with the current pins. Does not send them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::CoprError;
use super::project_chroot::ProjectChroot;
use crate::error::Error;
use crate::template::Templates;
use crate::workspace::document::At;
use crate::workspace::{CoprProject, Workspace};

/// The rendered texts of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The description of the project.
    pub description: String,
    /// The instructions for its users.
    pub instructions: String,
}

#[derive(Serialize)]
struct ProjectValues<'a> {
    owner: &'a str,
    project: &'a str,
    stack: &'a str,
    gpu_targets: Vec<&'a str>,
    /// The versions of all pins of the set; their names have `_` instead of `-`.
    versions: BTreeMap<String, &'a str>,
    chroots: Vec<ChrootValues<'a>>,
}

#[derive(Serialize)]
struct ChrootValues<'a> {
    name: &'a str,
    definition: &'a str,
    release: &'a str,
    arch: &'a str,
    python: &'a str,
    repositories: Vec<RepositoryValues<'a>>,
}

#[derive(Serialize)]
struct RepositoryValues<'a> {
    id: &'a str,
    url: &'a str,
    gpg_key: &'a str,
    priority: i64,
}

/// Renders the description and the instructions with the current pins.
pub fn rendered(project: &CoprProject, places: &[ProjectChroot<'_>]) -> Result<Texts, Error> {
    let Some(first) = places.first() else { return Err(CoprError::NoProjectFile.into()) };
    let Workspace { manifest, pins, .. } = first.workspace;
    let chroots = places.iter().map(|place| {
        let chroot = &place.workspace.chroot;
        let repositories = chroot.repositories.iter();
        ChrootValues {
            name: &place.chroot.name.value,
            definition: &chroot.name,
            release: &chroot.release,
            arch: &chroot.arch,
            python: &chroot.python,
            repositories: repositories
                .map(|r| RepositoryValues {
                    id: &r.id,
                    url: &r.url,
                    gpg_key: &r.gpg_key,
                    priority: r.priority,
                })
                .collect(),
        }
    });
    let versions =
        pins.pins.iter().map(|(name, at)| (name.as_str().replace('-', "_"), &*at.value.version));
    let values = ProjectValues {
        owner: &project.owner,
        project: &project.project,
        stack: &manifest.name,
        gpu_targets: manifest.gpu_targets.iter().map(|target| target.as_str()).collect(),
        versions: versions.collect(),
        chroots: chroots.collect(),
    };
    let render = |key: &str, text: &At<String>| -> Result<String, Error> {
        let name = format!("{} ({key})", project.file.name);
        let templates = Templates::parse([(name.clone(), text.value.clone())])?;
        Ok(templates.render(&name, &values)?)
    };
    Ok(Texts {
        description: render("description", &project.description)?,
        instructions: render("instructions", &project.instructions)?,
    })
}
