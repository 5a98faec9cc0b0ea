//! Finds known vulnerabilities and yanked files in a closure, and applies what a packager accepts.
//! Fetching advisories is up to `osv`.

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
use crate::osv::{self, Ecosystem, Export, FoundAdvisories, OsvError, Package, Service};
use crate::sources::Fetcher;
use crate::workspace::{AcceptRule, MemberPlace};
pub use error::AuditError;
pub use scope::EmbeddedComponent;
use scope::Scope;
pub use vulnerability::Vulnerability;

/// What to audit, and the source of the advisories.
pub struct Request<'a> {
    /// The closure.
    pub closure: &'a Closure,
    /// The version of the component whose closure it is.
    pub version: &'a str,
    /// The rules for accepted findings.
    pub accepts: &'a [AcceptRule],
    /// Whether to audit the release's packages as well.
    pub system: bool,
    /// The exports to read; if empty, the service is queried.
    pub exports: &'a [PathBuf],
    /// The service.
    pub service: Service<'a>,
    /// Whether querying the index for yanked files is forbidden.
    pub offline: bool,
    /// The time of the audit.
    pub now: Timestamp,
}

/// Which package provides a distribution to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProvidedBy {
    /// A component of the stack.
    Stack,
    /// A separate RPM.
    Rpm,
    /// The private prefix.
    Private,
    /// The release, whose maintainers fix its packages.
    System,
}

impl ProvidedBy {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Rpm => MemberPlace::Rpm.name(),
            Self::Private => MemberPlace::Private.name(),
            Self::System => MemberPlace::System.name(),
        }
    }
}

/// The result of an audit.
#[derive(Debug)]
pub struct Audit {
    /// The source of the advisories.
    pub source: Source,
    /// The number of packages audited.
    pub packages: usize,
    /// The number of SBOM components audited.
    pub components: usize,
    /// The number of wheels with an SBOM.
    pub wheels: usize,
    /// The number of the release's packages that were skipped.
    pub passed_over: usize,
    /// The findings, by package, most severe first.
    pub findings: Vec<Finding>,
    /// What could not be audited, and other warnings.
    pub warnings: Vec<String>,
}

/// The source of the advisories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The service at this URL.
    Service(String),
    /// Exports, each with the date of its newest advisory.
    Exports(Vec<(PathBuf, Date)>),
}

/// A finding in a package.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The distribution's normalized name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Which package provides it.
    pub holder: ProvidedBy,
    /// What was found.
    pub what: AuditProblem,
    /// Whether it is accepted.
    pub status: Status,
}

/// The kind of finding.
#[derive(Debug, Clone)]
pub enum AuditProblem {
    /// A known vulnerability.
    Vulnerable(Vulnerability),
    /// Files that upstream yanked (PEP 592).
    Yanked(Vec<String>),
}

/// Whether a finding is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It is not accepted.
    Open,
    /// It is accepted with a reason, until a day.
    Accepted(String, Date),
    /// It was accepted until a day that has passed.
    Expired(String, Date),
    /// It is up to the release to fix it.
    OfRelease,
}

impl Audit {
    /// Returns whether no finding is left open.
    pub fn is_clean(&self) -> bool {
        self.open().next().is_none()
    }

    /// Returns the findings in the stack's own packages that are not accepted.
    pub fn open(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| matches!(finding.status, Status::Open | Status::Expired(..)))
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
        true => warnings.push("cannot check for yanked files with `--offline`".into()),
        false => findings.extend(yanked::findings(&scope, fetcher, &mut warnings)?),
    }
    findings.sort_by_cached_key(Finding::order);
    let today = request.now.to_zoned(TimeZone::UTC).date();
    // Rules may accept findings in what could not be audited.
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

/// Returns the advisories for packages, their source, and whether the source covers all ecosystems
/// of the packages.
fn ask(
    request: &Request<'_>,
    packages: &[Package],
    fetcher: &Fetcher<'_>,
    warnings: &mut Vec<String>,
) -> Result<(FoundAdvisories, Source, bool), AuditError> {
    if request.exports.is_empty() {
        let source = Source::Service(crate::sources::shown_url(request.service.address));
        return Ok((request.service.ask(packages, fetcher)?, source, true));
    }
    let read = |path: &PathBuf| Export::read(path, packages, request.now);
    let exports = request.exports.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let covered =
        |ecosystem: Ecosystem| exports.iter().any(|export| export.covers(ecosystem.name()));
    if !covered(Ecosystem::PyPi) {
        let paths = request.exports.to_vec();
        return Err(OsvError::Lacks { paths, ecosystem: Ecosystem::PyPi.name() }.into());
    }
    let ecosystems: BTreeSet<Ecosystem> =
        packages.iter().map(|package| package.ecosystem).collect();
    let lacking: Vec<Ecosystem> =
        ecosystems.into_iter().filter(|ecosystem| !covered(*ecosystem)).collect();
    for name in lacking.iter().map(|ecosystem| ecosystem.name()) {
        warnings.push(format!(
            "components of {name} in wheels were not checked, because no export has advisories for {name}; \
             add another `--export`: https://osv-vulnerabilities.storage.googleapis.com/{name}/all.zip"
        ));
    }
    warnings.extend(exports.iter().filter_map(Export::warning));
    let source = exports.iter().map(|export| (export.path.clone(), export.newest_day())).collect();
    Ok((osv::judge(&exports, packages), Source::Exports(source), lacking.is_empty()))
}

impl Finding {
    /// Sorts by package, then yanked files before vulnerabilities, then by decreasing severity.
    fn order(&self) -> (String, u8, String, String) {
        let (rank, part, id) = match &self.what {
            AuditProblem::Yanked(_) => (0, String::new(), String::new()),
            AuditProblem::Vulnerable(one) => {
                let level = one.severity.level.map_or(5, |level| 4 - level as u8);
                let part =
                    one.part.as_ref().map(|part| part.package.name.clone()).unwrap_or_default();
                (level.max(1), part, one.id.clone())
            }
        };
        (self.package.clone(), rank, part, id)
    }
}
