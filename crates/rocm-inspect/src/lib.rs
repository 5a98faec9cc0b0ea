//! Inspects RPMs, wheels, folders and single files for linkage and AMD GPU code, and reports
//! problems. It reads archives as streams and maps files on disk; it does not extract or print
//! anything. It does not know workspaces, command lines or builds: callers pass in what a package
//! should contain as [`Expectations`].
//!
//! ```no_run
//! use std::path::PathBuf;
//!
//! use rocm_inspect::formats::{Program, TextOptions, to_text};
//! use rocm_inspect::{Depth, Expectations, System, inspect};
//!
//! let expectations = Expectations { system: System::fedora(), ..Expectations::default() };
//! let report = inspect(&[PathBuf::from("package.whl")], &expectations, Depth::Deep)?;
//! let options = TextOptions { verbose: false, color: false, program: Program::ROCM_INSPECT };
//! print!("{}", to_text(&report, options));
//! assert!(!report.has_errors());
//! # Ok::<(), rocm_inspect::InspectError>(())
//! ```
//!
//! [`inspect_bytes`] returns the contents of a single file that is already in memory:
//!
//! ```
//! use rocm_inspect::{Depth, inspect_bytes};
//!
//! let facts = inspect_bytes("libx.so", b"\x7fELF, but not really", Depth::Quick);
//! assert!(!facts.damage.is_empty());
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod closure;
mod compare;
mod device;
mod earlier;
mod elf;
mod expectations;
mod facts;
mod file;
mod finding;
pub mod formats;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod hostile;
mod image;
mod kpack;
mod libraries;
mod mapped;
mod pairs;
mod report;
mod rules;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod sample;
#[cfg(test)]
#[cfg(feature = "schema")]
mod schema_tests;
mod sieve;
mod sources;
mod system;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;

use std::path::{Path, PathBuf};

pub use rocmrpm_base::gpu::GpuTarget;

pub use compare::{
    Change, Code, Comparison, Delta, FileChange, SizedFile, SubjectChange, TargetChange, compare,
};
pub use earlier::kernels_in;
pub use expectations::{Expectations, Waiver};
pub use facts::{
    Compression, Contents, Damage, DeviceCode, ElfFacts, ElfKind, FileFacts, HeaderFault,
    KernelCode, KpackArchive, KpackReference, Mention, Mismatch, Relro, Storage, Subject,
    SubjectKind, Symbols, Target, Unread, WrongHash,
};
pub use finding::{Depth, Finding, LibraryOrigin, Need, RuleId, Waived};
pub use report::{Report, SCHEMA};
pub use rocmrpm_base::error::{Diagnose, Kind};
pub use rocmrpm_base::gpu_families::targets_of;
pub use rocmrpm_base::names::Soname;
pub use rocmrpm_base::process::ProcessError;
pub use rocmrpm_base::severity::Severity;
pub use rules::{RULES, RULES_VERSION, Rule, Served, Shortfall, Verdict, rule, rule_groups};
pub use system::{Rocm, SearchPathTag, System};

use device::{ar, bundle, ccob, code_object, data_files, elf_headers, entry_id, offload_binary};

use rocmrpm_base::error::Diagnosis;
use rocmrpm_base::text::visible;
#[cfg(feature = "rpm")]
use rocmrpm_rpms::RpmError;

/// Inspects all `paths` and judges them as one set: RPMs, wheels, tar archives, ELF files, code
/// objects, bundles, and folders. Folders are walked without following symbolic links, and the RPMs
/// and wheels in them become separate subjects.
///
/// Damage inside ELF files and bundles is a finding, not an error. Returns an error if a path is
/// missing or is not supported, if an archive is unreadable, or if memory runs out.
pub fn inspect(
    paths: &[PathBuf],
    expectations: &Expectations,
    depth: Depth,
) -> Result<Report, InspectError> {
    let mut subjects = sources::read(paths, depth)?;
    subjects.sort_by(|a, b| a.path.cmp(&b.path));
    subjects.dedup_by(|a, b| a.path == b.path);
    complete(&subjects)?;
    let needs = closure::resolve(&subjects, &expectations.system);
    let judgement = rules::apply(&subjects, expectations);
    Ok(Report::new(depth, subjects, needs, judgement))
}

/// Returns an error if memory ran out for a file, because its facts are then incomplete.
fn complete(subjects: &[Subject]) -> Result<(), InspectError> {
    let mut files =
        subjects.iter().flat_map(|subject| subject.files.iter().map(move |file| (subject, file)));
    match files.find(|(_, file)| file.out_of_memory) {
        None => Ok(()),
        Some((subject, file)) => Err(InspectError::OutOfMemory {
            path: subject.path.clone().into(),
            file: file.path.clone(),
        }),
    }
}

/// Returns what one file's bytes contain, without judging it: an ELF file, a code object, an
/// offload bundle or a kpack archive. `path` is only copied to the result. Damage is part of the
/// result, never an error.
pub fn inspect_bytes(path: &str, bytes: &[u8], depth: Depth) -> FileFacts {
    file::facts(path.to_owned(), bytes.len() as u64, bytes, depth)
}

