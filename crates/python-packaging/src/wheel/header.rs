//! Splits the header of METADATA into fields, at the same places as installers do. It does not
//! interpret them.
//!
//! The format is that of email, parsed the way Python does: pip uses `email.feedparser` of the
//! standard library. A line ends with `\n`, `\r\n` or `\r`. A line that starts with a space or tab
//! continues the field above it. The header ends with the first line that is neither a continuation
//! nor a field, empty or not. No space may precede the colon.

use std::ops::Range;

/// A field. Positions are byte offsets in the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, in its original case.
    pub name: &'a str,
    /// The value without surrounding spaces. It may contain line ends.
    pub value: &'a str,
    /// The number of its first line, starting at 1.
    pub number: usize,
    /// The position of the value.
    pub at: Range<usize>,
    /// The position of all of its lines, including their line ends.
    pub lines: Range<usize>,
}

impl Field<'_> {
    /// Returns whether the field has this name, ignoring case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Returns whether the value spans several lines.
    pub fn is_folded(&self) -> bool {
        self.value.contains(['\r', '\n'])
    }

    /// Returns the value on one line, with every run of whitespace collapsed into one space.
    pub fn one_line(&self) -> String {
        one_line(self.value)
    }
}

/// Returns a text with every run of whitespace collapsed into one space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the fields of METADATA in order.
pub fn fields(text: &str) -> impl Iterator<Item = Field<'_>> {
    let mut at = 0;
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at;
            let line = line(&text[start..]);
            let name = match name(line) {
                Line::Field(name) => Some(name),
                Line::Passed => None,
                Line::End => return None,
            };
            (at, number) = (at + line.len(), number + 1);
            let Some(name) = name else { continue };
            let first = number;
            while text[at..].starts_with([' ', '\t']) {
                (at, number) = (at + self::line(&text[at..]).len(), number + 1);
            }
            let from = start + name.len() + 1;
            let whole = &text[from..at];
            let value = whole.trim();
            let from = from + (whole.len() - whole.trim_start().len());
            let place = from..from + value.len();
            return Some(Field { name, value, number: first, at: place, lines: start..at });
        }
    })
}

/// Returns where the header ends: a field inserted there becomes the last one.
pub(super) fn end(text: &str) -> usize {
    fields(text).last().map_or(0, |field| field.lines.end)
}

enum Line<'a> {
    Field(&'a str),
    /// A line that Python's parser skips.
    Passed,
    End,
}

/// Classifies a line of the header that does not continue a field.
fn name(line: &str) -> Line<'_> {
    if line.starts_with([' ', '\t']) || line.starts_with("From ") {
        return Line::Passed;
    }
    let Some((name, _)) = line.split_once(':') else { return Line::End };
    match name.bytes().all(|byte| byte.is_ascii_graphic()) {
        true if name.is_empty() => Line::Passed,
        true => Line::Field(name),
        false => Line::End,
    }
}

/// Returns the first line of a text, including its line end.
fn line(text: &str) -> &str {
    match text.find(['\r', '\n']) {
        None => text,
        Some(at) if text[at..].starts_with("\r\n") => &text[..at + 2],
        Some(at) => &text[..at + 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(&str, String)> {
        fields(text).map(|field| (field.name, field.one_line())).collect()
    }

    #[test]
    fn finds_fields_with_positions() {
        let text = "Name: a\r\nSummary:  b\r\n\tc \r\nX:\r\n\r\nName: text\r\n";
        assert_eq!(
            read(text),
            [("Name", "a".into()), ("Summary", "b c".into()), ("X", String::new())]
        );
        let all: Vec<Field<'_>> = fields(text).collect();
        assert_eq!(all.iter().map(|field| field.number).collect::<Vec<_>>(), [1, 2, 4]);
        for field in &all {
            assert_eq!(&text[field.at.clone()], field.value);
            assert!(text[field.lines.clone()].starts_with(field.name));
        }
        assert!(all[1].is_folded() && !all[0].is_folded() && all[0].is("NAME"));
        assert_eq!(&text[end(text)..], "\r\nName: text\r\n");
    }

    /// Python's own parser gives these results.
    #[test]
    fn ends_header_like_python() {
        let texts = [
            "",
            "\n",
            "A: 1",
            "A: 1\n\nB: 2\n",
            "A: 1\rB: 2\r\rC: 3",
            "A: 1\r\n b\r\n  \r\n\tc\r\nB: 2\r\n",
            "A: 1\nno field\nB: 2\n",
            "A : 1\nB: 2\n",
            "B: 2\nA : 1\nC: 3\n",
            " a\nA: 1\n",
            "From x\nA: 1\nFrom y\nB: 2\n",
            ": x\nA: 1\n",
            "A: 1\n:x\nB: 2\n",
            "\u{e4}: 1\nA: 2\n",
            "A: 1\u{b}B: 2\u{c}\u{85}\u{2028}C: 3\nD: 4\n",
            "A:\n b\nB:\n\n",
            "A: 1\n\n B: 2\n",
        ];
        let code = "import sys, json, email.parser\n\
            for text in json.load(sys.stdin):\n\
            \x20   items = email.parser.Parser().parsestr(text, headersonly=True).items()\n\
            \x20   print(json.dumps([[k, ' '.join(v.split())] for k, v in items]))\n";
        let mut python = std::process::Command::new("/usr/bin/python3")
            .args(["-c", code])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("the test needs /usr/bin/python3 of the package python3");
        serde_json::to_writer(python.stdin.take().unwrap(), &texts).unwrap();
        let output = python.wait_with_output().unwrap();
        let theirs = String::from_utf8(output.stdout).unwrap();
        assert_eq!(theirs.lines().count(), texts.len());
        for (text, line) in texts.iter().zip(theirs.lines()) {
            let theirs: Vec<(String, String)> = serde_json::from_str(line).unwrap();
            let ours: Vec<(String, String)> =
                read(text).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(ours, theirs, "{text:?}");
        }
    }
}
