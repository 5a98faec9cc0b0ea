//! Formats the check of an index as text for a terminal: what was checked, the findings, and a
//! summary line. It is readable without color.

use super::{Style, count};
use crate::index::check::Report;
use crate::inspect::Severity;
use crate::table::width_up_to;
use crate::text::visible;

/// The maximum number of listed wheels of a finding.
const MAX_WHEELS: usize = 8;

/// The maximum width of lines that can be wrapped, unless the terminal is narrower.
const WIDTH: usize = 96;

/// Formats a report as text for a terminal.
pub fn index_check_text(report: &Report) -> String {
    let about = format!(
        "{} of {}, for Python {} on {}",
        count(report.wheels, "wheel"),
        count(report.distributions, "distribution"),
        report.python,
        report.arch
    );
    let mut text =
        format!("{}  {}\n", Style::Bold.paint(visible(&report.index)), Style::Dim.paint(about));
    if report.other_environments > 0 {
        let others = count(report.other_environments, "wheel");
        text.push_str(&row("left out", &format!("{others} for other Pythons or platforms")));
    }
    if report.foreign > 0 {
        let foreign = format!("{} that the stack did not build", count(report.foreign, "wheel"));
        text.push_str(&row("foreign", &foreign));
    }
    for index in &report.outside {
        text.push_str(&row("outside", index));
    }
    text.push('\n');
    for finding in &report.findings {
        let (word, style) = match finding.severity {
            Severity::Error => ("error", Style::Bad),
            Severity::Warning => ("warning", Style::Warning),
            Severity::Info => ("info", Style::Note),
        };
        let about = finding.requirement.as_deref().unwrap_or_else(|| title(finding.id));
        text.push_str(&format!(
            "{} {}\n",
            style.paint(format!("{word}[{}]:", finding.id)),
            visible(about)
        ));
        text.push_str(&wheels(&finding.wheels));
        text.push_str(&row("found", &finding.found));
        text.push_str(&row("help", &finding.help));
        text.push('\n');
    }
    for unchecked in &report.unchecked {
        let head = Style::Note.paint("unchecked:");
        text.push_str(&format!("{head} {}\n", visible(&unchecked.requirement)));
        text.push_str(&wheels(&unchecked.wheels));
        text.push_str(&row("reason", &unchecked.reason));
        text.push('\n');
    }
    text + &last_line(report)
}

fn last_line(report: &Report) -> String {
    let of = |severity| report.findings.iter().filter(|f| f.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let style = match (errors, warnings) {
        (0, 0) if report.wheels > 0 => Style::Good,
        (0, _) => Style::Warning,
        _ => Style::Bad,
    };
    let tally = match report.findings.len() {
        0 if report.wheels == 0 => "no wheels".to_owned(),
        0 if report.closed => "no findings, and no other index is needed".to_owned(),
        0 => "no findings".to_owned(),
        _ => format!("{}, {}", count(errors, "error"), count(warnings, "warning")),
    };
    let tally = style.paint(tally);
    let checked = report.requirements - report.unchecked.len().min(report.requirements);
    let mut line = format!("{tally} | {} checked", count(checked, "requirement"));
    if !report.unchecked.is_empty() {
        line.push_str(&format!(", {} unchecked", report.unchecked.len()));
    }
    line + "\n"
}

fn title(id: &str) -> &'static str {
    match id {
        "duplicate" => "two wheels of the same distribution and version",
        "plain-beside-labelled" => "a wheel without a label beside one with a label",
        "several-gpu-targets" => "the same version for several sets of GPU targets",
        "package-missing" => "a package that its page lists is missing",
        "package-differs" => "a package differs from its page",
        "pages-differ" => "the HTML and JSON forms of a page differ",
        "manifest-invalid" => "the index has no manifest signed by the key",
        "manifest-expired" => "the signature of the index has expired",
        "manifest-differs" => "a file differs from the one that was signed",
        "rollback" => "the index is older than before",
        "not-closed" => "a wheel that needs another index",
        "misplaced" => "a page lists a file that does not belong there",
        "metadata-missing" => "a wheel's metadata is missing or differs from its page",
        _ => "",
    }
}

fn wheels(wheels: &[String]) -> String {
    let mut text = String::new();
    for (at, wheel) in wheels.iter().take(MAX_WHEELS).enumerate() {
        text.push_str(&row(if at == 0 { "in" } else { "" }, wheel));
    }
    if wheels.len() > MAX_WHEELS {
        text.push_str(&row("", &format!("and {} more", wheels.len() - MAX_WHEELS)));
    }
    text
}

/// Formats a label and its text, wrapped into lines.
fn row(label: &str, value: &str) -> String {
    let start = 12;
    let mut text = format!("  {}", Style::Dim.paint(format!("{label:<9}")));
    let mut used = start - 1;
    for word in value.split_whitespace() {
        let word = visible(word);
        let length = word.chars().count();
        if used >= start && used + 1 + length > width_up_to(WIDTH) {
            text.push_str(&format!("\n{}", " ".repeat(start)));
            used = start;
        } else {
            text.push(' ');
            used += 1;
        }
        text.push_str(&word);
        used += length;
    }
    text + "\n"
}
