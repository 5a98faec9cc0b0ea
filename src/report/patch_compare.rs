//! Formats the comparison of two packages' changes of upstream files, grouped by file.

use super::{Style, count};
use crate::patches::compare::{Change, Comparison, Pair};
use crate::text::visible;

/// The maximum number of removed, and of added, lines per change.
const SHOWN: usize = 6;

/// Returns the output of `rocmrpm patch compare`; `ours` and `theirs` are names with versions.
pub fn comparison_of_patches(
    ours: &str,
    theirs: &str,
    comparison: &Comparison,
    verbose: bool,
) -> String {
    let Comparison { only_theirs, only_ours, different, same, .. } = comparison;
    let (ours, theirs) = (visible(ours), visible(theirs));
    let mut text = String::new();
    heading(&mut text, &format!("Only {theirs}"), only_theirs.len());
    changes(&mut text, only_theirs);
    heading(&mut text, &format!("Only {ours}"), only_ours.len());
    changes(&mut text, only_ours);
    heading(&mut text, "The same place, in different ways", different.len());
    pairs(&mut text, different);
    heading(&mut text, "Both", same.len());
    if verbose {
        pairs(&mut text, same);
    }
    for (name, left) in
        [(theirs, &comparison.theirs_not_compared), (ours, &comparison.ours_not_compared)]
    {
        if left.is_empty() {
            continue;
        }
        let summary = format!("{} of {name} not compared", count(left.len(), "command"));
        text.push_str(&format!("{}\n", Style::Warning.paint(summary)));
        let shown = if verbose { left.len() } else { SHOWN };
        for line in left.iter().take(shown) {
            text.push_str(&format!("  {}\n", visible(line)));
        }
        if left.len() > shown {
            text.push_str(&format!("  ... {} more; `--verbose` lists them\n", left.len() - shown));
        }
    }
    text
}

fn heading(text: &mut String, what: &str, number: usize) {
    let line = format!("{what}: {}", count(number, "change"));
    text.push_str(&format!("{}\n", Style::Bold.paint(line)));
}

fn changes(text: &mut String, changes: &[Change]) {
    let mut file = None;
    for change in changes {
        if file != Some(&change.file) {
            text.push_str(&format!("  {}\n", visible(&change.file)));
            file = Some(&change.file);
        }
        lines(text, change);
    }
}

fn pairs(text: &mut String, pairs: &[Pair]) {
    for Pair { theirs, ours } in pairs {
        text.push_str(&format!("  {}\n", visible(&theirs.file)));
        lines(text, theirs);
        lines(text, ours);
    }
}

/// Appends a change as the lines of a diff.
fn lines(text: &mut String, change: &Change) {
    text.push_str(&format!("    {}\n", visible(&change.by)));
    for (sign, style, lines) in
        [("-", Style::Bad, &change.removed), ("+", Style::Good, &change.added)]
    {
        let all: Vec<&str> = lines.iter().flat_map(|line| line.lines()).collect();
        for line in all.iter().take(SHOWN) {
            let line = format!("{sign} {}", visible(line.trim()));
            text.push_str(&format!("      {}\n", style.paint(line)));
        }
        if all.len() > SHOWN {
            text.push_str(&format!("      {sign} ... {} more\n", all.len() - SHOWN));
        }
    }
}
