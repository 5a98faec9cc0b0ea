//! Formats the audit of a closure, as text for a terminal and as a JSON document.

use serde::Serialize;

use crate::closure::Closure;
use crate::closure::audit::{Audit, AuditProblem, Finding, Source, Status, Vulnerability};
use crate::document::Document;
use crate::osv::{Ecosystem, Level};
use crate::report::{Style, Table, count};
use crate::text::visible;

/// The maximum length of summaries in tables, in characters; the JSON document has them in full.
const SUMMARY: usize = 90;

/// Formats an audit as text for a terminal.
pub fn audit_text(closure: &Closure, audit: &Audit) -> String {
    let about = format!("for {} with the pins of {}", closure.chroot, closure.pins);
    let head = Style::Bold.paint(visible(closure.graph.component.as_str()));
    let mut text = format!("{head}  {}\n", Style::Dim.paint(visible(&about)));
    text.push_str(&format!("  {}\n", scope(audit)));
    let of = |wanted: fn(&Status) -> bool| -> Vec<&Finding> {
        audit.findings.iter().filter(|finding| wanted(&finding.status)).collect()
    };
    let open = of(|status| matches!(status, Status::Open | Status::Expired(..)));
    let accepted = of(|status| matches!(status, Status::Accepted(..)));
    let of_release = of(|status| matches!(status, Status::OfRelease));
    if !open.is_empty() {
        text.push_str(&format!("\n{}", rows(&open)));
    }
    if !accepted.is_empty() {
        text.push_str(&format!("\n{}\n{}", Style::Dim.paint("accepted"), accepted_rows(&accepted)));
    }
    if !of_release.is_empty() {
        let head = format!("packages of {}, by their upstream version", closure.chroot);
        text.push_str(&format!("\n{}\n{}", Style::Dim.paint(visible(&head)), rows(&of_release)));
    }
    text + "\n" + &total(&open, accepted.len()) + "\n"
}

/// Describes what was audited, and by which advisories.
fn scope(audit: &Audit) -> String {
    let mut scope = count(audit.packages, "package");
    if audit.components > 0 {
        let (components, wheels) =
            (count(audit.components, "component"), count(audit.wheels, "wheel"));
        scope.push_str(&format!(" and {components} of the SBOMs in {wheels}"));
    }
    let source = match &audit.source {
        Source::Service(address) => address.clone(),
        Source::Exports(exports) => {
            let one =
                |(path, day): &(std::path::PathBuf, _)| format!("{} of {day}", path.display());
            exports.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    };
    visible(&format!("{scope}, advisories from {source}"))
}

fn rows(findings: &[&Finding]) -> String {
    let mut table =
        Table::new(&["package", "place", "severity", "advisory", "fixed in", "summary"]);
    let mut last = None;
    for finding in findings {
        let name = format!("{} {}", finding.package, finding.version);
        let (style, severity, advisory, fixed, mut summary) = match &finding.what {
            AuditProblem::Yanked(files) => {
                (Style::Bad, "yanked", String::new(), String::new(), files.join(", "))
            }
            AuditProblem::Vulnerable(one) => {
                let style = match one.severity.level {
                    Some(Level::Critical | Level::High) => Style::Bad,
                    Some(Level::Low) => Style::Dim,
                    Some(Level::Medium) | None => Style::Warning,
                };
                let fixed = one.fixed.clone().unwrap_or_else(|| "-".into());
                (style, one.severity.name(), ids(one), fixed, summary(one))
            }
        };
        if let Status::Expired(_, until) = &finding.status {
            summary.push_str(&format!(" (was accepted until {until})"));
        }
        let repeated = last.replace(name.clone()) == Some(name.clone());
        let place = finding.holder.name();
        table.styled_row(vec![
            (None, if repeated { String::new() } else { name }),
            (Some(Style::Dim), if repeated { String::new() } else { place.to_owned() }),
            (Some(style), severity.to_owned()),
            (None, advisory),
            (None, fixed),
            (None, summary),
        ]);
    }
    table.text()
}

fn accepted_rows(findings: &[&Finding]) -> String {
    let mut table = Table::new(&["package", "advisory", "until", "reason"]);
    for finding in findings {
        let Status::Accepted(reason, until) = &finding.status else { continue };
        let advisory = match &finding.what {
            AuditProblem::Yanked(_) => "yanked".to_owned(),
            AuditProblem::Vulnerable(one) => ids(one),
        };
        let name = format!("{} {}", finding.package, finding.version);
        table.row([name, advisory, until.to_string(), reason.clone()]);
    }
    table.text()
}

/// Returns the ID of an advisory, with its CVE if there is one.
fn ids(one: &Vulnerability) -> String {
    match one.aliases.iter().find(|id| id.starts_with("CVE-")) {
        Some(cve) if *cve != one.id => format!("{} {cve}", one.id),
        _ => one.id.clone(),
    }
}

fn summary(one: &Vulnerability) -> String {
    let mut text = match &one.part {
        Some(part) => {
            format!("in its {} {}: {}", part.package.name, part.package.version, one.summary)
        }
        None => one.summary.clone(),
    };
    if text.chars().count() > SUMMARY {
        text = text.chars().take(SUMMARY - 3).collect::<String>().trim_end().to_owned() + "...";
    }
    text
}

fn total(open: &[&Finding], accepted: usize) -> String {
    let yanked =
        open.iter().filter(|finding| matches!(finding.what, AuditProblem::Yanked(_))).count();
    let mut packages: Vec<&str> = open.iter().map(|finding| finding.package.as_str()).collect();
    packages.sort_unstable();
    packages.dedup();
    let known = match open.len() - yanked {
        0 => None,
        1 => Some("1 known vulnerability".to_owned()),
        n => Some(format!("{n} known vulnerabilities")),
    };
    let yanked = (yanked > 0).then(|| format!("yanked files of {}", count(yanked, "package")));
    let parts: Vec<String> = known.into_iter().chain(yanked).collect();
    let line = match parts.is_empty() {
        true => Style::Good.paint("no known vulnerabilities"),
        false => {
            let parts = parts.join(" and ");
            Style::Bad.paint(format!("{parts}, in {}", count(packages.len(), "package")))
        }
    };
    if accepted > 0 { format!("{line}; {accepted} accepted") } else { line }
}

/// What `rocmrpm closure audit --json` prints: known vulnerabilities and yanked files of a closure.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuditReport<'a> {
    schema: &'static str,
    /// The component.
    component: &'a str,
    /// The chroot.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// Where the advisories come from.
    source: AdvisorySource<'a>,
    /// How many packages were checked.
    packages: usize,
    /// How many components of the SBOMs in wheels were checked.
    components: usize,
    /// How many packages of the release were not checked.
    system_passed_over: usize,
    /// The findings, by package, the most severe first.
    findings: Vec<FindingReport<'a>>,
    /// Warnings, for example about packages that could not be checked.
    warnings: &'a [String],
    /// Whether no finding is open.
    clean: bool,
}

