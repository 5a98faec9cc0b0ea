//! Compares two inspections: packages, files, libraries, symbols, GPU code and findings. `pairs`
//! decides which items correspond; `formats` displays the changes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::facts::{DeviceCode, ElfFacts, FileFacts, Subject};
use super::finding::Finding;
use super::pairs::{self, Pairs};
use super::report::Report;
use rocmrpm_base::document::Document;
use rocmrpm_base::names::Soname;

/// The name and version of a serialized [`Comparison`].
const SCHEMA: &str = "rocmrpm/comparison/2";

/// The output of `rocmrpm inspect --against --json`: the changes between two inspections.
///
/// It lists only differences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    schema: &'static str,
    /// Targets that the whole set serves, excluding debugging data and tuning data.
    pub targets: Delta,
    /// Packages, wheels, folders and files without a counterpart, by name.
    pub subjects: Delta,
    /// Subjects that differ from their counterpart.
    pub changed: Vec<SubjectChange>,
    /// New findings.
    pub findings_new: Vec<Finding>,
    /// Findings that no longer occur.
    pub findings_gone: Vec<Finding>,
}

/// The additions to a list and the removals from it, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delta {
    /// Only in the new inspection.
    pub added: Vec<String>,
    /// Only in the old inspection.
    pub removed: Vec<String>,
}

/// A changed value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change<T> {
    /// The old value.
    pub old: T,
    /// The new value.
    pub new: T,
}

/// The changes in a package, a wheel, a folder or a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubjectChange {
    /// The old name.
    pub old: String,
    /// The new name.
    pub new: String,
    /// The size in bytes.
    pub size: Option<Change<u64>>,
    /// New ELF files and files with GPU code.
    pub files_added: Vec<SizedFile>,
    /// Removed ELF files and files with GPU code.
    pub files_removed: Vec<SizedFile>,
    /// Changed ELF files and files with GPU code.
    pub files: Vec<FileChange>,
    /// All other files, by path.
    pub other_files: Delta,
}

/// A file with its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizedFile {
    /// The path inside the subject.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
}

/// The changes in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileChange {
    /// The old path.
    pub old: String,
    /// The new path.
    pub new: String,
    /// The size in bytes.
    pub size: Option<Change<u64>>,
    /// GPU code, by target.
    pub device: Vec<TargetChange>,
    /// `DT_SONAME`.
    pub soname: Option<Change<Option<String>>>,
    /// `DT_NEEDED`.
    pub needed: Delta,
    /// `DT_RPATH`.
    pub rpath: Option<Change<Vec<String>>>,
    /// `DT_RUNPATH`.
    pub runpath: Option<Change<Vec<String>>>,
    /// The symbol versions that it needs, each as `library: VERSION`.
    pub versions_needed: Delta,
    /// The symbol versions that it defines.
    pub versions_provided: Delta,
    /// The names of the dynamic symbols that it defines.
    pub symbols: Delta,
}

/// GPU code for a target in a file, old and new; `None` without such code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TargetChange {
    /// The target.
    pub target: String,
    /// The old code.
    pub old: Option<Code>,
    /// The new code.
    pub new: Option<Code>,
}

/// All GPU code for one target in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Code {
    /// The number of code objects.
    pub count: u64,
    /// The number of kernels; `None` if they were not counted.
    pub kernels: Option<u64>,
    /// The size in bytes, decompressed.
    pub bytes: u64,
    /// The storage and compression, such as `hip-fatbin ccob3-zstd`.
    pub storage: BTreeSet<String>,
}

/// Compares two inspections of the same depth.
pub fn compare(old: &Report, new: &Report) -> Comparison {
    let Pairs { both, old_only, new_only } = pairs::subjects(&old.subjects, &new.subjects);
    let changed = both.into_iter().map(|(old, new)| subject(old, new));
    let names = |subjects: Vec<&Subject>| {
        subjects.into_iter().map(|subject| subject.name.clone()).collect()
    };
    let findings = pairs::findings(&old.findings, &new.findings);
    Comparison {
        schema: SCHEMA,
        targets: Delta::of(served(old), served(new)),
        subjects: Delta { added: names(new_only), removed: names(old_only) },
        changed: changed.filter(|change| !change.is_empty()).collect(),
        findings_new: findings.new_only.into_iter().cloned().collect(),
        findings_gone: findings.old_only.into_iter().cloned().collect(),
    }
}

