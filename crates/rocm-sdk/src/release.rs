//! Determines which release of ROCm the RPMs are of, from their headers, and what they promise.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pep440_rs::{Prerelease, PrereleaseKind, Version};
use python_packaging::wheel::SourceRpm;
use rocmrpm_base::events::{Event, Step};
use rocmrpm_base::style::count;
use rocmrpm_rpms::{self as rpms, EntryKind};

use super::layout::{Home, SdkPackage, layout};
use super::{Family, Request, SdkError};

/// A release of ROCm, as its RPMs have it.
pub(super) struct Release {
    /// The version of the packages.
    pub version: String,
    /// Whether the GPU code is in packages of its own.
    pub split: bool,
    /// The targets or families with packages of their own.
    pub families: Vec<Family>,
    /// The packages that the files come from.
    pub rpms: Vec<(PathBuf, SourceRpm)>,
}

impl Release {
    /// Returns whether files for this processor belong to the packages.
    pub fn wants(&self, processor: &str) -> bool {
        let mut targets = self.families.iter().flat_map(|family| &family.targets);
        targets.any(|target| target.processor() == processor)
    }
}

/// Reads the headers of all RPMs and checks that they are of one release.
pub(super) fn check(request: Request<'_>) -> Result<Release, SdkError> {
    let mut found: Option<(PathBuf, String)> = None;
    // The processors with GPU code, by what they are for.
    let mut code: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let (mut all, mut debug, mut split) = (Vec::new(), Vec::new(), false);
    for rpm in request.rpms {
        let (header, files) = rpms::files(rpm)?;
        if header.is_debug() {
            debug.push(header.name);
            continue;
        }
        if !["x86_64", "noarch"].contains(&header.arch.as_str()) {
            return Err(SdkError::Architecture { rpm: rpm.clone(), arch: header.arch });
        }
        if layout().has_release(&header.name) {
            match &found {
                Some((other, version)) if first_two(version) != first_two(&header.version) => {
                    return Err(SdkError::Releases {
                        rpm: rpm.clone(),
                        version: header.version,
                        other: other.clone(),
                        other_version: version.clone(),
                    });
                }
                Some((_, version)) if numbers(version) >= numbers(&header.version) => {}
                _ => found = Some((rpm.clone(), header.version.clone())),
            }
        }
        for file in files.iter().filter(|file| file.kind == EntryKind::Regular) {
            let Home::Tree(path) = layout().home(&file.path) else { continue };
            split |= path.ends_with(".kpack");
            if let (SdkPackage::Device, Some(processor)) = layout().part(&path) {
                code.entry(owner(&path, processor)).or_default().insert(processor);
            }
        }
        all.push((rpm.clone(), SourceRpm::read(rpm)?));
    }
    let (_, release) = found.ok_or(SdkError::NoRelease)?;
    let default = of_rpms(&release);
    let version = version(request.version.unwrap_or(&default), &release)?;
    let families = families(request.targets, split)?;
    if let Some(first) = debug.first() {
        let detail = format!("{}, such as {first}", count(debug.len(), "debug package"));
        request.events.event(Event::Step { step: Step::Omitting, detail });
    }
    check_code(request, &families, split, &code)?;
    Ok(Release { version, split, families, rpms: all })
}

/// Fails if a target has no GPU code. Warns if only a part of the libraries has code for it.
fn check_code(
    request: Request<'_>,
    families: &[Family],
    split: bool,
    code: &BTreeMap<String, BTreeSet<&str>>,
) -> Result<(), SdkError> {
    // Libraries without any file for a target may still contain GPU code.
    if !split && code.is_empty() {
        return Ok(());
    }
    for target in families.iter().flat_map(|family| &family.targets) {
        let (with, without): (Vec<_>, Vec<_>) =
            code.iter().partition(|(_, processors)| processors.contains(target.processor()));
        if with.is_empty() {
            let found: BTreeSet<&str> = code.values().flatten().copied().collect();
            let found: Vec<&str> = found.into_iter().collect();
            let found = if found.is_empty() { "none".into() } else { found.join(", ") };
            return Err(SdkError::MissingDevice { target: target.to_string(), found });
        }
        if !without.is_empty() {
            let names: Vec<&str> = without.iter().map(|(owner, _)| owner.as_str()).collect();
            request.events.event(Event::Warning(format!(
                "no RPM has GPU code for {target} of {}, which has code for other targets",
                names.join(", ")
            )));
        }
    }
    Ok(())
}

/// Returns what a file with GPU code is for: the archive or library without its target, or the
/// folder of a library's data.
fn owner(path: &str, processor: &str) -> String {
    let start = path.rsplit_once(processor).map_or(path, |(start, _)| start);
    if path.ends_with(".kpack") || path.contains(".so") {
        return start.trim_end_matches('_').to_owned();
    }
    start.rsplit_once('/').map_or(start, |(folder, _)| folder).to_owned()
}

