//! Resolves the third-party dependencies of the pins with `uv pip compile`. It does not write the
//! resulting files.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;
use pep440_rs::Version;

use super::{Pinned, RequirementsError};
use crate::error::IoError;
use crate::index::listing::{Listed, Listing};
use crate::index::outside::Outside;
use crate::uv::{self, Failure, FailureReason, StandIn, plain_platform};
use python_packaging::environment::Environment;

/// The file in uv's folder with the versions from a closure's lock.
const HELD: &str = "held.txt";

/// Returns the pins and all of their external dependencies, sorted. Distributions in a closure's
/// lock keep their version from `held`. `root` is the workspace folder.
pub fn resolve(
    root: &Path,
    view: &Listing,
    environment: &Environment,
    outside: &[Outside],
    own: &[Pinned],
    held: &BTreeMap<String, Version>,
) -> Result<Vec<Pinned>, RequirementsError> {
    let scratch = tempfile::tempdir().map_err(IoError::doing("create a folder for uv"))?;
    let simple = stand_in(view, environment, own, scratch.path())
        .map_err(IoError::doing("write an index for uv"))?;
    // The stack's index comes first. Without other indexes it is also the default.
    let mut indexes = vec![simple];
    indexes.extend(outside.iter().map(|index| index.url.clone()));
    let input: String = own.iter().map(|pin| format!("{}=={}\n", pin.name, pin.version)).collect();
    let constraints: String =
        held.iter().map(|(name, version)| format!("{name}=={version}\n")).collect();
    fs::write(scratch.path().join(HELD), constraints)
        .map_err(IoError::doing("write constraints for uv"))?;
    let args = ["--generate-hashes", "--no-annotate", "--constraints", HELD];
    match uv::compile(root, environment, scratch.path(), input, &indexes, &args) {
        Ok(reported) => merge(&reported, own),
        Err(Failure::Refused { reported, why }) => Err(RequirementsError::Resolve {
            reported: uv::last(reported),
            network: why == FailureReason::Network,
        }),
        Err(Failure::Process(error)) => Err(error.into()),
        Err(Failure::Io(error)) => Err(error.into()),
    }
}

/// Writes an index of exactly the pinned wheels for uv. Their platform tag becomes plain `linux`:
/// they are built for the environment, and uv does not know every C library's version. The files
/// are links that only uv sees.
fn stand_in(
    view: &Listing,
    environment: &Environment,
    own: &[Pinned],
    dir: &Path,
) -> std::io::Result<String> {
    let index = StandIn::in_folder(dir);
    for pin in own {
        let folder = index.folder(&pin.name)?;
        let mut files = Vec::new();
        let wheels = view.wheels.get(&pin.name).into_iter().flatten().filter(|wheel| {
            !wheel.listed.yanked
                && pin.version == wheel.name.version.to_string()
                && takes(wheel, environment)
        });
        for wheel in wheels {
            let (Some(path), Some(digest)) = (&wheel.path, wheel.listed.sha256) else { continue };
            let name = plain_platform(&wheel.file, environment);
            fs::os::unix::fs::symlink(path, folder.join(&name)).or_else(|error| {
                match error.kind() {
                    std::io::ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(error),
                }
            })?;
            files.push((name, digest));
        }
        index.page(&pin.name, &files)?;
    }
    Ok(index.url())
}

fn takes(wheel: &Listed, environment: &Environment) -> bool {
    wheel.name.tags.iter().any(|tag| environment.takes(tag))
}

/// Parses uv's output and replaces the stack's pins with ours, which have the digests of all files.
fn merge(reported: &str, own: &[Pinned]) -> Result<Vec<Pinned>, RequirementsError> {
    let mut pins: Vec<Pinned> = Vec::new();
    for line in reported.lines().map(|line| line.trim().trim_end_matches('\\').trim()) {
        if let Some(hash) = line.strip_prefix("--hash=") {
            let Some(pin) = pins.last_mut() else {
                return Err(RequirementsError::Answer(format!("`{line}` follows no requirement")));
            };
            pin.hashes.push(hash.to_owned());
        } else if let Some((name, version)) = line.split_once("==") {
            pins.push(Pinned {
                name: name.into(),
                version: version.into(),
                hashes: Vec::new(),
                own: false,
            });
        } else if !line.is_empty() && !line.starts_with('#') {
            return Err(RequirementsError::Answer(format!("`{line}` is not `name==version`")));
        }
    }
    for pin in own {
        if !pins.iter().any(|found| found.name == pin.name && found.version == pin.version) {
            let message = format!("it omits {}=={}", pin.name, pin.version);
            return Err(RequirementsError::Answer(message));
        }
    }
    pins.retain(|pin| own.iter().all(|own| own.name != pin.name));
    if let Some(bare) = pins.iter().find(|pin| pin.hashes.is_empty()) {
        let message = format!("it has no digest for {}=={}", bare.name, bare.version);
        return Err(RequirementsError::Answer(message));
    }
    pins.extend(own.iter().cloned());
    pins.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(name: &str, version: &str) -> Pinned {
        Pinned {
            name: name.into(),
            version: version.into(),
            hashes: vec!["sha256:00".into()],
            own: true,
        }
    }

    #[test]
    fn keeps_own_pins_and_adds_others() {
        let own = [pin("torch", "2.11.0+rocm7.14.gfx1151")];
        let reported = "numpy==2.0 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n\
                    torch==2.11.0+rocm7.14.gfx1151 \\\n    --hash=sha256:33\n";
        let pins = merge(reported, &own).unwrap();
        assert_eq!(pins[0].hashes, ["sha256:11", "sha256:22"]);
        assert_eq!(pins[1], own[0]);
        for (wrong, expected) in [
            ("torch==2.12.0 \\\n --hash=sha256:3\n", "omits torch"),
            ("--hash=sha256:1\n", "follows no requirement"),
            ("torch @ http://h/x.whl\n", "is not `name==version`"),
            ("a==1\ntorch==2.11.0+rocm7.14.gfx1151 \\\n --hash=sha256:3\n", "no digest for a"),
        ] {
            let error = merge(wrong, &own).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
