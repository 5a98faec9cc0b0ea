//! Finds the place in a text that best matches given lines, and what upstream changed there. It
//! works on strings and does not read files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;
use similar::TextDiff;

/// Maximum number of lines to search; larger files are not patched by hand.
const MOST_LINES: usize = 200_000;

/// Time limit for a text comparison before its result gets coarser.
const DIFF_TIMEOUT: Duration = Duration::from_secs(5);

/// The place most similar to the one that a patch expects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Near {
    /// The first line, counted from 1.
    pub line: usize,
    /// The expected lines compared with the existing ones.
    pub diff: String,
}

/// Finds the best match for `expected`; among equal matches, the one nearest to line `around`.
/// Returns `None` if nothing is similar.
pub fn nearest_place(text: &str, expected: &[String], around: usize) -> Option<Near> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if expected.is_empty() || lines.is_empty() || lines.len() > MOST_LINES {
        return None;
    }
    let start =
        exact_lines(&lines, expected, around).or_else(|| alike_line(&lines, expected, around))?;
    let end = (start + expected.len()).min(lines.len());
    let diff = diff(&expected.concat(), &lines[start..end].concat());
    Some(Near { line: start + 1, diff })
}

/// Finds the window that contains most of the expected non-blank lines.
fn exact_lines(lines: &[&str], expected: &[String], around: usize) -> Option<usize> {
    let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
    for line in expected.iter().map(|line| line.trim()).filter(|line| !line.is_empty()) {
        *wanted.entry(line).or_default() += 1;
    }
    let size = expected.len().min(lines.len());
    let (mut have, mut best): (i64, Option<(i64, usize)>) = (0, None);
    for (at, line) in lines.iter().enumerate() {
        if let Some(left) = wanted.get_mut(line.trim()) {
            *left -= 1;
            have += i64::from(*left >= 0);
        }
        if at >= size
            && let Some(left) = wanted.get_mut(lines[at - size].trim())
        {
            have -= i64::from(*left >= 0);
            *left += 1;
        }
        let start = (at + 1).saturating_sub(size);
        let closer = |other: usize| (start + 1).abs_diff(around) < (other + 1).abs_diff(around);
        if at + 1 >= size
            && best.is_none_or(|(most, other)| have > most || have == most && closer(other))
        {
            best = Some((have, start));
        }
    }
    best.filter(|(have, _)| *have > 0).map(|(_, start)| start)
}

/// Finds the line most similar to the longest expected line.
fn alike_line(lines: &[&str], expected: &[String], around: usize) -> Option<usize> {
    let (at, wanted) = expected.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let (line, _) = alike(lines, wanted.trim(), around)?;
    Some(line.saturating_sub(at))
}

/// Finds the line most similar to `wanted` and returns its index and similarity.
fn alike(lines: &[&str], wanted: &str, around: usize) -> Option<(usize, f64)> {
    let short = |line: &&&str| line.len() <= 1000;
    let score = |line: &str| strsim::normalized_levenshtein(line.trim(), wanted);
    let scored = lines.iter().enumerate().filter(|(_, line)| short(line));
    let scored = scored.map(|(at, line)| (at, score(line))).filter(|(_, score)| *score >= 0.6);
    scored.max_by(|(a, x), (b, y)| {
        x.total_cmp(y).then_with(|| (b + 1).abs_diff(around).cmp(&(a + 1).abs_diff(around)))
    })
}

/// Returns up to five lines that contain `find`, or else the most similar line, each with its
/// number, counted from 1.
pub fn lines_like(text: &str, find: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let shown = |at: usize| (at + 1, lines[at].trim().chars().take(160).collect::<String>());
    let with: Vec<_> =
        (0..lines.len()).filter(|at| lines[*at].contains(find)).take(5).map(shown).collect();
    if !with.is_empty() || lines.len() > MOST_LINES || find.len() > 1000 {
        return with;
    }
    // Match a partial line by its longest word, and a whole line by all of it.
    let longest =
        find.split(|c: char| !c.is_alphanumeric() && c != '_').max_by_key(|word| word.len());
    let word = longest.filter(|word| word.len() >= 4);
    match alike(&lines, find.trim(), 0) {
        Some((at, _)) => vec![shown(at)],
        None => word
            .map(|word| {
                (0..lines.len()).filter(|at| lines[*at].contains(word)).take(5).map(shown).collect()
            })
            .unwrap_or_default(),
    }
}

/// Returns the differences between two texts around some lines of the old text; empty if nothing
/// changed there.
pub fn changes_around(old: &str, new: &str, lines: Range<usize>) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let mut unified = diff.unified_diff();
    let mut out = String::new();
    for hunk in unified.context_radius(3).iter_hunks() {
        let first = hunk.ops().first().map_or(0, |op| op.old_range().start);
        let last = hunk.ops().last().map_or(0, |op| op.old_range().end);
        if first < lines.end && last >= lines.start {
            out.push_str(&hunk.to_string());
        }
    }
    out
}

/// Compares two texts and shows every line.
fn diff(old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let mut out = String::new();
    for change in diff.iter_all_changes() {
        let line = change.value().trim_end_matches('\n');
        out.push_str(&format!("{}{line}\n", change.tag()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_inclusive('\n').map(str::to_owned).collect()
    }

    #[test]
    fn nearest_place_has_most_of_the_lines() {
        let text = "a\nb\nx\ny\n\n\na\nb\nc2\nd\n";
        let near = nearest_place(text, &lines("a\nb\nc\nd\n"), 1).unwrap();
        assert_eq!((near.line, near.diff.as_str()), (7, " a\n b\n-c\n+c2\n d\n"));
        let near = nearest_place("one\ntwo = 12345;\n", &lines("two = 12346;\n"), 1).unwrap();
        assert_eq!(near.line, 2);
        assert_eq!(nearest_place("zzz\n", &lines("quite another\n"), 1), None);
        assert_eq!(nearest_place("", &lines("x\n"), 1), None);
    }

    #[test]
    fn finds_lines_with_the_text_or_a_similar_one() {
        let text = "set(LLVM_DIR /opt/rocm)\nfoo\nset(LLVM_DIR2 x)\n";
        assert_eq!(lines_like(text, "foo"), [(2, "foo".to_owned())]);
        assert_eq!(lines_like(text, "set(LLVM_DIR /opt/rocn)")[0].0, 1);
        assert_eq!(lines_like(text, "nothing alike"), []);
    }

    #[test]
    fn shows_only_changes_at_the_place() {
        let old: String = (1..60).map(|n| format!("{n}\n")).collect();
        let new = old.replace("\n5\n", "\nfive\n").replace("\n50\n", "\nfifty\n");
        let shown = changes_around(&old, &new, 48..52);
        assert!(shown.contains("-50\n+fifty\n") && !shown.contains("five"), "{shown}");
        assert_eq!(changes_around(&old, &new, 20..22), "");
    }
}
