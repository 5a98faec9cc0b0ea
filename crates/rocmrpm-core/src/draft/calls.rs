//! Reads the calls in build scripts of CMake, Meson, and Autoconf. Does not know what they mean.

use std::sync::LazyLock;

use regex::Regex;

/// The maximum length of the arguments of a call, in bytes; longer ones are not read.
const LONGEST: usize = 16 << 10;

/// A call in a build script.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    /// The function; of a method, only its last name.
    pub name: &'a str,
    /// The arguments, trimmed.
    pub arguments: Vec<&'a str>,
}

impl<'a> Call<'a> {
    /// Returns the value of a keyword argument of Meson.
    pub fn keyword(&self, key: &str) -> Option<&'a str> {
        self.keywords().find(|(other, _)| *other == key).map(|(_, value)| value)
    }

    /// Returns the arguments of Meson that are not keyword arguments.
    pub fn positional(&self) -> impl Iterator<Item = &'a str> {
        let is_keyword = |text: &&str| split_keyword(text).is_none();
        self.arguments.iter().copied().filter(is_keyword).collect::<Vec<_>>().into_iter()
    }

    fn keywords(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.arguments.iter().filter_map(|text| split_keyword(text))
    }
}

fn split_keyword(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once(':')?;
    let key = key.trim_end();
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then(|| (key, value.trim_start()))
}

/// Returns a build script without comments.
pub(super) fn without_comments(text: &str) -> String {
    let code = |line: &str| line.split_once('#').map_or(line, |(code, _)| code).to_owned() + "\n";
    text.lines().map(code).collect()
}

/// Returns the calls in a build script of CMake or Meson with their arguments as one text, without
/// comments and without calls in arguments.
pub(super) fn calls(text: &str) -> Vec<(String, String)> {
    static CALL: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"([A-Za-z_]+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)").ok());
    let code = without_comments(text);
    let found = CALL.iter().flat_map(|call| call.captures_iter(&code));
    found.map(|call| (call[1].to_owned(), call[2].to_owned())).collect()
}

/// Returns the calls of [`calls`] in a build script of CMake that apply to Linux: without those in an
/// `if()` for other systems and compilers only.
pub(super) fn linux_calls(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut kept = Vec::new();
    for (command, arguments) in calls(text) {
        match command.to_ascii_lowercase().as_str() {
            "if" => blocks.push(Block::new(condition(&arguments))),
            "elseif" => blocks
                .iter_mut()
                .last()
                .into_iter()
                .for_each(|block| block.next(condition(&arguments))),
            "else" => blocks.iter_mut().last().into_iter().for_each(|block| block.next(None)),
            "endif" => drop(blocks.pop()),
            _ if blocks.iter().all(|block| block.applies) => kept.push((command, arguments)),
            _ => {}
        }
    }
    kept
}

/// An `if()` of CMake.
struct Block {
    /// Whether the branch that is read may apply.
    applies: bool,
    /// Whether an earlier branch always applies.
    done: bool,
}

impl Block {
    fn new(condition: Option<bool>) -> Self {
        Self { applies: condition != Some(false), done: condition == Some(true) }
    }

    /// Begins the next branch.
    fn next(&mut self, condition: Option<bool>) {
        self.applies = !self.done && condition != Some(false);
        self.done |= condition == Some(true);
    }
}

/// Variables of CMake that are false on Linux. Source: cmake-variables(7), "Variables that Describe the
/// System".
const OTHER_SYSTEMS: [&str; 11] = [
    "ANDROID",
    "APPLE",
    "BORLAND",
    "CYGWIN",
    "EMSCRIPTEN",
    "IOS",
    "MINGW",
    "MSVC",
    "MSYS",
    "WIN32",
    "XCODE",
];

/// Returns the value of a condition of CMake on Linux if it follows from the system.
fn condition(text: &str) -> Option<bool> {
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches('"')).collect();
    let value = |words: &[&str]| match words {
        [name] if OTHER_SYSTEMS.contains(name) => Some(false),
        ["NOT", name] if OTHER_SYSTEMS.contains(name) => Some(true),
        ["LINUX" | "UNIX"] => Some(true),
        ["NOT", "LINUX" | "UNIX"] => Some(false),
        [name, "STREQUAL" | "MATCHES", system] if name.contains("CMAKE_SYSTEM_NAME") => {
            let is_plain = system.bytes().all(|b| b.is_ascii_alphanumeric());
            is_plain.then_some(*system == "Linux")
        }
        _ => None,
    };
    if text.contains('(') {
        return None;
    }
    let either: Vec<Option<bool>> = words
        .split(|word| *word == "OR")
        .map(|all| {
            let all: Vec<_> = all.split(|word| *word == "AND").map(value).collect();
            match all.contains(&Some(false)) {
                true => Some(false),
                false => all.iter().all(|one| *one == Some(true)).then_some(true),
            }
        })
        .collect();
    match either.contains(&Some(true)) {
        true => Some(true),
        false => either.iter().all(|one| *one == Some(false)).then_some(false),
    }
}

/// Returns all calls in the code of a script, also those in arguments.
pub(super) fn all_calls(code: &str) -> Vec<Call<'_>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut calls = Vec::new();
    for (at, _) in code.match_indices('(') {
        let before = code[..at].trim_end_matches([' ', '\t']);
        let name = &before[before.trim_end_matches(is_name).len()..];
        let Some(inside) = inside(&code[at + 1..]).filter(|_| !name.is_empty()) else { continue };
        let arguments = split(inside, ',').into_iter().filter(|text| !text.is_empty()).collect();
        calls.push(Call { name, arguments });
    }
    calls
}

/// Returns the text up to the parenthesis that closes the call.
fn inside(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let (mut quoted, end) = (false, text.floor_char_boundary(LONGEST));
    for (at, c) in text[..end].char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '\n' => quoted = false,
            '(' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => return Some(&text[..at]),
            ')' if !quoted => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Splits a text at a separator outside of brackets and of single quotes, and trims the parts.
pub(super) fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut quoted, mut start) = (0_usize, false, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '\n' => quoted = false,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            c if c == separator && !quoted && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_calls_for_other_systems() {
        let text = "if(MSVC AND BUNDLED)\n  a()\nelse()\n  b()\nendif()\n\
            if(NOT WIN32)\n  c()\nelseif(X)\n  d()\nelse()\n  e()\nendif()\n\
            if(APPLE)\n  if(X)\n    f()\n  endif()\nelseif(CMAKE_SYSTEM_NAME STREQUAL \"Linux\")\n  g()\nendif()\n\
            if(WIN32 OR CYGWIN)\n  h()\nendif()\nif(WIN32 OR X)\n  i()\nendif()\n\
            if(CMAKE_SYSTEM_NAME MATCHES \"BSD|Linux\")\n  j()\nendif()\nif(NOT (WIN32))\n  k()\nendif()\n\
            endif()\nl()\n";
        let names: String = linux_calls(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, "bcgijkl");
    }

    #[test]
    fn reads_nested_calls_and_keywords() {
        let code = without_comments(
            "x = library('a', files('a,b.c'), # old)\n  version: '1.2', install : true)\npkg.generate(x)\nopen(",
        );
        let calls = all_calls(&code);
        let names: Vec<&str> = calls.iter().map(|call| call.name).collect();
        assert_eq!(names, ["library", "files", "generate"]);
        assert_eq!(calls[0].positional().collect::<Vec<_>>(), ["'a'", "files('a,b.c')"]);
        assert_eq!(calls[0].keyword("install"), Some("true"));
        assert_eq!(calls[1].arguments, ["'a,b.c'"]);
    }
}
