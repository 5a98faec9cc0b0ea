//! The contents of files as values, and how they are serialized. It neither reads nor judges files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Serialize, Serializer};

use rocmrpm_base::digest::Sha256;
use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::names::Soname;

/// What kind of thing was inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// An RPM package.
    Rpm,
    /// A wheel, or any other zip archive.
    Wheel,
    /// A tar archive, compressed or not: an sdist, or a wheel's content packed as one.
    Tar,
    /// A folder.
    Folder,
    /// A single ELF file, code object or offload bundle.
    File,
}

/// An inspected package, archive, folder or file.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subject {
    /// The path as given, or below the given folder.
    pub path: String,
    /// The kind.
    pub kind: SubjectKind,
    /// `name-version-release.arch` of an RPM, otherwise the file's or folder's name.
    pub name: String,
    /// The package's or distribution's name, if it is an RPM or a wheel.
    pub package: Option<String>,
    /// Whether this is an RPM of debugging data, which the target rules ignore.
    pub debug: bool,
    /// The digest of the file itself; `None` for a folder, and for a single file in a
    /// quick inspection, because the digest takes a hundred times as long as the inspection.
    pub sha256: Option<Sha256>,
    /// The size of the file itself in bytes; `None` for a folder.
    pub size: Option<u64>,
    /// The ELF files, code objects and bundles in it, by path. Other files are
    /// not listed.
    pub files: Vec<FileFacts>,
    /// The GPU code of all `files` together.
    pub device: Vec<DeviceCode>,
    /// Files and archives in it that were not read, by path.
    pub unread: Vec<Unread>,
    /// All its paths, including those of `files`.
    #[serde(skip)]
    pub contents: Contents,
}

/// A file or an archive that was not read, so that its content is unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// The path inside the subject.
    pub path: String,
    /// Whether it is an archive whose kind or location is not supported; otherwise, reading it failed.
    pub archive: bool,
    /// Why it was not read.
    pub why: String,
}

/// The paths of a subject, as `files` spells them: relative in wheels and folders, absolute in
/// RPMs. They show where a search path leads.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Every regular file.
    pub paths: BTreeSet<String>,
    /// Every symbolic link with its unresolved target.
    pub links: BTreeMap<String, String>,
    /// The archives inside it that were read. The paths of their members start with theirs.
    pub archives: BTreeSet<String>,
    /// The names of the libraries that an RPM requires (`libx.so.1` of `libx.so.1()(64bit)`);
    /// `None` for other kinds of subjects, which have no requirements.
    pub requires: Option<BTreeSet<String>>,
    /// The GPU targets for which an RPM declares code by `Provides: rocm-gfx(TARGET)`; `None` for
    /// other kinds of subjects.
    pub gpu_provides: Option<BTreeSet<String>>,
}

impl Contents {
    /// Adds what the header of an RPM states, which every reader of its members has read.
    pub(crate) fn add_header(&mut self, header: Self) {
        self.requires = header.requires.or(self.requires.take());
        self.gpu_provides = header.gpu_provides.or(self.gpu_provides.take());
    }
}

/// The contents of one ELF file, code object, bundle or kpack archive.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileFacts {
    /// The path inside the subject, as the archive states it.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// Facts from its headers; `None` for a bare bundle and an unreadable ELF file.
    pub elf: Option<ElfFacts>,
    /// How many offload bundles were read. A target with a smaller count is
    /// missing in some of them, which can be intended.
    pub bundles: u64,
    /// The GPU code, by target, storage, compression and code object version.
    pub device: Vec<DeviceCode>,
    /// Where the GPU code is that was moved out of this ELF file.
    pub kpack_reference: Option<KpackReference>,
    /// A kpack archive's table of contents.
    pub kpack: Option<KpackArchive>,
    /// Parts that could not be read.
    pub damage: Vec<Damage>,
    /// Code objects that contradict their IDs.
    pub mismatches: Vec<Mismatch>,
    /// Compressed bundles whose content does not match the hash in their header.
    pub wrong_hashes: Vec<WrongHash>,
    /// Whether memory ran out while it was decoded, so that its facts are incomplete.
    #[serde(skip)]
    pub out_of_memory: bool,
}

