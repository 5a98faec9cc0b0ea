//! Computes the closure of a component from its workspace: resolves the members or reads their lock, and
//! places each. Writes nothing.

use super::diff::MemberPlaces;
use super::lock::Lock;
use super::offers::Offers;
use super::place::place;
use super::resolve::{How, graph};
use super::{Closure, Upgrade};
use crate::error::{Error, Kind};
use crate::events::{Events, Silent};
use crate::sources::{Cache, Fetcher, normalized};
use crate::stack::Stack;
use crate::workspace::{ClosureRules, Component, Workspace};

/// A closure, with the data it was computed from.
pub struct Computed {
    /// The closure.
    pub closure: Closure,
    /// The versions and files of its members.
    pub lock: Lock,
    /// Whether the lock was resolved in this run.
    pub fresh: bool,
    /// What the release has.
    pub offers: Offers,
    /// The component's decisions.
    pub rules: ClosureRules,
}

/// How to compute a closure.
#[derive(Debug, Clone, Copy, Default)]
pub struct Computation<'a> {
    /// Whether to query the chroot's repositories instead of reading package tables.
    pub live: bool,
    /// Whether to use only the lock and the cache.
    pub offline: bool,
    /// The members to upgrade, all if empty; `None` for no upgrade.
    pub upgrade: Option<&'a [String]>,
}

/// Returns the requested component, or the one with a `[closure]` table.
pub fn component<'w>(stack: &Stack<'w>, asked: Option<&str>) -> Result<&'w Component, Error> {
    let component = match asked {
        Some(name) => stack.workspace.component(name)?,
        None => stack.workspace.with_closure().ok_or_else(|| {
            Error::new(Kind::Usage, "no component of the workspace has a `[closure]` table")
                .with_help("name a component: `rocmrpm closure COMPONENT`")
        })?,
    };
    match stack.left_out.get(&component.name) {
        Some(reason) => {
            let message = format!("`{}` cannot be built: {reason}", component.name);
            Err(Error::new(Kind::Config, message))
        }
        None => Ok(component),
    }
}

/// Computes the closure of a component.
pub fn compute(
    stack: &Stack<'_>,
    component: &Component,
    how: Computation<'_>,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Computed, Error> {
    let workspace = stack.workspace;
    let offers = Offers::of(workspace, how.live, how.offline)?;
    let names: Vec<String> = how.upgrade.iter().copied().flatten().map(|n| normalized(n)).collect();
    let upgrade = match how.upgrade {
        None => Upgrade::None,
        Some(_) if names.is_empty() => Upgrade::All,
        Some(_) => Upgrade::Members(&names),
    };
    let resolve = How { offline: how.offline, upgrade };
    let (graph, lock, fresh) =
        graph(workspace, stack, component, &offers, &resolve, fetcher, events)?;
    let rules = component.closure.clone().unwrap_or_default();
    let closure = place(graph, &offers, &rules, &workspace.chroot.name, &workspace.pins.name)
        .map_err(|error| error.shown_in(&component.file))?;
    Ok(Computed { closure, lock, fresh, offers, rules })
}

/// Returns the places of the members of a workspace's closure, if they are known without network
/// access.
pub fn known_places(workspace: &Workspace) -> Option<MemberPlaces> {
    let stack = Stack::new(workspace).ok()?;
    let component = component(&stack, None).ok()?;
    let how = Computation { offline: true, ..Computation::default() };
    let fetcher = Fetcher::new(Cache::from_env().ok()?, &workspace.root, &Silent).offline(true);
    let computed = compute(&stack, component, how, &fetcher, &Silent).ok()?;
    let members = computed.closure.members.into_iter();
    Some(members.map(|(name, member)| (name, member.place)).collect())
}
