//! `[[offline]]` of component.toml: declarations of what satisfies each download point of the upstream
//! build. The audit verifies them.

use super::document::{At, Table};
use super::edit::versions;
use crate::range::VersionRange;

/// One declaration: what satisfies the download points in some files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offline {
    /// The file below the source's top folder; `*` matches any characters.
    pub file: String,
    /// A part of the point's line, if not all points of the file are meant.
    pub find: Option<String>,
    /// What kind of thing satisfies it.
    pub by: SatisfiedBy,
    /// The name of that thing, or the reason.
    pub with: String,
    /// The versions of the component that it is for.
    pub versions: VersionRange,
    /// Its position in component.toml.
    pub span: std::ops::Range<usize>,
}

/// What makes a download unnecessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SatisfiedBy {
    /// A further source of the pin.
    Source,
    /// A setting of the build.
    Setting,
    /// A package that the build requires.
    Package,
    /// The build never reaches it.
    NotReached,
}

/// The kinds by name.
const KINDS: &[(&str, SatisfiedBy)] = &[
    ("source", SatisfiedBy::Source),
    ("setting", SatisfiedBy::Setting),
    ("package", SatisfiedBy::Package),
    ("not-reached", SatisfiedBy::NotReached),
];

impl SatisfiedBy {
    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        KINDS.iter().find(|(_, by)| *by == self).map_or("", |(name, _)| name)
    }
}

impl Offline {
    /// Reads one `[[offline]]`; `None` if a key is missing or wrong.
    pub(super) fn read(table: &mut Table<'_>) -> Option<Self> {
        let file = table.required_string("file", "a file below the source's top folder");
        let find = table.string("find").map(|at| at.value);
        let by = table.required_string("by", "`source`, `setting`, `package` or `not-reached`");
        let by = by.and_then(|At { value, span }| {
            let by = KINDS.iter().find(|(name, _)| *name == value).map(|(_, by)| *by);
            if by.is_none() {
                let label = "expected `source`, `setting`, `package` or `not-reached`";
                table.problem(span, format!("unknown kind `{value}`"), label, None);
            }
            by
        });
        let with =
            table.required_string("with", "the source, the setting, the package, or the reason");
        if let Some(At { value, span }) = &with
            && value.trim().is_empty()
        {
            let label = "expected the source, the setting, the package, or the reason";
            table.problem(span.clone(), "`with` must not be empty", label, None);
        }
        let versions = versions(table);
        let span = table.span();
        let with = with?.value;
        Some(Self { file: file?.value, find, by: by?, with, versions, span })
    }
}
