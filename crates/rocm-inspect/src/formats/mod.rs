//! Formats reports as text, HTML, JUnit XML, and GitHub workflow commands; `serde` serializes a
//! [`Report`] as JSON. This file contains the parts that they share: sums for each target, groups of
//! findings, and verdicts.

mod comparison;
mod github;
mod html;
#[cfg(feature = "junit")]
mod junit;
mod text;

use std::collections::{BTreeMap, BTreeSet};

pub use comparison::comparison_text;
pub use github::to_github;
pub use html::to_html;
#[cfg(feature = "junit")]
pub use junit::to_junit;
pub use text::{TextOptions, to_text};

use crate::{
    Compression, DeviceCode, FileFacts, Finding, Need, Report, Severity, Storage, Subject, Target,
};
use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::style::count;

/// The program that reports name.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// What users call to get a report.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The command that explains a rule; the rule's ID is appended.
    pub explain: &'a str,
}

impl Program<'static> {
    /// The program of this crate.
    pub const ROCM_INSPECT: Self = Self {
        name: "rocm-inspect",
        version: env!("CARGO_PKG_VERSION"),
        explain: "rocm-inspect --explain",
    };
}

/// The GPU code of one target, summed over all places with the same purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TargetSum<'a> {
    target: &'a Target,
    count: u64,
    bytes: u64,
    /// How many kernels were counted, and whether all code was counted.
    kernels: u64,
    kernels_known: bool,
    storages: BTreeSet<Storage>,
    /// Includes `None` for uncompressed code.
    compressions: BTreeSet<Option<Compression>>,
    versions: BTreeSet<u8>,
}

impl<'a> TargetSum<'a> {
    fn new(code: &'a DeviceCode) -> Self {
        Self {
            target: &code.target,
            count: 0,
            bytes: 0,
            kernels: 0,
            kernels_known: true,
            storages: BTreeSet::new(),
            compressions: BTreeSet::new(),
            versions: BTreeSet::new(),
        }
    }

    fn add(&mut self, code: &DeviceCode) {
        self.count = self.count.saturating_add(code.count);
        self.bytes = self.bytes.saturating_add(code.bytes);
        self.kernels = self.kernels.saturating_add(code.kernels.unwrap_or(0));
        self.kernels_known &= code.kernels.is_some();
        self.storages.insert(code.storage);
        self.compressions.insert(code.compression);
        self.versions.extend(code.version);
    }

    /// Describes where the code is stored and how it is compressed.
    fn place(&self) -> String {
        let mut words: Vec<String> =
            self.storages.iter().map(|s| storage_words(*s).to_owned()).collect();
        let methods: BTreeSet<&str> =
            self.compressions.iter().flatten().map(|c| c.method).collect();
        if !methods.is_empty() {
            let partly = if self.compressions.contains(&None) { "partly " } else { "" };
            words.push(format!("{partly}compressed with {}", list(methods)));
        }
        words.join(", ")
    }

    /// Returns the number of kernels, followed by a plus if some code was not counted; `None` if
    /// none was.
    fn kernels(&self) -> Option<String> {
        match (self.kernels_known, self.kernels) {
            (true, n) => Some(number(n)),
            (false, 0) => None,
            (false, n) => Some(format!("{}+", number(n))),
        }
    }

    /// Returns the code object versions: `5`, or `4, 5`; empty if unknown.
    fn version(&self) -> String {
        list(&self.versions)
    }
}

fn storage_words(storage: Storage) -> &'static str {
    match storage {
        Storage::HipFatbin => ".hip_fatbin",
        Storage::OtherSection => "bundles in other sections",
        Storage::OffloadBinary => ".llvm.offloading",
        Storage::StaticArchive => "static archives",
        Storage::Bitcode => "bitcode, compiled at link time",
        Storage::Bundle => "bundle files",
        Storage::CodeObject => "code object files",
        Storage::Kpack => "kpack archives",
        Storage::KernelFile => "kernel files",
        Storage::DataFile => "tuning data, no code",
        Storage::Embedded => "embedded, not offload code",
    }
}

/// Sums GPU code by target: either the code that serves its target or the code that does not (data
/// and embedded code). Code that runs on a wanted target comes first.
fn sums<'a>(
    device: impl IntoIterator<Item = &'a DeviceCode>,
    serving: bool,
    wanted: &[GpuTarget],
) -> Vec<TargetSum<'a>> {
    let mut sums: BTreeMap<(bool, Option<Storage>, &Target), TargetSum<'a>> = BTreeMap::new();
    for code in device.into_iter().filter(|code| code.storage.serves() == serving) {
        let extra = (!serving).then_some(code.storage);
        let key = (!is_wanted(&code.target, wanted), extra, &code.target);
        sums.entry(key).or_insert_with(|| TargetSum::new(code)).add(code);
    }
    let mut sums: Vec<_> = sums.into_values().collect();
    sums.sort_by_cached_key(|sum| (!is_wanted(sum.target, wanted), order(sum.target)));
    sums
}

