//! A record of evidence: what one stage of a pipeline did, from which inputs, where, when, and with
//! which result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::build::FileRecord;
use crate::digest::Sha256;
use crate::document::Document;
use crate::stack::KeyInputs;
use crate::tier::Tier;

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It passed.
    Passed,
    /// A person has to decide; `question` has the details.
    Question,
    /// It failed; `details` has the reason.
    Failed,
    /// A person accepted the question of the record with the same inputs.
    Accepted,
}

impl Outcome {
    /// Returns a word for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Question => "needs a decision",
            Self::Failed => "failed",
            Self::Accepted => "accepted",
        }
    }
}

/// What a person has to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenQuestion {
    /// What is to be decided.
    pub what: String,
    /// How to decide it.
    pub help: String,
    /// Whether `rocmrpm pipeline accept` can answer it. Otherwise a file has to change.
    pub acceptable: bool,
}

/// What a record states about one component.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ComponentEvidence {
    /// The component.
    pub component: String,
    /// Its upstream version.
    pub version: String,
    /// Its Release without the dist tag; empty before the spec is rendered.
    pub release: String,
    /// The highest tier that this record proves; null if it proves none.
    pub tier: Option<Tier>,
    /// The GPU targets that the packages were built for.
    pub gpu_targets: Vec<String>,
    /// The packages.
    pub packages: Vec<PackageEvidence>,
    /// The wheels.
    pub wheels: Vec<FileRecord>,
    /// How long the build took, in seconds; null if it was not built or that is unknown.
    pub seconds: Option<f64>,
    /// The device that computed, for the tier `ran`.
    pub device: Option<String>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// An RPM package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PackageEvidence {
    /// Its file name.
    pub file: String,
    /// The digest of its header, which does not depend on the signature: `SHA256HEADER` of rpm.
    pub header: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The machine that a stage ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EvidenceMachine {
    /// The operating system.
    pub system: String,
    /// The processor.
    pub processor: String,
    /// The number of cores that the process may use.
    pub cores: usize,
    /// The memory in bytes.
    pub memory: u64,
}

/// `NUMBER.json` of a chain: what one stage of a pipeline did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EvidenceRecord {
    /// The name and number of the schema.
    pub schema: String,
    /// The number of the record in its chain, from 1.
    pub number: u64,
    /// The digest of the record before; null for the first one.
    pub previous: Option<Sha256>,
    /// The pin set.
    pub pins: String,
    /// The chroot; null if the stage concerns the whole set.
    pub chroot: Option<String>,
    /// The stage.
    pub stage: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The digest of the inputs.
    pub key: Sha256,
    /// The inputs: digests, commits, and settings.
    pub inputs: KeyInputs,
    /// What the stage shows about components.
    pub components: Vec<ComponentEvidence>,
    /// The versions of the programs that it uses.
    pub tools: BTreeMap<String, String>,
    /// The machine.
    pub machine: EvidenceMachine,
    /// When the stage started: RFC 3339 in UTC, by the clock of the machine.
    pub started: String,
    /// When it ended.
    pub finished: String,
    /// How long it took, in seconds, by a clock that is never set.
    pub seconds: f64,
    /// The result in one line.
    pub summary: String,
    /// Further lines.
    pub details: Vec<String>,
    /// What a person has to decide.
    pub question: Option<OpenQuestion>,
    /// The logs, as files of the folder `logs` beside the record.
    pub logs: Vec<FileRecord>,
}

impl Document for EvidenceRecord {
    const SCHEMA: &'static str = "rocmrpm/evidence/1";
}

impl EvidenceRecord {
    /// Returns the text of its file.
    pub(super) fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns whether the stage needs no further work on these inputs.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Outcome::Passed | Outcome::Accepted)
    }
}
