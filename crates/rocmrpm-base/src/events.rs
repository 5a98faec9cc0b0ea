//! What happens while work is under way, as values: domain modules send them,
//! `report` shows them. Neither knows the other.

use crate::error::Error;
use crate::names::ComponentName;

/// Something worth telling while a command runs.
#[derive(Debug, Clone)]
pub enum Event {
    /// So many components are about to be worked on.
    Planned {
        /// How many.
        total: usize,
    },
    /// A component entered a phase of its way, such as `fetch` or `build`.
    Phase {
        /// Which component.
        component: ComponentName,
        /// The phase: a verb in the present participle, capitalised, such as `Fetching`.
        phase: &'static str,
        /// What exactly, such as a file name; may be empty.
        detail: String,
    },
    /// Nothing more is told of something that phases were told of: a source that was fetched for
    /// itself, or is one of several of a component.
    Left {
        /// What it was called.
        name: ComponentName,
    },
    /// A component is done.
    Finished {
        /// Which component.
        component: ComponentName,
        /// How it ended.
        outcome: Outcome,
        /// How long it took.
        seconds: f64,
        /// What came of it, in a few words.
        detail: String,
    },
    /// Something that is not wrong but should be known.
    Warning(String),
    /// A step that belongs to no single component, such as the index.
    Step {
        /// The status word, such as `Indexing`.
        word: &'static str,
        /// What exactly.
        detail: String,
    },
    /// A step found nothing to do.
    Unchanged {
        /// What would have been written.
        detail: String,
    },
}

/// How the work on one component ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Built and inspected.
    Built,
    /// Its source was found out, for the lock.
    Resolved,
    /// It failed.
    Failed,
    /// The run was stopped before it was done.
    Stopped,
}

/// Receives events. Shared between threads.
pub trait Events: Sync {
    /// Takes note of one event.
    fn event(&self, event: Event);

    /// Takes note of why a component failed, as soon as it did: others may go on for
    /// hours.
    fn failure(&self, _error: &Error) {}
}

/// Drops all events: for tests and for commands that have nothing to tell.
pub struct Silent;

impl Events for Silent {
    fn event(&self, _: Event) {}
}
