//! What a wheel says of the build that its RPMs come from. The wheel's module does not
//! know what a build is.

use crate::build::{BuildRecord, Results};
use crate::wheel::Origin;

/// Returns what the RPMs of these results, whose record is given, were built from.
pub fn origin(results: &Results, record: &BuildRecord) -> std::io::Result<Origin> {
    Ok(Origin {
        component: record.component.clone(),
        version: record.version.clone(),
        release: record.release.clone(),
        chroot: record.chroot.clone(),
        rocm: record.rocm.clone(),
        gpu_targets: record.gpu_targets.clone(),
        key: record.key,
        build_record: results.build_digest()?,
        sources: record.sources.iter().map(|s| (s.file.clone(), s.sha256, s.size)).collect(),
    })
}
