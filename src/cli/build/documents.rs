//! The JSON documents of `rocmrpm build --json`.

use std::path::PathBuf;

use serde::Serialize;

use super::Outputs;
use crate::build::{Outcome, Results, Run, Stage};
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::{Diagnosis, Problem};
use crate::names::ComponentName;
use crate::text::line_of;
use crate::workspace::Workspace;

/// What `rocmrpm build --until spec --json` prints: the rendered specs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct SpecsReport<'a> {
    pub schema: &'static str,
    /// The specs.
    pub specs: Vec<RenderedSpec<'a>>,
}

/// A spec.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct RenderedSpec<'a> {
    /// The component.
    pub component: &'a str,
    /// The file.
    pub path: PathBuf,
    /// The digest of its text.
    pub sha256: Sha256,
}

/// What `rocmrpm build --until sources --json` prints: the source files of components.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct SourcesReport<'a> {
    pub schema: &'static str,
    /// The sources that could be fetched.
    pub sources: Vec<FetchedSource<'a>>,
}

/// A source of a component.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct FetchedSource<'a> {
    /// The component.
    pub component: &'a str,
    /// The name of a further source; empty for the main one.
    pub source: &'a str,
    /// The file name in the spec.
    pub file: String,
    /// Where the file is.
    pub path: PathBuf,
    /// Its digest.
    pub sha256: Sha256,
    /// Its size in bytes.
    pub size: u64,
}

/// What `rocmrpm build --json` prints: the outcome for each component.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct RunDocument {
    pub schema: &'static str,
    #[serde(flatten)]
    pub run: RunReport,
}

/// The outcomes of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct RunReport {
    /// The chroot.
    chroot: String,
    /// Whether every component is built.
    complete: bool,
    /// The selected components, in build order.
    components: Vec<ComponentReport>,
    /// How many wheels there are; null if the run is not complete.
    wheels: Option<usize>,
    /// The folder of the pip index; null if none was written.
    index: Option<PathBuf>,
    /// The container files that were rendered; null if the run is not complete.
    containers: Option<Vec<PathBuf>>,
    /// The command that builds again what failed; null if no build failed.
    retry: Option<String>,
}

/// The outcome for a component.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
enum ComponentReport {
    /// It was built and accepted.
    Built {
        /// The component.
        component: String,
        /// The folder with its packages and logs.
        results: PathBuf,
    },
    /// Nothing had to be done.
    Fresh {
        /// The component.
        component: String,
        /// The folder with its packages and logs.
        results: PathBuf,
    },
    /// It failed.
    Failed {
        /// The component.
        component: String,
        /// The error message.
        error: String,
        /// Its causes, outermost first.
        causes: Vec<String>,
        /// How to fix it, best first.
        help: Vec<String>,
        /// Lines that show what happened, such as the end of a log.
        details: Vec<String>,
        /// Mistakes in files of the workspace.
        problems: Vec<ProblemReport>,
        /// The log or the folder of logs; null if there is none.
        log: Option<String>,
    },
    /// It was skipped.
    Skipped {
        /// The component.
        component: String,
        /// Why.
        reason: String,
    },
}

/// A mistake in a file of the workspace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProblemReport {
    /// The file.
    file: String,
    /// The line, from 1; null if it is about the whole file.
    line: Option<usize>,
    /// The problem.
    message: String,
    /// How to fix it, if known.
    help: Option<String>,
}

impl Document for SpecsReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/specs/1";
}

impl Document for SourcesReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/sources/1";
}

impl Document for RunDocument {
    const SCHEMA: &'static str = "rocmrpm/run/2";
}

impl RunReport {
    /// Returns the report of a run up to a stage, with the outputs made from its packages.
    pub fn of(workspace: &Workspace, done: &Run, until: Stage, outputs: Option<&Outputs>) -> Self {
        let component = |(name, outcome): &(ComponentName, Outcome)| {
            let build_dir = workspace.build_dir_of(name);
            let results = || Results::of(&build_dir, until, name).dir().to_owned();
            ComponentReport::of(name.to_string(), outcome, results)
        };
        Self {
            chroot: workspace.chroot.name.clone(),
            complete: done.complete(),
            components: done.outcomes.iter().map(component).collect(),
            wheels: outputs.map(|outputs| outputs.wheels),
            index: outputs
                .and_then(|outputs| outputs.index.as_ref())
                .map(|written| written.simple.clone()),
            containers: outputs.map(|outputs| outputs.containers.clone()),
            retry: done.retry.clone(),
        }
    }
}

impl ComponentReport {
    fn of(component: String, outcome: &Outcome, results: impl Fn() -> PathBuf) -> Self {
        match outcome {
            Outcome::Built(_) => Self::Built { component, results: results() },
            Outcome::Fresh => Self::Fresh { component, results: results() },
            Outcome::Failed(error) => {
                let Diagnosis { help, details, problems, references, .. } = error.diagnosis();
                Self::Failed {
                    component,
                    error: error.to_string(),
                    causes: error.causes(),
                    help: help.clone(),
                    details: details.clone(),
                    problems: problems.iter().map(ProblemReport::of).collect(),
                    log: references.iter().find(|r| r.label == "Log").map(|r| r.target.clone()),
                }
            }
            Outcome::Skipped(reason) => Self::Skipped { component, reason: reason.clone() },
        }
    }
}

impl ProblemReport {
    fn of(problem: &Problem) -> Self {
        Self {
            file: problem.file.clone(),
            line: problem.span.as_ref().map(|span| line_of(&problem.text, span.start)),
            message: problem.message.clone(),
            help: problem.help.clone(),
        }
    }
}
