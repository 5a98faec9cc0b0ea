//! Finds the distributions in RPMs and the versions that their wheels will get, from the RPM
//! headers, and their METADATA, from the payload. It reads no other files of the payload.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pep440_rs::Version;

use super::device::Device;
use super::layout::place;
use super::name::of_dist_info;
use super::plan::dist_info;
use super::{LocalLabel, Pins, WheelError};
use rocmrpm_base::process;
use rocmrpm_base::text::covers;
use rocmrpm_rpms::{self as rpms, EntryKind, Header};

/// Upper bound on the size of METADATA, in bytes.
const LIMIT: u64 = 16 << 20;

/// Returns the distributions of a component's RPMs, with the versions of the wheels that
/// [`build`](super::build) makes with this label, and what the RPMs provide. Ignores files that
/// match a `leave_out` pattern.
pub fn distributions(
    rpms: &[PathBuf],
    label: &LocalLabel,
    leave_out: &[String],
) -> Result<Pins, WheelError> {
    let mut found = Pins::new();
    let (mut without, mut devices, mut hosts) = (Vec::new(), Vec::new(), BTreeMap::new());
    for rpm in rpms {
        let (header, files) = rpms::files(rpm)?;
        if header.arch == "src" || header.is_debug() {
            continue;
        }
        let kept = files
            .iter()
            .filter(|file| !matches!(file.kind, EntryKind::Ghost | EntryKind::Directory));
        let kept = kept.filter(|file| !leave_out.iter().any(|pattern| covers(pattern, &file.path)));
        let paths: Vec<&str> = kept.map(|file| file.path.as_str()).collect();
        if let Some(device) = Device::of(&header, paths.iter().copied()) {
            devices.push((device, header));
            continue;
        }
        let mut has_distribution = false;
        for folder in paths.iter().filter_map(|path| dist_info(place(path))) {
            let (name, version) = of_dist_info(folder).ok_or_else(|| no_version(rpm, folder))?;
            let labelled = label.apply(&version.to_string());
            let labelled = Version::from_str(&labelled).map_err(|_| no_version(rpm, folder))?;
            found.provide(&name, &header.provides);
            hosts.insert(header.name.clone(), name.clone());
            found.insert(name, labelled);
            has_distribution = true;
        }
        if !has_distribution {
            without.push(header);
        }
    }
    let all: Vec<String> = found.names().cloned().collect();
    let only = if let [name] = all.as_slice() { Some(name) } else { None };
    let mut of_device = BTreeMap::new();
    for (device, header) in devices {
        let Some(host) = only.or_else(|| hosts.get(&device.host)) else { continue };
        let (name, version) = (device.distribution(host), found.get(host).cloned());
        found.provide(&name, &header.provides);
        version.into_iter().for_each(|version| found.insert(name.clone(), version));
        of_device.insert(header.name, name);
    }
    for Header { requires, provides, .. } in without {
        // A package without files that chooses a target stands for that target's code.
        let names = requires.iter().filter_map(|name| of_device.get(name.split('(').next()?));
        match (names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().as_slice(), only) {
            ([device], _) => found.provide(device, &provides),
            // The wheel of a component's only distribution has the files of all of its RPMs.
            (_, Some(only)) => found.provide(only, &provides),
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the METADATA of each distribution in an RPM, by normalized name.
pub fn metadata_of(rpm: &Path) -> Result<BTreeMap<String, String>, WheelError> {
    let mut found = BTreeMap::new();
    rpms::for_each_file::<WheelError>(rpm, |entry, content| {
        process::check_stop()?;
        let Some(folder) = dist_info(place(&entry.path)) else { return Ok(()) };
        let (name, _) = of_dist_info(folder).ok_or_else(|| no_version(rpm, folder))?;
        let mut text = String::new();
        content.take(LIMIT).read_to_string(&mut text)?;
        found.insert(name, text);
        Ok(())
    })?;
    Ok(found)
}

fn no_version(rpm: &Path, folder: &str) -> WheelError {
    let reason = format!("its folder {folder} is not named after a distribution and a version");
    WheelError::package(rpm, reason)
}
