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
    for Group { finding, found, others } in groups(findings) {
        let head = format!("{}[{}]:", finding.severity, finding.id);
        text.push_str(&headline(style(finding.severity), &head, finding, others));
        text.push_str(&rows(&[
            ("found", &found),
            ("expected", &finding.expected),
            ("help", &finding.help),
        ]));
    }
    for Waived { finding, reason } in waived {
        let head = format!("waived[{}]:", finding.id);
        text.push_str(&headline(Style::Dim, &head, finding, 0));
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

/// A finding, with what the same one found in other specs.
struct Group<'f> {
    finding: &'f Finding,
    found: String,
    /// The number of the other specs.
    others: usize,
}

/// Groups notes that differ only in their place: a property of the chroot concerns every spec.
fn groups(findings: &[Finding]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for finding in findings {
        let same = groups.iter_mut().find(|group| {
            let Finding { severity, id, expected, .. } = group.finding;
            *severity == Severity::Info
                && group.finding.file != finding.file
                && (*severity, *id, expected) == (finding.severity, finding.id, &finding.expected)
        });
        match same {
            Some(group) => {
                group.others += 1;
                for name in finding.found.split(", ") {
                    if !group.found.split(", ").any(|known| known == name) {
                        group.found += &format!(", {name}");
                    }
                }
            }
            None => groups.push(Group { finding, found: finding.found.clone(), others: 0 }),
        }
    }
    groups
}

/// Returns the first line of a finding. The place follows in a line of its own if the terminal is too
/// narrow.
fn headline(style: Style, head: &str, finding: &Finding, others: usize) -> String {
    let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
    let more = match others {
        0 => String::new(),
        _ => format!(" and {}", count(others, "other spec")),
    };
    let text = hanging(&format!("{head} {}{line}{more}", finding.file), 2);
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