impl Document for Comparison {
    const SCHEMA: &'static str = SCHEMA;
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            targets: Delta::default(),
            subjects: Delta::default(),
            changed: Vec::new(),
            findings_new: Vec::new(),
            findings_gone: Vec::new(),
        }
    }
}

impl Comparison {
    /// Returns whether the inspections do not differ.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
            && self.subjects.is_empty()
            && self.changed.is_empty()
            && self.findings_new.is_empty()
            && self.findings_gone.is_empty()
    }
}

impl Delta {
    fn of<T: Ord + ToString>(
        old: impl IntoIterator<Item = T>,
        new: impl IntoIterator<Item = T>,
    ) -> Self {
        let (old, new): (BTreeSet<T>, BTreeSet<T>) =
            (old.into_iter().collect(), new.into_iter().collect());
        let texts = |left: &BTreeSet<T>, right: &BTreeSet<T>| {
            left.difference(right).map(ToString::to_string).collect::<Vec<_>>()
        };
        Self { added: texts(&new, &old), removed: texts(&old, &new) }
    }

    /// Returns whether nothing was added or removed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl<T: PartialEq> Change<T> {
    fn of(old: T, new: T) -> Option<Self> {
        (old != new).then_some(Self { old, new })
    }
}

impl SubjectChange {
    /// Returns whether nothing differs, except perhaps the name.
    fn is_empty(&self) -> bool {
        *self == Self { old: self.old.clone(), new: self.new.clone(), ..Self::default() }
    }
}

impl FileChange {
    fn is_empty(&self) -> bool {
        *self == Self { old: self.old.clone(), new: self.old.clone(), ..Self::default() }
    }
}

fn served(report: &Report) -> impl Iterator<Item = String> {
    let subjects = report.subjects.iter().filter(|subject| !subject.debug);
    let codes = subjects.flat_map(|subject| &subject.device).filter(|code| code.storage.serves());
    codes.map(|code| code.target.to_string())
}

fn subject(old: &Subject, new: &Subject) -> SubjectChange {
    let Pairs { both, old_only, new_only } = pairs::files(&old.files, &new.files);
    let sized = |files: Vec<&FileFacts>| {
        files
            .into_iter()
            .map(|file| SizedFile { path: file.path.clone(), size: file.size })
            .collect()
    };
    let size = match (old.size, new.size) {
        (Some(old), Some(new)) => Change::of(old, new),
        _ => None,
    };
    let files =
        both.into_iter().map(|(old, new)| file(old, new)).filter(|change| !change.is_empty());
    let (old_others, new_others) = (others(old), others(new));
    let other = pairs::paths(&old_others, &new_others);
    let owned = |paths: Vec<&&str>| paths.into_iter().map(|path| (*path).to_owned()).collect();
    SubjectChange {
        old: old.name.clone(),
        new: new.name.clone(),
        size,
        files: files.collect(),
        files_added: sized(new_only),
        files_removed: sized(old_only),
        other_files: Delta { added: owned(other.new_only), removed: owned(other.old_only) },
    }
}

/// Returns the paths of a subject that are not in its `files`, including symbolic links. Omits
/// links by build ID, which differ in every build.
fn others(subject: &Subject) -> Vec<&str> {
    let listed: BTreeSet<&str> = subject.files.iter().map(|file| file.path.as_str()).collect();
    let paths =
        subject.contents.paths.iter().chain(subject.contents.links.keys()).map(String::as_str);
    paths.filter(|path| !listed.contains(path) && !path.contains("/.build-id/")).collect()
}

