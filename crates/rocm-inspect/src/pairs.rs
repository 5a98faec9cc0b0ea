//! Pairs the corresponding parts of two inspections: packages, files and findings whose names
//! differ only by a version. It does not compare them.

use std::collections::BTreeMap;

use super::facts::{FileFacts, Subject};
use super::finding::Finding;

/// Corresponding items, and those without a counterpart, each in the order of its list.
#[derive(Debug)]
pub(super) struct Pairs<'a, T> {
    pub(super) both: Vec<(&'a T, &'a T)>,
    pub(super) old_only: Vec<&'a T>,
    pub(super) new_only: Vec<&'a T>,
}

/// Pairs subjects by kind and package, otherwise by name without version. If each side is a single
/// subject, these two are paired in any case.
pub(super) fn subjects<'a>(old: &'a [Subject], new: &'a [Subject]) -> Pairs<'a, Subject> {
    let mut pairs = Pairs::new(old, new);
    pairs.join(|subject| {
        (
            subject.kind,
            subject.debug,
            subject.package.clone().unwrap_or_else(|| subject.path.clone()),
        )
    });
    pairs.join(|subject| (subject.kind, subject.debug, without_versions(&subject.name)));
    if let ([old], [new], []) =
        (pairs.old_only.as_slice(), pairs.new_only.as_slice(), pairs.both.as_slice())
    {
        pairs.both.push((old, new));
        (pairs.old_only, pairs.new_only) = (Vec::new(), Vec::new());
    }
    pairs
}

/// Pairs files by path, otherwise by path without versions, otherwise also without the version of
/// the SONAME.
pub(super) fn files<'a>(old: &'a [FileFacts], new: &'a [FileFacts]) -> Pairs<'a, FileFacts> {
    let mut pairs = Pairs::new(old, new);
    pairs.join(|file| file.path.clone());
    pairs.join(|file| without_versions(&file.path));
    pairs.join(|file| without_soname_version(&file.path));
    pairs
}

/// Pairs paths as [`files`] does.
pub(super) fn paths<'a, 'p>(old: &'a [&'p str], new: &'a [&'p str]) -> Pairs<'a, &'p str> {
    let mut pairs = Pairs::new(old, new);
    pairs.join(|path| (*path).to_owned());
    pairs.join(|path| without_versions(path));
    pairs.join(|path| without_soname_version(path));
    pairs
}

/// Pairs findings with the same rule, file and text, ignoring byte offsets and counts in the text.
pub(super) fn findings<'a>(old: &'a [Finding], new: &'a [Finding]) -> Pairs<'a, Finding> {
    let mut pairs = Pairs::new(old, new);
    let key = |finding: &Finding, found: String| {
        (finding.id, finding.file.as_deref().map(without_soname_version), found)
    };
    pairs.join_any(|finding| key(finding, finding.found.clone()));
    pairs.join_any(|finding| key(finding, without_numbers(&finding.found)));
    pairs
}

impl<'a, T> Pairs<'a, T> {
    fn new(old: &'a [T], new: &'a [T]) -> Self {
        Self { both: Vec::new(), old_only: old.iter().collect(), new_only: new.iter().collect() }
    }

    /// Joins items with the same key if each side has exactly one.
    fn join<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.join_up_to(1, key);
    }

    /// Joins items with the same key, in order.
    fn join_any<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.join_up_to(usize::MAX, key);
    }

    fn join_up_to<K: Ord>(&mut self, most: usize, key: impl Fn(&T) -> K) {
        let mut places: BTreeMap<K, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (place, item) in self.old_only.iter().enumerate() {
            places.entry(key(item)).or_default().0.push(place);
        }
        for (place, item) in self.new_only.iter().enumerate() {
            places.entry(key(item)).or_default().1.push(place);
        }
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for (old, new) in
            places.values().filter(|(old, new)| old.len() <= most && new.len() <= most)
        {
            joined.extend(old.iter().copied().zip(new.iter().copied()));
        }
        joined.sort_unstable();
        self.both
            .extend(joined.iter().map(|(old, new)| (self.old_only[*old], self.new_only[*new])));
        let (mut old_gone, mut new_gone) =
            (vec![false; self.old_only.len()], vec![false; self.new_only.len()]);
        for (old, new) in joined {
            (old_gone[old], new_gone[new]) = (true, true);
        }
        keep(&mut self.old_only, &old_gone);
        keep(&mut self.new_only, &new_gone);
    }
}

fn keep<T>(items: &mut Vec<T>, gone: &[bool]) {
    let mut gone = gone.iter();
    items.retain(|_| !gone.next().copied().unwrap_or_default());
}

