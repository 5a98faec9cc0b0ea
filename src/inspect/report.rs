//! The values of an inspection: expectations in, report out, and how the report
//! is serialised. Neither reading nor judging.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};

use super::rules::{RuleId, Severity};
use crate::digest::Sha256;
use crate::gpu::GpuTarget;
use crate::names::Soname;

/// The name and version of a serialised [`Report`].
pub const SCHEMA: &str = "rocmrpm/inspection/1";

/// What the inspected set should be like. The default expects nothing, and then
/// only what is wrong by itself is found.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// The GPU targets that the set must serve; empty: targets are not judged.
    pub gpu_targets: Vec<GpuTarget>,
    /// Whether device code is promised; `None` where nothing is known.
    pub device_code: Option<bool>,
    /// Folders of the build that must not occur in RPATH or RUNPATH, in addition
    /// to the usual ones.
    pub build_roots: Vec<String>,
}

/// The result of an inspection, sorted: the same files give the same bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    schema: &'static str,
    /// What was inspected, by path.
    pub subjects: Vec<Subject>,
    /// What is wrong or worth knowing, worst first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns a report of these subjects and findings.
    pub fn new(subjects: Vec<Subject>, mut findings: Vec<Finding>) -> Self {
        findings.sort();
        Self { schema: SCHEMA, subjects, findings }
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

    /// Tells whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }
}

/// What kind of thing was inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// An RPM package.
    Rpm,
    /// A wheel, or any other zip archive.
    Wheel,
    /// A folder.
    Folder,
    /// A single ELF file, code object or offload bundle.
    File,
}

/// One thing that was inspected.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// The path as given, or below the folder that was given.
    pub path: String,
    /// What it is.
    pub kind: SubjectKind,
    /// `name-version-release.arch` of an RPM, else the file's or folder's name.
    pub name: String,
    /// Whether this is an RPM of debugging data, which no target rule looks at.
    pub debug: bool,
    /// The digest of the file itself; `None` for a folder.
    pub sha256: Option<Sha256>,
    /// The size of the file itself in bytes; `None` for a folder.
    pub size: Option<u64>,
    /// The ELF files, code objects and bundles in it, by path. Other files are
    /// not listed.
    pub files: Vec<FileFacts>,
    /// The GPU code of all `files` together.
    pub device: Vec<DeviceCode>,
}

/// What one ELF file, code object or bundle holds.
#[derive(Debug, Clone, Serialize)]
pub struct FileFacts {
    /// The path inside the subject, as the archive states it.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// What its headers say; `None` for a bare bundle and an unreadable ELF file.
    pub elf: Option<ElfFacts>,
    /// How many offload bundles were read. A target with a smaller count than
    /// this is missing in some of them, which can be meant so.
    pub bundles: u64,
    /// The GPU code, by target, storage and compression.
    pub device: Vec<DeviceCode>,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Code objects that contradict the IDs they are stored under.
    pub mismatches: Vec<Mismatch>,
}

/// What an ELF file's headers and dynamic section say.
#[derive(Debug, Clone, Serialize)]
pub struct ElfFacts {
    /// 32 or 64 bits.
    pub bits: u8,
    /// The machine's name as in RPM architectures (`x86_64`), `amdgpu`, or
    /// `machine N` where we have no name for it.
    pub machine: String,
    /// Whether this is separate debugging data (`.debug`), whose code and dynamic
    /// section were taken out.
    pub debug: bool,
    /// `DT_SONAME`.
    #[serde(serialize_with = "soname")]
    pub soname: Option<Soname>,
    /// `DT_NEEDED`, in the file's order, which is the loader's.
    #[serde(serialize_with = "sonames")]
    pub needed: Vec<Soname>,
    /// The entries of `DT_RPATH`, in order; empty ones stay empty.
    pub rpath: Vec<String>,
    /// The entries of `DT_RUNPATH`, in order; empty ones stay empty.
    pub runpath: Vec<String>,
    /// The GNU build ID in hexadecimal digits.
    pub build_id: Option<String>,
}

/// GPU code of one target in one kind of storage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DeviceCode {
    /// What it runs on.
    pub target: Target,
    /// Where it lies.
    pub storage: Storage,
    /// How the bundle around it is compressed, if it is.
    pub compression: Option<Compression>,
    /// How many code objects.
    pub count: u64,
    /// Their size in bytes, decompressed.
    pub bytes: u64,
}

/// What GPU code runs on. Serialised as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A processor or generic target of the table.
    Gpu(GpuTarget),
    /// SPIR-V, compiled when it is loaded, for any GPU: `amdgcnspirv`.
    Spirv,
    /// A processor that the table does not have, as the file names it.
    Unknown(String),
    /// Code in a storage whose targets are not read: `unread`.
    Unread,
}

impl Target {
    /// Tells whether code of this kind runs on the GPU `wanted`.
    pub fn serves(&self, wanted: &GpuTarget) -> bool {
        match self {
            Self::Gpu(target) => target.serves(wanted),
            Self::Spirv => true,
            Self::Unknown(_) | Self::Unread => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpu(target) => target.as_str(),
            Self::Spirv => "amdgcnspirv",
            Self::Unknown(name) => name,
            Self::Unread => "unread",
        })
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where GPU code lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// The section `.hip_fatbin` of a host's ELF file.
    HipFatbin,
    /// A file that is itself a bundle (`.co`, `.hsaco`).
    Bundle,
    /// A file that is itself a code object (`.co`, `.hsaco`).
    CodeObject,
    /// A kpack archive to which a host's ELF file refers.
    Kpack,
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HipFatbin => "hip-fatbin",
            Self::Bundle => "bundle",
            Self::CodeObject => "code-object",
            Self::Kpack => "kpack",
        })
    }
}

/// The format of a compressed bundle. Serialised as text, such as `ccob3-zstd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Compression {
    /// The version in the header, 1 to 3.
    pub version: u16,
    /// `zlib` or `zstd`.
    pub method: &'static str,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ccob{}-{}", self.version, self.method)
    }
}

impl Serialize for Compression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A place that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Whether the ELF file around is damaged, not a bundle or code object.
    pub elf: bool,
    /// Where, in bytes from the file's beginning.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

/// Code objects whose flags contradict the ID in their bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mismatch {
    /// The ID in the bundle.
    pub id: String,
    /// What the code object's `e_flags` say.
    pub flags: String,
    /// How many such code objects.
    pub count: u64,
    /// The place of the first one's bundle, in bytes from the file's beginning.
    pub offset: u64,
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
            write!(f, "{place}: ")?;
        }
        write!(f, "found {}, expected {} [{}]", self.found, self.expected, self.id)
    }
}

fn soname<S: Serializer>(soname: &Option<Soname>, serializer: S) -> Result<S::Ok, S::Error> {
    soname.as_ref().map(Soname::as_str).serialize(serializer)
}

fn sonames<S: Serializer>(sonames: &[Soname], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(sonames.iter().map(Soname::as_str))
}
