//! The accepted results of a stack as one repository: which RPMs are in it while
//! components are built anew, and that no two components bring the same one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::component::ComponentError;
use super::record::Results;
use super::stage::Stage;
use crate::names::ComponentName;
use crate::rpms::RpmError;
use crate::rpms::repository::Repository;
use crate::stack::Stack;

/// The results of a stack during one run. Shared between threads.
pub(super) struct Shelf<'a> {
    stack: &'a Stack<'a>,
    repository: Repository,
    /// The components that this run is to build and has not built yet. One at a time
    /// changes this and the repository.
    pending: Mutex<BTreeSet<ComponentName>>,
}

impl<'a> Shelf<'a> {
    /// Returns the results of a stack of which some components are to be built.
    pub fn new(stack: &'a Stack<'a>, pending: impl IntoIterator<Item = ComponentName>) -> Self {
        let repository = Repository::at(stack.workspace.build_dir().join("repository"));
        Self { stack, repository, pending: Mutex::new(pending.into_iter().collect()) }
    }

    /// Returns the folder of the repository.
    pub fn dir(&self) -> PathBuf {
        self.repository.dir().to_owned()
    }

    /// Brings the repository up to date. What is to be built anyway does not stand in
    /// the way: where an old result of it is damaged, or has the name of a package that
    /// another component brings now, the repository does without.
    pub fn refresh(&self) -> Result<(), RpmError> {
        self.refresh_with(&self.lock())
    }

    /// Takes note that a component's new results are there.
    pub fn accept(&self, component: &ComponentName) -> Result<(), RpmError> {
        let mut pending = self.lock();
        pending.remove(component);
        self.refresh_with(&pending)
    }

    /// Refuses packages that another component has brought already.
    pub fn check_names(&self, component: &ComponentName, rpms: &[PathBuf]) -> Result<(), ComponentError> {
        let pending = self.lock();
        let build_dir = self.stack.workspace.build_dir();
        let others = self.stack.order().iter().filter(|c| c.name != *component && !pending.contains(&c.name));
        for other in others {
            let theirs = Results::of(&build_dir, Stage::Rpm, &other.name).rpms();
            let same =
                rpms.iter().find(|rpm| theirs.iter().any(|their| their.file_name() == rpm.file_name()));
            if let Some(same) = same {
                return Err(ComponentError::SamePackage {
                    component: component.to_string(),
                    other: other.name.to_string(),
                    package: same.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                });
            }
        }
        Ok(())
    }

    fn refresh_with(&self, pending: &BTreeSet<ComponentName>) -> Result<(), RpmError> {
        match self.repository.refresh(&result_rpms(self.stack, &BTreeSet::new())) {
            Err(RpmError::Unreadable { .. } | RpmError::SameName { .. }) if !pending.is_empty() => {
                self.repository.refresh(&result_rpms(self.stack, pending))?;
            }
            other => {
                other?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ComponentName>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the RPMs of all accepted results of a stack, sorted, some components left
/// out.
pub fn result_rpms(stack: &Stack<'_>, without: &BTreeSet<ComponentName>) -> Vec<PathBuf> {
    let build_dir = stack.workspace.build_dir();
    let components = stack.order().iter().filter(|c| !without.contains(&c.name));
    let mut rpms: Vec<PathBuf> =
        components.flat_map(|c| Results::of(&build_dir, Stage::Rpm, &c.name).rpms()).collect();
    rpms.sort();
    rpms
}
