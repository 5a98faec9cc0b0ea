//! The result of an inspection: the files, where their libraries come from, the
//! findings. Neither reading nor judging.

use std::collections::BTreeSet;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::facts::{Subject, Target};
use super::finding::{Depth, Finding, Judgement, Need, Severity, Waived};
use super::rules::{Verdict, verdict};
use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::names::Soname;

/// The name and version of a serialised [`Report`].
pub const SCHEMA: &str = "rocmrpm/inspection/4";

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
