//! Formats the rules of inspection and lint, and the causes of failures, as text: all of them as
//! tables, a single one in full, or the one that a log shows.

use super::{Style, Table};
use crate::build::{Cause, KnownCause, Pattern, Phase, causes};
use crate::inspect::{Rule, Severity};
use crate::lint::{self, rule_groups};
use crate::table::{self, width_up_to};
use crate::text::visible;

/// The width of a rule's text, unless the terminal is narrower.
const WIDTH: usize = 88;

/// Returns a table of the rules of each group.
pub fn rules_text() -> String {
    let groups = rule_groups().into_iter().map(|(group, rules)| {
        let mut table = Table::new(&[group, "severity", "what it finds"]);
        for rule in rules {
            let severity = (Some(style(rule.severity)), rule.severity.to_string());
            table.styled_row(vec![
                (None, rule.id.to_string()),
                severity,
                (None, rule.what.to_owned()),
            ]);
        }
        table.text()
    });
    let tables = groups.collect::<Vec<_>>().join("\n");
    format!("{tables}\n`rocmrpm explain ID` explains a rule and how to fix its findings.\n")
}

/// Returns a rule in full, and a waiver for it to paste.
pub fn rule_text(rule: &Rule) -> String {
    let severity = style(rule.severity).paint(rule.severity);
    let mut text = format!("{} ({severity})\n", Style::Bold.paint(rule.id));
    let parts =
        [("what", rule.what), ("why", rule.why), ("incident", rule.incident), ("help", rule.help)];
    for (name, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
        text.push_str(&format!("\n{}\n{}", Style::Dim.paint(name), wrapped(part)));
    }
    let waiver = waiver(rule);
    text.push_str(&format!("\n{}\n{waiver}", Style::Dim.paint("waiver for component.toml")));
    text
}

/// Returns a table of the causes of failed builds, and one of those of failed programs on the GPU.
pub fn causes_text() -> String {
    let table = |title: &'static str, of_programs: bool| {
        let mut table = Table::new(&[title, "kind", "cause"]);
        for cause in causes().iter().filter(|cause| cause.is_of_programs() == of_programs) {
            let kind = cause.kind.as_str().to_owned();
            table.row(vec![cause.id.clone(), kind, unfilled(&cause.cause)]);
        }
        table.text()
    };
    format!(
        "{}\n{}\n`rocmrpm explain ID` shows the log lines of a cause and how to fix it.\n",
        table("failed builds", false),
        table("failed programs", true)
    )
}

/// Returns a cause in full.
pub fn cause_text(cause: &Cause) -> String {
    let mut text = format!("{} ({})\n", Style::Bold.paint(&cause.id), cause.kind.as_str());
    let phases =
        cause.phases.iter().map(|phase| Phase::as_str(*phase)).collect::<Vec<_>>().join(", ");
    let phases = if phases.is_empty() { "any of a build".to_owned() } else { phases };
    let lines = cause.patterns.iter().flat_map(|pattern| Pattern::as_str(pattern).lines());
    let patterns: String =
        lines.map(|line| format!("  {}\n", line.replace('\t', "    "))).collect();
    for (name, part) in [
        ("cause", wrapped(&unfilled(&cause.cause))),
        ("phase", wrapped(&phases)),
        ("lines of the log", patterns),
        ("help", wrapped(&cause.help)),
        ("seen", wrapped(&cause.seen)),
    ] {
        text.push_str(&format!("\n{}\n{part}", Style::Dim.paint(name)));
    }
    text
}

/// Returns the cause that a log shows, and the lines of the log that matter.
pub fn explanation_text(known: &KnownCause, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    let mut text = format!("{}\n", Style::Bold.paint(known.id));
    for (name, part) in [
        ("cause", wrapped(&visible(&known.cause))),
        ("lines of the log", lines),
        ("help", wrapped(&visible(&known.help))),
    ] {
        text.push_str(&format!("\n{}\n{part}", Style::Dim.paint(name)));
    }
    text
}

/// Returns a text of the catalog, with dots in the place of parts of a log.
fn unfilled(text: &str) -> String {
    text.replace("{1}", "...").replace("{2}", "...")
}

fn waiver(rule: &Rule) -> String {
    if rule.id.as_str().ends_with("waiver-unused") {
        return "  this rule is about waivers and cannot be waived\n".to_owned();
    }
    if lint::rule(rule.id.as_str()).is_some() {
        return format!(
            "  [[lint.waive]]\n  rule = \"{}\"\n  \
             found = \"...\"        # optional; a part of what was found\n  \
             reason = \"...\"       # why it is accepted\n",
            rule.id
        );
    }
    format!(
        "  [[inspect.waive]]\n  rule = \"{}\"\n  \
         file = \"*/name.so\"   # optional; `*` stands for any characters\n  \
         found = \"...\"        # optional; a part of what was found\n  \
         reason = \"...\"       # why it is accepted\n",
        rule.id
    )
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Error => Style::Bad,
        Severity::Warning => Style::Warning,
        Severity::Info => Style::Note,
    }
}

/// Wraps a text into indented lines.
fn wrapped(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = table::wrapped(&words, width_up_to(WIDTH + 2).saturating_sub(2));
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_text_at_word_boundaries() {
        let word = "x".repeat(100);
        assert_eq!(wrapped(&format!("a {word} b c")), format!("  a\n  {word}\n  b c\n"));
        assert_eq!(wrapped("one  two"), "  one two\n");
    }
}
