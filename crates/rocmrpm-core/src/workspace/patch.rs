//! Headers of patch files: origin, condition for removal, and versions. Does not apply patches.

use std::path::Path;

use super::document::File;
use crate::error::Problem;
use crate::range::VersionRange;

/// A patch of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Its file name.
    pub file_name: String,
    /// The subject, without `[PATCH]`; empty if the header has none.
    pub subject: String,
    /// `own`, or the origin of the change; empty if not stated.
    pub origin: String,
    /// When it can be removed; empty if not stated.
    pub drop_when: String,
    /// The versions of the component that it is for.
    pub versions: VersionRange,
}

impl Patch {
    /// Reads a patch's header, in the form of `git format-patch` with trailers (git's
    /// interpret-trailers): `Origin:`, `Drop-When:`, `Versions:`. `shown` is the file's name in
    /// messages.
    pub(super) fn read(
        path: &Path,
        shown: &str,
        problems: &mut Vec<Problem>,
    ) -> std::io::Result<Self> {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self::of_bytes(&file_name, &fs_err::read(path)?, shown, problems))
    }

    /// Reads the header of a patch with these bytes.
    pub(crate) fn of_bytes(
        file_name: &str,
        bytes: &[u8],
        shown: &str,
        problems: &mut Vec<Problem>,
    ) -> Self {
        // Patches contain upstream's text, in any encoding.
        let text = String::from_utf8_lossy(bytes).into_owned();
        let header = header(&text);
        let field = |name: &str| {
            let mut lines = header.lines().skip_while(|line| !line.starts_with(name));
            let first =
                lines.next().and_then(|line| line.strip_prefix(name)).unwrap_or_default().trim();
            // Lines that start with a blank continue the value.
            let more = lines.take_while(|line| line.starts_with([' ', '\t'])).map(str::trim);
            std::iter::once(first).chain(more).collect::<Vec<_>>().join(" ")
        };
        let written = field("Versions:");
        let versions = VersionRange::parse(&written);
        if versions.is_none() && !written.is_empty() {
            let start = text.find("Versions:").unwrap_or(0);
            let end = text[start..].find('\n').map_or(text.len(), |length| start + length);
            let file = File { name: shown.to_owned(), text: text.clone() };
            let message = format!("`{written}` is not a range of versions");
            problems.push(file.problem(
                start..end,
                message,
                "expected a range such as `>=1.2, <2`",
            ));
        }
        Self {
            file_name: file_name.to_owned(),
            subject: field("Subject:").trim_start_matches("[PATCH]").trim().to_owned(),
            origin: field("Origin:"),
            drop_when: field("Drop-When:"),
            versions: versions.unwrap_or_default(),
        }
    }
}

/// Returns the text before the changes of the first file.
fn header(text: &str) -> &str {
    &text[..header_end(text.as_bytes())]
}

/// Returns where a patch's header ends: before the line feed of its last line.
pub(crate) fn header_end(patch: &[u8]) -> usize {
    let ends: [&[u8]; 3] = [b"\n---\n", b"\ndiff --git ", b"\n--- "];
    if ends.iter().any(|end| patch.starts_with(&end[1..])) {
        return 0;
    }
    ends.iter().filter_map(|end| memchr::memmem::find(patch, end)).min().unwrap_or(patch.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_trailers_only_from_the_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0001-x.patch");
        let text = "From 00 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] Do\n this\n\nWhy.\n\nOrigin: own\n\
                    Drop-When: upstream does\nVersions: >=1, <2\n---\n x | 1 +\n\n--- a/x\n+++ b/x\n+Origin: no\n";
        fs_err::write(&path, text).unwrap();
        let mut problems = Vec::new();
        let patch = Patch::read(&path, "x", &mut problems).unwrap();
        assert_eq!((patch.subject.as_str(), patch.origin.as_str()), ("Do this", "own"));
        assert_eq!(
            (patch.drop_when.as_str(), patch.versions.to_string()),
            ("upstream does", ">=1, <2".into())
        );
        assert!(problems.is_empty());
        fs_err::write(&path, "Versions: 1.2\n--- a/x\n").unwrap();
        let patch = Patch::read(&path, "x", &mut problems).unwrap();
        assert_eq!(patch.origin, "");
        assert_eq!(problems[0].message, "`1.2` is not a range of versions");
    }
}
