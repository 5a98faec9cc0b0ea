//! Formats lint findings as text for a terminal: each finding with its location, then a summary
//! line.

use super::{Style, count};
use crate::inspect::Severity;
use crate::lint::{Finding, Waived};
use crate::table::hanging;

/// The width of the labels.
const LABEL: usize = 10;

/// Formats findings and waived findings as text; `specs` is the number of checked specs.
pub fn lint_text(findings: &[Finding], waived: &[Waived], specs: usize) -> String {
    let mut text = String::new();
    for finding in findings {
        let head = format!("{}[{}]:", finding.severity, finding.id);
        text.push_str(&headline(style(finding.severity), &head, finding));
        text.push_str(&rows(&[
            ("found", &finding.found),
            ("expected", &finding.expected),
            ("help", &finding.help),
        ]));
    }
    for Waived { finding, reason } in waived {
        let head = format!("waived[{}]:", finding.id);
        text.push_str(&headline(Style::Dim, &head, finding));
        text.push_str(&rows(&[("found", &finding.found), ("reason", reason)]));
    }
    let of = |severity: Severity| findings.iter().filter(|f| f.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let worst = match (errors, warnings) {
        (0, 0) => Style::Good,
        (0, _) => Style::Warning,
        _ => Style::Bad,
    };
    let tally = format!("{}, {}", count(errors, "error"), count(warnings, "warning"));
    text.push_str(&format!("{} in {}\n", worst.paint(tally), count(specs, "spec")));
    text
}

/// Returns the first line of a finding. The place follows in a line of its own if the terminal is too
/// narrow.
fn headline(style: Style, head: &str, finding: &Finding) -> String {
    let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
    let text = hanging(&format!("{head} {}{line}", finding.file), 2);
    format!("{}{}\n", style.paint(head), &text[head.len()..])
}

fn rows(rows: &[(&str, &str)]) -> String {
    let row = |(name, value): &(&str, &str)| {
        let name = Style::Dim.paint(format!("{name:<LABEL$}"));
        format!("  {name}  {}\n", hanging(value, LABEL + 4))
    };
    rows.iter().map(row).collect::<String>() + "\n"
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Error => Style::Bad,
        Severity::Warning => Style::Warning,
        Severity::Info => Style::Note,
    }
}
