//! Writes `rocmrpm.json` in a wheel's dist-info: the build and the RPMs that the files come from.
//! The SBOM lists what is inside the RPMs. The file contains nothing that depends on the machine or
//! on the folder of the build, such as the digests of `build.json` or of the SRPM: the same RPMs
//! give the same wheel.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::payload::Payload;
use super::{BuildOrigin, RocmWheel, WheelError};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::document::Document;
use rocmrpm_rpms::{self as rpms, Header};

/// The path below the dist-info folder.
pub(super) const NAME: &str = "rocmrpm.json";

/// An RPM that a wheel's files come from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file's name.
    pub file: String,
    /// The header.
    pub header: Header,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The size of the file in bytes.
    pub size: u64,
}

impl Source {
    /// Reads the header and the digest of an RPM.
    pub fn read(path: &Path) -> Result<Self, WheelError> {
        let (sha256, size) = Sha256::of_file(path)?;
        Ok(Self { file: file_name(path), header: rpms::header(path)?, sha256, size })
    }
}

/// Reads the headers and digests of the RPMs of a payload, sorted by file name.
pub(super) fn rpms(payload: &Payload) -> Result<Vec<Source>, WheelError> {
    let source = |path: &std::path::PathBuf| Source::read(path);
    let mut sources = payload.rpms.iter().map(source).collect::<Result<Vec<_>, WheelError>>()?;
    sources.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(sources)
}

/// Returns a path's last part as text.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `rocmrpm.json` in the dist-info folder of a wheel: the build and the RPMs that its files come from.
// The fields are sorted: another order would change the bytes of every wheel.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Provenance<'a> {
    /// The key of the build.
    build_key: Sha256,
    /// The packages of ROCm whose files the wheel has, by file name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bundled: Vec<BundledPackage<'a>>,
    /// The chroot that the RPMs were built for.
    chroot: &'a str,
    /// The component.
    component: &'a str,
    /// The program that made the wheel, with its version.
    generator: String,
    /// The GPU targets that the component was built for.
    gpu_targets: &'a [String],
    /// The programs and libraries that are files of the RPMs except for their search paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    relinked: Vec<RelinkedFile<'a>>,
    /// The Release of the RPMs, as the spec has it.
    release: &'a str,
    /// The version of the ROCm that it was built with, if known.
    rocm: Option<&'a str>,
    /// The RPMs whose files the wheel has, by file name.
    rpms: Vec<Rpm<'a>>,
    schema: &'static str,
    /// The upstream version of the component.
    version: &'a str,
}

/// A package of ROCm whose files the wheel has.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct BundledPackage<'a> {
    /// Its file name.
    file: &'a str,
    /// Its digest.
    sha256: Sha256,
}

/// An RPM whose files the wheel has.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Rpm<'a> {
    /// Its file name.
    file: &'a str,
    /// Its name, epoch, version, release and architecture.
    nevra: String,
    /// Its digest.
    sha256: Sha256,
    /// Its size in bytes.
    size: u64,
}

impl Document for Provenance<'_> {
    const SCHEMA: &'static str = "rocmrpm/provenance/2";
}

/// A file of an RPM that a wheel has with another search path.
#[derive(Debug, Clone)]
pub struct Relinked {
    /// Its path in the RPM.
    pub file: String,
    /// Its digest in the RPM.
    pub sha256: Sha256,
    /// The search path in the RPM.
    pub old: String,
    /// The search path in the wheel.
    pub new: String,
}

/// `rocmrpm.json` in the dist-info folder of one of ROCm's own packages: the RPMs that its files come
/// from.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Assembled<'a> {
    /// The program that made the wheel, with its version.
    generator: String,
    /// The programs and libraries that are files of the RPMs except for their search paths.
    relinked: Vec<RelinkedFile<'a>>,
    /// The RPMs whose files the wheel has, by file name.
    rpms: Vec<Rpm<'a>>,
    schema: &'static str,
}

/// A file of an RPM that the wheel has with another search path.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct RelinkedFile<'a> {
    /// Its path in the RPM.
    file: &'a str,
    /// Its path in the wheel.
    member: &'a str,
    /// Its digest in the RPM.
    sha256: Sha256,
    /// Its search path (RUNPATH) in the wheel.
    runpath: &'a str,
}

impl Document for Assembled<'_> {
    const SCHEMA: &'static str = "rocmrpm/sdk-provenance/1";
}

/// Returns the JSON Schemas of both forms of the file.
#[cfg(feature = "schema")]
pub(crate) fn schemas() -> [serde_json::Value; 2] {
    use rocmrpm_base::document::schema_of;
    [schema_of::<Provenance<'_>>(), schema_of::<Assembled<'_>>()]
}

/// Returns the text of the file.
pub(super) fn text(
    rpms: &[Source],
    origin: &BuildOrigin,
    relinked: &BTreeMap<String, Relinked>,
    bundled: &[RocmWheel],
) -> Result<String, WheelError> {
    let bundled = bundled.iter();
    json(&Provenance {
        build_key: origin.key,
        bundled: bundled.map(|of| BundledPackage { file: &of.file, sha256: of.sha256 }).collect(),
        chroot: &origin.chroot,
        component: &origin.component,
        generator: generator(),
        gpu_targets: &origin.gpu_targets,
        relinked: relinked_files(relinked),
        release: &origin.release,
        rocm: origin.rocm.as_deref(),
        rpms: rpms.iter().map(Rpm::of).collect(),
        schema: Provenance::SCHEMA,
        version: &origin.version,
    })
}

/// Returns the text of the file in one of ROCm's own packages.
pub(super) fn assembled(
    rpms: &[Source],
    relinked: &BTreeMap<String, Relinked>,
) -> Result<String, WheelError> {
    json(&Assembled {
        generator: generator(),
        relinked: relinked_files(relinked),
        rpms: rpms.iter().map(Rpm::of).collect(),
        schema: Assembled::SCHEMA,
    })
}

fn relinked_files(relinked: &BTreeMap<String, Relinked>) -> Vec<RelinkedFile<'_>> {
    let files = relinked.iter().map(|(member, of)| RelinkedFile {
        file: &of.file,
        member,
        sha256: of.sha256,
        runpath: &of.new,
    });
    files.collect()
}

impl<'a> Rpm<'a> {
    fn of(source: &'a Source) -> Self {
        let Source { file, header, sha256, size } = source;
        Self { file, nevra: header.nevra(), sha256: *sha256, size: *size }
    }
}

fn generator() -> String {
    format!("rocmrpm {}", env!("CARGO_PKG_VERSION"))
}

fn json(document: &impl Serialize) -> Result<String, WheelError> {
    Ok(serde_json::to_string_pretty(document).map_err(std::io::Error::from)? + "\n")
}
