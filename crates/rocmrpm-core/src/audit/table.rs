//! The rules of the audit, read from `points.toml`: what a download looks like, and what makes one
//! unnecessary. The table knows neither the files to scan nor the `[[offline]]` entries.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::covers;

/// The contents of `points.toml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Table {
    /// Folders that a package build never reads.
    pub passed_over: Vec<String>,
    /// The entry points of a build.
    pub roots: Vec<String>,
    /// Entry points that count only if a script runs make.
    pub make_roots: Vec<String>,
    /// Folders whose entry points count only if a script names the folder.
    pub named_only: Vec<String>,
    /// How each language writes comments and messages.
    pub language: Vec<Language>,
    /// What a download looks like.
    pub point: Vec<Pattern>,
    /// What makes one unnecessary.
    pub satisfier: Vec<Satisfier>,
}

/// A language of build scripts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Language {
    /// Its name, as patterns refer to it.
    pub name: String,
    files: Vec<String>,
    /// The text that starts a comment.
    pub comment: String,
    /// Commands that only print their arguments.
    #[serde(default)]
    pub prints: Vec<String>,
    /// Words in the names of functions that print their arguments, as in `log_error`.
    #[serde(default)]
    pub message_words: Vec<String>,
    /// Texts that mark a line as a mere message to the user.
    pub messages: Vec<String>,
}

/// How to recognize one kind of download.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Pattern {
    /// The name of the kind.
    pub id: String,
    /// The languages to search.
    pub languages: Vec<String>,
    /// The file names to search; if empty, all files of the languages.
    pub files: Vec<String>,
    /// Names of CMake commands.
    pub calls: Vec<String>,
    /// Arguments one of which the call must have; any call counts if empty.
    pub needs: Vec<String>,
    /// Whether a call counts if a variable holds all arguments after the name.
    pub arguments_in_a_variable: bool,
    /// The arguments that say what is downloaded.
    pub fetches: Vec<String>,
    /// The kind of point that declares what this one uses.
    pub declared_by: Option<String>,
    /// Words to find in a line.
    pub words: Vec<String>,
    /// Texts to find in a line.
    pub texts: Vec<String>,
    /// Texts one of which the line must also contain; no condition if empty.
    pub only_with: Vec<String>,
    /// Texts of lines that look similar but download nothing.
    pub unless: Vec<String>,
    /// What to count in a file that lists what a tool would download.
    pub items: Vec<String>,
    /// How to fix it.
    pub help: String,
}

/// What makes some kinds of downloads unnecessary.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Satisfier {
    /// The kinds.
    pub points: Vec<String>,
    /// A text in the spec's `%build`.
    pub setting: Option<String>,
    /// Texts in the point's line.
    pub line: Vec<String>,
    /// A file in the point's folder or a folder above it.
    pub file: Option<String>,
    /// Texts in that file.
    pub has: Vec<String>,
    /// Why that suffices.
    pub reason: String,
}

/// The parsed table.
pub static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // A test parses the table, so a mistake in it never reaches users.
    toml::from_str(include_str!("points.toml"))
        .unwrap_or_else(|error| unreachable!("points.toml: {error}"))
});

impl Table {
    /// Returns the language of a file, by its name.
    pub fn language(&self, file_name: &str) -> Option<&Language> {
        self.language.iter().find(|language| is_one_of(file_name, &language.files))
    }

    /// Returns whether a file is an entry point of a build.
    pub fn is_root(&self, file_name: &str) -> bool {
        is_one_of(file_name, &self.roots) || self.is_make_root(file_name)
    }

    /// Returns whether a file is an entry point only if something runs make.
    pub fn is_make_root(&self, file_name: &str) -> bool {
        is_one_of(file_name, &self.make_roots)
    }

    /// Returns the outermost folder of a file that a script must name for the file to count: its
    /// parent folder and its name.
    pub fn named_only<'p>(&self, path: &'p str) -> Option<(&'p str, &'p str)> {
        let mut start = 0;
        let (folders, _) = path.rsplit_once('/')?;
        for folder in folders.split('/') {
            if self.named_only.iter().any(|name| name.eq_ignore_ascii_case(folder)) {
                return Some((path[..start].trim_end_matches('/'), folder));
            }
            start += folder.len() + 1;
        }
        None
    }

    /// Returns whether no build reads a file, judging by its folders.
    pub fn is_passed_over(&self, path: &str) -> bool {
        let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders
            .split('/')
            .any(|folder| self.passed_over.iter().any(|name| name.eq_ignore_ascii_case(folder)))
    }

    /// Returns the patterns that apply to a file.
    pub fn patterns(&self, file_name: &str) -> impl Iterator<Item = &Pattern> {
        let language = self.language(file_name).map(|language| language.name.clone());
        self.point.iter().filter(move |pattern| {
            let spoken =
                language.as_ref().is_some_and(|language| pattern.languages.contains(language));
            let listed = pattern.files.iter().any(|file| file == file_name);
            if pattern.files.is_empty() { spoken } else { listed }
        })
    }
}

/// Returns whether a file name matches one of the patterns.
fn is_one_of(file_name: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| covers(pattern, file_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_complete() {
        for point in &TABLE.point {
            let looks =
                point.calls.len() + point.words.len() + point.texts.len() + point.items.len();
            assert!(looks > 0 && !point.help.is_empty(), "{}", point.id);
            assert!(!point.languages.is_empty() || !point.files.is_empty(), "{}", point.id);
            for language in &point.languages {
                assert!(TABLE.language.iter().any(|known| known.name == *language), "{language}");
            }
        }
        for satisfier in &TABLE.satisfier {
            let kinds = &satisfier.points;
            assert!(
                kinds.iter().all(|id| TABLE.point.iter().any(|point| point.id == *id)),
                "{kinds:?}"
            );
            let by =
                [satisfier.setting.is_some(), !satisfier.line.is_empty(), satisfier.file.is_some()];
            assert_eq!(by.iter().filter(|by| **by).count(), 1, "{kinds:?}");
            assert!(!satisfier.reason.is_empty());
        }
    }

    #[test]
    fn skips_test_folders_but_not_files() {
        let passed = ["tests/setup.py", "x/Docs/y.cmake", "setup.py", "cmake/tests.cmake", "test"];
        assert_eq!(
            passed.map(|path| TABLE.is_passed_over(path)),
            [true, true, false, false, false]
        );
        let named = ["tools/x/CMakeLists.txt", "a/b/Scripts/setup.py", "a/CMakeLists.txt", "tools"];
        assert_eq!(
            named.map(|path| TABLE.named_only(path)),
            [Some(("", "tools")), Some(("a/b", "Scripts")), None, None]
        );
    }
}
