//! An inspection as text: what each file holds, then the findings.

use super::{Style, human_size};
use crate::inspect::{Report, Severity, Subject};
use crate::text::visible;

/// Returns a report as text for a terminal.
pub fn inspection_text(report: &Report) -> String {
    let mut text = String::new();
    for subject in &report.subjects {
        text.push_str(&subject_text(subject));
        text.push('\n');
    }
    for finding in &report.findings {
        let (style, word) = match finding.severity {
            Severity::Error => (Style::Bad, "error"),
            Severity::Warning => (Style::Warning, "warning"),
            Severity::Info => (Style::Hint, "note"),
        };
        text.push_str(&format!("{} {finding}\n", style.paint(format!("{word}:"))));
        text.push_str(&format!("  {} {}\n", Style::Dim.paint("to mend it:"), finding.remedy));
    }
    if report.findings.is_empty() {
        text.push_str(&format!("{}\n", Style::Good.paint("no findings")));
    }
    text
}

fn subject_text(subject: &Subject) -> String {
    let size = subject.size.map(|size| format!(", {}", human_size(size))).unwrap_or_default();
    let mut text = format!("{}{}\n", Style::Bold.paint(&subject.name), Style::Dim.paint(size));
    if subject.files.is_empty() {
        text.push_str("  no ELF files, no GPU code\n");
        return text;
    }
    for file in &subject.files {
        let code: Vec<String> = file
            .device
            .iter()
            .map(|code| format!("{} ×{} ({})", code.target, code.count, human_size(code.bytes)))
            .collect();
        let mut rows = vec![("GPU code", if code.is_empty() { "-".to_owned() } else { code.join(", ") })];
        if let Some(elf) = &file.elf {
            let needed: Vec<&str> = elf.needed.iter().map(|soname| soname.as_str()).collect();
            rows.push(("needs", needed.join(" ")));
            rows.push(("RPATH", elf.rpath.join(":")));
            rows.push(("RUNPATH", elf.runpath.join(":")));
        }
        text.push_str(&format!("  {}\n", visible(&file.path)));
        for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
            let name = Style::Dim.paint(format!("{name:<9}"));
            text.push_str(&format!("      {name} {}\n", visible(value)));
        }
    }
    text
}
