//! Checks that a view of an index is complete and consistent: every requirement is satisfied, no
//! version is ambiguous, and every package matches its page. It only reads.

mod requirements;
mod signed;

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::{LocalSegment, Version};
use serde::Serialize;

use super::demands::UsableWheels;
use super::listing::{Listed, Listing};
use super::outside::Outside;
use python_packaging::environment::Environment;
use requirements::requirements;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::document::Document;
use rocmrpm_base::process;
use rocmrpm_base::severity::Severity;
use rocmrpm_fetch::SourceError;

const SCHEMA: &str = "rocmrpm/index-check/2";

/// The options of a check.
pub struct Options<'a> {
    /// The Python and platform for which requirements are evaluated.
    pub environment: &'a Environment,
    /// The indexes for requirements that the view cannot satisfy.
    pub outside: &'a [Outside],
    /// Whether to skip requests to outside indexes.
    pub offline: bool,
    /// Whether the index must satisfy every requirement itself.
    pub closed: bool,
    /// The versions of outside distributions in the closure's lock file.
    pub held: &'a BTreeMap<String, Version>,
    /// Whether to read every package and compare its digest; otherwise only the size is compared.
    pub digests: bool,
}

/// What `rocmrpm index check --json` prints: whether an index is closed, and the findings.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The name and number of the schema.
    pub schema: &'static str,
    /// The folder of the view's pages.
    pub index: String,
    /// The Python that requirements were evaluated for.
    pub python: String,
    /// Its architecture.
    pub arch: String,
    /// The outside indexes, without credentials.
    pub outside: Vec<String>,
    /// How many distributions the view has.
    pub distributions: usize,
    /// How many wheels it has.
    pub wheels: usize,
    /// How many of them the stack did not build.
    pub foreign: usize,
    /// Whether it was checked that the index is enough by itself.
    pub closed: bool,
    /// How many of them are for other Pythons or platforms, and not part of the closed set.
    pub other_environments: usize,
    /// How many requirements hold.
    pub requirements: usize,
    /// The findings, errors first.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub unchecked: Vec<Unchecked>,
}

/// A finding of the check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The kind of finding.
    pub id: &'static str,
    /// The affected wheels.
    pub wheels: Vec<String>,
    /// The affected requirement.
    pub requirement: Option<String>,
    /// What was found.
    pub found: String,
    /// How to fix it.
    pub help: String,
}

/// A requirement that only an outside index could satisfy and that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unchecked {
    /// The requirement.
    pub requirement: String,
    /// The wheels that require it.
    pub wheels: Vec<String>,
    /// Why it could not be checked.
    pub reason: String,
    /// Whether an index was queried but did not respond.
    pub unreachable: bool,
}

impl Document for Report {
    const SCHEMA: &'static str = SCHEMA;
}

impl Report {
    /// Returns whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Returns an empty report, for an index whose wheels are not checked.
    pub fn empty(index: String, environment: &Environment) -> Self {
        Self {
            schema: SCHEMA,
            index,
            python: environment.python(),
            arch: environment.arch().to_owned(),
            outside: Vec::new(),
            distributions: 0,
            wheels: 0,
            foreign: 0,
            closed: false,
            other_environments: 0,
            requirements: 0,
            findings: Vec::new(),
            unchecked: Vec::new(),
        }
    }

    /// Adds that an installer finds no set of wheels for a wheel of the index, with its reasons.
    pub fn add_unsolved(&mut self, wheel: &str, reported: &[String]) {
        let found =
            format!("an installer cannot install it from this index alone: {}", reported.join(" "));
        let found =
            CheckFindings { wheels: &[wheel], requirement: None, found, help: CLOSE.into() };
        self.add(Severity::Error, "not-closed", found);
    }

    fn add(&mut self, severity: Severity, id: &'static str, found: CheckFindings<'_>) {
        self.findings.push(Finding {
            severity,
            id,
            wheels: found.wheels.iter().map(|wheel| (*wheel).to_owned()).collect(),
            requirement: found.requirement.map(str::to_owned),
            found: found.found,
            help: found.help,
        });
    }
}

