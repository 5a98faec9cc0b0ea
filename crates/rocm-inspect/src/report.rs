//! The result of an inspection: the files, where their libraries come from, the
//! findings. Neither reading nor judging.

use std::collections::BTreeSet;
use std::fmt;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::facts::{Subject, Target};
use super::rules::{Verdict, verdict};
use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::names::Soname;
use rocmrpm_base::text::visible;

/// The name and version of a serialised [`Report`].
pub const SCHEMA: &str = "rocmrpm/inspection/3";

/// How far an inspection looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Targets and linkage: of compressed bundles no more than their tables of
    /// entries is decompressed.
    #[default]
    Quick,
    /// Every bundle is decoded and its hash verified, every code object's flags are
    /// compared with its ID, kernels are counted.
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

/// The result of an inspection, sorted: the same files give the same bytes.
#[derive(Debug, Clone)]
pub struct Report {
    /// How far was looked.
    pub depth: Depth,
    /// The GPU targets that the set was to serve.
    pub gpu_targets: Vec<GpuTarget>,
    /// The system on which it was to load, such as `fedora-43`.
    pub system: String,
    /// What was inspected, by path.
    pub subjects: Vec<Subject>,
    /// Where every needed library comes from, by subject, file and order of search.
    pub needs: Vec<Need>,
    /// What is wrong or worth knowing, worst first.
    pub findings: Vec<Finding>,
    /// Findings that a waiver took out, with its reason.
    pub waived: Vec<Waived>,
}

/// What came of judging, before it is put into a [`Report`].
pub(super) struct Judgement {
    pub(super) gpu_targets: Vec<GpuTarget>,
    pub(super) system: String,
    pub(super) findings: Vec<Finding>,
    pub(super) waived: Vec<Waived>,
}

/// A library that a file needs, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Need {
    /// The subject's path.
    pub subject: String,
    /// The file inside the subject.
    pub file: String,
    /// The library as `DT_NEEDED` names it.
    pub library: String,
    /// Where it comes from.
    pub origin: Origin,
    /// The file of the set or the package of the system that has it; of a missing one the distribution
    /// whose wheel has it, if that is known.
    pub by: Option<String>,
}

/// Where a needed library comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// From the inspected set itself.
    #[serde(rename = "self")]
    Own,
    /// From a known package of the system or of ROCm.
    Provided,
    /// A known library that does not belong to this system: another vendor's, or
    /// another major version of ROCm's than the system has.
    Foreign,
    /// From nowhere that is known.
    Missing,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "self",
            Self::Provided => "provided",
            Self::Foreign => "foreign",
            Self::Missing => "missing",
        })
    }
}

/// A finding that a waiver took out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Waived {
    /// What was found.
    pub finding: Finding,
    /// Why it is accepted.
    pub reason: String,
    /// The file in which the waiver stands.
    pub place: String,
}

impl Report {
    pub(super) fn new(depth: Depth, subjects: Vec<Subject>, needs: Vec<Need>, judgement: Judgement) -> Self {
        let Judgement { gpu_targets, system, mut findings, mut waived } = judgement;
        findings.sort();
        waived.sort();
        Self { depth, gpu_targets, system, subjects, needs, findings, waived }
    }

    /// Returns how the set serves each wanted target.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.gpu_targets.iter().map(|gpu| verdict(&self.subjects, gpu)).collect()
    }

    /// Returns every kind of GPU code that was found, debugging data left out.
    pub fn targets(&self) -> BTreeSet<&Target> {
        let device = self.subjects.iter().filter(|s| !s.debug).flat_map(|s| &s.device);
        device.map(|code| &code.target).filter(|target| **target != Target::Unread).collect()
    }

    /// Returns every library that some inspected file needs.
    pub fn needed(&self) -> BTreeSet<&Soname> {
        let elfs = self.subjects.iter().flat_map(|s| &s.files).filter_map(|f| f.elf.as_ref());
        elfs.flat_map(|elf| &elf.needed).collect()
    }

    /// Returns the findings that keep the set from being used.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// Returns whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("Report", 9)?;
        report.serialize_field("schema", SCHEMA)?;
        report.serialize_field("depth", &self.depth)?;
        report.serialize_field("gpu_targets", &self.gpu_targets)?;
        report.serialize_field("verdicts", &self.verdicts())?;
        report.serialize_field("system", &self.system)?;
        report.serialize_field("subjects", &self.subjects)?;
        report.serialize_field("needs", &self.needs)?;
        report.serialize_field("findings", &self.findings)?;
        report.serialize_field("waived", &self.waived)?;
        report.end()
    }
}

/// How bad a finding is. Ordered from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The set must not be used.
    Error,
    /// It works, but probably not as meant.
    Warning,
    /// Worth knowing.
    Info,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        })
    }
}

/// The stable name of a rule, such as `gpu-target-missing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RuleId(pub(super) &'static str);

impl RuleId {
    /// Returns a rule's name.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One result of an inspection. Sorted by severity, worst first, then by place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The subject's path; `None` where the finding is about the whole set.
    pub subject: Option<String>,
    /// The file inside the subject.
    pub file: Option<String>,
    /// Which rule.
    pub id: RuleId,
    /// What is there.
    pub found: String,
    /// What should be there instead.
    pub expected: String,
    /// How to mend it.
    pub remedy: String,
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
