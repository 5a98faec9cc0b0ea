//! Reads sed scripts as changes of text: what a command replaces, deletes or adds. It does not run
//! them. Source of the syntax: POSIX, "sed", and the manual of GNU sed.

/// What a sed command does to a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SedCommand {
    /// `s`: replaces the pattern with a text.
    Replace(Pattern, String),
    /// `d`: deletes the lines that the pattern matches.
    Delete(Pattern),
    /// `a`, `i`: adds a line next to those that the pattern matches.
    Add(Pattern, String),
    /// `c`: replaces the lines that the pattern matches.
    Change(Pattern, String),
    /// Any other command, verbatim.
    Other(String),
}

/// The literal parts of a regular expression in order; whatever is between them varies. Empty for an
/// address without text, such as a line number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern(pub Vec<String>);

impl Pattern {
    /// Returns a pattern that is a literal text.
    pub fn literal(text: &str) -> Self {
        Self(vec![text.to_owned()])
    }

    /// Parses a regular expression, basic or extended. A `.` counts as a literal dot, which is what
    /// people mean by it unless a repetition follows.
    fn parse(text: &str, extended: bool) -> Self {
        let (mut parts, mut part) = (Vec::new(), String::new());
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let escaped = c == '\\';
            let c = if escaped { chars.next().unwrap_or('\\') } else { c };
            let is_operator = match c {
                '{' | '}' | '(' | ')' | '|' => escaped != extended,
                '+' | '?' => escaped != extended && !first,
                '*' => !escaped && !first,
                '[' => !escaped,
                '^' => !escaped && first,
                '$' => !escaped && chars.peek().is_none(),
                c => escaped && c.is_ascii_alphanumeric(),
            };
            first = false;
            if !is_operator {
                part.push(c);
                continue;
            }
            if matches!(c, '*' | '+' | '?' | '{') {
                // The operator repeats the last character.
                part.pop();
            }
            if c == '[' {
                // The first `]` after `[` or `[^` is literal.
                chars.next_if_eq(&'^');
                chars.next_if_eq(&']');
                chars.by_ref().find(|c| *c == ']');
            } else if c == '{' {
                chars.by_ref().find(|c| *c == '}');
            }
            parts.push(std::mem::take(&mut part));
        }
        parts.push(part);
        Self(parts.into_iter().filter(|part| !part.is_empty()).collect())
    }

    /// Returns the text, if the pattern is one literal text.
    pub fn text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [text] => Some(text),
            _ => None,
        }
    }

    /// Returns whether the text contains all parts in their order, and there is one.
    pub fn is_in(&self, text: &str) -> bool {
        let mut rest = text;
        !self.0.is_empty()
            && self.0.iter().all(|part| {
                let at = rest.find(part.as_str());
                rest = at.map_or("", |at| &rest[at + part.len()..]);
                at.is_some()
            })
    }

    /// Returns the pattern for people.
    pub fn shown(&self) -> String {
        self.0.join("…")
    }
}

/// Parses a sed script; `extended` is option `-E` or `-r`.
pub fn parse(script: &str, extended: bool) -> Vec<SedCommand> {
    let mut commands = Vec::new();
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';', '\n', '}']);
        if rest.is_empty() {
            return commands;
        }
        let Some((command, after)) = command(rest, extended) else {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            commands.push(SedCommand::Other(line.trim().to_owned()));
            rest = after;
            continue;
        };
        commands.push(command);
        rest = after;
    }
}

/// Parses one command and returns what follows; `None` if it is not one of the known commands.
fn command(text: &str, extended: bool) -> Option<(SedCommand, &str)> {
    let (address, rest) = address(text, extended)?;
    // The end of a range.
    let rest = match rest.strip_prefix(',') {
        Some(rest) => self::address(rest.trim_start_matches('+'), extended)?.1,
        None => rest,
    };
    let rest = rest.trim_start();
    let letter = rest.chars().next()?;
    let after = &rest[letter.len_utf8()..];
    match letter {
        's' => {
            let delimiter = after.chars().next().filter(|c| !c.is_whitespace())?;
            let (pattern, after) = until(&after[delimiter.len_utf8()..], delimiter)?;
            let (replacement, after) = until(after, delimiter)?;
            let end = after.find([';', '\n', '}', ' ']).unwrap_or(after.len());
            let pattern = Pattern::parse(&pattern, extended);
            let replacement = replacement_text(&replacement, &pattern);
            Some((SedCommand::Replace(pattern, replacement), &after[end..]))
        }
        'd' => Some((SedCommand::Delete(address), after)),
        'a' | 'i' | 'c' => {
            let text = after.trim_start_matches([' ', '\t']);
            let text = text.strip_prefix('\\').map_or(text, |text| text.trim_start());
            let (line, after) = text.split_once('\n').unwrap_or((text, ""));
            let line = line.to_owned();
            let command = match letter {
                'c' => SedCommand::Change(address, line),
                _ => SedCommand::Add(address, line),
            };
            Some((command, after))
        }
        _ => None,
    }
}

