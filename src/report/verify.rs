//! Formats the results of `verify` as text for a terminal: the checks, then the number of each
//! outcome.

use super::{Style, Table};
use crate::verify::{Outcome, Verified};

/// Returns the checks as a table, and a summary line.
pub fn verify_text(verified: &Verified) -> String {
    let mut table = Table::new(&["result", "check", "what"]);
    for check in &verified.checks {
        let (style, word) = match check.outcome {
            Outcome::Pass => (Style::Good, "pass"),
            Outcome::Fail => (Style::Bad, "FAIL"),
            Outcome::NotRun => (Style::Dim, "not run"),
        };
        let what = match check.detail.as_str() {
            "" => check.what.clone(),
            detail => format!("{}: {detail}", check.what),
        };
        table.styled_row(vec![(Some(style), word.into()), (None, check.id.clone()), (None, what)]);
    }
    let mut text = table.text();
    for measured in &verified.measured {
        text += &format!("{}: {:.4} {}\n", measured.name, measured.number, measured.unit);
    }
    for worse in &verified.worse {
        let style = if worse.failed { Style::Bad } else { Style::Warning };
        text += &format!("{} {}\n", style.paint("worse:"), worse.text);
    }
    let number = |outcome| verified.number(outcome);
    let (passed, failed, not_run) =
        (number(Outcome::Pass), number(Outcome::Fail), number(Outcome::NotRun));
    let style = if failed == 0 { Style::Good } else { Style::Bad };
    let tally = style.paint(format!("{passed} passed, {failed} failed, {not_run} not run"));
    format!("{text}\n{tally} in {}\n", verified.place)
}
