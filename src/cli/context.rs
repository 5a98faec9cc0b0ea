//! What most commands begin with: the workspace, the builder, the fetcher.

use std::path::{Path, PathBuf};

use super::args::{BuilderName, Choice};
use crate::build::{Builder, HostBuilder, MockBuilder, Stage};
use crate::closure::earlier;
use crate::error::{Error, Problems};
use crate::process::find_program;
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;
use crate::workspace::{Component, IndexSource, Selection, Workspace, closure_not_written};

/// Reads the workspace with the chosen chroot, pin set and overrides.
pub fn workspace(dir: &Path, choice: &Choice, overrides: &[(String, String)]) -> Result<Workspace, Error> {
    let selection = Selection {
        chroot: choice.chroot.clone(),
        pins: choice.pins.clone(),
        overrides: overrides.iter().cloned().collect(),
        ..Selection::default()
    };
    Ok(Workspace::load(dir, &selection)?)
}

/// Finds digests and commits for versions that came from the command line: what the
/// pin set records is about other versions.
pub fn resolve_overrides(workspace: &mut Workspace, fetcher: &Fetcher<'_>) -> Result<(), Error> {
    for at in workspace.pins.pins.values_mut().filter(|at| at.value.overridden) {
        fetcher.resolve(&at.value)?.settle(&mut at.value);
    }
    Ok(())
}

/// Returns the components that were named and no others, all if none was.
pub fn named<'w>(stack: &Stack<'w>, names: &[String]) -> Result<Vec<&'w Component>, Error> {
    let all = components(stack, names)?;
    let is_named =
        |component: &&Component| names.is_empty() || names.iter().any(|n| n == component.name.as_str());
    Ok(all.into_iter().filter(is_named).collect())
}

/// Returns the components that were named with all that they require, all if none was.
pub fn components<'w>(stack: &Stack<'w>, names: &[String]) -> Result<Vec<&'w Component>, Error> {
    let wanted = names.iter().map(|name| stack.workspace.component(name)).collect::<Result<Vec<_>, _>>()?;
    if let Some((name, reason)) = wanted.iter().find_map(|c| stack.left_out.get_key_value(&c.name)) {
        let message = format!("`{name}` cannot be built: {reason}");
        return Err(Error::new(crate::error::Kind::Config, message));
    }
    Ok(stack.select(&wanted))
}

/// Refuses what users could not install or upgrade: a component whose Python closure is not
/// written for a chroot, and members that have a lower version than in an earlier release. What is
/// built for this machine is not installed from a repository.
pub fn check_closures<'w>(
    workspaces: impl IntoIterator<Item = &'w Workspace>,
    names: &[String],
) -> Result<(), Error> {
    let mut problems = Problems::default();
    for workspace in workspaces.into_iter().filter(|workspace| !workspace.chroot.is_host()) {
        let stack = Stack::new(workspace)?;
        problems.0.extend(closure_not_written(workspace, &components(&stack, names)?));
        problems.0.extend(earlier::held_back(workspace)?);
    }
    if problems.0.is_empty() { Ok(()) } else { Err(problems.into()) }
}

/// What mock is asked for beyond the usual.
#[derive(Default)]
pub struct MockOptions {
    /// The folder of a cache for compilers.
    pub ccache: Option<PathBuf>,
    /// Exactly the packages of the last build, kept in this cache; whether no others may be fetched.
    pub hermetic: Option<(Cache, bool)>,
}

/// Returns the builder that was asked for, or the chroot's usual one. The second value is something to tell the user about the choice.
pub fn builder<'w>(
    stack: &Stack<'w>,
    asked: Option<BuilderName>,
    until: Stage,
    options: MockOptions,
) -> (Box<dyn Builder + 'w>, Option<String>) {
    let workspace = stack.workspace;
    let usual = if workspace.chroot.is_host() { BuilderName::Host } else { BuilderName::Mock };
    match asked.unwrap_or(usual) {
        BuilderName::Mock if asked.is_none() && until <= Stage::Srpm && find_program("mock").is_none() => {
            let note = "mock is not installed: the SRPM is made by rpmbuild on this machine, with this \
                        machine's macros where the chroot defines none";
            (Box::new(HostBuilder::new(workspace)), Some(note.to_owned()))
        }
        BuilderName::Mock => {
            let mock = MockBuilder::new(workspace);
            let mock = match options.ccache {
                Some(dir) => mock.with_ccache(dir),
                None => mock,
            };
            let mock = match options.hermetic {
                Some((cache, offline)) => mock.hermetic(cache, offline),
                None => mock,
            };
            (Box::new(mock), network_note())
        }
        BuilderName::Host => (Box::new(HostBuilder::new(workspace)), None),
    }
}

/// Tells where mock cannot keep builds from the network: it does so through systemd-nspawn, which it
/// uses where systemd is the first process. Source: mock, `mockbuild/config.py`, and `condUnshareNet`.
fn network_note() -> Option<String> {
    let first = fs_err::read("/proc/1/cmdline").ok()?;
    let systemd = first.windows(b"systemd".len()).any(|word| word == b"systemd");
    let note = "systemd does not run here, and without it mock lets builds reach the network: what is built \
                may hold what was downloaded";
    (!systemd).then(|| note.to_owned())
}

/// Returns the root of the index whose projects ours extend, if the workspace names one.
pub fn tracks(workspace: &Workspace) -> Result<Option<String>, Error> {
    match &workspace.manifest.tracks {
        None => Ok(None),
        Some(IndexSource::Url(url)) => Ok(Some(url.clone())),
        Some(IndexSource::Pip) => Ok(Some(crate::sources::pip_index()?)),
    }
}
