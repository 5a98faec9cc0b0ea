//! Reads TOML files key by key and continues after a mistake, so that every mistake is reported with
//! its position. Does not know what the keys mean.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::noted_keys::{Kind, note_any, note_key};
use crate::error::Problem;
use crate::names::{is_plain, nearest};
use crate::text::{line_of, visible};

/// The message for text that does not parse.
pub(super) const INVALID: &str = "this is not valid TOML";

/// A value and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// The position in bytes.
    pub span: Range<usize>,
}

/// Replaces bytes that are not UTF-8: DEL, which TOML forbids everywhere.
const NOT_UTF8: &str = "\u{7f}";

/// A text file. Readers report problems at positions in it.
#[derive(Debug, Clone)]
pub struct File {
    /// The name in messages: the path relative to the workspace's root.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl File {
    /// Reads a file of the workspace; `name` is its name in messages. Bytes that are not UTF-8
    /// become a character that TOML forbids, which is then reported with its position.
    pub fn read(path: &Path, name: impl Into<String>) -> std::io::Result<Self> {
        let text = match String::from_utf8(fs_err::read(path)?) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).replace('\u{fffd}', NOT_UTF8),
        };
        Ok(Self { name: name.into(), text })
    }

    /// Returns a problem at a position in this file.
    pub fn problem(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Problem {
        Problem {
            file: self.name.clone(),
            text: self.text.clone(),
            span: Some(span),
            message: message.into(),
            label: label.into(),
            help: None,
        }
    }

    /// Parses the file and hands its root table to `read`. Syntax errors are added to the
    /// problems; `read` still gets what could be parsed.
    pub fn parse<T>(
        &self,
        problems: &mut Vec<Problem>,
        read: impl FnOnce(&mut Table<'_>) -> T,
    ) -> T {
        let (root, errors) = DeTable::parse_recoverable(&self.text);
        let mut errors: Vec<_> = errors
            .iter()
            .map(|error| (error.span().unwrap_or(0..0), error.message().trim()))
            .collect();
        errors.sort_by_key(|(span, _)| span.start);
        let mut found: Vec<Problem> = Vec::new();
        // One mistake, such as a missing quote, also causes errors on the lines below it.
        let mut last = None;
        for (span, message) in errors {
            let line = self.text.get(..span.start).unwrap_or(&self.text).matches('\n').count();
            if last.is_none_or(|last| line > last + 1) {
                let broken =
                    self.text.get(span.start..).is_some_and(|rest| rest.starts_with(NOT_UTF8));
                let message = if broken { "this is not UTF-8" } else { message };
                found.push(self.problem(span, INVALID, message));
            }
            last = Some(line);
        }
        // A value that did not parse looks like a missing one: reporting that too would hide the
        // syntax error.
        let broken = !found.is_empty();
        let mut sink = Vec::new();
        let mut table = Table::new(self, root.get_ref(), 0..0, "", &mut sink);
        let value = read(&mut table);
        table.finish();
        if !broken {
            found.append(&mut sink);
        }
        problems.append(&mut found);
        value
    }
}

/// One table of a file. Every key that a reader asks for is a known key; [`Table::finish`]
/// reports the others.
pub struct Table<'d> {
    file: &'d File,
    entries: &'d DeTable<'d>,
    span: Range<usize>,
    name: String,
    known: Vec<String>,
    problems: &'d mut Vec<Problem>,
}

impl<'d> Table<'d> {
    fn new(
        file: &'d File,
        entries: &'d DeTable<'d>,
        span: Range<usize>,
        name: &str,
        problems: &'d mut Vec<Problem>,
    ) -> Self {
        Self { file, entries, span, name: name.to_owned(), known: Vec::new(), problems }
    }

    /// Returns the position of the table's header.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the file and line of a position, such as `upstreams.toml:12`.
    pub fn place(&self, span: &Range<usize>) -> String {
        format!("{}:{}", self.file.name, line_of(&self.file.text, span.start))
    }

    /// Adds a problem at a position in this file.
    pub fn problem(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
        help: Option<String>,
    ) {
        let problem = self.file.problem(span, message, label);
        self.problems.push(Problem { help, ..problem });
    }

    /// Adds a problem if a name would need quoting in files and command lines.
    pub fn must_be_plain(&mut self, name: &At<String>, what: &str) {
        if !is_plain(&name.value) {
            let message = format!("`{}` cannot be {what}", visible(&name.value));
            self.problem(name.span.clone(), message, "expected letters, digits and . _ + -", None);
        }
    }

