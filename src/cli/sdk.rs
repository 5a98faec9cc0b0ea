//! `rocmrpm sdk`.

use std::path::Path;

use serde::Serialize;

use super::{Done, args, inspect, publish};
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::Error;
use crate::gpu_families::{self, NATIVE};
use crate::report::{Progress, Shell, Style};
use rocm_sdk::{Family, Made, Request};
use rocmrpm_core::license::not_spdx;

/// What `rocmrpm sdk --json` prints: ROCm's Python packages.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SdkReport<'a> {
    schema: &'static str,
    /// The version of the packages.
    version: &'a str,
    /// Whether the GPU code is in packages of its own.
    split: bool,
    /// The packages.
    packages: Vec<PackageFile<'a>>,
}

/// A package.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PackageFile<'a> {
    /// The name of the distribution.
    name: &'a str,
    /// The file.
    path: &'a Path,
    /// Its digest.
    sha256: Sha256,
    /// Its size in bytes.
    size: u64,
}

impl Document for SdkReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/sdk/1";
}

/// The first time that a zip archive can hold, in seconds since 1970.
const FIRST_TIME: i64 = 315_532_800;

pub(super) fn run(args: &args::Sdk, shell: &Shell) -> Done {
    let epoch = publish::source_date_epoch()?.map_or(FIRST_TIME, |time| time.as_second());
    let made = rocm_sdk::build(Request {
        rpms: &args.rpms,
        out_dir: &args.out,
        version: args.version.as_deref(),
        targets: &families(&args.gpu_targets)?,
        system_libraries: &args.system_libraries,
        leave_out: &args.leave_out,
        is_spdx: |license| not_spdx(license).is_none(),
        source_date_epoch: epoch,
        events: &Progress::new(shell),
    })?;
    let packages = packages(&made);
    if args.json {
        let (version, split) = (made.version.as_str(), made.split);
        shell.json(&SdkReport { schema: SdkReport::SCHEMA, version, split, packages })?;
        return Ok(0);
    }
    for package in &packages {
        shell.data(package.path.display())?;
    }
    let detail = format!("{} packages of ROCm {}", packages.len(), made.version);
    shell.status(Style::Good, "Finished", detail);
    Ok(0)
}

/// Returns each name as a family, except that `native` is every GPU of this machine.
fn families(names: &[String]) -> Result<Vec<Family>, Error> {
    let mut all = Vec::new();
    for name in names {
        let targets = inspect::targets(std::slice::from_ref(name))?;
        if name == NATIVE {
            all.extend(targets.into_iter().map(|target| Family {
                name: target.processor().to_owned(),
                targets: vec![target],
            }));
        } else {
            let is_family = gpu_families::families().any(|family| family == name);
            let name = if is_family { name } else { targets[0].processor() };
            all.push(Family { name: name.to_owned(), targets });
        }
    }
    Ok(all)
}

fn packages(made: &Made) -> Vec<PackageFile<'_>> {
    let selector = &made.selector;
    let wheels = made.wheels.iter().map(|wheel| PackageFile {
        name: &wheel.distribution,
        path: &wheel.path,
        sha256: wheel.sha256,
        size: wheel.size,
    });
    let (sha256, size) = (selector.sha256, selector.size);
    let selector = PackageFile { name: "rocm", path: &selector.path, sha256, size };
    std::iter::once(selector).chain(wheels).collect()
}