/// Returns the linkage of the ELF file of `length` bytes at `offset` of `file`, and whether all of
/// it could be read. `None` if there is no ELF file with a readable header.
pub fn linkage(
    file: &std::fs::File,
    offset: u64,
    length: u64,
) -> std::io::Result<Option<(ElfFacts, bool)>> {
    use std::os::unix::fs::FileExt;
    let mut magic = *goblin::elf::header::ELFMAG;
    if length < magic.len() as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut magic, offset)?;
    if magic != *goblin::elf::header::ELFMAG {
        return Ok(None);
    }
    let image = image::part(file, offset, length)?;
    let linkage = elf::linkage(&image);
    image.unchanged()?;
    Ok(linkage)
}

/// Returns the linkage of the ELF file in `bytes`, and whether all of it could be read. `None` if
/// its header is unreadable.
pub fn linkage_in(bytes: &[u8]) -> Option<(ElfFacts, bool)> {
    elf::linkage(bytes)
}

/// Returns the SONAME of a library that Fedora installs under this file name, if files may link to
/// it by file name although the package provides only the SONAME.
pub fn soname_of_file(name: &str) -> Option<&'static str> {
    libraries::tables().files.get(name).map(String::as_str)
}

/// Returns the SONAMEs of a ROCm library in this major version, given its name before `.so`; `None`
/// if the library is unknown.
pub fn rocm_sonames(stem: &str, rocm_major: u64) -> Option<Vec<&'static str>> {
    libraries::tables().rocm.get(stem).map(|library| library.sonames(Some(rocm_major)))
}

/// Why files could not be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The path does not exist.
    #[error("{}: no such file or folder", path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// The path is a FIFO, a socket or a device.
    #[error("{}: {what}, not a file or a folder", path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
        /// The actual kind.
        what: &'static str,
    },
    /// The kind of file is not supported.
    #[error(
        "{}: not an RPM, wheel, tar archive, ELF file, code object, offload bundle or binary, static archive, \
         kpack archive, data file named after a GPU target, or folder",
        path.display()
    )]
    Unknown {
        /// The path as given.
        path: PathBuf,
    },
    /// An RPM is unreadable.
    #[cfg(feature = "rpm")]
    #[error(transparent)]
    Rpm(#[from] RpmError),
    /// A wheel is unreadable.
    #[error("{}: cannot read the wheel", path.display())]
    Wheel {
        /// The wheel.
        path: PathBuf,
        /// The reader's error.
        source: zip::result::ZipError,
    },
    /// An archive is inconsistent.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// The inconsistency.
        what: String,
    },
    /// The disk is too full for a large member of an archive.
    #[error("{}: cannot write `{member}` to a temporary file in {}", archive.display(), folder.display())]
    NoRoom {
        /// The archive.
        archive: PathBuf,
        /// The member's name in the archive.
        member: String,
        /// The folder of the temporary file.
        folder: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Decompressing GPU code needs more memory than there is.
    #[error("{}: not enough memory to decompress the GPU code of `{}`", path.display(), visible(file))]
    OutOfMemory {
        /// The inspected path.
        path: PathBuf,
        /// The file inside it.
        file: String,
    },
    /// A file changed while it was read.
    #[error("{}: the file changed while it was being read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A member of an archive is unreadable.
    #[error("{}: cannot read `{member}`", archive.display())]
    Member {
        /// The archive.
        archive: PathBuf,
        /// The member's name in the archive.
        member: String,
        /// The reader's error.
        source: std::io::Error,
    },
    /// An archive decompresses to more than any real one does.
    #[error(
        "{}: `{member}` exceeds the limit of {limit} decompressed bytes for an archive of this size",
        archive.display()
    )]
    TooLarge {
        /// The archive.
        archive: PathBuf,
        /// The member that exceeded the limit.
        member: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file-system error.
    #[error("cannot read the files to inspect")]
    Io(#[from] std::io::Error),
    /// The user asked to stop.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Diagnose for InspectError {
    fn diagnosis(&self) -> Diagnosis {
        let test = |path: &Path| {
            Kind::Usage.with_help(format!("test the archive with `unzip -t {}`", path.display()))
        };
        match self {
            #[cfg(feature = "rpm")]
            Self::Rpm(error) => error.diagnosis(),
            Self::Process(error) => error.diagnosis(),
            Self::Io(error) => Diagnosis::of_io(error),
            Self::Wheel { path, .. } => test(path),
            Self::Member { archive, .. } if archive.extension().is_some_and(|e| e == "whl") => test(archive),
            Self::Missing { .. } | Self::Unknown { .. } | Self::Damaged { .. } | Self::Member { .. } => {
                Kind::Usage.into()
            }
            Self::NotAFile { .. } => Kind::Usage.with_help("save its content to a file and inspect the file"),
            Self::TooLarge { .. } => {
                Kind::Usage.with_help("check where the archive comes from; it may be a decompression bomb")
            }
            Self::NoRoom { .. } => Kind::Environment.with_help("set TMPDIR to a folder with more free space"),
            Self::OutOfMemory { .. } => Kind::Environment.with_help(
                "run without `--deep`, or raise the memory limit (`ulimit -v`, the container's limit)",
            ),
            Self::Changed { .. } => {
                Kind::Environment.with_help("inspect the file again after other programs stop writing to it")
            }
        }
    }
}

/// Returns the JSON Schemas of this crate's documents.
#[cfg(feature = "schema")]
pub fn documents() -> Vec<serde_json::Value> {
    use rocmrpm_base::document::schema_of;
    vec![schema_of::<Report>(), schema_of::<Comparison>()]
}
