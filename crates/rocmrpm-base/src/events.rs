//! Progress events: domain modules send them, and `report` displays them. Neither depends on the
//! other.

use crate::error::Error;
use crate::names::ComponentName;

/// A progress event of a command.
#[derive(Debug, Clone)]
pub enum Event {
    /// Work on this many components is about to start.
    Planned {
        /// The number of components.
        total: usize,
        /// Whether components are numbered when they end, because several are always in progress.
        /// Otherwise each phase shows the number of components that ended before, plus one.
        numbered_at_end: bool,
    },
    /// A component entered a phase, such as `fetch` or `build`.
    Phase {
        /// The component.
        component: ComponentName,
        /// The phase.
        phase: WorkPhase,
        /// The object of the phase, such as a file name; may be empty.
        detail: String,
    },
    /// A component's build wrote this line.
    Output {
        /// The component.
        component: ComponentName,
        /// The line, which can contain control characters.
        line: String,
    },
    /// The work on all components takes this much longer.
    TimeLeft {
        /// The estimate in seconds, based on earlier builds; `None` if one of the components was
        /// never built.
        seconds: Option<f64>,
    },
    /// No further events follow for this name: its phases concerned a source that was fetched on
    /// its own, or one of a component's several sources.
    Left {
        /// The name used in the phase events.
        name: ComponentName,
    },
    /// The work on a component ended.
    Finished {
        /// The component.
        component: ComponentName,
        /// The outcome.
        outcome: Outcome,
        /// How long it took, in seconds.
        seconds: f64,
        /// A short summary of the result.
        detail: String,
    },
    /// A message about something that is not an error but that the user should know.
    Warning(String),
    /// A step that does not belong to a single component, such as the index.
    Step {
        /// The step.
        step: Step,
        /// The object of the step, such as a file name.
        detail: String,
    },
    /// A stage of a pipeline started or ended.
    Stage {
        /// The stage, such as `build`.
        stage: &'static str,
        /// The chroot, if the stage is about one.
        chroot: Option<String>,
        /// What happened.
        state: StageState,
    },
    /// A step found nothing to do.
    Unchanged {
        /// The object that is up to date.
        detail: String,
    },
}

/// A phase of the work on a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkPhase {
    /// Its packages are built.
    Building,
    /// Packages are compared with those of an earlier build.
    Comparing,
    /// A source, or the results of a remote build, are fetched.
    Fetching,
    /// Its packages are inspected.
    Inspecting,
    /// A source or a package is packed.
    Packing,
    /// The build root or the sources are prepared.
    Preparing,
    /// It is sent to a remote builder.
    Sending,
}

/// A step that does not belong to a single component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A package that all builds need is built.
    Building,
    /// Wheels of other projects are put into the index.
    Holding,
    /// The index was written.
    Indexed,
    /// Files are inspected.
    Inspecting,
    /// A lock file was written.
    Locked,
    /// A file is left out.
    Omitting,
    /// A package is packed.
    Packing,
    /// A file, or what a registry has, is read.
    Reading,
    /// A file was rendered.
    Rendered,
    /// Requirements are resolved.
    Resolving,
    /// A finding was accepted.
    Waived,
    /// A wheel was made.
    Wheel,
}

/// What happened to a stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageState {
    /// It started.
    Started,
    /// An earlier run finished it with the same inputs.
    Unchanged,
    /// It passed, with this result.
    Passed(String),
    /// A person has to decide this.
    Question(String),
}

/// How the work on one component ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Built and inspected.
    Built,
    /// Resolved its source for the lock file.
    Resolved,
    /// Recorded its source for the lock file from the pin and the old lock file, offline.
    Recorded,
    /// Failed.
    Failed,
    /// Stopped before it was finished.
    Stopped,
}

/// Receives events from several threads.
pub trait Events: Sync {
    /// Handles one event.
    fn event(&self, event: Event);

    /// Handles the failure of a component as soon as it occurs: others may continue for hours.
    fn failure(&self, _error: &Error) {}
}

/// Drops all events, for tests and for commands without progress output.
pub struct Silent;

impl Events for Silent {
    fn event(&self, _: Event) {}
}