fn file(old: &FileFacts, new: &FileFacts) -> FileChange {
    let change = FileChange {
        old: old.path.clone(),
        new: new.path.clone(),
        size: Change::of(old.size, new.size),
        device: device(&old.device, &new.device),
        ..FileChange::default()
    };
    if old.elf.is_none() && new.elf.is_none() {
        return change;
    }
    let (none, name) = (ElfFacts::default(), |soname: &Soname| soname.as_str().to_owned());
    let (old, new) = (old.elf.as_ref().unwrap_or(&none), new.elf.as_ref().unwrap_or(&none));
    FileChange {
        soname: Change::of(old.soname.as_ref().map(name), new.soname.as_ref().map(name)),
        needed: Delta::of(old.needed.iter().map(name), new.needed.iter().map(name)),
        rpath: Change::of(old.rpath.clone(), new.rpath.clone()),
        runpath: Change::of(old.runpath.clone(), new.runpath.clone()),
        versions_needed: Delta::of(versions(old), versions(new)),
        versions_provided: Delta::of(&old.versions_provided, &new.versions_provided),
        symbols: Delta::of(&old.symbols.defined, &new.symbols.defined),
        ..change
    }
}

fn versions(elf: &ElfFacts) -> impl Iterator<Item = String> {
    let all = elf.versions_needed.iter();
    all.flat_map(|(library, versions)| {
        versions.iter().map(move |version| format!("{library}: {version}"))
    })
}

fn device(old: &[DeviceCode], new: &[DeviceCode]) -> Vec<TargetChange> {
    let (mut old, mut new) = (by_target(old), by_target(new));
    let targets: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    let changes = targets.into_iter().filter_map(|target| {
        let (old, new) = (old.remove(&target), new.remove(&target));
        (old != new).then_some(TargetChange { target, old, new })
    });
    changes.collect()
}

