//! Patterns of log lines. A pattern matches a whole line, with `*` for any characters, and `{1}`,
//! `{2}` and so on for any characters to report. A pattern of several lines matches consecutive
//! lines. The patterns themselves are in `failures.toml`.

use serde::Deserialize;

/// The maximum length of a match in a message, in characters.
const LONGEST: usize = 160;

/// A pattern of one or more lines.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    text: String,
    lines: Vec<Vec<PatternPart>>,
}

#[derive(Debug)]
enum PatternPart {
    /// Literal text.
    Text(String),
    /// Any characters; if they are reported, their number, from 1.
    Any(Option<usize>),
}

/// A pattern that could be read in two ways, or without text.
#[derive(Debug, thiserror::Error)]
#[error("the pattern `{0}` has `*` or `{{1}}` twice in a row, or no text")]
pub struct Ambiguous(String);

impl TryFrom<String> for Pattern {
    type Error = Ambiguous;

    fn try_from(text: String) -> Result<Self, Ambiguous> {
        let lines: Vec<Vec<PatternPart>> = text.lines().map(parts).collect();
        let is_any = |part: &PatternPart| matches!(part, PatternPart::Any(_));
        let ambiguous =
            |line: &Vec<PatternPart>| line.windows(2).any(|pair| pair.iter().all(is_any));
        let pattern = Self { text, lines };
        if pattern.longest_text().is_none() || pattern.lines.iter().any(ambiguous) {
            return Err(Ambiguous(pattern.text));
        }
        Ok(pattern)
    }
}

impl Pattern {
    /// Returns the pattern's source text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns its longest literal text, and the line of the pattern that has it. Lines without
    /// this text do not match.
    pub(super) fn longest_text(&self) -> Option<(usize, &str)> {
        let texts = self.lines.iter().enumerate().flat_map(|(line, parts)| {
            parts.iter().filter_map(move |part| match part {
                PatternPart::Text(text) => Some((line, text.as_str())),
                PatternPart::Any(_) => None,
            })
        });
        texts.max_by_key(|(_, text)| text.len())
    }

    /// Returns the reported matches if the lines start with as many matching lines as the pattern
    /// has.
    pub(super) fn find(&self, lines: &[String]) -> Option<Vec<String>> {
        let mut found = Vec::new();
        for (at, parts) in self.lines.iter().enumerate() {
            line_matches(parts, lines.get(at)?, &mut found)?;
        }
        found.sort_by_key(|(number, _)| *number);
        Some(found.into_iter().map(|(_, text)| text).collect())
    }
}

/// Parses a pattern of one line.
fn parts(pattern: &str) -> Vec<PatternPart> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let (any, length) = match rest.as_bytes() {
            [b'*', ..] => (Some(PatternPart::Any(None)), 1),
            [b'{', digit @ b'1'..=b'9', b'}', ..] => {
                (Some(PatternPart::Any(Some(usize::from(digit - b'0')))), 3)
            }
            _ => (None, rest.chars().next().map_or(1, char::len_utf8)),
        };
        match (any, parts.last_mut()) {
            (Some(any), _) => parts.push(any),
            (None, Some(PatternPart::Text(text))) => text.push_str(&rest[..length]),
            (None, _) => parts.push(PatternPart::Text(rest[..length].to_owned())),
        }
        rest = &rest[length..];
    }
    parts
}

/// Matches one whole line. Searches once for each text between wildcards, starting where the
/// previous one ended; the last one must end the line.
fn line_matches(parts: &[PatternPart], line: &str, found: &mut Vec<(usize, String)>) -> Option<()> {
    let mut rest = line.trim_end();
    let mut pending: Option<Option<usize>> = None;
    for (at, part) in parts.iter().enumerate() {
        match part {
            PatternPart::Any(number) => pending = Some(*number),
            PatternPart::Text(text) => {
                let begin = match pending {
                    None => rest.starts_with(text.as_str()).then_some(0)?,
                    Some(_) if at + 1 == parts.len() => {
                        rest.ends_with(text.as_str()).then(|| rest.len() - text.len())?
                    }
                    Some(_) => rest.find(text.as_str())?,
                };
                if let Some(Some(number)) = pending.take() {
                    found.push((number, shortened(&rest[..begin])));
                }
                rest = &rest[begin + text.len()..];
            }
        }
    }
    match pending {
        Some(Some(number)) => found.push((number, shortened(rest))),
        Some(None) => {}
        None if !rest.is_empty() => return None,
        None => {}
    }
    Some(())
}

/// Cuts a match to a length that fits into a sentence.
fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pattern: &str, text: &str) -> Option<Vec<String>> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Pattern::try_from(pattern.to_owned()).unwrap().find(&lines)
    }

    #[test]
    fn matches_whole_lines_and_reports_numbered_matches() {
        assert_eq!(find("Killed", "Killed").unwrap(), Vec::<String>::new());
        assert_eq!(find("Killed", "not Killed"), None);
        assert_eq!(find("Killed", "Killed by"), None);
        assert_eq!(find("*: {1}: not found", "sh: 1: foo: not found").unwrap(), ["1: foo"]);
        assert_eq!(find("*: {1}: not found", "not found"), None);
        assert_eq!(
            find("\t{1} is needed by *", "\tfoo >= 2 is needed by x-1-1").unwrap(),
            ["foo >= 2"]
        );
        assert_eq!(find("{2} wants {1}", "a wants b").unwrap(), ["b", "a"]);
        assert_eq!(find("a*a", "a"), None);
    }

    #[test]
    fn requires_all_lines_of_a_pattern() {
        assert_eq!(find("found:\n   {1}", "found:\n   /usr/x\nmore").unwrap(), ["/usr/x"]);
        assert_eq!(find("found:\n   {1}", "found:"), None);
        assert_eq!(find("found:\n   {1}", "found:\n/usr/x"), None);
    }

    #[test]
    fn cuts_long_matches_at_character_boundaries() {
        let long = "ü".repeat(10_000);
        let found = find("x {1}", &format!("x {long}")).unwrap();
        assert_eq!(found[0].chars().count(), LONGEST + 3);
    }

    #[test]
    fn rejects_ambiguous_patterns() {
        for bad in ["", "*", "{1}\n*", "a*{1}", "**", "{1}{2}"] {
            assert!(Pattern::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        assert!(Pattern::try_from("{x} {0} é*".to_owned()).is_ok());
    }
}
