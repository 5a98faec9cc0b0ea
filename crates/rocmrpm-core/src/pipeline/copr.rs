//! Builds and publishes on COPR, in the project that `copr/project.toml` describes.

use super::Pipeline;
use crate::copr::{
    Client, CoprBuilder, CoprError, MacrosPackage, ProjectChroot, Published, get_ready, publish,
};
use crate::error::Error;
use crate::evidence::OpenQuestion;
use crate::production::{Order, Production, produce_with};
use crate::sources::Fetcher;
use crate::stack::Stack;
use crate::style::count;
use crate::workspace::copr::AFTER_INSPECTION;
use crate::workspace::{CoprProject, Workspace};

/// What users of a project on COPR get.
pub(super) enum OnCopr {
    /// COPR publishes new builds now.
    Published,
    /// What they had before.
    Unchanged,
    /// A person has to decide first.
    Question(OpenQuestion),
}

impl Pipeline<'_> {
    pub(super) fn client(&self, project: &CoprProject) -> Result<Client<'_>, CoprError> {
        Client::new(None, &project.full_name(), self.events)
    }

    pub(super) fn produce_on_copr<'s, 'w>(
        &self,
        stack: &'s Stack<'w>,
        order: &Order,
        fetcher: &Fetcher<'_>,
    ) -> Result<Production<'s, 'w>, Error> {
        let project = project_of(stack.workspace, &stack.workspace.chroot.name)?;
        let client = self.client(&project)?;
        let builder = CoprBuilder::new(&client, &project, stack.workspace, self.events)?;
        let get_ready = || {
            let place = ProjectChroot::new(builder.chroot, stack.workspace)?;
            get_ready(&builder, std::slice::from_ref(&place), &place)
        };
        produce_with((&builder, None), get_ready, stack, order, fetcher, self.events)
    }

    /// Makes COPR publish the builds of all chroots, unless it publishes every build at once.
    pub(super) fn publish_on_copr(&self, workspace: &Workspace) -> Result<OnCopr, Error> {
        let project = project_of(workspace, &workspace.chroot.name)?;
        if project.publish != AFTER_INSPECTION {
            return Ok(OnCopr::Unchanged);
        }
        let client = self.client(&project)?;
        let builds = self.place.root.join("build");
        let obstacles = match publish(&client, &builds, &MacrosPackage::name_of(workspace))? {
            Published::Already => return Ok(OnCopr::Unchanged),
            Published::Asked => return Ok(OnCopr::Published),
            Published::Not(obstacles) => obstacles,
        };
        let numbers: Vec<String> = obstacles.iter().map(|one| one.build.to_string()).collect();
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let help = match obstacles.iter().all(|one| one.over) {
            true => client.command(&[&["delete-build"], &numbers[..]].concat()),
            false => "wait until COPR has finished them".to_owned(),
        };
        Ok(OnCopr::Question(OpenQuestion {
            what: format!(
                "COPR would also publish {} without inspection: {}",
                count(numbers.len(), "build"),
                numbers.join(", ")
            ),
            help: format!("{help}; then run the pipeline again"),
            acceptable: false,
        }))
    }
}

/// Returns the project that builds for a chroot, with only that chroot.
///
/// # Errors
///
/// Fails if the workspace has no project on COPR, or if the project does not have the chroot.
pub(super) fn project_of(workspace: &Workspace, name: &str) -> Result<CoprProject, CoprError> {
    let all = workspace.copr.as_ref().ok_or(CoprError::NoProjectFile)?;
    let mut project = all.of_definition(name);
    project.chroots.retain(|chroot| chroot.definition == name);
    if project.chroots.is_empty() {
        let known = all.chroots.iter().map(|chroot| chroot.definition.clone()).collect();
        return Err(CoprError::NotInProject { chroot: name.to_owned(), known });
    }
    Ok(project)
}
