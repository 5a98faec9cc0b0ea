//! Writes Markdown that reads the same under Sphinx and on a forge.

use std::collections::BTreeSet;

/// Returns text for a paragraph or a list: outside of code spans, words with characters that
/// Markdown or HTML would interpret become code.
pub(super) fn text(text: &str) -> String {
    let mut parts: Vec<String> = text.split('`').map(str::to_owned).collect();
    // An odd number of backticks leaves the last part outside of code.
    for part in parts.iter_mut().step_by(2) {
        *part = part.split(' ').map(word).collect::<Vec<_>>().join(" ");
    }
    parts.join("`")
}

fn word(word: &str) -> String {
    if !word.contains(['<', '>', '*', '_', '{', '$']) {
        return word.to_owned();
    }
    let core = word.trim_start_matches(['(', '"']).trim_end_matches([',', '.', ';', ':', ')', '"']);
    let start = word.len() - word.trim_start_matches(['(', '"']).len();
    format!("{}`{core}`{}", &word[..start], &word[start + core.len()..])
}

/// Returns text for a cell of a table.
pub(super) fn cell(text: &str) -> String {
    self::text(text).replace('|', "\\|").replace('\n', " ")
}

/// Returns a table; each row has a cell per column.
pub(super) fn table<const N: usize>(
    columns: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut table = line(&columns.map(str::to_owned));
    table += &format!("|{}\n", "---|".repeat(N));
    rows.into_iter().for_each(|row| table += &line(&row));
    table
}

/// Returns a sentence: with a capital letter, and a period before its default.
pub(super) fn sentence(text: &str) -> String {
    let (text, default) = match text.trim().rsplit_once(" [default: ") {
        Some((text, default)) if default.ends_with(']') => (text, format!(" [default: {default}")),
        _ => (text.trim(), String::new()),
    };
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    let period = if text.ends_with(['.', ':']) { "" } else { "." };
    format!("{first}{}{period}{default}", chars.as_str())
}

/// Returns the anchor that MyST and forges give a heading.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Checks what the pages rely on: every heading has an anchor of its own, every link within the page
/// leads to one, and no text looks like HTML.
pub(super) fn check(page: &str) {
    let mut anchors = BTreeSet::new();
    let mut fenced = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose += line;
            prose += "\n";
            if let Some(heading) =
                line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim())
            {
                assert!(
                    anchors.insert(anchor(heading)),
                    "two headings have the anchor of `{heading}`"
                );
            }
        }
    }
    assert!(!fenced, "a code block does not end");
    for link in prose.split("](#").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        assert!(anchors.contains(link), "no heading has the anchor `{link}`");
    }
    for line in prose.lines() {
        for part in line.split('`').step_by(2) {
            assert!(!part.contains(['<', '>']), "`{part}` looks like HTML");
        }
    }
}

#[test]
fn only_words_that_need_it_become_code() {
    assert_eq!(
        text("write to build/<chroot>/x, or `a<b` (see *.rpm)."),
        "write to `build/<chroot>/x`, or `a<b` (see `*.rpm`)."
    );
    assert_eq!(text("a plain text: 1.2, [default: x]"), "a plain text: 1.2, [default: x]");
    assert_eq!(cell("`DIR|URL`\nor more"), "`DIR\\|URL` or more");
    assert_eq!(sentence("a file [default: x.y]"), "A file. [default: x.y]");
    assert_eq!(anchor("`[stack]` in `rocmrpm.toml`"), "stack-in-rocmrpmtoml");
}
