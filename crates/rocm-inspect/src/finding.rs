//! The parts of an inspection's result: findings, where libraries come from, and how far files are
//! read. The rules produce them, and the report combines them.

use std::fmt;

use serde::Serialize;

use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::severity::Severity;
use rocmrpm_base::text::visible;

/// How far an inspection looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Targets and linkage. Only the entry tables of compressed bundles are
    /// decompressed.
    #[default]
    Quick,
    /// Every bundle is decoded and its hash verified, the flags of every code object are
    /// compared with its ID, and kernels are counted.
    Deep,
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quick => "quick",
            Self::Deep => "deep",
        })
    }
}

/// The result of applying the rules, before it becomes a [`Report`](crate::Report).
pub(crate) struct Judgement {
    pub(crate) gpu_targets: Vec<GpuTarget>,
    pub(crate) system: String,
    pub(crate) findings: Vec<Finding>,
    pub(crate) waived: Vec<Waived>,
}

/// A library that a file needs, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Need {
    /// The subject's path.
    pub subject: String,
    /// The file inside the subject.
    pub file: String,
    /// The library as `DT_NEEDED` names it.
    pub library: String,
    /// Where it comes from.
    pub origin: LibraryOrigin,
    /// The file of the set or the system package that provides it; if it is missing, the distribution
    /// whose wheel provides it, if known.
    pub by: Option<String>,
}

/// Where a needed library comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LibraryOrigin {
    /// From the inspected set itself.
    #[serde(rename = "self")]
    Own,
    /// From a known package of the system or of ROCm.
    Provided,
    /// A known library that does not belong to this system: another vendor's, or
    /// another major version of ROCm than the system's.
    Foreign,
    /// Not found.
    Missing,
}

impl fmt::Display for LibraryOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "self",
            Self::Provided => "provided",
            Self::Foreign => "foreign",
            Self::Missing => "missing",
        })
    }
}

/// A finding that a waiver accepts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waived {
    /// What was found.
    pub finding: Finding,
    /// Why it is accepted.
    pub reason: String,
    /// The file that contains the waiver.
    pub place: String,
}

/// The stable name of a rule, such as `gpu-target-missing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RuleId(pub(crate) &'static str);

impl RuleId {
    /// Returns the ID with this name.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Returns the rule's name.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

rocmrpm_base::text_schema!(RuleId, {
    "description": "The stable name of a rule; the option `--explain` and `rocmrpm explain` explain it.",
    "pattern": "^[a-z][a-z0-9-]*$",
});

/// A finding of an inspection, sorted by severity, worst first, then by location.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The subject's path; `None` if the finding is about the whole set.
    pub subject: Option<String>,
    /// The file inside the subject.
    pub file: Option<String>,
    /// The rule.
    pub id: RuleId,
    /// What was found.
    pub found: String,
    /// What was expected instead.
    pub expected: String,
    /// How to fix it.
    pub help: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.file.as_deref().or(self.subject.as_deref());
        if let Some(place) = place {
            write!(f, "{}: ", visible(place))?;
        }
        write!(f, "found {}, expected {} [{}]", self.found, self.expected, self.id)
    }
}
