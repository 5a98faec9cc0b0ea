//! Replaces values in the text of a pin set. Everything else stays byte for byte: comments, order, line
//! ends, inline tables. Does not interpret the values.

use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use toml_edit::{Document, Item, Value};

use super::PinsError;
use crate::error::{IoError, Problems};
use crate::files;
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{Lock, PinSet};

/// A value that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changed {
    /// The key with the tables it is in, such as `vllm.version`.
    pub key: String,
    /// The old value; null if the key is new.
    pub old: Option<String>,
    /// The new value; empty if the key was removed.
    pub new: String,
}

/// The text of a pin set with pending changes.
#[derive(Debug)]
pub struct SetText {
    file: File,
    document: Document<String>,
    replaced: Vec<(Range<usize>, String)>,
    changed: Vec<Changed>,
}

/// Every pin has one of these keys; a new key is written after it.
const ANCHORS: &[&str] = &["version", "git", "sdist", "url", "path"];

impl SetText {
    /// Starts from the text of a pin set.
    pub fn new(file: &File) -> Result<Self, PinsError> {
        let document = Document::parse(file.text.clone()).map_err(|error| {
            let problem =
                file.problem(error.span().unwrap_or(0..0), error.message().to_owned(), "");
            PinsError::Invalid(Problems(vec![problem]))
        })?;
        Ok(Self { file: file.clone(), document, replaced: Vec::new(), changed: Vec::new() })
    }

    fn item(&self, path: &[&str]) -> Option<&Item> {
        path.iter().try_fold(self.document.as_item(), |item, key| item.get(key))
    }

    /// Returns a string as written.
    pub fn get(&self, path: &[&str]) -> Option<&str> {
        self.item(path)?.as_str()
    }

    /// Sets a key of a pin; setting the same value changes nothing. A new key is written after the
    /// pin's version.
    pub fn set(&mut self, table: &[&str], key: &str, value: &str) {
        let path: Vec<&str> = table.iter().copied().chain([key]).collect();
        let old = self.get(&path).map(str::to_owned);
        if old.as_deref() == Some(value) {
            return;
        }
        self.put(table, key, Value::from(value), old, value);
    }

    /// Sets a key of a pin to true.
    pub fn set_true(&mut self, table: &[&str], key: &str) {
        let path: Vec<&str> = table.iter().copied().chain([key]).collect();
        match self.item(&path).and_then(Item::as_bool) {
            Some(true) => {}
            old => self.put(table, key, true.into(), old.map(|old| old.to_string()), "true"),
        }
    }

    fn put(&mut self, table: &[&str], key: &str, value: Value, old: Option<String>, new: &str) {
        let path: Vec<&str> = table.iter().copied().chain([key]).collect();
        match self.item(&path).and_then(Item::span) {
            Some(span) => self.replaced.push((span, value.to_string())),
            None => match self.place_for(table, key) {
                Some((at, before, after)) => {
                    self.replaced.push((at..at, format!("{before}{value}{after}")))
                }
                None => return,
            },
        }
        self.changed.push(Changed { key: path.join("."), old, new: new.to_owned() });
    }

    /// Replaces a key of a pin and its value by another key in the same place; sets the other key if
    /// the pin does not have the first.
    pub fn replace(&mut self, table: &[&str], old_key: &str, key: &str, value: &str) {
        let Some((key_span, value_span)) = self.spans(table, old_key) else {
            return self.set(table, key, value);
        };
        self.replaced.push((key_span, key.to_owned()));
        self.replaced.push((value_span, Value::from(value).to_string()));
        self.note_removal(table, old_key);
        let path = [table, &[key]].concat().join(".");
        self.changed.push(Changed { key: path, old: None, new: value.to_owned() });
    }

    /// Removes a key of a pin, if it is there, with the comment in its line.
    pub fn remove(&mut self, table: &[&str], key: &str) {
        let Some((key_span, value_span)) = self.spans(table, key) else { return };
        let text = &self.file.text;
        let removed = if self.item(table).is_some_and(Item::is_inline_table) {
            let rest = &text[value_span.end..];
            let after = rest.trim_start();
            match (text[..key_span.start].trim_end().strip_suffix(','), after.strip_prefix(',')) {
                (Some(before), _) => before.len()..value_span.end,
                (None, Some(next)) => key_span.start..text.len() - next.trim_start().len(),
                (None, None) => key_span.start..value_span.end,
            }
        } else {
            let start = text[..key_span.start].rfind('\n').map_or(0, |at| at + 1);
            let length = text[value_span.end..].find('\n').map(|length| length + 1);
            start..length.map_or(text.len(), |length| value_span.end + length)
        };
        self.replaced.push((removed, String::new()));
        self.note_removal(table, key);
    }

    fn note_removal(&mut self, table: &[&str], key: &str) {
        let path = [table, &[key]].concat();
        let old = self.get(&path).map(str::to_owned);
        self.changed.push(Changed { key: path.join("."), old, new: String::new() });
    }

