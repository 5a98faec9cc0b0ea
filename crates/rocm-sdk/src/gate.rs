//! Inspects the finished packages as one set before they get their names. The set must run on the
//! targets that it promises; what else `rocmrpm inspect` finds, the makers of the RPMs decide.

use std::path::{Path, PathBuf};

use python_packaging::wheel::Wheel;
use rocm_inspect::{Depth, Expectations, Finding, Report, Subject, inspect};
use rocmrpm_base::events::{Event, Step};
use rocmrpm_base::text::visible;

use super::layout::SdkPackage;
use super::packages::{Key, Packages};
use super::release::Release;
use super::{Request, SdkError, selector};

/// The rules of errors without which the packages do not run on a promised target.
const REFUSED: &[&str] =
    &["gpu-target-missing", "kpack-reference-unresolved", "kpack-target-missing"];
/// The rules of errors that may be intended: a library may have no code for a target.
const LISTED: &[&str] = &["gpu-target-missing-in-file"];

/// Fails if a promised target has no GPU code, a library does not find its GPU code, or a package
/// for all targets has code for some.
pub(super) fn check(
    request: Request<'_>,
    release: &Release,
    packages: &Packages,
    wheels: &[Wheel],
) -> Result<(), SdkError> {
    let targets = release.families.iter().flat_map(|family| family.targets.iter().cloned());
    let expectations = Expectations { gpu_targets: targets.collect(), ..Expectations::default() };
    request.events.event(Event::Step { step: Step::Inspecting, detail: "the packages".into() });
    let paths: Vec<PathBuf> = wheels.iter().map(|wheel| wheel.path.clone()).collect();
    let report = inspect(&paths, &expectations, Depth::Quick)?;
    let of = |rules: &'static [&str]| {
        report.errors().filter(|finding: &&Finding| rules.contains(&finding.id.as_str()))
    };
    let mut found: Vec<String> = of(REFUSED).map(ToString::to_string).collect();
    let neutral = Key { part: SdkPackage::Libraries, target: None };
    if release.split && packages.contents.contains_key(&neutral) {
        let name = selector::distribution(release, &neutral);
        let wheel = wheels.iter().find(|wheel| wheel.distribution == name);
        found.extend(wheel.into_iter().flat_map(|wheel| embedded(&report, &wheel.path)));
    }
    if !found.is_empty() {
        return Err(SdkError::Inspection { found });
    }
    for finding in of(LISTED) {
        request.events.event(Event::Warning(finding.to_string()));
    }
    Ok(())
}

/// Returns the files of a wheel with GPU code for certain targets.
fn embedded(report: &Report, wheel: &Path) -> Vec<String> {
    let wheel = wheel.display().to_string();
    let subjects = report.subjects.iter().filter(|subject: &&Subject| subject.path == wheel);
    let mut found = Vec::new();
    for file in subjects.flat_map(|subject| &subject.files) {
        let code = file.device.iter().find(|code| {
            code.storage.serves() && matches!(code.target, rocm_inspect::Target::Gpu(_))
        });
        if let Some(code) = code {
            let path = visible(&file.path);
            let target = &code.target;
            found.push(format!(
                "{path}: found GPU code for {target}, expected it in a kpack archive"
            ));
        }
    }
    found
}