/// Facts from an ELF file's headers, tables and read-only strings.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElfFacts {
    /// 32 or 64 bits.
    pub bits: u8,
    /// Whether the byte order is big-endian.
    pub big_endian: bool,
    /// The machine's name as in RPM architectures (`x86_64`), `amdgpu`, or
    /// `machine N` if it has no name here.
    pub machine: String,
    /// `e_type`.
    pub kind: ElfKind,
    /// Whether this is separate debugging data (`.debug`), without code and dynamic
    /// section.
    pub debug: bool,
    /// The dynamic loader that `PT_INTERP` names.
    pub interpreter: Option<String>,
    /// `DT_SONAME`.
    #[serde(serialize_with = "soname")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub soname: Option<Soname>,
    /// `DT_NEEDED`, in the file's order, in which the loader searches.
    #[serde(serialize_with = "sonames")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub needed: Vec<Soname>,
    /// The entries of `DT_RPATH`, in order; empty ones stay empty.
    pub rpath: Vec<String>,
    /// The entries of `DT_RUNPATH`, in order; empty ones stay empty.
    pub runpath: Vec<String>,
    /// The symbol versions that it needs (`.gnu.version_r`), by library, sorted.
    pub versions_needed: BTreeMap<String, Vec<String>>,
    /// The symbol versions that it defines (`.gnu.version_d`), sorted, without the
    /// base version.
    pub versions_provided: Vec<String>,
    /// The GNU build ID in hexadecimal digits.
    pub build_id: Option<String>,
    /// The file name in `.gnu_debuglink`.
    pub debug_link: Option<String>,
    /// Whether it has a full symbol table (`.symtab`).
    pub has_symbols: bool,
    /// Whether it has debugging information (`.debug_info`).
    pub has_debug_info: bool,
    /// Whether it has section headers, which the loader does not need.
    pub has_sections: bool,
    /// Whether the loader must modify code (`DT_TEXTREL`, `DF_TEXTREL`).
    pub text_relocations: bool,
    /// Whether its stack is executable (`PT_GNU_STACK`); `None` if not stated.
    pub executable_stack: Option<bool>,
    /// How much relocated data is made read-only.
    pub relro: Relro,
    /// Whether the loader binds all symbols when it loads the file (`DF_BIND_NOW`, `DF_1_NOW`).
    pub bind_now: bool,
    /// Libraries that dlopen notes name (`.note.dlopen`, systemd's ELF_DLOPEN_METADATA).
    pub dlopen_notes: Vec<String>,
    /// Library file names in read-only strings, which the file may open by name, sorted. A quick
    /// inspection leaves out segments with code, where some linkers put such strings.
    pub mentioned_libraries: Vec<String>,
    /// `/opt/rocm` and build folders in read-only strings, sorted; of a quick inspection like
    /// `mentioned_libraries`.
    pub mentioned_paths: Vec<Mention>,
    /// Contradictions in the program headers.
    pub header_faults: Vec<HeaderFault>,
    /// How many dynamic symbols it defines, including weak ones.
    pub defined_symbols: u64,
    /// How many dynamic symbols it imports, excluding weak ones: nothing fails if
    /// these are missing.
    pub undefined_symbols: u64,
    /// The names of both, for rules and comparisons.
    #[serde(skip)]
    pub symbols: Symbols,
    /// `GNU_PROPERTY_X86_ISA_1_NEEDED`: bit 0 is the baseline of x86-64, bits 1 to 3 are
    /// x86-64-v2 to v4.
    #[serde(skip)]
    pub x86_isa_needed: u32,
}

/// The kind of an ELF file (`e_type`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ElfKind {
    /// `ET_REL`: an object file.
    Relocatable,
    /// `ET_EXEC`.
    Executable,
    /// `ET_DYN`: a shared library or a position-independent executable.
    Shared,
    /// Anything else.
    #[default]
    Other,
}

/// How much of the relocated data is made read-only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Relro {
    /// No `PT_GNU_RELRO`.
    #[default]
    None,
    /// `PT_GNU_RELRO`, with lazy binding.
    Partial,
    /// `PT_GNU_RELRO`, with all symbols bound when loaded (`DF_BIND_NOW`, `DF_1_NOW`).
    Full,
}

/// The names of dynamic symbols, sorted, without versions. Excludes weak undefined symbols: nothing
/// fails if they are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Symbols defined with global or weak binding. Empty after a quick inspection, which only
    /// counts them.
    pub defined: Vec<Box<str>>,
    /// Symbols left undefined with global binding.
    pub undefined: Vec<Box<str>>,
}

/// A path in a file's read-only strings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mention {
    /// The path.
    pub path: String,
    /// The section, or `segment` if there are no section headers.
    pub section: String,
    /// The offset in the file, in bytes.
    pub offset: u64,
}

/// A contradiction in the program headers, usually left by editing a linked file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeaderFault {
    /// The offset of the program header in the file, in bytes.
    pub offset: u64,
    /// The problem.
    pub what: String,
    /// Whether the loader refuses or misreads the file; a fault that it tolerates
    /// only shows that the file was edited.
    pub fatal: bool,
}

/// A reference of a host's ELF file to kpack archives. Source of the format:
/// ROCm/rocm-systems, `shared/kpack`, section `.rocm_kpack_ref`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KpackReference {
    /// The name under which the archives list this file's code.
    pub kernel_name: String,
    /// Where the archives are, relative to this file's folder; `@GFXARCH@` is replaced
    /// by a target.
    pub search_paths: Vec<String>,
    /// How many pieces of code it refers to: `kernel_name#0` to `#pieces-1`.
    pub pieces: u64,
}

/// The table of contents of a kpack archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KpackArchive {
    /// The group of libraries whose code it contains.
    pub group: String,
    /// The targets that the archive declares.
    pub targets: Vec<Target>,
    /// `none` or `zstd-per-kernel`.
    pub compression: String,
    /// How many entries the table has, for all targets.
    pub entries: u64,
    /// The table: the targets of every `kernel_name#index`.
    #[serde(skip)]
    pub table: BTreeMap<String, BTreeSet<Target>>,
}