struct CheckFindings<'a> {
    wheels: &'a [&'a str],
    requirement: Option<&'a str>,
    found: String,
    help: String,
}

/// Checks a view of an index.
pub fn check(view: &Listing, options: &Options<'_>) -> Result<Report, SourceError> {
    let environment = options.environment;
    let usables = UsableWheels::of(view, environment);
    let demands = usables.demands(environment);
    let mut report = Report {
        schema: SCHEMA,
        index: view.simple.display().to_string(),
        python: environment.python(),
        arch: environment.arch().to_owned(),
        outside: options.outside.iter().map(|index| index.shown.clone()).collect(),
        distributions: view.wheels.len(),
        wheels: view.wheels.values().map(Vec::len).sum(),
        foreign: view.wheels.values().flatten().filter(|wheel| wheel.listed.foreign).count(),
        closed: options.closed,
        other_environments: usables.others,
        requirements: demands.len(),
        findings: Vec::new(),
        unchecked: Vec::new(),
    };
    packages(view, options.digests, &mut report)?;
    for (wheel, wrong) in &usables.broken {
        let help =
            "run `rocmrpm index` to write it again; for a published index, publish again".into();
        let found = format!("the wheel's METADATA is unavailable: {wrong}");
        let wheels = &[wheel.file.as_str()];
        report.add(
            Severity::Error,
            "metadata-missing",
            CheckFindings { wheels, requirement: None, found, help },
        );
    }
    for wheels in view.wheels.values() {
        let active: Vec<&Listed> = wheels.iter().filter(|wheel| !wheel.listed.yanked).collect();
        twice(&active, environment, &mut report);
        plain(&active, &mut report);
        targets(&active, &mut report);
    }
    for usable in usables.wheels.values().flatten() {
        for (text, reason) in &usable.needs.unreadable {
            let wheels = &[usable.wheel.file.as_str()];
            let found = format!("invalid requirement: {reason}");
            let help = "fix it with a patch in the component".into();
            let requirement = Some(text.as_str());
            report.add(
                Severity::Error,
                "unreadable",
                CheckFindings { wheels, requirement, found, help },
            );
        }
    }
    let own: BTreeSet<&str> = view.wheels.keys().map(String::as_str).collect();
    requirements(&own, &usables, &demands, options, &mut report)?;
    report.findings.sort_by(|a, b| {
        let key = |f: &Finding| (f.severity, f.id, f.requirement.clone(), f.wheels.clone());
        key(a).cmp(&key(b))
    });
    Ok(report)
}

/// What makes an index enough by itself.
const CLOSE: &str =
    "set `closed = true` in `[index]` of rocmrpm.toml, and run `rocmrpm index` again";

/// Compares packages with their pages.
fn packages(view: &Listing, digests: bool, report: &mut Report) -> Result<(), SourceError> {
    for (page, file, wrong) in &view.misfits {
        let found =
            format!("the page of `{page}` lists a file that does not belong there: {wrong}");
        let help = "remove the file from the page; an index of rocmrpm contains only wheels".into();
        let wheels = &[file.as_str()];
        report.add(
            Severity::Error,
            "misplaced",
            CheckFindings { wheels, requirement: None, found, help },
        );
    }
    for page in &view.torn {
        let found = format!("index.html and index.json of `{page}` describe different files");
        let help =
            "run `rocmrpm index` to write both again; for a published index, restore the older \
             one from a backup"
                .into();
        report.add(
            Severity::Error,
            "pages-differ",
            CheckFindings { wheels: &[], requirement: None, found, help },
        );
    }
    if view.stale_links {
        let found = "links.html lists other files than the pages of the distributions".into();
        let help =
            "run `rocmrpm index` to write it again; for a published index, publish again".into();
        let found = CheckFindings { wheels: &[], requirement: None, found, help };
        report.add(Severity::Error, "pages-differ", found);
    }
    for wheel in view.wheels.values().flatten() {
        process::check_stop()?;
        let (id, found) = match package(wheel, digests) {
            Ok(()) => continue,
            Err(wrong) => wrong,
        };
        let help =
            "build the wheel again, or publish it again from an intact copy; do not edit its page"
                .into();
        let wheels = &[wheel.file.as_str()];
        report.add(Severity::Error, id, CheckFindings { wheels, requirement: None, found, help });
    }
    Ok(())
}

