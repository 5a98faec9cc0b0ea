//! Collects words from upstream's files that could name environment variables. It does not locate
//! the files.

use std::collections::BTreeSet;
use std::path::Path;

/// Maximum size of a text file, in bytes. Larger files are data.
const MAX_FILE: u64 = 4 << 20;

/// Uppercase names that occur in a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceNames(BTreeSet<String>);

impl SourceNames {
    /// Adds the words of a text.
    pub fn add(&mut self, text: &str) {
        let capital = |word: &&str| {
            word.len() > 2
                && !word.bytes().any(|b| b.is_ascii_lowercase())
                && word.bytes().any(|b| b.is_ascii_uppercase())
        };
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(capital) {
            if !self.0.contains(word) {
                self.0.insert(word.to_owned());
            }
        }
    }

    /// Returns whether upstream may read this variable.
    pub fn reads(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Returns all words.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Reads the text files below a folder without following links.
pub fn words_of(folder: &Path, words: &mut SourceNames) -> std::io::Result<()> {
    for entry in walkdir::WalkDir::new(folder) {
        let entry = entry?;
        if !entry.file_type().is_file() || entry.metadata()?.len() > MAX_FILE {
            continue;
        }
        let bytes = fs_err::read(entry.path())?;
        if memchr::memchr(0, &bytes[..bytes.len().min(1024)]).is_none() {
            words.add(&String::from_utf8_lossy(&bytes));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collects_whole_names_from_text_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        std::fs::write(
            dir.path().join("a/setup.py"),
            "os.environ['USE_A1'] or getenv(\"B_C\")\nlower Mixed AB",
        )
        .unwrap();
        std::fs::write(dir.path().join("data"), b"\0HIDDEN").unwrap();
        let mut words = SourceNames::default();
        words_of(dir.path(), &mut words).unwrap();
        assert_eq!(words.iter().collect::<Vec<_>>(), ["B_C", "USE_A1"]);
        assert!(words.reads("USE_A1") && !words.reads("USE_A"));
    }
}
