//! Formats lint findings as text for a terminal: each finding with its location, then a summary
//! line.

use super::{Style, count};
use crate::inspect::Severity;
use crate::lint::{Finding, Waived};

/// Formats findings and waived findings as text; `specs` is the number of checked specs.
pub fn lint_text(findings: &[Finding], waived: &[Waived], specs: usize) -> String {
    let mut text = String::new();
    for finding in findings {
        let head = style(finding.severity).paint(format!("{}[{}]:", finding.severity, finding.id));
        text.push_str(&format!("{head} {}\n", place(finding)));
        text.push_str(&rows(&[
            ("found", &finding.found),
            ("expected", &finding.expected),
            ("help", &finding.help),
        ]));
    }
    for Waived { finding, reason } in waived {
        let head = Style::Dim.paint(format!("waived[{}]:", finding.id));
        text.push_str(&format!("{head} {}\n", place(finding)));
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

fn place(finding: &Finding) -> String {
    finding.line.map_or_else(|| finding.file.clone(), |line| format!("{}:{line}", finding.file))
}

fn rows(rows: &[(&str, &str)]) -> String {
    let rows = rows
        .iter()
        .map(|(name, value)| format!("  {}  {value}\n", Style::Dim.paint(format!("{name:<10}"))));
    rows.collect::<String>() + "\n"
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Error => Style::Bad,
        Severity::Warning => Style::Warning,
        Severity::Info => Style::Note,
    }
}
