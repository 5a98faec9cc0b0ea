//! The known vulnerabilities and yanked files of a closure, and which of them a packager accepts.
//! Where advisories come from is `osv`'s business.

mod accept;
mod error;
mod scope;
#[cfg(test)]
mod tests;
mod vulnerability;
mod yanked;

use std::collections::BTreeSet;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::Closure;
use crate::osv::{self, Answer, Ecosystem, Export, OsvError, Package, Service};
use crate::sources::Fetcher;
use crate::workspace::{AcceptRule, Place};
pub use error::AuditError;
use scope::Scope;
pub use vulnerability::{Part, Vulnerability};

/// What to audit, and by which advisories.
pub struct Request<'a> {
    /// The closure.
    pub closure: &'a Closure,
    /// The version of the component that it is of.
    pub version: &'a str,
    /// What is accepted.
    pub accepts: &'a [AcceptRule],
    /// Whether to look at what is the release's, too.
    pub system: bool,
    /// The exports to read; the service is asked if there are none.
    pub exports: &'a [PathBuf],
    /// The service.
    pub service: Service<'a>,
    /// Whether the index may not be asked which files are yanked.
    pub offline: bool,
    /// The time of the audit.
    pub now: Timestamp,
}

/// Whose package brings a distribution to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A component of the stack.
    Stack,
    /// An RPM of its own.
    Rpm,
    /// The private prefix.
    Private,
    /// The release, which fixes its own packages.
    System,
}

impl Holder {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Rpm => Place::Rpm.name(),
            Self::Private => Place::Private.name(),
            Self::System => Place::System.name(),
        }
    }
}

/// What came of an audit.
#[derive(Debug)]
pub struct Audit {
    /// Where the advisories come from.
    pub source: Source,
    /// How many packages were looked at.
    pub packages: usize,
    /// How many components of SBOMs were looked at.
    pub components: usize,
    /// How many wheels have an SBOM.
    pub wheels: usize,
    /// How many packages of the release were passed over.
    pub passed_over: usize,
    /// What was found: by package, the most severe first.
    pub findings: Vec<Finding>,
    /// What could not be looked at, and other things that should be known.
    pub warnings: Vec<String>,
}

/// Where advisories come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The service at this address.
    Service(String),
    /// Exports, each with the day of its newest advisory.
    Exports(Vec<(PathBuf, Date)>),
}

/// Something found in a package.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The distribution's normalized name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Whose package brings it.
    pub holder: Holder,
    /// What was found.
    pub what: What,
    /// Whether it is accepted.
    pub status: Status,
}

/// What was found.
#[derive(Debug, Clone)]
pub enum What {
    /// A known vulnerability.
    Vulnerable(Vulnerability),
    /// Files that upstream took back (PEP 592).
    Yanked(Vec<String>),
}

/// Whether a finding is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It is not.
    Open,
    /// It is, with a reason, until a day.
    Accepted(String, Date),
    /// It was until a day that has passed.
    Expired(String, Date),
    /// It is the release's to fix.
    OfRelease,
}

impl Audit {
    /// Returns whether nothing is left that is ours and is not accepted.
    pub fn is_clean(&self) -> bool {
        self.open().next().is_none()
    }

    /// Returns the findings that are ours and are not accepted.
    pub fn open(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| matches!(finding.status, Status::Open | Status::Expired(..)))
    }
}

/// Audits a closure.
pub fn audit(request: &Request<'_>, fetcher: &Fetcher<'_>) -> Result<Audit, AuditError> {
    let scope = Scope::of(request, fetcher)?;
    let packages = scope.packages();
    let mut warnings = scope.warnings.clone();
    let (answer, source, covered) = ask(request, &packages, fetcher, &mut warnings)?;
    warnings.extend(answer.unclear.iter().cloned());
    let mut findings = vulnerability::findings(&scope, &packages, &answer.hits);
    match request.offline {
        true => warnings.push("which files are yanked is not known with `--offline`".into()),
        false => findings.extend(yanked::findings(&scope, fetcher, &mut warnings)?),
    }
    findings.sort_by_cached_key(Finding::order);
    let today = request.now.to_zoned(TimeZone::UTC).date();
    // What could not be looked at may be what is accepted.
    let complete = scope.complete && covered && !request.offline;
    warnings.extend(accept::apply(request.accepts, &mut findings, today, complete));
    Ok(Audit {
        source,
        packages: scope.targets.iter().filter(|target| target.part.is_none()).count(),
        components: scope.targets.iter().filter(|target| target.part.is_some()).count(),
        wheels: scope.wheels,
        passed_over: scope.passed_over,
        findings,
        warnings,
    })
}

/// Returns what is known of packages, where that comes from, and whether it is about all of their
/// ecosystems.
fn ask(
    request: &Request<'_>,
    packages: &[Package],
    fetcher: &Fetcher<'_>,
    warnings: &mut Vec<String>,
) -> Result<(Answer, Source, bool), AuditError> {
    if request.exports.is_empty() {
        let source = Source::Service(crate::sources::shown_url(request.service.address));
        return Ok((request.service.ask(packages, fetcher)?, source, true));
    }
    let read = |path: &PathBuf| Export::read(path, packages, request.now);
    let exports = request.exports.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let covered = |ecosystem: Ecosystem| exports.iter().any(|export| export.covers(ecosystem.name()));
    if !covered(Ecosystem::PyPi) {
        let paths = request.exports.to_vec();
        return Err(OsvError::Lacks { paths, ecosystem: Ecosystem::PyPi.name() }.into());
    }
    let ecosystems: BTreeSet<Ecosystem> = packages.iter().map(|package| package.ecosystem).collect();
    let lacking: Vec<Ecosystem> = ecosystems.into_iter().filter(|ecosystem| !covered(*ecosystem)).collect();
    for name in lacking.iter().map(|ecosystem| ecosystem.name()) {
        warnings.push(format!(
            "components of {name} in wheels were not checked, as no export has advisories for {name}; add \
             another `--export`: https://osv-vulnerabilities.storage.googleapis.com/{name}/all.zip"
        ));
    }
    warnings.extend(exports.iter().filter_map(Export::warning));
    let source = exports.iter().map(|export| (export.path.clone(), export.newest_day())).collect();
    Ok((osv::judge(&exports, packages), Source::Exports(source), lacking.is_empty()))
}

impl Finding {
    /// Sorts by package, yanked files first, then by falling severity.
    fn order(&self) -> (String, u8, String, String) {
        let (rank, part, id) = match &self.what {
            What::Yanked(_) => (0, String::new(), String::new()),
            What::Vulnerable(one) => {
                let level = one.severity.level.map_or(5, |level| 4 - level as u8);
                let part = one.part.as_ref().map(|part| part.package.name.clone()).unwrap_or_default();
                (level.max(1), part, one.id.clone())
            }
        };
        (self.package.clone(), rank, part, id)
    }
}