/// Parses an address, which may be empty.
fn address(text: &str, extended: bool) -> Option<(Pattern, &str)> {
    let (delimiter, rest) = match text.chars().next()? {
        '/' => ('/', &text[1..]),
        '\\' => {
            let delimiter = text[1..].chars().next()?;
            (delimiter, &text[1 + delimiter.len_utf8()..])
        }
        _ => {
            let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
            let rest = rest.strip_prefix('$').unwrap_or(rest);
            return Some((Pattern::default(), rest));
        }
    };
    let (pattern, rest) = until(rest, delimiter)?;
    Some((Pattern::parse(&pattern, extended), rest.strip_prefix('I').unwrap_or(rest)))
}

/// Splits at the next delimiter that is not escaped, and unescapes delimiters before it.
fn until(text: &str, delimiter: char) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == delimiter => return Some((part, &text[at + c.len_utf8()..])),
            '\\' => match chars.next()?.1 {
                next if next == delimiter => part.push(next),
                next => part.extend(['\\', next]),
            },
            c => part.push(c),
        }
    }
    None
}

/// Returns the text that a replacement writes: `&` is what matched.
fn replacement_text(text: &str, pattern: &Pattern) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(digit) if digit.is_ascii_digit() => out.extend(['\\', digit]),
                Some(other) => out.push(other),
                None => {}
            },
            '&' => out.push_str(&pattern.shown()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(parts: &[&str]) -> Pattern {
        Pattern(parts.iter().map(|part| (*part).to_owned()).collect())
    }

    #[test]
    fn reads_the_commands_of_real_specs() {
        use SedCommand::{Add, Change, Delete, Other, Replace};
        let replace = |parts: &[&str], to: &str| Replace(pattern(parts), to.to_owned());
        for (script, extended, expected) in [
            (
                "s@MAX_PYTHON = (3, 14)@MAX_PYTHON = (3, 15)@",
                false,
                vec![replace(&["MAX_PYTHON = (3, 14)"], "MAX_PYTHON = (3, 15)")],
            ),
            ("s/-Werror//g", false, vec![replace(&["-Werror"], "")]),
            (r"/download_and_copy\(\)$/d", true, vec![Delete(pattern(&["download_and_copy()"]))]),
            (
                "/#include <vector.*/a#include <cstdint>",
                false,
                vec![Add(pattern(&["#include <vector"]), "#include <cstdint>".into())],
            ),
            (
                r"s|a\.b[^/]*c\|d|& \/ \1|;1d;/x/,/y/ d",
                false,
                vec![
                    replace(&["a.b", "c|d"], r"a.b…c|d / \1"),
                    Delete(Pattern::default()),
                    Delete(pattern(&["x"])),
                ],
            ),
            (
                "/x/c\\\n  y\nd",
                false,
                vec![Change(pattern(&["x"]), "y".into()), Delete(Pattern::default())],
            ),
            ("y/a/b/", false, vec![Other("y/a/b/".into())]),
            ("s/unclosed", false, vec![Other("s/unclosed".into())]),
            (r"s/fo{2}(a|b)+x?z/y/", true, vec![replace(&["f", "a", "b", "z"], "y")]),
        ] {
            assert_eq!(parse(script, extended), expected, "{script}");
        }
    }

    #[test]
    fn does_not_panic_on_damaged_scripts() {
        let script = r"/a[^]b]/,$s\x\{1,2\}ü\xy&\1xg;\,é,d;1!{s/a/b/};a\";
        for end in (0..=script.len()).filter(|end| script.is_char_boundary(*end)) {
            parse(&script[..end], end % 2 == 0);
        }
    }

    #[test]
    fn finds_parts_in_order() {
        assert!(pattern(&["a", "b"]).is_in("xaxbx"));
        assert!(!pattern(&["a", "b"]).is_in("ba"));
        assert!(!Pattern::default().is_in("a"));
    }
}
