//! Follows strings through a line of a script. It does not know strings that go over several lines.

/// The state between two characters of a line.
#[derive(Default)]
pub(super) struct Quotes {
    open: Option<char>,
    escaped: bool,
    /// The letters and digits directly before.
    word: ShellWord,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum ShellWord {
    #[default]
    None,
    /// They can begin a string of Python, by their number. Source: Python, "String and Bytes literals".
    Prefix(u8),
    Other,
}

impl Quotes {
    /// Takes the next character; returns whether it is in a string or closes one.
    pub fn takes(&mut self, c: char) -> bool {
        let inside = self.open.is_some();
        match self.open {
            Some(open) if c == open && !self.escaped => self.open = None,
            Some(_) => {}
            // An apostrophe within a word does not open a string.
            None if c == '"' || c == '\'' && self.word != ShellWord::Other => self.open = Some(c),
            None => {}
        }
        self.escaped = inside && c == '\\' && !self.escaped;
        self.word = match self.word {
            _ if !c.is_alphanumeric() => ShellWord::None,
            ShellWord::None if "rRbBfFuU".contains(c) => ShellWord::Prefix(1),
            ShellWord::Prefix(1) if "rRbBfFuU".contains(c) => ShellWord::Prefix(2),
            _ => ShellWord::Other,
        };
        inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside(line: &str) -> String {
        let mut quotes = Quotes::default();
        line.chars().filter(|c| !quotes.takes(*c)).collect()
    }

    #[test]
    fn follows_strings_with_prefixes_escapes_and_apostrophes() {
        for (line, expected) in [
            ("a \"b # c\" d", "a \" d"),
            ("a 'b\\'c' d", "a ' d"),
            ("a 'b\\\\' d", "a ' d"),
            ("f(rb'#', f'x')", "f(rb', f')"),
            ("# don't curl 'x' y", "# don't curl ' y"),
        ] {
            assert_eq!(outside(line), expected, "{line}");
        }
    }
}
