//! What an inspected set is held against: targets, the system it is to load on,
//! what an earlier build had, and what is accepted. Neither reading nor judging.

use std::collections::BTreeMap;

use super::system::System;
use rocmrpm_base::gpu::GpuTarget;

/// What the inspected set should be like. The default expects nothing of it, and
/// then only what is wrong by itself is found.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// The GPU targets that the set must serve; empty: targets are not judged.
    pub gpu_targets: Vec<GpuTarget>,
    /// Whether the set was built from a component of the workspace, for exactly these targets; else
    /// others made it, and it may serve more GPUs.
    pub built: bool,
    /// Whether device code is promised; `None` where nothing is known.
    pub device_code: Option<bool>,
    /// Folders of the build that must not occur in RPATH or RUNPATH, in addition
    /// to the usual ones.
    pub build_roots: Vec<String>,
    /// The system on which the set is to load.
    pub system: System,
    /// How many kernels each target had in the last build, by the target's text;
    /// empty where nothing is known.
    pub previous_kernels: BTreeMap<String, u64>,
    /// What is accepted, and why.
    pub waivers: Vec<Waiver>,
    /// Whether paths of builds inside file contents are reported, which are mostly
    /// benign (`__FILE__` in assertions).
    pub content_paths: bool,
}

/// A finding that is accepted with a reason: `[[inspect.waive]]` in component.toml.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiver {
    /// The rule's ID.
    pub rule: String,
    /// The files it is for, `*` standing for any characters; `None` for any place.
    pub file: Option<String>,
    /// What the finding's text must contain; `None` for any.
    pub found: Option<String>,
    /// Why it is accepted.
    pub reason: String,
    /// The file in which the waiver stands, for messages.
    pub place: String,
}
