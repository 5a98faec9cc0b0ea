//! Formats the comparison of two inspections as text: what was added, removed and changed. It omits
//! everything that is the same.

use crate::{
    Change, Code, Comparison, Delta, FileChange, Finding, Severity, SizedFile, SubjectChange,
    TargetChange,
};
use rocmrpm_base::style::{Style, count, human_size};
use rocmrpm_base::text::visible;

/// The maximum number of listed names of a kind; JSON has all of them.
const SHOWN: usize = 10;

/// The width of the labels of changes.
const LABEL: usize = 9;

/// Formats a comparison as text for a terminal.
pub fn comparison_text(comparison: &Comparison) -> String {
    if comparison.is_empty() {
        return format!("{}\n", Style::Good.paint("no differences"));
    }
    let mut text = String::new();
    for (mark, names) in marked(&comparison.subjects) {
        for name in names {
            text.push_str(&format!("{mark} {}\n", Style::Bold.paint(visible(name))));
        }
    }
    for subject in &comparison.changed {
        subject_text(&mut text, subject);
    }
    if !comparison.targets.is_empty() {
        text.push_str(&format!("{}\n", Style::Bold.paint("GPU targets in total")));
        for (mark, names) in
            marked(&comparison.targets).into_iter().filter(|(_, names)| !names.is_empty())
        {
            text.push_str(&format!("  {mark} {}\n", visible(&names.join(", "))));
        }
    }
    let gone = comparison.findings_gone.iter().map(|finding| (MINUS, finding));
    for (mark, finding) in comparison.findings_new.iter().map(|finding| (PLUS, finding)).chain(gone)
    {
        text.push_str(&finding_text(mark, finding));
    }
    text
}

const PLUS: Mark = Mark(Style::Good, '+');
const MINUS: Mark = Mark(Style::Bad, '-');

/// The mark of an added or removed item.
#[derive(Clone, Copy)]
struct Mark(Style, char);

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.paint(self.1))
    }
}

fn marked(delta: &Delta) -> [(Mark, &Vec<String>); 2] {
    [(PLUS, &delta.added), (MINUS, &delta.removed)]
}

fn finding_text(mark: Mark, finding: &Finding) -> String {
    let (style, word) = match finding.severity {
        Severity::Error => (Style::Bad, "error:"),
        Severity::Warning => (Style::Warning, "warning:"),
        Severity::Info => (Style::Note, "note:"),
    };
    format!("{mark} {} {finding}\n", style.paint(word))
}

fn subject_text(text: &mut String, subject: &SubjectChange) {
    let size = subject.size.as_ref().map(|size| format!(", {}", sizes(size))).unwrap_or_default();
    let name = renamed(&subject.old, &subject.new);
    text.push_str(&format!("{}{}\n", Style::Bold.paint(name), Style::Dim.paint(size)));
    for (mark, files) in [(PLUS, &subject.files_added), (MINUS, &subject.files_removed)] {
        for SizedFile { path, size } in files {
            text.push_str(&format!("  {mark} {} ({})\n", visible(path), human_size(*size)));
        }
    }
    for (mark, paths) in
        marked(&subject.other_files).into_iter().filter(|(_, paths)| !paths.is_empty())
    {
        text.push_str(&format!("  {mark} {}\n", list(paths, "other file")));
    }
    for file in &subject.files {
        file_text(text, file);
    }
}

fn file_text(text: &mut String, file: &FileChange) {
    text.push_str(&format!("  {}\n", renamed(&file.old, &file.new)));
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.extend(file.size.as_ref().map(|size| ("size", sizes(size))));
    rows.extend(file.device.iter().map(|change| ("GPU code", target_text(change))));
    let none = || "none".to_owned();
    rows.extend(file.soname.as_ref().map(|Change { old, new }| {
        ("SONAME", arrow(&old.clone().unwrap_or_else(none), &new.clone().unwrap_or_else(none)))
    }));
    let path = |entries: &Vec<String>| if entries.is_empty() { none() } else { entries.join(":") };
    for (name, change) in [("RPATH", &file.rpath), ("RUNPATH", &file.runpath)] {
        rows.extend(
            change.as_ref().map(|Change { old, new }| (name, arrow(&path(old), &path(new)))),
        );
    }
    for (name, delta, noun) in [
        ("needs", &file.needed, None),
        ("versions", &file.versions_needed, None),
        ("provides", &file.versions_provided, None),
        ("exports", &file.symbols, Some("symbol")),
    ] {
        for (mark, names) in marked(delta).into_iter().filter(|(_, names)| !names.is_empty()) {
            let names = noun.map_or_else(|| few(names), |noun| list(names, noun));
            rows.push((name, format!("{mark} {names}")));
        }
    }
    let mut last = "";
    for (name, value) in rows {
        // A label is shown once per kind of change.
        let label = if name == last { "" } else { name };
        text.push_str(&format!("      {} {value}\n", Style::Dim.paint(format!("{label:<LABEL$}"))));
        last = name;
    }
}

fn target_text(change: &TargetChange) -> String {
    let target = visible(&change.target);
    match (&change.old, &change.new) {
        (None, Some(new)) => format!("{PLUS} {target} {}", code_text(new)),
        (Some(old), None) => format!("{MINUS} {target} {}", code_text(old)),
        (Some(old), Some(new)) => {
            let mut parts = Vec::new();
            if old.count != new.count {
                parts.push(format!("×{} -> ×{}", old.count, new.count));
            }
            if old.kernels != new.kernels {
                let kernels =
                    |code: &Code| code.kernels.map_or("unknown".to_owned(), |n| n.to_string());
                parts.push(format!("kernels {} -> {}", kernels(old), kernels(new)));
            }
            if old.bytes != new.bytes {
                parts.push(sizes(&Change { old: old.bytes, new: new.bytes }));
            }
            if old.storage != new.storage {
                let storage =
                    |code: &Code| code.storage.iter().cloned().collect::<Vec<_>>().join(", ");
                parts.push(format!("{} -> {}", storage(old), storage(new)));
            }
            format!("  {target} {}", parts.join(", "))
        }
        (None, None) => target,
    }
}

