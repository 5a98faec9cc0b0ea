//! What an audit of a closure found, as text for a terminal and as a JSON document.

use serde_json::{Value, json};

use crate::closure::Closure;
use crate::closure::audit::{Audit, Finding, Source, Status, Vulnerability, What};
use crate::osv::Level;
use crate::report::{Style, Table, count};
use crate::text::visible;

/// How long summaries are in tables, in characters; the document has them whole.
const SUMMARY: usize = 90;

/// Returns an audit as text for a terminal.
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

/// Says what was looked at, and by which advisories.
fn scope(audit: &Audit) -> String {
    let mut scope = count(audit.packages, "package");
    if audit.components > 0 {
        let (components, wheels) = (count(audit.components, "component"), count(audit.wheels, "wheel"));
        scope.push_str(&format!(" and {components} of the SBOMs in {wheels}"));
    }
    let source = match &audit.source {
        Source::Service(address) => address.clone(),
        Source::Exports(exports) => {
            let one = |(path, day): &(std::path::PathBuf, _)| format!("{} of {day}", path.display());
            exports.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    };
    visible(&format!("{scope}, advisories of {source}"))
}

fn rows(findings: &[&Finding]) -> String {
    let mut table = Table::new(&["package", "place", "severity", "advisory", "fixed in", "summary"]);
    let mut last = None;
    for finding in findings {
        let name = format!("{} {}", finding.package, finding.version);
        let (style, severity, advisory, fixed, mut summary) = match &finding.what {
            What::Yanked(files) => (Style::Bad, "yanked", String::new(), String::new(), files.join(", ")),
            What::Vulnerable(one) => {
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
            What::Yanked(_) => "yanked".to_owned(),
            What::Vulnerable(one) => ids(one),
        };
        let name = format!("{} {}", finding.package, finding.version);
        table.row([name, advisory, until.to_string(), reason.clone()]);
    }
    table.text()
}

/// Returns the ID of an advisory, with the CVE that it is about.
fn ids(one: &Vulnerability) -> String {
    match one.aliases.iter().find(|id| id.starts_with("CVE-")) {
        Some(cve) if *cve != one.id => format!("{} {cve}", one.id),
        _ => one.id.clone(),
    }
}

fn summary(one: &Vulnerability) -> String {
    let mut text = match &one.part {
        Some(part) => format!("in its {} {}: {}", part.package.name, part.package.version, one.summary),
        None => one.summary.clone(),
    };
    if text.chars().count() > SUMMARY {
        text = text.chars().take(SUMMARY - 3).collect::<String>().trim_end().to_owned() + "...";
    }
    text
}

fn total(open: &[&Finding], accepted: usize) -> String {
    let yanked = open.iter().filter(|finding| matches!(finding.what, What::Yanked(_))).count();
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

/// Returns the document `rocmrpm/closure-audit/1`.
pub fn audit_json(closure: &Closure, audit: &Audit) -> Value {
    let source = match &audit.source {
        Source::Service(address) => json!({ "service": address }),
        Source::Exports(exports) => {
            let one = |(path, day): &(std::path::PathBuf, jiff::civil::Date)| json!({ "path": path.display().to_string(), "newest": day.to_string() });
            json!({ "exports": exports.iter().map(one).collect::<Vec<_>>() })
        }
    };
    json!({
        "schema": "rocmrpm/closure-audit/1",
        "component": closure.graph.component.as_str(),
        "chroot": closure.chroot,
        "pins": closure.pins,
        "source": source,
        "packages": audit.packages,
        "components": audit.components,
        "system_passed_over": audit.passed_over,
        "findings": audit.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "warnings": audit.warnings,
        "clean": audit.is_clean(),
    })
}

fn finding_json(finding: &Finding) -> Value {
    let (status, reason, until) = match &finding.status {
        Status::Open => ("open", None, None),
        Status::Accepted(reason, until) => ("accepted", Some(reason), Some(until.to_string())),
        Status::Expired(reason, until) => ("expired", Some(reason), Some(until.to_string())),
        Status::OfRelease => ("of-release", None, None),
    };
    let mut value = json!({
        "package": finding.package,
        "version": finding.version,
        "place": finding.holder.name(),
        "status": status,
        "reason": reason,
        "until": until,
    });
    match &finding.what {
        What::Yanked(files) => value["yanked"] = json!(files),
        What::Vulnerable(one) => {
            value["vulnerability"] = json!({
                "id": one.id,
                "aliases": one.aliases,
                "severity": one.severity.level,
                "score": one.severity.score,
                "cvss": one.severity.vector,
                "summary": one.summary,
                "fixed": one.fixed,
                "component": one.part.as_ref().map(|part| json!({
                    "ecosystem": part.package.ecosystem,
                    "name": part.package.name,
                    "version": part.package.version,
                    "wheel": part.wheel,
                })),
            });
        }
    }
    value
}
