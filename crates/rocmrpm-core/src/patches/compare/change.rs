//! One change of an upstream file, and whether two changes are the same. It does not read patches or
//! specs.

use serde::Serialize;

use super::sed::Pattern;

/// A change of an upstream file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The file, below the source's top folder.
    pub file: String,
    /// What makes the change: a patch, an edit, or a line of the spec.
    pub by: String,
    /// The removed lines or parts of lines. `…` stands for text that varies.
    pub removed: Vec<String>,
    /// The added lines or parts of lines.
    pub added: Vec<String>,
    /// The removed texts as patterns.
    #[serde(skip)]
    pub patterns: Vec<Pattern>,
    /// The extent.
    #[serde(skip)]
    pub extent: Extent,
}

/// The extent of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Whole lines.
    Lines,
    /// Every line that the pattern matches.
    MatchingLines,
    /// A text within lines.
    Text,
    /// The whole file.
    File,
}

/// How two changes relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// They change different places.
    Apart,
    /// They change the same place, in different ways.
    SamePlace,
    /// They have the same effect.
    Same,
}

impl Change {
    /// Returns a change of literal texts.
    pub fn new(
        file: &str,
        by: &str,
        extent: Extent,
        removed: Vec<String>,
        added: Vec<String>,
    ) -> Self {
        let patterns = removed.iter().map(|text| Pattern::literal(text)).collect();
        let (file, by) = (file.trim_start_matches("./").to_owned(), by.to_owned());
        Self { file, by, removed, added, patterns, extent }
    }

    /// Returns a change of what a pattern matches.
    pub fn matching(
        file: &str,
        by: &str,
        extent: Extent,
        pattern: Pattern,
        added: Vec<String>,
    ) -> Self {
        let removed = if pattern.0.is_empty() { vec![] } else { vec![pattern.shown()] };
        Self { patterns: vec![pattern], ..Self::new(file, by, extent, removed, added) }
    }

    /// Compares two changes by file and content.
    pub fn relation(&self, other: &Self) -> Relation {
        if self.file != other.file {
            return Relation::Apart;
        }
        if self.is_same(other) || other.is_same(self) {
            return Relation::Same;
        }
        let meets = self.extent == Extent::File
            || other.extent == Extent::File
            || self.patterns.iter().any(|one| other.patterns.iter().any(|two| meet(one, two)));
        if meets { Relation::SamePlace } else { Relation::Apart }
    }

    /// Returns whether this change has the effect of `other`, as far as their texts show it.
    fn is_same(&self, other: &Self) -> bool {
        fn added(change: &Change) -> Vec<&str> {
            trimmed(&change.added)
        }
        if self.extent == Extent::File || other.extent == Extent::File {
            return self.extent == other.extent && added(self) == added(other);
        }
        if trimmed(&self.removed) == trimmed(&other.removed) && added(self) == added(other) {
            return !(self.removed.is_empty() && self.added.is_empty());
        }
        let (Some(pattern), Extent::Text | Extent::MatchingLines) =
            (self.patterns.first(), self.extent)
        else {
            // Lines that are only added are the same next to any line.
            return self.adds_only() && other.adds_only() && added(self) == added(other);
        };
        if self.adds_only() {
            return other.adds_only() && added(self) == added(other);
        }
        match (self.extent, pattern.text()) {
            (Extent::MatchingLines, _) => {
                added(self) == added(other)
                    && other.extent == Extent::Lines
                    && !other.removed.is_empty()
                    && other.removed.iter().all(|line| pattern.is_in(line))
            }
            // A text within the lines or the text that the other change replaces.
            (_, Some(find)) => {
                let replacement = self.added.join("\n");
                let replaced: Vec<String> =
                    other.removed.iter().map(|line| line.replace(find, &replacement)).collect();
                !other.removed.is_empty()
                    && other.removed.iter().all(|line| line.contains(find))
                    && trimmed(&replaced) == added(other)
            }
            (_, None) => false,
        }
    }

    /// Returns whether the change removes nothing, so that its pattern only names a place.
    fn adds_only(&self) -> bool {
        self.removed.is_empty()
    }
}

/// Returns lines without outer blanks; empty lines are left out.
fn trimmed(lines: &[String]) -> Vec<&str> {
    lines
        .iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect()
}

/// Returns whether one pattern is in a text that the other stands for.
fn meet(one: &Pattern, two: &Pattern) -> bool {
    // `}` or `else` occur anywhere.
    let telling = |pattern: &Pattern| {
        pattern.0.iter().flat_map(|part| part.chars()).filter(|c| c.is_alphanumeric()).count() > 4
    };
    telling(one) && telling(two) && (one.is_in(&two.0.join(" ")) || two.is_in(&one.0.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(removed: &[&str], added: &[&str]) -> Change {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Change::new("f", "x", Extent::Lines, owned(removed), owned(added))
    }

    fn text(find: &str, replace: &str) -> Change {
        Change::new("f", "x", Extent::Text, vec![find.into()], vec![replace.into()])
    }

    fn deleted(parts: &[&str]) -> Change {
        let pattern = Pattern(parts.iter().map(|part| (*part).to_owned()).collect());
        Change::matching("f", "x", Extent::MatchingLines, pattern, vec![])
    }

    #[test]
    fn compares_effects() {
        use Relation::{Apart, Same, SamePlace};
        let max = "MAX_PYTHON = (3, 14)";
        for (one, two, relation) in [
            (text(max, "MAX_PYTHON = (3, 15)"), text(max, "MAX_PYTHON = (3, 15)"), Same),
            // A shorter text with the same effect.
            (text(max, "MAX_PYTHON = (3, 15)"), text("3, 14", "3, 15"), Same),
            (text(max, "MAX_PYTHON = (3, 16)"), text(max, "MAX_PYTHON = (3, 15)"), SamePlace),
            (text("hip 1.0", "hip"), text("other thing", "hip"), Apart),
            // A patch and a replacement.
            (
                lines(&["  setup(\"/opt/rocm\")\n"], &["  setup(\"/usr\")\n"]),
                text("/opt/rocm", "/usr"),
                Same,
            ),
            (lines(&["  a(\"/opt/rocm\")\n"], &["  b()\n"]), text("/opt/rocm", "/usr"), SamePlace),
            (lines(&["  get_rocm()\n"], &[]), deleted(&["get_", "()"]), Same),
            (lines(&["  get_rocm()\n"], &["x"]), deleted(&["get_rocm"]), SamePlace),
            // Indentation may differ.
            (lines(&["one\n"], &[" two\n"]), lines(&[" one\n"], &["two\n"]), Same),
            (lines(&[], &["#include <a>\n"]), lines(&[], &["#include <a>\n"]), Same),
            (lines(&["}\n"], &["a\n"]), lines(&["}\n"], &["b\n"]), Apart),
        ] {
            assert_eq!(one.relation(&two), relation, "{one:?}\n{two:?}");
            assert_eq!(two.relation(&one), relation, "{two:?}\n{one:?}");
        }
        let elsewhere = Change { file: "g".into(), ..text("a b c", "d") };
        assert_eq!(elsewhere.relation(&text("a b c", "d")), Apart);
    }

    #[test]
    fn an_overwritten_file_meets_all_changes_of_it() {
        let file = |text: &str| Change::new("./f", "x", Extent::File, vec![], vec![text.into()]);
        assert_eq!(file("a").relation(&file("a")), Relation::Same);
        assert_eq!(file("a").relation(&file("b")), Relation::SamePlace);
        assert_eq!(file("a").relation(&text("one two", "x")), Relation::SamePlace);
    }
}