    /// Returns the positions of a key and its value.
    fn spans(&self, table: &[&str], key: &str) -> Option<(Range<usize>, Range<usize>)> {
        let (key, value) = self.item(table)?.as_table_like()?.get_key_value(key)?;
        Some((key.span()?, value.span()?))
    }

    /// Returns the position of a new key, and the text before and after its value.
    fn place_for(&self, table: &[&str], key: &str) -> Option<(usize, String, String)> {
        let parent = self.item(table)?;
        let (anchor, span) =
            ANCHORS.iter().find_map(|anchor| Some((*anchor, parent.get(anchor)?.span()?)))?;
        let text = &self.file.text;
        if parent.is_inline_table() {
            return Some((span.end, format!(", {key} = "), String::new()));
        }
        let line = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        // The new line repeats the indentation and the key path of its neighbor.
        let before = text[line..span.start].to_owned();
        let name = before.rfind(anchor)?;
        let before = format!("{}{key}{}", &before[..name], &before[name + anchor.len()..]);
        Some(match text[span.end..].find('\n') {
            Some(length) => {
                let end = span.end + length;
                let line_end = if text[..end].ends_with('\r') { "\r\n" } else { "\n" };
                (end + 1, before, line_end.to_owned())
            }
            None => (text.len(), format!("\n{before}"), "\n".into()),
        })
    }

    /// Returns the changes in the order of the calls.
    pub fn changed(&self) -> &[Changed] {
        &self.changed
    }

    /// Returns the numbered lines whose comments name a version, which a change can make outdated. In
    /// tables of other components, the comment must name the component before the version.
    pub fn comments_with(&self, component: &str, version: &str) -> Vec<(usize, String)> {
        let new = self.text();
        let elsewhere = format!("{component} {version}");
        let mut inside = false;
        let mut found = Vec::new();
        for (at, line) in new.lines().enumerate() {
            if let Some(header) = line.trim_start().strip_prefix('[') {
                let name = header
                    .split([']', '.'])
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .trim_matches(['"', '\'']);
                inside = name == component;
            }
            let comment = line.split_once('#').map(|(_, comment)| comment);
            let named = if inside { version } else { elsewhere.as_str() };
            if comment.is_some_and(|comment| has_word(comment, named)) {
                found.push((at + 1, line.trim().to_owned()));
            }
        }
        found
    }

    /// Returns the new text.
    pub fn text(&self) -> String {
        let mut text = self.file.text.clone();
        let mut replaced: Vec<_> = self.replaced.iter().enumerate().collect();
        // Replace from the end, so that earlier positions stay valid; of two insertions at one
        // position the later call's comes second, and what is removed there comes after both.
        replaced.sort_by_key(|(nth, (span, _))| std::cmp::Reverse((span.start, span.end, *nth)));
        for (_, (span, value)) in replaced {
            text.replace_range(span.clone(), value);
        }
        text
    }

    /// Checks that the new text is a valid pin set.
    pub fn check(&self) -> Result<(), PinsError> {
        let mut problems = Vec::new();
        let file = File { name: self.file.name.clone(), text: self.text() };
        PinSet::read("", file, &Lock::default(), &Overrides::new(), &mut problems);
        if problems.is_empty() { Ok(()) } else { Err(PinsError::Invalid(Problems(problems))) }
    }

    /// Checks the new text and writes it atomically, unless another process changed the file since it
    /// was read.
    pub fn write(&self, root: &Path) -> Result<(), PinsError> {
        self.check()?;
        let name = &self.file.name;
        let now =
            File::read(&root.join(name), name).map_err(IoError::doing(format!("read `{name}`")))?;
        if now.text != self.file.text {
            return Err(PinsError::ChangedMeanwhile { file: name.clone() });
        }
        write_set(root, name, &self.text())?;
        Ok(())
    }
}

/// Writes a pin set atomically and returns whether it changed. A file that is a link stays a
/// link.
pub fn write_set(root: &Path, name: &str, text: &str) -> Result<bool, PinsError> {
    let action = || IoError::doing(format!("write `{name}`"));
    let mut path = root.join(name);
    if path.exists() {
        path = fs_err::canonicalize(&path).map_err(action())?;
        // Replacing the file would not need permission to write to it.
        if fs_err::metadata(&path).map_err(action())?.permissions().readonly() {
            return Err(PinsError::ReadOnly { file: name.to_owned() });
        }
    }
    Ok(files::write_if_changed(&path, text).map_err(action())?)
}

