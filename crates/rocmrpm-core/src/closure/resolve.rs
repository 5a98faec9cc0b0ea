//! Resolves the distributions of a component's closure: returns the locked ones if none of the
//! inputs changed, otherwise runs uv. Does not place the members.

use super::cutoff::{Cutoff, day_text};
use super::lock::Lock;
use super::offers::Offers;
use super::question::{Attempt, ClosureQuery};
use super::{ClosureError, Graph, Upgrade, assemble, explain, own, roots};
use crate::events::{Event, Events, Step};
use crate::parallel;
use crate::sources::Fetcher;
use crate::stack::Stack;
use crate::workspace::pin::Source;
use crate::workspace::{ClosureRules, Component, Workspace};

/// Options of computing a closure.
#[derive(Debug, Clone, Copy, Default)]
pub struct How<'a> {
    /// Whether querying an index is forbidden.
    pub offline: bool,
    /// The members that may move to other versions than the locked ones.
    pub upgrade: Upgrade<'a>,
}

/// Returns the closure of a component, its lock, and whether it was just resolved. Writes nothing
/// to the workspace.
pub fn graph(
    workspace: &Workspace,
    stack: &Stack<'_>,
    component: &Component,
    offers: &Offers,
    how: &How<'_>,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<(Graph, Lock, bool), ClosureError> {
    let environment = workspace.chroot.environment().map_err(ClosureError::Environment)?;
    let none = ClosureRules::default();
    let rules = component.closure.as_ref().unwrap_or(&none);
    let upgrade = how.upgrade;
    // The first unpacks the component's source while the second downloads from the index.
    let (root, own) = parallel::both(
        || roots::stated(workspace, component, rules, fetcher),
        || own::of_stack(stack, component, &environment, fetcher, upgrade == Upgrade::All),
    );
    let (root, own) = (root?, own?);
    let path = workspace.closure_lock();
    // The lock belongs to the component with a `[closure]` table; other closures are never locked.
    let locked = component.closure.is_some() && upgrade != Upgrade::All;
    let old = if locked { Lock::read(&path)? } else { None };
    let locked_day = old.as_ref().and_then(|old| old.not_after);
    let cutoff = Cutoff::of(workspace, component, rules, fetcher, locked_day)?;
    let question = ClosureQuery {
        folder: &workspace.root,
        upstreams: &workspace.upstreams,
        component,
        chroot: &workspace.chroot.name,
        environment,
        root,
        own,
        cutoff,
        rules,
        offers,
        upgrade,
    };
    let shown = path.strip_prefix(&workspace.root).unwrap_or(&path).display().to_string();
    upgrade.check(component.name.as_str(), old.as_ref())?;
    if let Some(old) = &old {
        question.must_be_of(old, &shown)?;
        if upgrade == Upgrade::None && old.inputs == question.inputs(old) {
            let graph = assemble::graph(&question, old, Some(&shown), fetcher)?;
            let mut lock = old.clone();
            // Older versions of rocmrpm did not record digests of METADATA.
            if !how.offline
                && assemble::wheels(&lock.packages).any(|wheel| wheel.metadata.is_none())
            {
                assemble::record_metadata(&mut lock, Some(old), fetcher)?;
            }
            return Ok((graph, lock, false));
        }
    }
    if how.offline {
        return Err(outdated(&question, old.as_ref(), &shown));
    }
    warn_about_days(workspace, &question, events);
    let detail = format!("the closure of {} with uv", component.name);
    events.event(Event::Step { step: Step::Resolving, detail });
    let expected = Lock::read(&path).ok().flatten().filter(|_| component.closure.is_some());
    let mut lock = resolved(&question, old.as_ref(), expected, fetcher)?;
    assemble::record_metadata(&mut lock, old.as_ref(), fetcher)?;
    for (name, own) in
        question.own.iter().filter(|(name, own)| !own.known && lock.version(name).is_some())
    {
        let text =
            format!("the requirements of {name} {} are unknown until it is built", own.version);
        events.event(Event::Warning(text));
    }
    let graph = assemble::graph(&question, &lock, None, fetcher)?;
    Ok((graph, lock, true))
}

/// Returns the error for a lock that answers another question, or none, if the index is forbidden.
fn outdated(question: &ClosureQuery<'_>, old: Option<&Lock>, shown: &str) -> ClosureError {
    let day = question.cutoff.day;
    let why = match old {
        Some(old) if old.not_after != day => {
            format!("{shown} has the cutoff {}, not {}", day_text(old.not_after), day_text(day))
        }
        Some(_) => format!("{shown} is for other requirements, versions or packages"),
        None => format!("there is no {shown}"),
    };
    ClosureError::Offline { component: question.component.name.to_string(), why }
}

/// Warns if the release of an sdist has no known day, so that nothing limits the versions.
fn warn_about_days(workspace: &Workspace, question: &ClosureQuery<'_>, events: &dyn Events) {
    let component = question.component;
    let pin = workspace.pin(component);
    if question.cutoff.day.is_none() && matches!(pin.source, Source::Sdist { .. }) {
        events.event(Event::Warning(format!(
            "the index does not state when {} {} was released, so versions from any day are used; \
             limit them with `not-after` in `[closure]` of {}",
            component.name, pin.version, component.file.name
        )));
    }
}

/// Returns the graph of the closure that is written for a stack's pin set and chroot; `None` if
/// there is none. Does not query an index.
pub fn written(
    stack: &Stack<'_>,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<Option<Graph>, ClosureError> {
    let workspace = stack.workspace;
    let component =
        workspace.with_closure().filter(|component| !stack.left_out.contains_key(&component.name));
    let (Some(component), Some(_)) = (component, &workspace.closure) else { return Ok(None) };
    let offers = Offers::of(workspace, false, true)?;
    let how = How { offline: true, upgrade: Upgrade::None };
    graph(workspace, stack, component, &offers, &how, fetcher, events)
        .map(|(graph, ..)| Some(graph))
}

/// Runs uv, and fetches the METADATA of the `expected` versions in the meantime: most of them stay.
/// Errors are reported where the METADATA are needed.
fn resolved(
    question: &ClosureQuery<'_>,
    old: Option<&Lock>,
    expected: Option<Lock>,
    fetcher: &Fetcher<'_>,
) -> Result<Lock, ClosureError> {
    std::thread::scope(|scope| {
        if let Some(expected) = expected {
            let ahead = move || drop(fetcher.metadata(&assemble::files(&expected)));
            // Without the thread, they are fetched where they are needed.
            let _ = parallel::builder().spawn_scoped(scope, ahead);
        }
        attempts(question, old, fetcher)
    })
}

/// Runs uv, and again if the release has newer versions than the cutoff allows.
fn attempts(
    question: &ClosureQuery<'_>,
    old: Option<&Lock>,
    fetcher: &Fetcher<'_>,
) -> Result<Lock, ClosureError> {
    let lock = match question.attempt(old, &Attempt::default(), fetcher)? {
        Ok(lock) => lock,
        Err(output) => return Err(Box::new(explain::explain(question, output, fetcher)?).into()),
    };
    let of_release = question.later_in_release(&lock);
    if of_release.is_empty() {
        return Ok(lock);
    }
    let again = question.attempt(old, &Attempt { of_release, ..Attempt::default() }, fetcher)?;
    Ok(again.unwrap_or(lock))
}
