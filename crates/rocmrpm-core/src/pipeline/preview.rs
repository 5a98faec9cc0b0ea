//! What a run of a pipeline would do, without changing anything.

use std::path::Path;

use serde::Serialize;

use super::place::evidence_folder;
use super::{PipelineStage, Request, chosen, home_workspace};
use crate::error::Error;
use crate::events::Events;
use crate::evidence::Chain;
use crate::pins::{OutdatedState, outdated};
use crate::sources::{Cache, Fetcher};
use crate::workspace::PipelineSettings;

/// The way of a pipeline.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preview {
    /// The pin set.
    pub pins: String,
    /// The newer releases that it would take.
    pub newer: Vec<String>,
    /// The stages, in their order.
    pub stages: Vec<PreviewStage>,
}

/// A stage of the way.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PreviewStage {
    /// The stage.
    pub stage: &'static str,
    /// The chroot, if the stage is about one.
    pub chroot: Option<String>,
    /// How it ended last; null if it never ran.
    pub last: Option<String>,
    /// The result in one line.
    pub summary: Option<String>,
}

/// Returns what a run would do. It asks for newer releases, and writes nothing.
pub fn preview(dir: &Path, request: &Request, events: &dyn Events) -> Result<Preview, Error> {
    let workspace = home_workspace(dir, request)?;
    let pins = workspace.pins.name.clone();
    let chroots = chosen(&workspace, request)?;
    let settings = PipelineSettings::load(&workspace.root)?;
    let chain = Chain::read(&evidence_folder(&workspace.root, &pins), &pins)?;
    let mut newer = Vec::new();
    if !request.offline {
        let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
        for row in outdated(&workspace, &[], &fetcher, false)? {
            let newest = row.newest.as_deref().unwrap_or("unknown");
            let skipped = settings
                .skip
                .iter()
                .any(|(name, version)| *name == row.component && version == newest);
            let line = format!("{} {} -> {newest}", row.component, row.pinned);
            match row.state {
                OutdatedState::Outdated if skipped => newer.push(format!("{line} (skipped)")),
                OutdatedState::Outdated => newer.push(line),
                OutdatedState::Withdrawn => {
                    newer.push(format!("{} {} was withdrawn", row.component, row.pinned));
                }
                _ => {}
            }
        }
    }
    let mut stages = Vec::new();
    for stage in PipelineStage::ALL {
        let of: Vec<Option<&String>> = match stage.is_of_set() {
            true => vec![None],
            false => chroots.iter().map(Some).collect(),
        };
        for chroot in of {
            let last = chain.last(stage.name(), chroot.map(String::as_str));
            stages.push(PreviewStage {
                stage: stage.name(),
                chroot: chroot.cloned(),
                last: last.map(|record| record.outcome.name().to_owned()),
                summary: last.map(|record| record.summary.clone()),
            });
        }
    }
    Ok(Preview { pins, newer, stages })
}