/// Returns whether a text has a version that is not part of another one.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '.';
    text.match_indices(word).any(|(at, _)| {
        let after = &text[at + word.len()..];
        let dot = after
            .strip_prefix('.')
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        !text[..at].trim_end_matches('v').ends_with(part) && (dot || !after.starts_with(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> SetText {
        SetText::new(&File { name: "pins/x.toml".into(), text: text.into() }).unwrap()
    }

    #[test]
    fn keeps_concurrent_changes() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("pins/x.toml");
        let text = "[a]\nversion = \"1\"\npath = \"a\"\n";
        files::write_atomically(&path, text).unwrap();
        let (mut one, mut two) = (set(text), set(text));
        one.set(&["a"], "version", "2");
        one.write(root.path()).unwrap();
        two.set(&["a"], "version", "3");
        let error = two.write(root.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`pins/x.toml` changed since it was read, so it was not overwritten"
        );
        assert_eq!(fs_err::read_to_string(&path).unwrap(), one.text());
    }

    #[test]
    fn replaces_and_removes_keys() {
        let text = "[a]\nurl = \"u\" # u\ntop-folder = \"t\" # t\nsha256 = \"s\"\nversion = \"1\"\n\
                    [b]\nc = { url = \"u\", top-folder = \"t\" }\nd = { branch = \"m\", git = \"g\" }\n\
                    e.git = \"g\"\ne.branch = \"m\"";
        let mut set = set(text);
        set.replace(&["a"], "url", "git", "g");
        set.replace(&["a"], "sha256", "commit", "c");
        set.remove(&["a"], "top-folder");
        set.set_true(&["a"], "submodules");
        set.replace(&["b", "c"], "url", "git", "g");
        set.replace(&["b", "c"], "sha256", "commit", "c");
        set.remove(&["b", "c"], "top-folder");
        set.remove(&["b", "d"], "branch");
        set.set(&["b", "e"], "version", "2");
        set.remove(&["b", "e"], "branch");
        set.remove(&["b", "e"], "none");
        assert_eq!(
            set.text(),
            "[a]\ngit = \"g\" # u\ncommit = \"c\"\nversion = \"1\"\nsubmodules = true\n\
             [b]\nc = { git = \"g\", commit = \"c\" }\nd = { git = \"g\" }\n\
             e.git = \"g\"\ne.version = \"2\"\n"
        );
        let removed = Changed { key: "a.url".into(), old: Some("u".into()), new: String::new() };
        assert_eq!(set.changed()[0], removed);
    }

    #[test]
    fn keeps_comments_order_and_line_ends() {
        let text = "# top\r\n[b]\r\nversion = '1' # why 1, not 1.1\r\ngit = \"u\"\r\n\r\n[a] # a\r\nversion=\"2\"\r\n";
        let mut set = set(text);
        set.set(&["b"], "version", "3");
        set.set(&["b"], "commit", "c");
        set.set(&["a"], "version", "2");
        assert_eq!(
            set.text(),
            "# top\r\n[b]\r\nversion = \"3\" # why 1, not 1.1\r\ncommit = \"c\"\r\ngit = \"u\"\r\n\r\n[a] # a\r\nversion=\"2\"\r\n"
        );
        assert_eq!(set.changed().len(), 2, "setting the same value changes nothing");
        assert_eq!(
            set.comments_with("b", "1"),
            [(3, "version = \"3\" # why 1, not 1.1".to_owned())]
        );
        let set = self::set(
            "# b 1\n[a]\nversion = \"1\" # b 1, setup.py:3\n[b]\nversion = \"2\"\n[c] # bb 1, 1\n",
        );
        let lines: Vec<usize> = set.comments_with("b", "1").iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 3], "a comment in another component's table names the component");
    }

    #[test]
    fn writes_inline_tables_and_dotted_keys_in_place() {
        let mut all = set("a = { version = \"1\", git = \"u\" }\nb.version = \"1\"\nb.git = \"u\"");
        for name in ["a", "b"] {
            all.set(&[name], "version", "2");
            all.set(&[name], "commit", "c");
        }
        assert_eq!(
            all.text(),
            "a = { version = \"2\", commit = \"c\", git = \"u\" }\nb.version = \"2\"\nb.commit = \"c\"\nb.git = \"u\""
        );
        let mut last = set("[\"a\"]\ngit = \"u\"");
        last.set(&["a"], "commit", "c");
        assert_eq!(last.text(), "[\"a\"]\ngit = \"u\"\ncommit = \"c\"\n");
        let mut further =
            set("[a]\nversion = \"1\"\n[a.sources.b-c]\ngit = \"u\"\ncommit = \"x\" # of 1\n");
        further.set(&["a", "sources", "b-c"], "commit", "y");
        assert_eq!(further.changed()[0].key, "a.sources.b-c.commit");
        assert!(further.text().ends_with("commit = \"y\" # of 1\n"), "{}", further.text());
        assert_eq!(further.comments_with("a", "1").len(), 1);
    }

    #[test]
    fn matches_whole_versions() {
        for (text, found) in [
            ("vllm 0.20.2, setup.py:3", true),
            ("v0.20.2", true),
            ("is 0.20.2.", true),
            ("0.20.20", false),
            ("0.20.2.1", false),
            ("10.20.2", false),
        ] {
            assert_eq!(has_word(text, "0.20.2"), found, "{text}");
        }
    }
}