fn package(wheel: &Listed, digests: bool) -> Result<(), (&'static str, String)> {
    const MISSING: &str = "package-missing";
    const DIFFERS: &str = "package-differs";
    let Some(path) = &wheel.path else {
        return Err((
            MISSING,
            format!("its page links to {}, which is outside the index", wheel.listed.url),
        ));
    };
    let missing = |error: std::io::Error| (MISSING, format!("{}: {error}", path.display()));
    let meta = std::fs::metadata(path).map_err(missing)?;
    let Some(listed) = wheel.listed.sha256 else {
        return Err((DIFFERS, "its page has no sha256 for it".into()));
    };
    if let Some(size) = wheel.listed.size.filter(|size| *size != meta.len()) {
        return Err((DIFFERS, format!("it has {} bytes, but its page lists {size}", meta.len())));
    }
    if digests {
        let (digest, _) = Sha256::of_file(path).map_err(missing)?;
        if digest != listed {
            return Err((DIFFERS, format!("its sha256 is {digest}, but its page lists {listed}")));
        }
    }
    Ok(())
}

/// Finds wheels of one version that are ambiguous to an installer.
fn twice(wheels: &[&Listed], environment: &Environment, report: &mut Report) {
    // The first wheel of each version and tag; an empty tag is the environment itself.
    let mut known: BTreeMap<(&Version, String), &Listed> = BTreeMap::new();
    for wheel in wheels {
        let mut kinds = kinds(wheel);
        if wheel.name.tags.iter().any(|tag| environment.takes(tag)) {
            kinds.insert(String::new());
        }
        let version = &wheel.name.version;
        let earlier = kinds.iter().find_map(|kind| known.get(&(version, kind.clone())).copied());
        for kind in kinds {
            known.entry((version, kind)).or_insert(wheel);
        }
        let Some(other) = earlier else { continue };
        let found = format!(
            "the index has two wheels of {} {version} for the same Python and platform; installers may \
             choose either",
            wheel.name.distribution
        );
        let help =
            "yank one of them with `rocmrpm publish yank`, or leave it out of the index".into();
        let wheels = &[other.file.as_str(), wheel.file.as_str()];
        report.add(
            Severity::Error,
            "duplicate",
            CheckFindings { wheels, requirement: None, found, help },
        );
    }
}

/// Returns a wheel's tags with the platform reduced to its architecture: `linux_x86_64` and all
/// manylinux tags are for the same machines.
fn kinds(wheel: &Listed) -> BTreeSet<String> {
    wheel.name.tags.iter().filter_map(|tag| kind(tag)).collect()
}

fn kind(tag: &str) -> Option<String> {
    let (rest, platform) = tag.rsplit_once('-')?;
    let linux = platform.starts_with("manylinux") || platform.starts_with("linux_");
    let arch = ["x86_64", "aarch64", "ppc64le", "s390x", "riscv64", "i686"];
    let arch = arch.iter().find(|arch| linux && platform.ends_with(*arch)).copied();
    Some(format!("{rest}-{}", arch.unwrap_or(platform)))
}

/// Finds wheels without a local label next to wheels with one.
fn plain(wheels: &[&Listed], report: &mut Report) {
    let (labelled, plain): (Vec<&&Listed>, Vec<&&Listed>) =
        wheels.iter().partition(|wheel| wheel.name.version.is_local());
    let Some(ours) = labelled.last() else { return };
    for wheel in plain {
        let found = format!(
            "a wheel of `{}` without a label is next to one with a label; installers choose it if its \
             version is higher, whatever it was built for",
            wheel.name.distribution
        );
        let help = "yank the wheel without a label, or leave it out of the index".into();
        let wheels = &[wheel.file.as_str(), ours.file.as_str()];
        report.add(
            Severity::Error,
            "plain-beside-labelled",
            CheckFindings { wheels, requirement: None, found, help },
        );
    }
}

