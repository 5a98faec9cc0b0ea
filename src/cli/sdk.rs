//! `rocmrpm sdk`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, inspect};
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::gpu_families::{self, NATIVE};
use crate::outputs::Verified;
use crate::publishing::source_date_epoch;
use crate::report::{Progress, Shell, Style, proof_summary, proof_text};
use crate::wheel::Proof;
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

/// What `rocmrpm sdk --check --json` prints: whether ROCm's Python packages match the RPMs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SdkCheck<'a> {
    schema: &'static str,
    /// Whether nothing differs.
    identical: bool,
    /// The packages.
    packages: &'a [Proof],
}

impl Document for SdkReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/sdk/1";
}

impl Document for SdkCheck<'_> {
    const SCHEMA: &'static str = "rocmrpm/sdk-check/1";
}

/// The first time that a zip archive can hold, in seconds since 1970.
const FIRST_TIME: i64 = 315_532_800;

pub(super) fn run(args: &args::Sdk, shell: &Shell) -> CommandResult {
    let epoch = source_date_epoch()?.map_or(FIRST_TIME, |time| time.as_second());
    let targets = families(&args.gpu_targets)?;
    let progress = Progress::new(shell);
    let request = Request {
        rpms: &args.rpms,
        out_dir: &args.out,
        version: args.version.as_deref(),
        targets: &targets,
        system_libraries: &args.system_libraries,
        leave_out: &args.leave_out,
        is_spdx: |license| not_spdx(license).is_none(),
        source_date_epoch: epoch,
        events: &progress,
    };
    if args.check {
        return check(args, request, shell);
    }
    let made = rocm_sdk::build(request)?;
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

fn check(args: &args::Sdk, request: Request<'_>, shell: &Shell) -> CommandResult {
    let wheels = rocm_sdk::check(request)?;
    let all = [Verified { component: "rocm".to_owned(), rpms: Vec::new(), wheels }];
    let [Verified { wheels, .. }] = &all;
    let identical = all.iter().all(Verified::holds);
    if args.json {
        shell.json(&SdkCheck { schema: SdkCheck::SCHEMA, identical, packages: wheels })?;
    } else {
        shell.data(proof_text(&all))?;
        let (style, word) =
            if identical { (Style::Good, "Verified") } else { (Style::Bad, "Differs") };
        shell.status(style, word, proof_summary(&all));
        if !identical {
            let help =
                "check the RPMs and the options, then make the packages again without `--check`";
            shell.help(help);
        }
    }
    Ok(if identical { 0 } else { Kind::Findings.exit_code() })
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