    fn get(&mut self, key: &str, kind: Kind) -> Option<&'d Spanned<DeValue<'d>>> {
        note_key(&self.name, key, Some(kind), false);
        self.known.push(key.to_owned());
        let entries = self.entries;
        entries.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn wrong_type(&mut self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) {
        let found = value.get_ref().type_str();
        self.problem(
            value.span(),
            format!("`{key}` must be {wanted}"),
            format!("this is {}", article(found)),
            None,
        );
    }

    fn missing(&mut self, key: &str, what: &str) {
        let place =
            if self.name.is_empty() { String::new() } else { format!(" in `[{}]`", self.name) };
        let span = self.span();
        self.problem(
            span,
            format!("`{key}` is missing{place}"),
            format!("expected `{key}`: {what}"),
            None,
        );
    }

    /// Returns an optional string of one line.
    pub fn string(&mut self, key: &str) -> Option<At<String>> {
        let string = self.lines(key)?;
        if string.value.chars().any(char::is_control) {
            let label = format!("this is `{}`", visible(&string.value));
            let message = format!("`{key}` must be one line without control characters");
            self.problem(string.span.clone(), message, label, None);
            return None;
        }
        Some(string)
    }

    /// Returns an optional day such as `2026-12-02`.
    pub fn day(&mut self, key: &str) -> Option<jiff::civil::Date> {
        let At { value, span } = self.string(key)?;
        let day = value.parse().ok();
        if day.is_none() {
            self.problem(span, "this is not a day", "expected a day such as `2026-12-02`", None);
        }
        day
    }

    /// Returns an optional string of any number of lines.
    pub fn lines(&mut self, key: &str) -> Option<At<String>> {
        let value = self.get(key, Kind::String)?;
        match value.get_ref().as_str() {
            Some(text) => Some(At { value: text.to_owned(), span: value.span() }),
            None => {
                self.wrong_type(key, value, "a string");
                None
            }
        }
    }

    /// Returns a required string; `what` describes it in messages.
    pub fn required_string(&mut self, key: &str, what: &str) -> Option<At<String>> {
        note_key(&self.name, key, Some(Kind::String), true);
        if !self.has(key) {
            self.known.push(key.to_owned());
            self.missing(key, what);
            return None;
        }
        self.string(key)
    }

    /// Returns whether the table has this key, without making it a known key.
    pub fn has(&self, key: &str) -> bool {
        note_key(&self.name, key, None, false);
        self.entries.iter().any(|(name, _)| name.get_ref() == key)
    }

    /// Returns whether a key has an empty list.
    pub fn is_empty_list(&self, key: &str) -> bool {
        let value = self.entries.iter().find(|(name, _)| name.get_ref() == key);
        let list = value.and_then(|(_, value)| value.get_ref().as_array());
        list.is_some_and(|list| list.is_empty())
    }

    /// Returns an optional boolean.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.get(key, Kind::Boolean)?;
        let found = value.get_ref().as_bool();
        if found.is_none() {
            self.wrong_type(key, value, "`true` or `false`");
        }
        found
    }

    /// Returns an optional integer.
    pub fn integer(&mut self, key: &str) -> Option<i64> {
        let value = self.get(key, Kind::Integer)?;
        let found = value.get_ref().as_integer();
        let found = found.and_then(|i| i64::from_str_radix(i.as_str(), i.radix()).ok());
        if found.is_none() {
            self.wrong_type(key, value, "an integer");
        }
        found
    }