fn by_target(codes: &[DeviceCode]) -> BTreeMap<String, Code> {
    let mut targets: BTreeMap<String, Code> = BTreeMap::new();
    for code in codes {
        let storage = match code.compression {
            Some(compression) => format!("{} {compression}", code.storage),
            None => code.storage.to_string(),
        };
        let first = Code { kernels: Some(0), ..Code::default() };
        let sum = targets.entry(code.target.to_string()).or_insert(first);
        sum.count = sum.count.saturating_add(code.count);
        sum.bytes = sum.bytes.saturating_add(code.bytes);
        sum.kernels = sum.kernels.zip(code.kernels).map(|(sum, more)| sum.saturating_add(more));
        sum.storage.insert(storage);
    }
    targets
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::facts::{Compression, Storage, Symbols};
    use crate::finding::{Depth, Judgement};
    use crate::rules::RULES;
    use crate::testing::{device_code, gpu, subject};

    fn code(target: &str, storage: Storage, count: u64, kernels: Option<u64>) -> DeviceCode {
        DeviceCode {
            storage,
            version: Some(5),
            count,
            bytes: count.saturating_mul(1000),
            kernels,
            ..device_code(gpu(target))
        }
    }

    fn library(path: &str) -> FileFacts {
        let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let elf = ElfFacts {
            soname: Some(Soname::new("libk.so.1")),
            needed: vec![Soname::new("libamdhip64.so.6"), Soname::new("libc.so.6")],
            runpath: owned(&["$ORIGIN"]),
            versions_needed: BTreeMap::from([("libc.so.6".into(), owned(&["GLIBC_2.17"]))]),
            versions_provided: owned(&["K_1"]),
            symbols: Symbols { defined: vec!["a".into(), "b".into()], undefined: vec!["c".into()] },
            ..ElfFacts::default()
        };
        let device = vec![
            code("gfx1100", Storage::HipFatbin, 2, Some(20)),
            code("gfx1151", Storage::Embedded, 1, None),
        ];
        FileFacts { path: path.into(), size: 5000, elf: Some(elf), device, ..FileFacts::default() }
    }

    fn report(subjects: Vec<Subject>, findings: Vec<Finding>) -> Report {
        let judgement = Judgement {
            gpu_targets: Vec::new(),
            system: String::new(),
            findings,
            waived: Vec::new(),
        };
        Report::new(Depth::Deep, subjects, Vec::new(), judgement)
    }

    fn wheel(version: &str, files: Vec<FileFacts>) -> Subject {
        let mut wheel = subject(&format!("k-{version}-py3-none-any.whl"), files);
        wheel.contents.paths.insert(format!("k-{version}.dist-info/RECORD"));
        wheel
    }

    fn delta(added: &[&str], removed: &[&str]) -> Delta {
        let owned = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        Delta { added: owned(added), removed: owned(removed) }
    }

    #[test]
    fn ignores_versions_in_names() {
        let old = report(vec![wheel("1.0", vec![library("k/libk.so")])], Vec::new());
        let new = report(vec![wheel("1.1", vec![library("k/libk.so")])], Vec::new());
        let comparison = compare(&old, &new);
        assert!(comparison.is_empty(), "{comparison:?}");
        let json = serde_json::to_value(comparison).unwrap();
        assert_eq!(
            (&json["schema"], &json["changed"]),
            (&"rocmrpm/comparison/2".into(), &serde_json::json!([]))
        );
    }

    #[test]
    fn lists_all_changes_in_a_library() {
        let mut changed = library("k/libk.so.2.0");
        changed.size = 6000;
        changed.device = vec![
            code("gfx1151", Storage::HipFatbin, 2, Some(18)),
            code("gfx1100", Storage::HipFatbin, 2, Some(20)),
        ];
        let zstd = Some(Compression { version: 3, method: "zstd" });
        changed.device[0].compression = zstd;
        let elf = changed.elf.as_mut().unwrap();
        elf.soname = Some(Soname::new("libk.so.2"));
        elf.needed[0] = Soname::new("libamdhip64.so.7");
        elf.runpath.clear();
        elf.rpath.push("$ORIGIN".into());
        elf.versions_needed
            .insert("libc.so.6".into(), vec!["GLIBC_2.17".into(), "GLIBC_2.38".into()]);
        elf.versions_provided = vec!["K_2".into()];
        elf.symbols.defined = vec!["b".into(), "d".into()];
        let old = report(vec![wheel("1.0", vec![library("k/libk.so.1.0")])], Vec::new());
        let comparison = compare(&old, &report(vec![wheel("2.0", vec![changed])], Vec::new()));
        assert_eq!(comparison.targets, delta(&["gfx1151"], &[]));
        let [subject] = comparison.changed.as_slice() else { panic!("{comparison:?}") };
        assert_eq!(
            (subject.old.as_str(), subject.new.as_str()),
            ("k-1.0-py3-none-any.whl", "k-2.0-py3-none-any.whl")
        );
        let storage = |text: &str| BTreeSet::from([text.to_owned()]);
        let owned = |text: &str| text.to_owned();
        let expected = FileChange {
            old: owned("k/libk.so.1.0"),
            new: owned("k/libk.so.2.0"),
            size: Change::of(5000, 6000),
            device: vec![TargetChange {
                target: owned("gfx1151"),
                old: Some(Code {
                    count: 1,
                    kernels: None,
                    bytes: 1000,
                    storage: storage("embedded"),
                }),
                new: Some(Code {
                    count: 2,
                    kernels: Some(18),
                    bytes: 2000,
                    storage: storage("hip-fatbin ccob3-zstd"),
                }),
            }],
            soname: Change::of(Some(owned("libk.so.1")), Some(owned("libk.so.2"))),
            needed: delta(&["libamdhip64.so.7"], &["libamdhip64.so.6"]),
            rpath: Change::of(vec![], vec![owned("$ORIGIN")]),
            runpath: Change::of(vec![owned("$ORIGIN")], vec![]),
            versions_needed: delta(&["libc.so.6: GLIBC_2.38"], &[]),
            versions_provided: delta(&["K_2"], &["K_1"]),
            symbols: delta(&["d"], &["a"]),
        };
        assert_eq!(subject.files, [expected]);
    }

    #[test]
    fn lists_additions_and_removals() {
        let old = vec![wheel("1.0", vec![library("k/liba.so")]), subject("x-1.rpm", vec![])];
        let new = vec![wheel("1.0", vec![library("k/libb.so")]), subject("y-1.rpm", vec![])];
        let comparison = compare(&report(old, Vec::new()), &report(new, Vec::new()));
        assert_eq!(comparison.subjects, delta(&["y-1.rpm"], &["x-1.rpm"]));
        let sized = |path: &str| vec![SizedFile { path: path.to_owned(), size: 5000 }];
        assert_eq!(comparison.changed[0].files_added, sized("k/libb.so"));
        assert_eq!(comparison.changed[0].files_removed, sized("k/liba.so"));
        assert_eq!(comparison.changed[0].other_files, Delta::default());
    }

    #[test]
    fn compares_links_except_those_by_build_id() {
        let with = |links: &[&str]| {
            let mut subject = subject("k-1.rpm", vec![library("/usr/lib64/libk.so.1.0")]);
            subject.contents.links =
                links.iter().map(|link| ((*link).to_owned(), "libk.so.1.0".into())).collect();
            report(vec![subject], Vec::new())
        };
        let old = with(&["/usr/lib64/libk.so.1", "/usr/lib64/libk.so", "/usr/lib/.build-id/aa/bb"]);
        let new = with(&["/usr/lib64/libk.so.2", "/usr/lib/.build-id/cc/dd"]);
        assert_eq!(compare(&old, &new).changed[0].other_files, delta(&[], &["/usr/lib64/libk.so"]));
    }

    #[test]
    fn pairs_single_subjects_of_any_name() {
        let old = report(vec![subject("old/folder", vec![library("k.so")])], Vec::new());
        let new = report(vec![subject("other", vec![library("k.so")])], Vec::new());
        assert!(compare(&old, &new).is_empty());
        // A wheel built from an RPM is paired with it, although their kinds differ.
        let rpm = report(vec![subject("k-1.rpm", vec![library("/usr/k.so")])], Vec::new());
        assert_eq!(compare(&rpm, &new).changed[0].files_added.len(), 1);
    }

    #[test]
    fn lists_new_and_gone_findings_regardless_of_offsets() {
        let finding = |id: &str, file: &str, found: &str| {
            let rule = RULES.iter().find(|rule| rule.id.as_str() == id).unwrap();
            Finding {
                severity: rule.severity,
                subject: Some("k.rpm".into()),
                file: Some(file.into()),
                id: rule.id,
                found: found.into(),
                expected: String::new(),
                help: String::new(),
            }
        };
        let old = vec![
            finding("elf-damaged", "/usr/libk.so.1", "the data at byte 40 is wrong"),
            finding("not-stripped", "/usr/libk.so.1", "symbols"),
            finding("needed-absolute", "/usr/libk.so.1", "NEEDED `/opt/libx.so.1`"),
        ];
        let mut new = vec![
            finding("elf-damaged", "/usr/libk.so.2", "the data at byte 88 is wrong"),
            finding("needed-absolute", "/usr/libk.so.2", "NEEDED `/opt/libx.so.2`"),
        ];
        new[0].subject = Some("k-2.rpm".into());
        let comparison = compare(&report(Vec::new(), old), &report(Vec::new(), new));
        let ids =
            |findings: &[Finding]| findings.iter().map(|f| f.id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&comparison.findings_new), ["needed-absolute"]);
        assert_eq!(ids(&comparison.findings_gone), ["needed-absolute", "not-stripped"]);
        assert!(!comparison.is_empty());
    }

    #[test]
    fn sums_code_by_target_and_kernels_only_if_all_are_counted() {
        let codes = [
            code("gfx1151", Storage::HipFatbin, 2, Some(20)),
            code("gfx1151", Storage::OtherSection, 1, None),
            code("gfx1100", Storage::HipFatbin, u64::MAX, Some(u64::MAX)),
            code("gfx1100", Storage::HipFatbin, 1, Some(1)),
        ];
        let targets = by_target(&codes);
        assert_eq!((targets["gfx1151"].count, targets["gfx1151"].kernels), (3, None));
        assert_eq!(
            (targets["gfx1100"].count, targets["gfx1100"].kernels),
            (u64::MAX, Some(u64::MAX))
        );
    }
}
