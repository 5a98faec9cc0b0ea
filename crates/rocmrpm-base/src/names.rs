//! Parses and compares names: components, versions, Python projects, SONAMEs. It does not check
//! whether they exist.

use std::borrow::Borrow;
use std::fmt;

/// The name of a component: its folder below `specs-templates/` and its key in every pin set.
/// Consists of lowercase letters, digits, `-`, `_`, `.` and `+`, and starts with a letter or digit,
/// so that it is safe as a file name and in a shell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentName(String);

impl ComponentName {
    /// Returns the name, or `None` if `text` is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        let first = chars.next()?;
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.+".contains(c);
        let ok = (first.is_ascii_lowercase() || first.is_ascii_digit()) && chars.all(inner);
        ok.then(|| Self(text.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ComponentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Allows lookups by text in maps with component keys. Both types have the same order.
impl Borrow<str> for ComponentName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ComponentName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Returns whether rpm accepts `text` as a package version. Source: rpm's build/parsePreamble.c,
/// ALLOWED_CHARS_VERREL, without the characters of macros.
pub fn is_version(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._+~^".contains(c))
}

/// Returns whether a name needs no quotes in file names, shell command lines and configuration
/// files: it consists of letters, digits and `. _ + -`, and starts with a letter or a digit.
pub fn is_plain(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(inner)
}

/// Normalizes the name of a Python project as in PEP 503: lowercase, with runs of `-`, `_` and `.`
/// replaced by one `-`.
pub fn normalized(project: &str) -> String {
    let mut name = String::with_capacity(project.len());
    for c in project.chars() {
        match c {
            '-' | '_' | '.' if name.ends_with('-') => {}
            '-' | '_' | '.' => name.push('-'),
            c => name.push(c.to_ascii_lowercase()),
        }
    }
    name
}

/// A shared library's SONAME, such as `libamdhip64.so.7`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Soname(String);

impl Soname {
    /// Returns the SONAME with this text, from an ELF file or a provider table.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the whole SONAME.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name up to `.so`, such as `libamdhip64`.
    pub fn stem(&self) -> &str {
        self.0.split(".so").next().unwrap_or(&self.0)
    }

    /// Returns the part after `.so.`, such as `7`, if there is one.
    pub fn major(&self) -> Option<&str> {
        self.0.split_once(".so.").map(|(_, major)| major)
    }
}

impl fmt::Display for Soname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the candidate closest to a mistyped name, if one is close enough to suggest.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Swapped letters are a likelier typo than a wrong letter: gfx1511 means gfx1151.
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let wanted = letters(wrong);
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(wrong, c), letters(c) != wanted, c))
        .filter(|(distance, _, c)| *distance <= 1 + wrong.len().min(c.len()) / 4)
        .min()
        .map(|(_, _, c)| c)
}

/// Returns whether the text is a full git commit hash, SHA-1 or SHA-256.
pub fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unsafe_component_names() {
        for good in ["vllm", "rocm-smoke", "llama.cpp", "7zip", "gtk+"] {
            assert!(ComponentName::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-x", ".", "..", "a/b", "A", "a b", "a\n", "ä"] {
            assert!(ComponentName::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn plain_names_need_no_quotes() {
        for good in ["a", "rocm-gfx1151", "libstdc++", "0001-x.patch"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["", "-a", "a b", "a;b", "a/b", "$a", "a\n", ".a"] {
            assert!(!is_plain(bad), "{bad}");
        }
    }

    #[test]
    fn sonames_have_a_stem_and_a_major() {
        let soname = Soname::new("libamdhip64.so.7");
        assert_eq!((soname.stem(), soname.major()), ("libamdhip64", Some("7")));
        assert_eq!(Soname::new("libfoo.so").major(), None);
    }

    #[test]
    fn suggests_only_similar_names() {
        assert_eq!(nearest("rocblass", ["rocblas", "rocsparse"]), Some("rocblas"));
        assert_eq!(nearest("vlm", ["vllm", "torch"]), Some("vllm"));
        assert_eq!(nearest("gfx1511", ["gfx1011", "gfx1151"]), Some("gfx1151"));
        assert_eq!(nearest("banana", ["vllm", "torch"]), None);
    }
}