/// GPU code of one target in one kind of storage.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceCode {
    /// The target.
    pub target: Target,
    /// The storage.
    pub storage: Storage,
    /// How the bundle around it is compressed, if it is.
    pub compression: Option<Compression>,
    /// The code object version, 2 to 6; `None` for other formats, and for code that
    /// a quick inspection does not decompress.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 6)))]
    pub version: Option<u8>,
    /// The number of code objects.
    pub count: u64,
    /// Their size in bytes, decompressed.
    pub bytes: u64,
    /// The number of kernels; `None` unless every bundle was decoded.
    pub kernels: Option<u64>,
    /// The code of these kernels; `None` unless it is known for all of them.
    pub kernel_code: Option<KernelCode>,
}

/// The machine code of several kernels together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelCode {
    /// The size in bytes: of the kernels' functions, or of the executable segment of a large code
    /// object.
    pub bytes: u64,
    /// How many kernels are too small for an instruction that writes to memory.
    pub empty: u64,
}

impl KernelCode {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            empty: self.empty.saturating_add(other.empty),
        }
    }
}

/// The target of GPU code. Serialized as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A processor or generic target that is in the table.
    Gpu(GpuTarget),
    /// SPIR-V, compiled for any GPU when it is loaded: `amdgcnspirv`.
    Spirv,
    /// A processor that is not in the table, as the file names it.
    Unknown(String),
    /// Code whose storage is not read for targets: `unread`.
    Unread,
}

impl Target {
    /// Returns whether code for this target runs on the GPU `wanted`.
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

rocmrpm_base::text_schema!(Target, {
    "description": "The target of GPU code: a GPU target, `amdgcnspirv`, an unknown name, or `unread`.",
    "minLength": 1,
});

/// Where GPU code is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// The section `.hip_fatbin` of a host's ELF file.
    HipFatbin,
    /// A bundle in another section of a host's ELF file.
    OtherSection,
    /// An offload binary in `.llvm.offloading`, as clang's new driver writes it.
    OffloadBinary,
    /// An object file in a static archive.
    StaticArchive,
    /// LLVM bitcode for a target in an object file or a static archive (`-fgpu-rdc`), which the
    /// linker compiles.
    Bitcode,
    /// A file that is itself a bundle (`.co`, `.hsaco`).
    Bundle,
    /// A file that is itself a code object (`.co`, `.hsaco`).
    CodeObject,
    /// A kpack archive, or a reference to one.
    Kpack,
    /// A file of kernels in a format that is not decoded, recognized by its name
    /// (MIOpen's `.kdb`, AOTriton's `.aks2`).
    KernelFile,
    /// A file of tuning data for a target, recognized by its name: no code.
    DataFile,
    /// A code object inside a host's file that no offload runtime loads, such as
    /// the trap handlers of a runtime library.
    Embedded,
}

impl Storage {
    /// Returns whether code in this storage makes programs run on its target.
    pub fn serves(self) -> bool {
        !matches!(self, Self::DataFile | Self::Embedded)
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HipFatbin => "hip-fatbin",
            Self::OtherSection => "other-section",
            Self::OffloadBinary => "offload-binary",
            Self::StaticArchive => "static-archive",
            Self::Bitcode => "bitcode",
            Self::Bundle => "bundle",
            Self::CodeObject => "code-object",
            Self::Kpack => "kpack",
            Self::KernelFile => "kernel-file",
            Self::DataFile => "data-file",
            Self::Embedded => "embedded",
        })
    }
}

/// The format of a compressed bundle. Serialized as text, such as `ccob3-zstd`.
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

rocmrpm_base::text_schema!(Compression, {
    "description": "The format of a compressed bundle: its version and method.",
    "pattern": "^ccob[1-3]-(zlib|zstd)$",
});

/// A part of a file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Damage {
    /// Whether the ELF file itself is damaged, rather than a bundle or code object in it.
    pub elf: bool,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The problem.
    pub what: String,
}

/// Code objects whose flags contradict the ID in their bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mismatch {
    /// The ID in the bundle.
    pub id: String,
    /// The target in the code object's `e_flags`.
    pub flags: String,
    /// The number of such code objects.
    pub count: u64,
    /// The offset of the first one's bundle in the file, in bytes.
    pub offset: u64,
}

/// A compressed bundle whose content does not match its hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WrongHash {
    /// The offset of the bundle in the file, in bytes.
    pub offset: u64,
    /// The first eight bytes of the MD5 in the header, in hexadecimal digits, in the
    /// order of the file.
    pub stated: String,
    /// The same for the content.
    pub computed: String,
}

fn soname<S: Serializer>(soname: &Option<Soname>, serializer: S) -> Result<S::Ok, S::Error> {
    soname.as_ref().map(Soname::as_str).serialize(serializer)
}

fn sonames<S: Serializer>(sonames: &[Soname], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(sonames.iter().map(Soname::as_str))
}