/// Returns the sort key of a target in natural order: gfx908 before gfx1010, then generic targets,
/// then targets that are not processors.
fn order(target: &Target) -> (u8, usize, String) {
    let text = target.to_string();
    let kind = match target {
        Target::Gpu(gpu) if gpu.processor().ends_with("-generic") => 1,
        Target::Gpu(_) => 0,
        _ => 2,
    };
    (kind, text.split(':').next().map_or(0, str::len), text)
}

fn is_wanted(target: &Target, wanted: &[GpuTarget]) -> bool {
    wanted.iter().any(|gpu| target.serves(gpu))
}

/// Returns each target that is missing in some of a file's bundles, and in how many.
fn partial(file: &FileFacts) -> Vec<(&Target, u64)> {
    let bundled =
        [Storage::HipFatbin, Storage::OtherSection, Storage::StaticArchive, Storage::Bundle];
    let mut counts: BTreeMap<&Target, u64> = BTreeMap::new();
    for code in file.device.iter().filter(|code| bundled.contains(&code.storage)) {
        let count = counts.entry(&code.target).or_default();
        *count = count.saturating_add(code.count);
    }
    let mut partial: Vec<_> =
        counts.into_iter().filter(|(_, count)| *count < file.bundles).collect();
    partial.sort_by_cached_key(|(target, _)| order(target));
    partial
}

/// The findings of one rule, in the report's order: worst first.
struct Group<'a> {
    severity: Severity,
    id: &'static str,
    findings: Vec<&'a Finding>,
}

fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
    for finding in &report.findings {
        let key = (finding.severity, finding.id.as_str());
        let at = *places.entry(key).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Group { severity: key.0, id: finding.id.as_str(), findings: Vec::new() });
        }
        groups[at].findings.push(finding);
    }
    groups.sort_by_key(|group| group.severity);
    groups
}

/// Returns the word for a severity in the formats.
fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn severity_count(report: &Report, severity: Severity) -> usize {
    report.findings.iter().filter(|finding| finding.severity == severity).count()
}

/// `2 errors, 1 warning, 3 notes; 1 waived`, without zero counts.
fn tally(report: &Report) -> String {
    let mut words = Vec::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Info] {
        let n = severity_count(report, severity);
        if n > 0 {
            words.push(count(n, severity_word(severity)));
        }
    }
    let mut text = if words.is_empty() { "no findings".to_owned() } else { words.join(", ") };
    if !report.waived.is_empty() {
        text.push_str(&format!("; {} waived", report.waived.len()));
    }
    text
}

/// `gfx1151: served exactly; gfx1100: not served`.
fn verdict_line(report: &Report) -> String {
    let verdicts: Vec<String> =
        report.verdicts().iter().map(|v| format!("{}: {v}", v.target)).collect();
    verdicts.join("; ")
}

/// Returns the location of a finding, with the subject's name if there are several.
fn place(report: &Report, finding: &Finding) -> String {
    let name = |path: &str| {
        report
            .subjects
            .iter()
            .find(|s| s.path == path)
            .map_or_else(|| path.to_owned(), |s| s.name.clone())
    };
    match (&finding.subject, &finding.file) {
        (Some(subject), Some(file)) if report.subjects.len() > 1 => {
            format!("{}: {file}", name(subject))
        }
        (_, Some(file)) => file.clone(),
        (Some(subject), None) => name(subject),
        (None, None) => "the whole set".to_owned(),
    }
}

/// Groups the libraries that files need by subject and file.
fn needs_by_file(report: &Report) -> BTreeMap<(&str, &str), Vec<&Need>> {
    let mut needs: BTreeMap<(&str, &str), Vec<&Need>> = BTreeMap::new();
    for need in &report.needs {
        needs.entry((&need.subject, &need.file)).or_default().push(need);
    }
    needs
}

/// Returns whether a file is GPU code or data that does not load libraries; a folder may contain
/// hundreds of these.
fn is_data(file: &FileFacts) -> bool {
    file.elf.as_ref().is_none_or(|elf| elf.machine == "amdgpu") && file.kpack_reference.is_none()
}

/// Returns the folder of a path inside a subject, with a trailing slash; empty at the top level.
fn folder(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..=at])
}

/// Formats a number with commas between thousands.
fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn list(items: impl IntoIterator<Item: ToString>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the total size of the subjects, if all of them have a size.
fn total_size(subjects: &[Subject]) -> Option<u64> {
    subjects
        .iter()
        .map(|s| s.size)
        .try_fold(0u64, |sum, size| size.map(|size| sum.saturating_add(size)))
}

#[cfg(test)]
#[cfg(feature = "junit")]
mod tests;
