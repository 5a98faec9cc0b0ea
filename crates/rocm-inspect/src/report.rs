//! The result of an inspection: the files, where their libraries come from, and the findings. It
//! neither reads nor judges files.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use super::facts::{Subject, Target};
use super::finding::{Depth, Finding, Judgement, Need, Waived};
use super::rules::{Verdict, verdict};
use rocmrpm_base::document::Document;
use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::names::Soname;
use rocmrpm_base::severity::Severity;

/// The name and version of a serialized [`Report`].
pub const SCHEMA: &str = "rocmrpm/inspection/4";

/// The result of an inspection, sorted, so that the same files produce the same bytes.
#[derive(Debug, Clone)]
pub struct Report {
    /// How far files were read.
    pub depth: Depth,
    /// The GPU targets that the set must serve.
    pub gpu_targets: Vec<GpuTarget>,
    /// The system on which it must load, such as `fedora-43`.
    pub system: String,
    /// The inspected subjects, by path.
    pub subjects: Vec<Subject>,
    /// Where every needed library comes from, by subject, file and search order.
    pub needs: Vec<Need>,
    /// Problems and notes, worst first.
    pub findings: Vec<Finding>,
    /// Findings that a waiver removed, with its reason.
    pub waived: Vec<Waived>,
}

impl Report {
    pub(super) fn new(
        depth: Depth,
        subjects: Vec<Subject>,
        needs: Vec<Need>,
        judgement: Judgement,
    ) -> Self {
        let Judgement { gpu_targets, system, mut findings, mut waived } = judgement;
        findings.sort();
        waived.sort();
        Self { depth, gpu_targets, system, subjects, needs, findings, waived }
    }

    /// Returns how well the set serves each wanted target.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.gpu_targets.iter().map(|gpu| verdict(&self.subjects, gpu)).collect()
    }

    /// Returns every target of GPU code in the set, excluding debugging data.
    pub fn targets(&self) -> BTreeSet<&Target> {
        let device = self.subjects.iter().filter(|s| !s.debug).flat_map(|s| &s.device);
        device.map(|code| &code.target).filter(|target| **target != Target::Unread).collect()
    }

    /// Returns every library that an inspected file needs.
    pub fn needed(&self) -> BTreeSet<&Soname> {
        let elfs = self.subjects.iter().flat_map(|s| &s.files).filter_map(|f| f.elf.as_ref());
        elfs.flat_map(|elf| &elf.needed).collect()
    }

    /// Returns the findings that make the set unusable.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// Returns whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }
}

/// The output of `rocmrpm inspect --json` and `rocm-inspect --json`: the contents and dependencies of files,
/// and problems with them.
///
/// The same files and expectations produce the same bytes.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ReportDocument<'a> {
    schema: &'static str,
    /// The depth of the inspection.
    depth: Depth,
    /// The GPU targets that the set should serve.
    gpu_targets: &'a [GpuTarget],
    /// How the set serves each of them.
    verdicts: Vec<Verdict>,
    /// The system on which the set should load, such as `fedora-43`; empty if none was given.
    system: &'a str,
    /// What was inspected, by path.
    subjects: &'a [Subject],
    /// Where every needed library comes from, by subject, file and search order.
    needs: &'a [Need],
    /// Problems and notes, worst first.
    findings: &'a [Finding],
    /// Findings that a waiver accepts, with its reason.
    waived: &'a [Waived],
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { depth, gpu_targets, system, subjects, needs, findings, waived } = self;
        let (schema, depth, verdicts) = (SCHEMA, *depth, self.verdicts());
        ReportDocument {
            schema,
            depth,
            gpu_targets,
            verdicts,
            system,
            subjects,
            needs,
            findings,
            waived,
        }
        .serialize(serializer)
    }
}

impl Document for Report {
    const SCHEMA: &'static str = SCHEMA;
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Report {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Report".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <ReportDocument<'_> as schemars::JsonSchema>::json_schema(generator)
    }
}