/// Finds versions that exist for several sets of GPU targets.
fn targets(wheels: &[&Listed], report: &mut Report) {
    let mut versions: BTreeMap<Version, BTreeMap<String, &Listed>> = BTreeMap::new();
    for wheel in wheels {
        let targets = gpu_targets(&wheel.name.version);
        if !targets.is_empty() {
            let version = wheel.name.version.clone().without_local();
            // Sorted by version: the last wheel of each set is the highest.
            versions.entry(version).or_default().insert(targets, wheel);
        }
    }
    for (version, sets) in versions.iter().filter(|(_, sets)| sets.len() > 1) {
        let Some(highest) = sets.values().max_by_key(|wheel| &wheel.name.version) else { continue };
        let names: Vec<&str> = sets.keys().map(String::as_str).collect();
        let files: Vec<&str> = sets.values().map(|wheel| wheel.file.as_str()).collect();
        let found = format!(
            "the index has {} {version} for the GPU targets {}; installers choose {} on every machine",
            highest.name.distribution,
            names.join(" and "),
            highest.name.version
        );
        let help =
            "use a separate index or channel for each set of GPU targets, or build for all of them"
                .into();
        let found = CheckFindings { wheels: &files, requirement: None, found, help };
        report.add(Severity::Warning, "several-gpu-targets", found);
    }
}

/// Returns the GPU targets in a local label, in its spelling.
fn gpu_targets(version: &Version) -> String {
    let mut found: Vec<&str> = Vec::new();
    for segment in version.local() {
        if let LocalSegment::String(text) = segment {
            let part_of = matches!(
                text.as_str(),
                "generic" | "xnackon" | "xnackoff" | "srameccon" | "srameccoff"
            );
            if text.starts_with("gfx") || (part_of && !found.is_empty()) {
                found.push(text);
            }
        }
    }
    found.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_linux_tags_by_architecture() {
        let linux = kind("cp314-cp314-linux_x86_64");
        assert_eq!(linux, kind("cp314-cp314-manylinux_2_28_x86_64"));
        assert_ne!(linux, kind("cp314-cp314-manylinux_2_28_aarch64"));
        assert_ne!(linux, kind("cp314-cp314-macosx_11_0_x86_64"));
        assert_ne!(linux, kind("cp313-cp313-linux_x86_64"));
    }

    #[test]
    fn finds_duplicates_for_one_environment() {
        let environment = Environment::new("3.14", "x86_64", None).unwrap();
        let listed = |file: &str| Listed {
            file: file.to_owned(),
            name: python_packaging::wheel::FileName::parse(file).unwrap(),
            path: None,
            listed: rocmrpm_fetch::ProjectFile {
                name: file.to_owned(),
                url: String::new(),
                sha256: None,
                size: None,
                requires_python: None,
                yanked: false,
                metadata: None,
                upload_time: None,
                foreign: false,
            },
        };
        for (one, other, expected) in [
            ("a-1-py3-none-any.whl", "a-1-cp314-cp314-linux_x86_64.whl", 1),
            ("a-1-cp314-cp314-linux_x86_64.whl", "a-1-cp314-cp314-manylinux_2_28_x86_64.whl", 1),
            ("a-1-cp313-cp313-linux_x86_64.whl", "a-1-cp313-cp313-manylinux_2_28_x86_64.whl", 1),
            ("a-1-cp313-cp313-linux_x86_64.whl", "a-1-cp314-cp314-linux_x86_64.whl", 0),
            ("a-1-cp314-cp314-linux_aarch64.whl", "a-1-cp314-cp314-linux_x86_64.whl", 0),
            ("a-1-py3-none-any.whl", "a-2-py3-none-any.whl", 0),
        ] {
            let mut report = Report::empty("x".into(), &environment);
            twice(&[&listed(one), &listed(other)], &environment, &mut report);
            let found: Vec<_> = report.findings.iter().map(|f| (f.id, &f.wheels[..])).collect();
            let wheels = [one.to_owned(), other.to_owned()];
            assert_eq!(found, vec![("duplicate", &wheels[..]); expected], "{one} {other}");
        }
    }
}
