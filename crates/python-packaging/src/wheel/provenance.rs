//! `rocmrpm.json` in a wheel's dist-info: the build and the RPMs that its files come
//! from. What is inside of the RPMs, the SBOM says. It has nothing that depends on the machine or
//! the folder of the build, such as the digests of `build.json` or of the SRPM: the same RPMs give
//! the same wheel.

use std::path::Path;

use serde_json::json;

use super::payload::Payload;
use super::{Origin, WheelError};
use rocmrpm_base::digest::Sha256;
use rocmrpm_rpms::{self as rpms, Header};

/// Where it is, below the dist-info folder.
pub(super) const NAME: &str = "rocmrpm.json";

/// The format of the file.
const SCHEMA: &str = "rocmrpm/provenance/2";

/// An RPM whose files the wheel has.
#[derive(Debug)]
pub(super) struct Source {
    /// The file's name.
    pub file: String,
    /// What its header says.
    pub header: Header,
    /// The file's digest.
    pub sha256: Sha256,
    /// The file's size in bytes.
    pub size: u64,
}

/// Reads the headers and digests of the RPMs of a payload, sorted by file name.
pub(super) fn rpms(payload: &Payload) -> Result<Vec<Source>, WheelError> {
    let source = |path: &std::path::PathBuf| {
        let (sha256, size) = Sha256::of_file(path)?;
        Ok(Source { file: file_name(path), header: rpms::header(path)?, sha256, size })
    };
    let mut sources = payload.rpms.iter().map(source).collect::<Result<Vec<_>, WheelError>>()?;
    sources.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(sources)
}

/// Returns a path's last part as text.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the file's text.
pub(super) fn text(rpms: &[Source], origin: &Origin) -> String {
    let rpms: Vec<_> = rpms
        .iter()
        .map(|rpm| {
            json!({"file": rpm.file, "nevra": rpm.header.nevra(), "sha256": rpm.sha256, "size": rpm.size})
        })
        .collect();
    let document = json!({
        "schema": SCHEMA,
        "generator": format!("rocmrpm {}", env!("CARGO_PKG_VERSION")),
        "component": origin.component,
        "version": origin.version,
        "release": origin.release,
        "chroot": origin.chroot,
        "rocm": origin.rocm,
        "gpu_targets": origin.gpu_targets,
        "build_key": origin.key,
        "rpms": rpms,
    });
    format!("{document:#}\n")
}