fn code_text(code: &Code) -> String {
    let kernels =
        code.kernels.map(|n| format!("{}, ", count(n.try_into().unwrap_or(usize::MAX), "kernel")));
    format!("×{} ({}{})", code.count, kernels.unwrap_or_default(), human_size(code.bytes))
}

fn sizes(Change { old, new }: &Change<u64>) -> String {
    let sign = if new >= old { '+' } else { '-' };
    format!(
        "{} -> {} ({sign}{})",
        human_size(*old),
        human_size(*new),
        human_size(old.abs_diff(*new))
    )
}

fn renamed(old: &str, new: &str) -> String {
    if old == new { visible(old) } else { arrow(old, new) }
}

fn arrow(old: &str, new: &str) -> String {
    format!("{} -> {}", visible(old), visible(new))
}

/// Formats a count and the first of the names.
fn list(names: &[String], noun: &str) -> String {
    format!("{}: {}", count(names.len(), noun), few(names))
}

fn few(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).map(|name| visible(name)).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use rocmrpm_base::style::uncolored;

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn delta(added: &[&str], removed: &[&str]) -> Delta {
        Delta { added: owned(added), removed: owned(removed) }
    }

    fn code(count: u64, kernels: Option<u64>, bytes: u64, storage: &str) -> Option<Code> {
        Some(Code { count, kernels, bytes, storage: BTreeSet::from([storage.to_owned()]) })
    }

    fn plain(comparison: &Comparison) -> String {
        uncolored(&comparison_text(comparison))
    }

    #[test]
    fn equal_inspections_give_one_line() {
        assert_eq!(plain(&Comparison::default()), "no differences\n");
    }

    #[test]
    fn formats_all_kinds_of_changes() {
        let target = |target: &str, old, new| TargetChange { target: target.to_owned(), old, new };
        let symbols: Vec<String> = (0..12).map(|n| format!("s{n:02}")).collect();
        let file = FileChange {
            old: "k/libk.so.1.0".into(),
            new: "k/libk.so.2.0".into(),
            size: Some(Change { old: 4_000_000, new: 3_000_000 }),
            device: vec![
                target("gfx1100", code(2, Some(40), 5000, "hip-fatbin"), None),
                target("gfx1151", None, code(3, None, 7000, "hip-fatbin")),
                target(
                    "gfx1201",
                    code(2, Some(40), 5000, "hip-fatbin"),
                    code(3, Some(41), 6000, "hip-fatbin ccob3-zstd"),
                ),
            ],
            soname: Some(Change { old: Some("libk.so.1".into()), new: None }),
            needed: delta(&["libamdhip64.so.7"], &["libamdhip64.so.6"]),
            rpath: Some(Change { old: owned(&[]), new: owned(&["$ORIGIN", "/opt/rocm/lib"]) }),
            runpath: None,
            versions_needed: delta(&["libc.so.6: GLIBC_2.38"], &[]),
            versions_provided: delta(&["K_2"], &["K_1"]),
            symbols: Delta { added: symbols, removed: owned(&["evil\u{1b}[2J"]) },
        };
        let subject = SubjectChange {
            old: "k-1.0".into(),
            new: "k-2.0".into(),
            size: Some(Change { old: 1000, new: 2500 }),
            files_added: vec![SizedFile { path: "k/liba.so".into(), size: 12_000 }],
            files_removed: vec![SizedFile { path: "k/libb.so".into(), size: 999 }],
            files: vec![file],
            other_files: delta(&["k/a.py", "k/b.py"], &[]),
        };
        let mut comparison = Comparison::default();
        comparison.subjects = delta(&["new-1-1.noarch"], &["old-1-1.noarch"]);
        comparison.changed = vec![subject];
        comparison.targets = delta(&["gfx1151"], &["gfx1100"]);
        snapbox::assert_data_eq!(
            plain(&comparison),
            snapbox::str![[r#"
+ new-1-1.noarch
- old-1-1.noarch
k-1.0 -> k-2.0, 1.0 kB -> 2.5 kB (+1.5 kB)
  + k/liba.so (12.0 kB)
  - k/libb.so (999 B)
  + 2 other files: k/a.py, k/b.py
  k/libk.so.1.0 -> k/libk.so.2.0
      size      4.0 MB -> 3.0 MB (-1.0 MB)
      GPU code  - gfx1100 ×2 (40 kernels, 5.0 kB)
                + gfx1151 ×3 (7.0 kB)
                  gfx1201 ×2 -> ×3, kernels 40 -> 41, 5.0 kB -> 6.0 kB (+1.0 kB), hip-fatbin -> hip-fatbin ccob3-zstd
      SONAME    libk.so.1 -> none
      RPATH     none -> $ORIGIN:/opt/rocm/lib
      needs     + libamdhip64.so.7
                - libamdhip64.so.6
      versions  + libc.so.6: GLIBC_2.38
      provides  + K_2
                - K_1
      exports   + 12 symbols: s00, s01, s02, s03, s04, s05, s06, s07, s08, s09 and 2 more
                - 1 symbol: evil/u{1b}[2J
GPU targets in total
  + gfx1151
  - gfx1100

"#]]
        );
    }
}