/// Returns the families of the packages: single targets if the GPU code is in packages of its own.
fn families(given: &[Family], split: bool) -> Result<Vec<Family>, SdkError> {
    if !split {
        return match given {
            [family, rest @ ..] if rest.iter().all(|other| other == family) => {
                Ok(vec![family.clone()])
            }
            _ => {
                let names: BTreeSet<&str> =
                    given.iter().map(|family| family.name.as_str()).collect();
                Err(SdkError::SeveralFamilies { count: names.len() })
            }
        };
    }
    let mut targets: Vec<_> = given.iter().flat_map(|family| &family.targets).collect();
    targets.sort();
    targets.dedup_by_key(|target| target.processor());
    let family = |target: &rocmrpm_base::gpu::GpuTarget| Family {
        name: target.processor().to_owned(),
        targets: vec![target.clone()],
    };
    Ok(targets.into_iter().map(family).collect())
}

/// Returns the numbers that a version starts with.
fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

fn first_two(version: &str) -> Vec<&str> {
    version.split('.').take(2).collect()
}

/// Returns the version of Python packages for that of RPMs, whose forms before a release are
/// 7.10.0~rc2, 7.10.0~20251021 of a night, 7.10.0~20260811.bkc.20260814 with a later date, and
/// 7.10.0~20251203gf689a8e of a commit. Source: ROCm/TheRock, build_tools/compute_rocm_package_version.py.
fn of_rpms(version: &str) -> String {
    let Some((release, before)) = version.split_once('~') else { return version.to_owned() };
    let is_date = |text: &str| text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((date, later)) = before.split_once(".bkc.")
        && is_date(date)
    {
        return format!("{release}a{date}+bkc.{later}");
    }
    if let Some((date, commit)) = before.split_once('g')
        && is_date(date)
    {
        return format!("{release}.dev0+{commit}");
    }
    if is_date(before) { format!("{release}a{before}") } else { format!("{release}{before}") }
}

/// Checks a version: three numbers, then nothing, `rcN`, `aDATE` or `.dev0`, each optionally with a
/// post-release and a label. Source: ROCm/TheRock, build_tools/compute_rocm_package_version.py.
fn version(text: &str, release: &str) -> Result<String, SdkError> {
    let wrong = || SdkError::Version { version: text.to_owned() };
    let version: Version = text.parse().map_err(|_| wrong())?;
    let form = match (version.pre(), version.dev()) {
        (None, _) => true,
        (Some(Prerelease { kind: PrereleaseKind::Rc, .. }), None) => true,
        (Some(Prerelease { kind: PrereleaseKind::Alpha, number }), None) => {
            (20_000_101..=99_991_231).contains(&number)
        }
        _ => false,
    };
    if version.epoch() != 0 || version.release().len() != 3 || !form {
        return Err(wrong());
    }
    let numbers: Vec<String> = version.release().iter().take(2).map(u64::to_string).collect();
    if numbers != first_two(release) {
        let release = first_two(release).join(".");
        return Err(SdkError::OtherVersion { version: text.to_owned(), release });
    }
    Ok(version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_forms_of_versions() {
        for good in [
            "7.10.0",
            "7.10.0rc2",
            "7.10.0a20251021",
            "7.10.0.dev0",
            "7.10.0.dev0+f689a8ea40232f3f6be1ec958354b108349023ff",
            "7.10.0a20260811+bkc.20260814",
            "7.10.1.post1",
        ] {
            assert_eq!(version(good, "7.10.0").unwrap(), good);
        }
        for bad in ["7.10", "7.10.0b1", "7.10.0a1", "1!7.10.0", "7.10.0.1", "x", "7.10.0rc1.dev0"] {
            assert!(matches!(version(bad, "7.10.0"), Err(SdkError::Version { .. })), "{bad}");
        }
        for (rpm, expected) in [
            ("7.10.0", "7.10.0"),
            ("7.10.0~rc2", "7.10.0rc2"),
            ("7.10.0~20251021", "7.10.0a20251021"),
            ("7.10.0~20251203gf689a8e", "7.10.0.dev0+f689a8e"),
            ("10.1.0~20260811.bkc.20260814", "10.1.0a20260811+bkc.20260814"),
        ] {
            assert_eq!(version(&of_rpms(rpm), rpm).unwrap(), expected);
        }
        assert!(version(&of_rpms("7.10.0~beta"), "7.10.0~beta").is_err());
        let other = version("7.11.0", "7.10.2").unwrap_err().to_string();
        assert_eq!(other, "version 7.11.0 is not one of ROCm 7.10, which the RPMs contain");
    }
}