/// Replaces the parts of a path or name that change between versions: numbers, the release with the
/// distribution's tag, and the digests that auditwheel adds to library names
/// (`libgomp-a34b3233.so.1`). Keeps names of GPU targets: files for two targets are two files.
fn without_versions(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    let mut before = '/';
    while let Some(c) = rest.chars().next() {
        let starts = !before.is_ascii_alphanumeric();
        let word =
            if starts { rest.bytes().take_while(u8::is_ascii_alphanumeric).count() } else { 0 };
        if is_target(&rest[..word]) {
            out.push_str(&rest[..word]);
            (before, rest) = ('x', &rest[word..]);
        } else if before == '-'
            && word == 8
            && rest.as_bytes()[..8].iter().all(u8::is_ascii_hexdigit)
        {
            out.push('#');
            (before, rest) = ('x', &rest[8..]);
        } else if c.is_ascii_digit() {
            let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            out.push('#');
            // A trailing dot belongs to the next part: `libx-1.2.so`.
            if rest[..rest.len() - number.len()].ends_with('.') {
                out.push('.');
            }
            (before, rest) = ('0', number);
        } else {
            out.push(c);
            (before, rest) = (c, &rest[c.len_utf8()..]);
        }
    }
    out
}

/// Like [`without_versions`], and treats `libx.so` and `libx.so.1` as the same.
fn without_soname_version(path: &str) -> String {
    let out = without_versions(path);
    match out.strip_suffix(".#") {
        Some(short) if short.ends_with(".so") => short.to_owned(),
        _ => out,
    }
}

fn is_target(word: &str) -> bool {
    word.strip_prefix("gfx").is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// Replaces separate numbers, such as byte offsets and counts.
fn without_numbers(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ';', ':']);
        let number = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if number { format!("#{}", &word[bare.len()..]) } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_versions_but_not_targets_in_names() {
        for (a, b) in [
            (
                "onnxruntime/capi/libonnxruntime.so.1.22.2",
                "onnxruntime/capi/libonnxruntime.so.1.27.1",
            ),
            (
                "/usr/lib64/python3.13/site-packages/k/_C.cpython-313-x86_64-linux-gnu.so",
                "/usr/lib64/python3.14/site-packages/k/_C.cpython-314-x86_64-linux-gnu.so",
            ),
            ("k.libs/libgomp-a34b3233.so.1.0.0", "k.libs/libgomp-98df74fd.so.1.0.0"),
            ("k-1.22.2.dist-info/RECORD", "k-1.27.dist-info/RECORD"),
            ("rocblas-6.4.2-1.fc43.x86_64", "rocblas-6.4.10-12.fc43.x86_64"),
            ("library/Kernels_6.4_gfx1151.co", "library/Kernels_7.1_gfx1151.co"),
        ] {
            assert_eq!(without_versions(a), without_versions(b));
        }
        for (a, b) in [
            ("library/Kernels_gfx1100.co", "library/Kernels_gfx1151.co"),
            ("library/gfx90a/k.co", "library/gfx942/k.co"),
            ("liba.so.1", "libb.so.1"),
            ("libk-deadbeef.so", "libk-dead.so"),
            ("k.so.1", "k.a.1"),
        ] {
            assert_ne!(without_versions(a), without_versions(b));
        }
        assert_eq!(without_soname_version("libk.so"), without_soname_version("libk.so.0.1"));
        assert_ne!(without_soname_version("libk.so"), without_soname_version("libk.a.1"));
        assert_eq!(without_versions("libx-1.2.so"), "libx-#.so");
        assert_eq!(without_versions("ü-12345678.ß"), "ü-#.ß");
        assert_eq!(without_versions(""), "");
    }

    #[test]
    fn leaves_ambiguous_items_unpaired() {
        let (old, new) = (["libk.so.1", "a"], ["a", "libk.so.2", "libk.so.3"]);
        let pairs = paths(&old, &new);
        assert_eq!(pairs.both, [(&"a", &"a")]);
        assert_eq!(
            (pairs.old_only, pairs.new_only),
            (vec![&"libk.so.1"], vec![&"libk.so.2", &"libk.so.3"])
        );
        let (old, new) = (["libk.so.1", "libk.so.2"], ["libk.so.2", "libk.so.3"]);
        let pairs = paths(&old, &new);
        assert_eq!(pairs.both, [(&"libk.so.2", &"libk.so.2"), (&"libk.so.1", &"libk.so.3")]);
    }

    #[test]
    fn ignores_numbers_in_findings() {
        assert_eq!(
            without_numbers("the data at byte 4096 is, 3 times"),
            "the data at byte # is, # times"
        );
        assert_eq!(
            without_numbers("NEEDED `libx.so.1` for gfx1151"),
            "NEEDED `libx.so.1` for gfx1151"
        );
    }
}
