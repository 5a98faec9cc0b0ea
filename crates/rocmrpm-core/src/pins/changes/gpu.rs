//! Lists of GPU targets in build files, for which upstream compiles. A list is two or more names with
//! only separators between them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::scan::Scan;
use crate::gpu::GpuTarget;

/// A list of GPU targets that changed.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuList {
    /// The file.
    pub file: String,
    /// The identifier before the list, such as `HIP_SUPPORTED_ARCHS`; may be empty.
    pub name: String,
    /// Targets that were added.
    pub added: Vec<String>,
    /// Targets that were removed.
    pub removed: Vec<String>,
}

type Lists = BTreeMap<(String, String), BTreeSet<String>>;

/// Compares the lists of two trees. Also returns the workspace's targets that a list had and no
/// longer has.
pub(super) fn changes(old: &Scan, new: &Scan, wanted: &[GpuTarget]) -> (Vec<GpuList>, Vec<String>) {
    let (old, mut new) = (lists(old), lists(new));
    let mut changed = Vec::new();
    let mut elsewhere = Vec::new();
    for (key, targets) in old {
        match new.remove(&key) {
            Some(now) => changed.extend(difference(key, &targets, &now)),
            None => elsewhere.push((key, targets)),
        }
    }
    for (key, targets) in elsewhere {
        // The name identifies a list that moved to another file.
        let moved = new.keys().find(|(_, name)| *name == key.1 && !name.is_empty()).cloned();
        let now = moved.and_then(|moved| new.remove(&moved)).unwrap_or_default();
        changed.extend(difference(key, &targets, &now));
    }
    for (key, targets) in new {
        changed.extend(difference(key, &BTreeSet::new(), &targets));
    }
    changed.sort_by(|a, b| (&a.file, &a.name).cmp(&(&b.file, &b.name)));
    let left: BTreeSet<&String> = changed.iter().flat_map(|list| &list.removed).collect();
    let lost = wanted
        .iter()
        .map(|target| target.processor().to_owned())
        .filter(|t| left.contains(t))
        .collect();
    (changed, lost)
}

fn difference(
    (file, name): (String, String),
    old: &BTreeSet<String>,
    new: &BTreeSet<String>,
) -> Option<GpuList> {
    let added: Vec<String> = new.difference(old).cloned().collect();
    let removed: Vec<String> = old.difference(new).cloned().collect();
    (!added.is_empty() || !removed.is_empty()).then_some(GpuList { file, name, added, removed })
}

fn lists(scan: &Scan) -> Lists {
    let mut lists = Lists::new();
    for (path, text) in scan.build_files() {
        for (name, targets) in lists_in(text) {
            lists.entry((path.to_owned(), name)).or_default().extend(targets);
        }
    }
    lists
}

fn lists_in(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut end = 0;
    let mut current: Option<(String, Vec<String>)> = None;
    for (at, _) in text.match_indices("gfx") {
        let before = text[..at].chars().next_back();
        let line = text[..at].rfind('\n').map_or(0, |start| start + 1);
        let comment = text[line..at].contains('#');
        if comment || before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &text[at..];
        let length =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(rest.len());
        let target = rest[..length].trim_end_matches('-');
        if GpuTarget::parse(target).is_none() {
            continue;
        }
        let separators =
            |text: &str| text.chars().all(|c| c.is_whitespace() || ";,\"'|".contains(c));
        match &mut current {
            Some((_, targets)) if separators(without_comments(&text[end..at]).as_str()) => {
                targets.push(target.to_owned());
            }
            _ => {
                found.extend(current.take());
                current = Some((name_before(&text[..at]), vec![target.to_owned()]));
            }
        }
        end = at + target.len();
    }
    found.extend(current);
    found.retain(|(_, targets)| targets.len() > 1);
    found
}

/// Removes the comments between targets: from `#` to the end of the line.
fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the identifier before a list, over `=`, brackets and quotes.
fn name_before(text: &str) -> String {
    let text = text.trim_end_matches(|c: char| c.is_whitespace() || "=([{\"':;".contains(c));
    let before = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    text[before.len()..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_any_text_before_a_list() {
        let targets = ["gfx942".to_owned(), "gfx1151".to_owned()];
        for (before, name) in [("“", ""), ("é =", ""), ("ü ARCHS = \"", "ARCHS"), ("", "")] {
            let found = lists_in(&format!("{before}gfx942;gfx1151”"));
            assert_eq!(found, [(name.to_owned(), targets.to_vec())], "{before}");
        }
    }

    #[test]
    fn finds_lists_and_their_names() {
        let text = "set(HIP_SUPPORTED_ARCHS \"gfx90a;gfx942;gfx1151\")\nif(x STREQUAL gfx1100)\n\
                    archs = [\n  \"gfx942\",  # MI300\n  'gfx11-generic',\n]\nmygfx90a gfx0 gfxgfx942\n";
        let lists = lists_in(text);
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            lists,
            [
                ("HIP_SUPPORTED_ARCHS".to_owned(), owned(&["gfx90a", "gfx942", "gfx1151"])),
                ("archs".to_owned(), owned(&["gfx942", "gfx11-generic"])),
            ]
        );
    }

    #[test]
    fn reports_lost_targets() {
        let old = Scan::from([
            ("CMakeLists.txt", "set(ARCHS gfx90a gfx1151)"),
            ("a.cmake", "set(B gfx906 gfx908)"),
        ]);
        let new = Scan::from([
            ("cmake/x.cmake", "set(ARCHS gfx90a gfx950)"),
            ("a.cmake", "set(B gfx908;gfx906)"),
        ]);
        let wanted = ["gfx1151", "gfx906"].map(|t| GpuTarget::parse(t).unwrap());
        let (lists, lost) = changes(&old, &new, &wanted);
        assert_eq!(lost, ["gfx1151"]);
        assert_eq!(lists.len(), 1);
        assert_eq!(
            (lists[0].added.as_slice(), lists[0].removed.as_slice()),
            (&["gfx950".into()][..], &["gfx1151".into()][..])
        );
    }
}