    /// Returns a list of strings; empty if missing.
    pub fn strings(&mut self, key: &str) -> Vec<At<String>> {
        let Some(value) = self.get(key, Kind::Strings) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(key, value, "a list of strings");
            return Vec::new();
        };
        let mut strings = Vec::new();
        for item in items.iter() {
            match item.get_ref().as_str() {
                Some(text) => strings.push(At { value: text.to_owned(), span: item.span() }),
                None => self.wrong_type(key, item, "a list of strings"),
            }
        }
        strings
    }

    /// Returns a table of strings, such as environment variables; empty if missing.
    pub fn string_map(&mut self, key: &str) -> BTreeMap<String, At<String>> {
        let Some(value) = self.get(key, Kind::StringMap) else { return BTreeMap::new() };
        let Some(entries) = value.get_ref().as_table() else {
            self.wrong_type(key, value, "a table");
            return BTreeMap::new();
        };
        let mut map = BTreeMap::new();
        for (name, value) in entries {
            match value.get_ref().as_str() {
                Some(text) => {
                    map.insert(
                        name.get_ref().to_string(),
                        At { value: text.to_owned(), span: value.span() },
                    );
                }
                None => self.wrong_type(&format!("{key}.{}", name.get_ref()), value, "a string"),
            }
        }
        map
    }

    /// Hands the table below `key` to `read` if it exists.
    pub fn table<T>(&mut self, key: &str, read: impl FnOnce(&mut Table<'_>) -> T) -> Option<T> {
        let value = self.get(key, Kind::Table)?;
        match value.get_ref().as_table() {
            Some(entries) => Some(self.child(key, entries, value.span(), read)),
            None => {
                self.wrong_type(key, value, "a table");
                None
            }
        }
    }

    /// Hands each table of the array of tables below `key` to `read`.
    pub fn tables<T>(&mut self, key: &str, mut read: impl FnMut(&mut Table<'_>) -> T) -> Vec<T> {
        let Some(value) = self.get(key, Kind::Tables) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(key, value, "an array of tables");
            return Vec::new();
        };
        let mut out = Vec::new();
        for item in items.iter() {
            match item.get_ref().as_table() {
                Some(entries) => out.push(self.child(key, entries, item.span(), &mut read)),
                None => self.wrong_type(key, item, "an array of tables"),
            }
        }
        out
    }

    /// Hands every entry to `read` with its key and the key's position, whatever the key is. All
    /// entries must be tables.
    pub fn each_table<T>(
        &mut self,
        mut read: impl FnMut(At<String>, &mut Table<'_>) -> T,
    ) -> Vec<T> {
        note_any(&self.name);
        let mut out = Vec::new();
        let entries = self.entries;
        for (name, value) in entries {
            let key = At { value: name.get_ref().to_string(), span: name.span() };
            self.known.push(key.value.clone());
            match value.get_ref().as_table() {
                Some(inner) => {
                    let label = key.value.clone();
                    out.push(self.child(&label, inner, name.span(), |table| read(key, table)));
                }
                None => self.wrong_type(&key.value, value, "a table"),
            }
        }
        out
    }

    fn child<T>(
        &mut self,
        key: &str,
        entries: &DeTable<'_>,
        span: Range<usize>,
        read: impl FnOnce(&mut Table<'_>) -> T,
    ) -> T {
        let name =
            if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        let mut table = Table::new(self.file, entries, span, &name, self.problems);
        let value = read(&mut table);
        table.finish();
        value
    }

    fn finish(&mut self) {
        let entries = self.entries;
        for (name, _) in entries {
            let key: &str = name.get_ref();
            if !self.known.iter().any(|known| known == key) {
                let near = nearest(key, self.known.iter().map(String::as_str));
                let help = near.map(|n| format!("did you mean `{n}`?"));
                self.problem(
                    name.span(),
                    format!("unknown key `{key}`"),
                    "this table has no such key",
                    help,
                );
            }
        }
    }
}

fn article(noun: &str) -> String {
    let an = noun.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {noun}", if an { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<(String, Option<String>)> {
        let file = File { name: "x.toml".into(), text: text.into() };
        let mut problems = Vec::new();
        file.parse(&mut problems, |root| {
            root.table("stack", |stack| {
                stack.required_string("name", "the stack's name");
                stack.strings("gpu-targets");
                stack.boolean("optional");
            });
        });
        problems.into_iter().map(|p| (p.message, p.help)).collect()
    }

    #[test]
    fn reports_all_mistakes_at_once() {
        let found = problems("[stack]\ngpu-target = []\noptional = 1\n[other]\n");
        let messages: Vec<_> = found.iter().map(|(m, _)| m.as_str()).collect();
        assert_eq!(
            messages,
            [
                "`name` is missing in `[stack]`",
                "`optional` must be `true` or `false`",
                "unknown key `gpu-target`",
                "unknown key `other`"
            ]
        );
        assert_eq!(found[2].1.as_deref(), Some("did you mean `gpu-targets`?"));
    }

    #[test]
    fn reports_only_syntax_errors_if_there_are_any() {
        let found = problems("[stack\nname = \n");
        assert!(!found.is_empty());
        assert!(found.iter().all(|(m, _)| m == "this is not valid TOML"), "{found:?}");
    }
}