/// Where advisories come from.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum AdvisorySource<'a> {
    /// The address of a service.
    Service(&'a str),
    /// Files with all advisories.
    Exports(Vec<ExportReport>),
}

/// A file with all advisories.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ExportReport {
    /// The file.
    path: String,
    /// The day of its newest advisory.
    newest: String,
}

/// Something found in a package.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingReport<'a> {
    /// The normalized name of the distribution.
    package: &'a str,
    /// Its version.
    version: &'a str,
    /// The place it comes from.
    place: &'static str,
    /// `open`, `accepted`, `expired` (it was accepted until a past day), or `of-release` (the release
    /// must fix it).
    status: &'static str,
    /// Why it is accepted.
    reason: Option<&'a str>,
    /// The day until which it is accepted.
    until: Option<String>,
    /// The files that upstream yanked.
    #[serde(skip_serializing_if = "Option::is_none")]
    yanked: Option<&'a [String]>,
    /// The vulnerability.
    #[serde(skip_serializing_if = "Option::is_none")]
    vulnerability: Option<VulnerabilityReport<'a>>,
}

/// A known vulnerability.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VulnerabilityReport<'a> {
    /// The ID of its advisory.
    id: &'a str,
    /// Other IDs of the vulnerability.
    aliases: &'a [String],
    /// How severe it is, if known.
    severity: Option<Level>,
    /// Its CVSS base score, if known.
    score: Option<f64>,
    /// Its CVSS vector, if known.
    cvss: Option<&'a str>,
    /// One sentence about it.
    summary: &'a str,
    /// The first fixed version, if there is one.
    fixed: Option<&'a str>,
    /// The vulnerable component of a wheel, if it is not the package itself.
    component: Option<ComponentReport<'a>>,
}

/// A component of a wheel.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComponentReport<'a> {
    /// Its package registry.
    ecosystem: Ecosystem,
    /// Its name.
    name: &'a str,
    /// Its version.
    version: &'a str,
    /// The wheel.
    wheel: &'a str,
}

impl Document for AuditReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/closure-audit/1";
}

/// Returns the JSON document of an audit.
pub fn audit_json<'a>(closure: &'a Closure, audit: &'a Audit) -> AuditReport<'a> {
    let source = match &audit.source {
        Source::Service(address) => AdvisorySource::Service(address),
        Source::Exports(exports) => AdvisorySource::Exports(
            exports
                .iter()
                .map(|(path, day)| ExportReport {
                    path: path.display().to_string(),
                    newest: day.to_string(),
                })
                .collect(),
        ),
    };
    AuditReport {
        schema: AuditReport::SCHEMA,
        component: closure.graph.component.as_str(),
        chroot: &closure.chroot,
        pins: &closure.pins,
        source,
        packages: audit.packages,
        components: audit.components,
        system_passed_over: audit.passed_over,
        findings: audit.findings.iter().map(FindingReport::of).collect(),
        warnings: &audit.warnings,
        clean: audit.is_clean(),
    }
}

impl<'a> FindingReport<'a> {
    fn of(finding: &'a Finding) -> Self {
        let (status, accepted) = match &finding.status {
            Status::Open => ("open", None),
            Status::Accepted(reason, until) => ("accepted", Some((reason, until))),
            Status::Expired(reason, until) => ("expired", Some((reason, until))),
            Status::OfRelease => ("of-release", None),
        };
        let (yanked, vulnerability) = match &finding.what {
            AuditProblem::Yanked(files) => (Some(files.as_slice()), None),
            AuditProblem::Vulnerable(one) => (None, Some(VulnerabilityReport::of(one))),
        };
        Self {
            package: &finding.package,
            version: &finding.version,
            place: finding.holder.name(),
            status,
            reason: accepted.map(|(reason, _)| reason.as_str()),
            until: accepted.map(|(_, until)| until.to_string()),
            yanked,
            vulnerability,
        }
    }
}

impl<'a> VulnerabilityReport<'a> {
    fn of(one: &'a Vulnerability) -> Self {
        let component = one.part.as_ref().map(|part| ComponentReport {
            ecosystem: part.package.ecosystem,
            name: &part.package.name,
            version: &part.package.version,
            wheel: &part.wheel,
        });
        Self {
            id: &one.id,
            aliases: &one.aliases,
            severity: one.severity.level,
            score: one.severity.score,
            cvss: one.severity.vector.as_deref(),
            summary: &one.summary,
            fixed: one.fixed.as_deref(),
            component,
        }
    }
}
