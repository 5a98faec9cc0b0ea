//! Copies what rpmbuild reads into one folder.

use std::path::Path;

use super::record::FileRecord;
use crate::error::{Error, IoError};
use crate::files;
use crate::sources::Fetcher;
use crate::spec::Rendered;
use crate::workspace::{Component, Pin};

/// Copies the inputs of a build into one folder: sources, patches and the spec. Returns the records
/// of the sources and of the patches.
pub(crate) fn lay_out(
    fetcher: &Fetcher<'_>,
    component: &Component,
    pin: &Pin,
    spec: &Rendered,
    dir: &Path,
) -> Result<(Vec<FileRecord>, Vec<FileRecord>), Error> {
    let mut sources = Vec::new();
    for (name, source) in pin.all_sources() {
        let fetched = fetcher.obtain(source);
        // The main source has the component's own name, whose progress line is still needed.
        if !name.is_empty() {
            fetcher.leave(&source.component);
        }
        let fetched = fetched?;
        fetcher.copy_to(&fetched, dir)?;
        sources.push(FileRecord {
            file: fetched.file_name,
            sha256: fetched.sha256,
            size: fetched.size,
        });
    }
    let mut patches = Vec::new();
    for patch in component.patches_for(&pin.version) {
        let to = dir.join(&patch.file_name);
        fs_err::copy(component.dir.join(&patch.file_name), &to)
            .map_err(IoError::doing("copy a patch"))?;
        patches.push(FileRecord::of(&to).map_err(IoError::doing("read a patch"))?);
    }
    let spec_path = dir.join(&spec.file_name);
    files::write_atomically(&spec_path, &spec.text).map_err(IoError::doing("write the spec"))?;
    Ok((sources, patches))
}
