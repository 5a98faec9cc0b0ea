//! Formats an inspection for GitHub Actions: a workflow command for each finding, which GitHub
//! shows next to the change, and a short summary in the log. Other formats have their own files.

use super::{Program, place, severity_word, tally, verdict_line};
use crate::{Finding, Report, Severity, SubjectKind};
use rocmrpm_base::text::visible;

/// Returns a report as workflow commands, worst finding first: GitHub shows at most ten of each
/// kind per step.
pub fn to_github(report: &Report, program: Program<'_>) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        text.push_str(&command(report, finding, program));
        text.push('\n');
    }
    text.push_str(&format!("::group::{}\n", program.name));
    for subject in &report.subjects {
        text.push_str(&plain(&format!("inspected {}", subject.name)));
    }
    for waived in &report.waived {
        let Finding { id, .. } = &waived.finding;
        let place = place(report, &waived.finding);
        text.push_str(&plain(&format!(
            "waived {id} in {place}: {} ({})",
            waived.reason, waived.place
        )));
    }
    let verdicts = verdict_line(report);
    if !verdicts.is_empty() {
        text.push_str(&plain(&format!("targets: {verdicts}")));
    }
    text.push_str("::endgroup::\n");
    text.push_str(&plain(&format!("{}: {}", program.name, tally(report))));
    text
}

/// Returns one workflow command. Source: GitHub's documentation, "Workflow commands for GitHub
/// Actions", "Setting an error message".
fn command(report: &Report, finding: &Finding, program: Program<'_>) -> String {
    let word = match finding.severity {
        Severity::Error | Severity::Warning => severity_word(finding.severity),
        Severity::Info => "notice",
    };
    let mut properties = String::new();
    if let Some(file) = annotated(report, finding) {
        properties.push_str(&format!("file={},", property(&file)));
    }
    properties.push_str(&format!("title={}", property(finding.id.as_str())));
    let Finding { found, expected, help, .. } = finding;
    let place = place(report, finding);
    let message = [
        visible(&format!("{place}: found {found}, expected {expected}")),
        visible(&format!("help: {help}")),
        format!("why: {} {}", program.explain, finding.id),
    ];
    format!("::{word} {properties}::{}", data(&message.join("\n")))
}

/// Returns the path on disk that a finding belongs to: an archive, or a file in a folder.
fn annotated(report: &Report, finding: &Finding) -> Option<String> {
    let path = finding.subject.as_deref()?;
    let subject = report.subjects.iter().find(|subject| subject.path == path);
    let file =
        finding.file.as_deref().filter(|_| subject.is_some_and(|s| s.kind == SubjectKind::Folder));
    Some(match file {
        Some(file) => format!("{}/{file}", path.trim_end_matches('/')),
        None => path.to_owned(),
    })
}

/// Returns a line that cannot be a command, whatever names it contains: it starts with a fixed
/// word, so that `::` has no effect, and lacks `##[`, which the runner recognizes anywhere in a
/// line. Source: actions/runner, `src/Runner.Common/ActionCommand.cs`.
fn plain(text: &str) -> String {
    format!("{}\n", without_old_commands(&visible(text)))
}

fn without_old_commands(text: &str) -> String {
    text.replace("##[", "# #[")
}

/// Escapes a command's message, in which the runner would recognize `##[` too. Source:
/// actions/toolkit, `packages/core/src/command.ts`, `escapeData`.
fn data(text: &str) -> String {
    without_old_commands(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a command's property. Source: the same, `escapeProperty`.
fn property(text: &str) -> String {
    data(&visible(text)).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_the_ends_of_properties_and_messages() {
        assert_eq!(property("a:b,c%\u{1b}"), "a%3Ab%2Cc%25\\u{1b}");
        assert_eq!(data("50%\r\n::error::x"), "50%25%0D%0A::error::x");
        assert_eq!(data("x ##[error]y"), "x # #[error]y");
        assert_eq!(property("##[group]"), "# #[group]");
        assert_eq!(plain("x ##[error]y\n::error::z"), "x # #[error]y\\n::error::z\n");
    }
}
