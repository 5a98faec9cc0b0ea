//! Reads CMake files as far as pins need it: commands with their arguments, and the values of
//! variables. Ignores loops, functions and generator expressions.
//!
//! Source: cmake-language(7), "Syntax" and "Variables".

use std::collections::BTreeMap;

/// The limit of commands per file. PyTorch's largest file has about a thousand.
const MAX_COMMANDS: usize = 50_000;

/// The size limit of a variable's value in bytes. Values can be composed of each other.
const MAX_VALUE: usize = 64 << 10;

/// One command: its name in lower case, its arguments, and the line of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The name, such as `set`.
    pub name: String,
    /// The arguments, without quotes and with references such as `${X}`.
    pub arguments: Vec<Argument>,
    /// The line, counted from 1.
    pub line: usize,
}

/// One argument of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its text.
    pub text: String,
    /// The line that it starts in, counted from 1.
    pub line: usize,
}

/// A variable's value and the line that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// A list has `;` between its elements.
    pub text: String,
    /// The line of the first element, counted from 1.
    pub line: usize,
}

/// The values that a file sets.
#[derive(Debug, Default)]
pub struct Evaluated {
    /// The variables that `set` sets.
    pub variables: BTreeMap<String, Value>,
    /// The arguments of each `FetchContent_Declare`, by the content's name: keyword and
    /// value.
    pub contents: BTreeMap<String, BTreeMap<String, Value>>,
}

/// Splits a file into its commands. The error has the line of what is not a command.
pub fn commands(text: &str) -> Result<Vec<Command>, (usize, String)> {
    let mut reader = Reader { rest: text, line: 1 };
    let mut commands = Vec::new();
    loop {
        reader.blank();
        if reader.rest.is_empty() {
            return Ok(commands);
        }
        if commands.len() == MAX_COMMANDS {
            return Err((reader.line, format!("it has more than {MAX_COMMANDS} commands")));
        }
        commands.push(reader.command()?);
    }
}

struct Reader<'t> {
    rest: &'t str,
    line: usize,
}

impl<'t> Reader<'t> {
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Skips space and comments.
    fn blank(&mut self) {
        loop {
            let space = self.rest.len() - self.rest.trim_start().len();
            self.take(space);
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            match bracket(comment) {
                Some((_, length)) => self.take(1 + length),
                None => self.take(self.rest.find('\n').unwrap_or(self.rest.len())),
            };
        }
    }

    fn command(&mut self) -> Result<Command, (usize, String)> {
        let line = self.line;
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len());
        let name = self.take(end).to_ascii_lowercase();
        self.blank();
        if name.is_empty() || !self.rest.starts_with('(') {
            return Err((line, "this is not a CMake command".into()));
        }
        self.take(1);
        let (mut arguments, mut depth) = (Vec::new(), 1_usize);
        loop {
            self.blank();
            let at = self.line;
            let Some(first) = self.rest.chars().next() else {
                return Err((line, format!("`{name}` has no closing parenthesis")));
            };
            let text = match first {
                '(' | ')' => {
                    depth = if first == '(' { depth + 1 } else { depth - 1 };
                    self.take(1);
                    if depth == 0 {
                        return Ok(Command { name, arguments, line });
                    }
                    first.to_string()
                }
                '"' => {
                    let end = unescaped(&self.rest[1..], |c| c == '"')
                        .ok_or_else(|| (at, "a quoted argument has no closing quote".to_owned()))?;
                    let text = self.take(end + 2);
                    unquoted(&text[1..text.len() - 1])
                }
                _ => match bracket(self.rest) {
                    Some((content, length)) => {
                        let content = content.to_owned();
                        self.take(length);
                        content
                    }
                    None => {
                        let stop =
                            |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '#' | '"');
                        let end = unescaped(self.rest, stop).unwrap_or(self.rest.len());
                        unquoted(self.take(end.max(first.len_utf8())))
                    }
                },
            };
            arguments.push(Argument { text, line: at });
        }
    }
}

/// Finds the first character that `stop` matches and that is not escaped by a backslash.
fn unescaped(text: &str, stop: impl Fn(char) -> bool) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = !escaped && stop(c);
        escaped = !escaped && c == '\\';
        ends.then_some(at)
    })
}

/// Removes the backslashes of escaped characters.
fn unquoted(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        if escaped || c != '\\' {
            plain.push(c);
            escaped = false;
        } else {
            escaped = true;
        }
    }
    plain
}

/// Returns the content of a bracket argument, `[==[...]==]`, and the length of the whole.
fn bracket(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix('[')?;
    let signs = inner.len() - inner.trim_start_matches('=').len();
    let content = inner[signs..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(signs));
    let end = content.find(&close)?;
    Some((&content[..end], 2 + signs + end + close.len()))
}

/// Evaluates the commands of a build with these variables and without environment variables. If a
/// condition is about anything else, both branches are followed.
pub fn evaluate(commands: &[Command], given: &BTreeMap<String, String>) -> Evaluated {
    let mut found = Evaluated::default();
    // For each open `if`: whether this branch is followed, and whether an earlier one was.
    let mut branches: Vec<(bool, bool)> = Vec::new();
    let mut definition = 0_usize;
    for command in commands {
        match command.name.as_str() {
            "function" | "macro" => definition += 1,
            "endfunction" | "endmacro" => definition = definition.saturating_sub(1),
            _ if definition > 0 => {}
            "if" => {
                let known = condition(&command.arguments, given);
                branches.push((known != Some(false), known == Some(true)));
            }
            "elseif" | "else" => {
                if let Some((followed, done)) = branches.last_mut() {
                    let known = if command.name == "else" {
                        Some(true)
                    } else {
                        condition(&command.arguments, given)
                    };
                    *followed = !*done && known != Some(false);
                    *done = *done || known == Some(true);
                }
            }
            "endif" => {
                branches.pop();
            }
            _ if branches.iter().any(|(followed, _)| !followed) => {}
            "set" => found.set(&command.arguments),
            "fetchcontent_declare" => found.declare(&command.arguments),
            _ => {}
        }
    }
    found
}

