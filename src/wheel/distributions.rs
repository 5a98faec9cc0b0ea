//! Which distributions RPMs have, and the versions that their wheels will get, from what the
//! headers say: no payload is read. Not what is in them.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use pep440_rs::Version;

use super::layout::place;
use super::name::normalized;
use super::plan::dist_info;
use super::{LocalLabel, Pins, WheelError};
use crate::rpms::{self, EntryKind};
use crate::text::covers;

/// Returns the distributions of a component's RPMs and the versions of the wheels that
/// [`build`](super::build) makes of them with this label, without the files that these
/// patterns leave out.
pub fn distributions(rpms: &[PathBuf], label: &LocalLabel, leave_out: &[String]) -> Result<Pins, WheelError> {
    let mut found = Pins::new();
    for rpm in rpms {
        let (header, files) = rpms::files(rpm)?;
        if header.arch == "src" || header.is_debug() {
            continue;
        }
        let kept = files.iter().filter(|file| !matches!(file.kind, EntryKind::Ghost | EntryKind::Directory));
        let kept = kept.filter(|file| !leave_out.iter().any(|pattern| covers(pattern, &file.path)));
        for folder in kept.filter_map(|file| dist_info(place(&file.path))) {
            let (name, version) = version_of(rpm, folder)?;
            let labelled = label.apply(&version.to_string());
            let labelled = Version::from_str(&labelled).map_err(|_| no_version(rpm, folder))?;
            found.insert(name, labelled);
        }
    }
    Ok(found)
}

/// Reads a folder's name, `name-version.dist-info`. Old build backends wrote `_` for the `+` of
/// a version.
fn version_of(rpm: &Path, folder: &str) -> Result<(String, Version), WheelError> {
    let stem = folder.strip_suffix(".dist-info").and_then(|stem| stem.rsplit_once('-'));
    let parts = stem.and_then(|(name, version)| {
        let version =
            Version::from_str(version).or_else(|_| Version::from_str(&version.replacen('_', "+", 1)));
        Some((normalized(name)?, version.ok()?))
    });
    parts.ok_or_else(|| no_version(rpm, folder))
}

fn no_version(rpm: &Path, folder: &str) -> WheelError {
    let reason = format!("the name of its folder {folder} is not that of a distribution and a version");
    WheelError::package(rpm, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_name_a_distribution_and_a_version() {
        let read = |folder| {
            version_of(Path::new("x.rpm"), folder).map(|(name, version)| format!("{name} {version}"))
        };
        for (folder, expected) in [
            ("Flash_Attn-2.8.3.dist-info", "flash-attn 2.8.3"),
            ("a-1!1.0rc1.dist-info", "a 1!1.0rc1"),
            ("a-1.0+git1.dist-info", "a 1.0+git1"),
            ("a-1.0_git1.dist-info", "a 1.0+git1"),
        ] {
            assert_eq!(read(folder).unwrap(), expected);
        }
        for bad in ["a.dist-info", "a-x.dist-info", "-1.dist-info", "a\u{1b}-1.dist-info"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(
                error.starts_with("x.rpm: the name of its folder") && !error.contains('\u{1b}'),
                "{error}"
            );
        }
    }
}
