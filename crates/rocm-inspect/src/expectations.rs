//! What an inspected set is compared with: targets, the system it has to load on, counts from an
//! earlier build, and waivers. It neither reads nor judges files.

use std::collections::BTreeMap;

use super::system::System;
use rocmrpm_base::gpu::GpuTarget;

/// What the inspected set should contain. The default has no expectations: only findings that do
/// not depend on them are reported.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// The GPU targets that the set must serve; if empty, targets are not judged.
    pub gpu_targets: Vec<GpuTarget>,
    /// Whether the set was built from a component of the workspace, for exactly these targets.
    /// Otherwise it comes from elsewhere and may serve more GPUs.
    pub built: bool,
    /// Whether the set must contain device code; `None` if unknown.
    pub device_code: Option<bool>,
    /// Build folders that must not occur in RPATH or RUNPATH, in addition to the usual ones.
    pub build_roots: Vec<String>,
    /// The system on which the set has to load.
    pub system: System,
    /// How many kernels each target had in the last build, by the target's text; empty if unknown.
    pub previous_kernels: BTreeMap<String, u64>,
    /// Accepted findings and the reasons.
    pub waivers: Vec<Waiver>,
    /// Whether to report build paths inside file contents, which are mostly harmless (`__FILE__` in
    /// assertions).
    pub content_paths: bool,
}

/// A finding accepted with a reason: `[[inspect.waive]]` in component.toml.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiver {
    /// The rule's ID.
    pub rule: String,
    /// The files it applies to, with `*` for any characters; `None` for all.
    pub file: Option<String>,
    /// Text that the finding must contain; `None` for any.
    pub found: Option<String>,
    /// Why the finding is accepted.
    pub reason: String,
    /// The file that contains the waiver, for messages.
    pub place: String,
}
