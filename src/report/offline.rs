//! Formats the offline audit: open points first, satisfied ones on request.

use super::{Style, count};
use crate::audit::{Audit, Point};
use crate::table::hanging;
use crate::text::visible;

/// Returns the output of `rocmrpm audit`.
pub fn offline_text(audit: &Audit, verbose: bool) -> String {
    let mut text = String::new();
    for at in &audit.points {
        match &at.satisfied {
            None => {
                place(&mut text, Style::Bad.paint("fetches"), at);
                text.push_str(&help(&at.help));
            }
            Some(by) if verbose => {
                place(&mut text, Style::Good.paint("satisfied"), at);
                let because = visible(&by.because);
                text.push_str(&format!("    by {}: {} ({because})\n", by.by, visible(&by.with)));
            }
            Some(_) => {}
        }
    }
    for mistake in &audit.mistakes {
        let (file, line) = (visible(&mistake.file), mistake.line);
        text.push_str(&format!("{file}:{line}: {}\n", visible(&mistake.problem)));
        text.push_str(&help(&mistake.help));
    }
    for file in &audit.unread {
        text.push_str(&format!("{}: too large for a build script, or not text\n", visible(file)));
        text.push_str(&help("remove it in %prep if the build does not need it"));
    }
    let open = audit.open().count();
    let points = count(audit.points.len(), "download point");
    let scripts = count(audit.scripts, "build script");
    text.push_str(&format!("{} {}: {points} in {scripts}", audit.component, audit.version));
    text.push_str(&match open {
        0 if audit.points.is_empty() => String::new(),
        0 => ", all satisfied".to_owned(),
        n => format!(", {n} not satisfied"),
    });
    match audit.mistakes.len() {
        0 => {}
        1 => text.push_str(", 1 invalid [[offline]]"),
        n => text.push_str(&format!(", {n} invalid [[offline]]")),
    }
    if audit.passed_over > 0 {
        text.push_str(&format!(
            "; {} more in files that the build does not read, such as tests",
            audit.passed_over
        ));
    }
    text.push('\n');
    text
}

fn help(text: &str) -> String {
    format!("    {} {}\n", Style::Note.paint("help:"), hanging(text, 10))
}

fn place(text: &mut String, word: String, at: &Point) {
    let fetches = at.fetches.as_ref().map(|what| format!(" {}", visible(what))).unwrap_or_default();
    text.push_str(&format!("{}:{}: {word}{fetches} ({})\n", visible(&at.file), at.line, at.kind));
    text.push_str(&format!("    {}\n", visible(&at.text)));
}
