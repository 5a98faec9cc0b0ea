//! The audit's knowledge, read from `points.toml`: what a download looks like, and
//! what makes one unnecessary. Where to look and what is declared is known elsewhere.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::covers;

/// All that is known.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Table {
    /// Folders that no build of a package reads.
    pub passed_over: Vec<String>,
    /// The files that a build begins with.
    pub roots: Vec<String>,
    /// How languages write comments and messages.
    pub language: Vec<Language>,
    /// What a download looks like.
    pub point: Vec<Pattern>,
    /// What makes one unnecessary.
    pub satisfier: Vec<Satisfier>,
}

/// A language of build scripts.
#[derive(Debug, Deserialize)]
pub struct Language {
    /// Its name.
    pub name: String,
    files: Vec<String>,
    /// What begins a comment.
    pub comment: String,
    /// What lines have that only tell the user something.
    pub messages: Vec<String>,
}

/// What one kind of download looks like.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Pattern {
    /// The kind.
    pub id: String,
    /// The languages it is looked for in.
    pub languages: Vec<String>,
    /// The only files it is looked for in; any of the languages where it is empty.
    pub files: Vec<String>,
    /// Calls of CMake commands.
    pub calls: Vec<String>,
    /// What the arguments of the call must have, one of them; anything where it is empty.
    pub needs: Vec<String>,
    /// Whether it counts where a variable holds what follows the name.
    pub arguments_in_a_variable: bool,
    /// The arguments that tell what is fetched.
    pub fetches: Vec<String>,
    /// The kind of point that declares what this one uses.
    pub declared_by: Option<String>,
    /// Words of a line.
    pub words: Vec<String>,
    /// Texts of a line.
    pub texts: Vec<String>,
    /// Texts one of which the line must have as well; none where it is empty.
    pub only_with: Vec<String>,
    /// Texts of lines that are no such thing.
    pub unless: Vec<String>,
    /// What is counted in a file that lists what a tool would fetch.
    pub items: Vec<String>,
    /// How to fix it.
    pub help: String,
}

/// What makes some kinds of download unnecessary.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Satisfier {
    /// The kinds.
    pub points: Vec<String>,
    /// A text of the spec's `%build`.
    pub setting: Option<String>,
    /// Texts of the point's line.
    pub line: Vec<String>,
    /// A file in the point's folder or above.
    pub file: Option<String>,
    /// What that file has.
    pub has: Vec<String>,
    /// Why that is enough.
    pub says: String,
}

/// The table.
pub static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // Its own test reads it: a mistake in it does not reach users.
    toml::from_str(include_str!("points.toml")).unwrap_or_else(|error| unreachable!("points.toml: {error}"))
});

impl Table {
    /// Returns the language of a file, by its name.
    pub fn language(&self, file_name: &str) -> Option<&Language> {
        self.language.iter().find(|language| is_one_of(file_name, &language.files))
    }

    /// Returns whether a build begins with a file.
    pub fn is_root(&self, file_name: &str) -> bool {
        is_one_of(file_name, &self.roots)
    }

    /// Returns whether no build reads a file, by the folders that it is in.
    pub fn is_passed_over(&self, path: &str) -> bool {
        let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders.split('/').any(|folder| self.passed_over.iter().any(|name| name.eq_ignore_ascii_case(folder)))
    }

    /// Returns the patterns for a file.
    pub fn patterns(&self, file_name: &str) -> impl Iterator<Item = &Pattern> {
        let language = self.language(file_name).map(|language| language.name.clone());
        self.point.iter().filter(move |pattern| {
            let spoken = language.as_ref().is_some_and(|language| pattern.languages.contains(language));
            let listed = pattern.files.iter().any(|file| file == file_name);
            if pattern.files.is_empty() { spoken } else { listed }
        })
    }
}

/// Returns whether a file name fits one of the patterns.
fn is_one_of(file_name: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| covers(pattern, file_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        for point in &TABLE.point {
            let looks = point.calls.len() + point.words.len() + point.texts.len() + point.items.len();
            assert!(looks > 0 && !point.help.is_empty(), "{}", point.id);
            assert!(!point.languages.is_empty() || !point.files.is_empty(), "{}", point.id);
            for language in &point.languages {
                assert!(TABLE.language.iter().any(|known| known.name == *language), "{language}");
            }
        }
        for satisfier in &TABLE.satisfier {
            let kinds = &satisfier.points;
            assert!(kinds.iter().all(|id| TABLE.point.iter().any(|point| point.id == *id)), "{kinds:?}");
            let by = [satisfier.setting.is_some(), !satisfier.line.is_empty(), satisfier.file.is_some()];
            assert_eq!(by.iter().filter(|by| **by).count(), 1, "{kinds:?}");
            assert!(!satisfier.says.is_empty());
        }
    }

    #[test]
    fn folders_of_tests_are_passed_over_and_files_of_that_name_are_not() {
        let passed = ["tests/setup.py", "x/Docs/y.cmake", "setup.py", "cmake/tests.cmake", "test"];
        assert_eq!(passed.map(|path| TABLE.is_passed_over(path)), [true, true, false, false, false]);
    }
}
