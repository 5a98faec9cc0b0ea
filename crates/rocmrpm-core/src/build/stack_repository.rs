//! The accepted results of a stack as one repository: decides which RPMs are in it while components
//! are rebuilt, ensures that no two components provide the same RPM, and adds the stack's own
//! release package and signatures. Does not build components.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::error::ComponentError;
use super::lock::BuildLock;
use super::record::Results;
use super::release;
use super::stage::Stage;
use crate::error::{Error, IoError};
use crate::names::ComponentName;
use crate::rpms::RpmError;
use crate::rpms::repository::Repository;
use crate::rpms::signing::Signer;
use crate::stack::Stack;

/// The results of a stack during one run. Shared between threads.
pub(super) struct StackRepository<'a> {
    stack: &'a Stack<'a>,
    repository: Repository,
    own: OnceLock<OwnAdditions>,
    /// The components that this run has yet to build. The lock also guards changes of the
    /// repository and of the results that it is made from.
    pending: Mutex<BTreeSet<ComponentName>>,
}

/// The stack's own additions to its repository.
struct OwnAdditions {
    signer: Option<Signer>,
    release: Option<PathBuf>,
}

impl<'a> StackRepository<'a> {
    /// Returns the results of a stack in which some components are yet to be built.
    pub fn new(stack: &'a Stack<'a>, pending: impl IntoIterator<Item = ComponentName>) -> Self {
        let repository = Repository::at(stack.workspace.build_dir().join("repository"));
        Self {
            stack,
            repository,
            own: OnceLock::new(),
            pending: Mutex::new(pending.into_iter().collect()),
        }
    }

    /// Returns the folder of the repository.
    pub fn dir(&self) -> PathBuf {
        self.repository.dir().to_owned()
    }

    /// Brings the repository up to date. Leaves out old results of pending components that are
    /// damaged, or that have the name of a package that another component now provides.
    pub fn refresh(&self) -> Result<(), Error> {
        self.refresh_with(&self.lock())
    }

    /// Moves results, or reads those of other components, while no other thread does: a reader lists
    /// RPMs first and opens them later.
    pub fn exclusively<T>(&self, act: impl FnOnce() -> T) -> T {
        let _guard = self.lock();
        act()
    }

    /// Adds a component's new results.
    pub fn accept(&self, component: &ComponentName) -> Result<(), Error> {
        let mut pending = self.lock();
        pending.remove(component);
        self.refresh_with(&pending)
    }

    /// Rejects packages that another component already provides.
    pub fn check_names(&self, component: &ComponentName, rpms: &[PathBuf]) -> Result<(), Error> {
        let pending = self.lock();
        let workspace = self.stack.workspace;
        let others = self
            .stack
            .order()
            .iter()
            .filter(|c| c.name != *component && !pending.contains(&c.name));
        for other in others {
            let build_dir = workspace.build_dir_of(&other.name);
            let theirs = Results::of(&build_dir, Stage::Rpm, &other.name).rpms()?;
            let same = rpms
                .iter()
                .find(|rpm| theirs.iter().any(|their| their.file_name() == rpm.file_name()));
            if let Some(same) = same {
                return Err(ComponentError::SamePackage {
                    component: component.to_string(),
                    other: other.name.to_string(),
                    package: same.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                }
                .into());
            }
        }
        Ok(())
    }

    fn refresh_with(&self, pending: &BTreeSet<ComponentName>) -> Result<(), Error> {
        let own = self.own(pending)?;
        let refresh = |mut rpms: Vec<PathBuf>| {
            rpms.extend(own.release.clone());
            self.repository.refresh(&rpms, own.signer.as_ref())
        };
        match refresh(result_rpms(self.stack, &BTreeSet::new())?) {
            Err(RpmError::Unreadable { .. } | RpmError::SameName { .. }) if !pending.is_empty() => {
                refresh(result_rpms(self.stack, pending)?)?;
            }
            other => {
                other?;
            }
        }
        Ok(())
    }

    /// Finds the key and makes the release package, once per run. If something is going to be
    /// built, checks first that the key can sign.
    fn own(&self, pending: &BTreeSet<ComponentName>) -> Result<&OwnAdditions, Error> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let manifest = &self.stack.workspace.manifest;
        let find = |key: &String| Signer::find(key, &manifest.name);
        let signer = manifest.signing_key.as_ref().map(find).transpose()?;
        if let Some(signer) = signer.as_ref().filter(|_| !pending.is_empty()) {
            signer.probe()?;
        }
        let release = release::make(self.stack.workspace, signer.as_ref())?;
        Ok(self.own.get_or_init(|| OwnAdditions { signer, release }))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ComponentName>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Brings the repository of a stack's accepted results up to date, and returns its folder and
/// signer. The lock proves that no other process builds there.
pub fn refresh_repository(
    _lock: &BuildLock,
    stack: &Stack<'_>,
) -> Result<(PathBuf, Option<Signer>), Error> {
    let repository = StackRepository::new(stack, []);
    repository.refresh()?;
    let signer = repository.own.get().and_then(|own| own.signer.clone());
    Ok((repository.dir(), signer))
}

/// Returns the RPMs of all accepted results of a stack, sorted, except those of some components.
pub fn result_rpms(
    stack: &Stack<'_>,
    without: &BTreeSet<ComponentName>,
) -> Result<Vec<PathBuf>, IoError> {
    let mut rpms = Vec::new();
    for component in stack.order().iter().filter(|c| !without.contains(&c.name)) {
        let build_dir = stack.workspace.build_dir_of(&component.name);
        rpms.extend(Results::of(&build_dir, Stage::Rpm, &component.name).rpms()?);
    }
    rpms.sort();
    Ok(rpms)
}