/// Evaluates the conditions that are known.
fn condition(arguments: &[Argument], given: &BTreeMap<String, String>) -> Option<bool> {
    let words: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
    match words.as_slice() {
        ["DEFINED", name] if name.starts_with("ENV{") => Some(false),
        [name, "STREQUAL", value] => given.get(*name).map(|known| known == value),
        ["NOT", rest @ ..] if rest.len() < arguments.len() => {
            condition(&arguments[1..], given).map(|known| !known)
        }
        _ => None,
    }
}

impl Evaluated {
    fn set(&mut self, arguments: &[Argument]) {
        let Some((name, values)) = arguments.split_first() else { return };
        let end =
            values.iter().position(|value| matches!(value.text.as_str(), "CACHE" | "PARENT_SCOPE"));
        let values = &values[..end.unwrap_or(values.len())];
        let Some(first) = values.first() else {
            self.variables.remove(&name.text);
            return;
        };
        let mut text = String::new();
        for (at, value) in values.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { ";" });
            text.push_str(&self.resolved(value).text);
            if text.len() > MAX_VALUE {
                self.variables.remove(&name.text);
                return;
            }
        }
        let value = Value { text, line: first.line };
        self.variables.insert(name.text.clone(), value);
    }

    fn declare(&mut self, arguments: &[Argument]) {
        let Some((name, rest)) = arguments.split_first() else { return };
        let mut values = BTreeMap::new();
        for pair in rest.windows(2) {
            if matches!(
                pair[0].text.as_str(),
                "GIT_REPOSITORY" | "GIT_TAG" | "URL" | "SOURCE_SUBDIR"
            ) {
                values.insert(pair[0].text.clone(), self.resolved(&pair[1]));
            }
        }
        self.contents.insert(name.text.clone(), values);
    }

    /// Replaces references to variables. A text that is only a reference has the line of the
    /// variable's value.
    fn resolved(&self, argument: &Argument) -> Value {
        let only = argument.text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
        if let Some(value) = only.and_then(|name| self.variables.get(name)) {
            return value.clone();
        }
        let (mut text, mut rest) = (String::new(), argument.text.as_str());
        while let Some((before, after)) = rest.split_once("${") {
            text.push_str(before);
            let known = after
                .split_once('}')
                .and_then(|(name, tail)| Some((self.variables.get(name)?, tail)));
            match known {
                Some((value, tail)) if text.len() <= MAX_VALUE => {
                    text.push_str(&value.text);
                    rest = tail;
                }
                _ => {
                    text.push_str("${");
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        Value { text, line: argument.line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(text: &str) -> Evaluated {
        let given = BTreeMap::from([("DEVICE".to_owned(), "rocm".to_owned())]);
        evaluate(&commands(text).unwrap(), &given)
    }

    #[test]
    fn follows_branches_of_given_values_and_finds_lines() {
        let found = evaluated(
            "# set(A \"no\")\n#[[ set(A \"no\") ]]\nset(A \"x;y\")\nif (DEFINED ENV{SRC})\n  set(TAG \"env\")\n\
             else()\n  if (DEVICE STREQUAL \"rocm\")\n    set(TAG \"v1\")\n  else()\n    \
             set(TAG \"v2\")\n  endif()\n  FetchContent_Declare(\n    k\n    # (a comment\n    \
             GIT_REPOSITORY https://h/${A}.git\n    GIT_TAG ${TAG}\n  )\nendif()\n\
             function(f)\n set(A no)\nendfunction()\nset(L\n \"a\" # one\n \"b\"\n)\n",
        );
        let value = |text: &str, line| Value { text: text.into(), line };
        assert_eq!(found.variables["A"], value("x;y", 3));
        assert_eq!(found.variables["L"], value("a;b", 23));
        assert_eq!(found.contents["k"]["GIT_TAG"], value("v1", 8));
        assert_eq!(found.contents["k"]["GIT_REPOSITORY"], value("https://h/x;y.git", 15));
    }

    #[test]
    fn follows_both_branches_of_unknown_conditions() {
        let found = evaluated(
            "if(NOT X)\nset(A 1)\nelse()\nset(B 2)\nendif()\nif(NOT DEFINED ENV{Y})\nset(C 3)\nendif()",
        );
        assert_eq!(found.variables.keys().map(String::as_str).collect::<String>(), "ABC");
    }

    #[test]
    fn limits_the_size_of_values() {
        let doubling = format!(
            "set(A x)\n{}set(B \"${{A}} ${{C}}${{\")\n",
            "set(A \"${A}${A}\")\n".repeat(1000)
        );
        let found = evaluated(&doubling);
        assert!(found.variables.get("A").is_none_or(|value| value.text.len() <= MAX_VALUE));
        assert!(found.variables["B"].text.ends_with(" ${C}${"));
    }

    #[test]
    fn reports_the_line_of_invalid_commands() {
        for (text, line) in
            [("set(A 1)\n???\n", 2), ("set(A 1", 1), ("\nset(\"a)", 2), ("\0\u{1}", 1)]
        {
            assert_eq!(commands(text).unwrap_err().0, line, "{text:?}");
        }
        assert!(commands(&"a(".repeat(100_000)).is_err());
        assert!(commands(&format!("set(A {})", "x".repeat(1 << 20))).is_ok());
    }
}
