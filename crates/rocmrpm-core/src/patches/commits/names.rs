//! Names the files of a series of patches, whose order is that of their names. It keeps existing
//! names where the order allows it. It does not read files.

use std::collections::BTreeSet;

/// A patch of the series to name.
#[derive(Debug, Clone)]
pub(super) struct Unnamed {
    /// Its file, if it has one.
    pub file: Option<String>,
    /// Its subject in the form of a file name.
    pub slug: String,
}

/// Returns the names of a series, in order. No name is in `taken`, which are the files of other
/// patches.
pub(super) fn names(series: &[Unnamed], taken: &BTreeSet<String>) -> Vec<String> {
    let kept = longest_sorted(series);
    match named(series, |at| kept.contains(&at), taken) {
        Some(names) => names,
        // A name without a number leaves no place after it.
        None => named(series, |_| false, taken).unwrap_or_default(),
    }
}

fn named(
    series: &[Unnamed],
    is_kept: impl Fn(usize) -> bool,
    taken: &BTreeSet<String>,
) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut last_is_new = false;
    for (at, patch) in series.iter().enumerate() {
        let last = names.last().map_or("", String::as_str);
        let follows = |own: &&str| *own > last && !(last_is_new && number(own) == number(last));
        if let Some(own) = patch.file.as_deref().filter(|own| is_kept(at) && follows(own)) {
            names.push(own.to_owned());
            last_is_new = false;
            continue;
        }
        last_is_new = true;
        let first = number(last).map_or(1, |number| number + 1);
        let slug = patch.file.as_deref().map_or(patch.slug.as_str(), slug);
        let free = |name: &String| !taken.contains(name) && name.as_str() > last;
        let mut tried = (first..first + 1000).map(|number| format!("{number:04}-{slug}.patch"));
        names.push(tried.find(free)?);
    }
    Some(names)
}

/// Returns the indexes of the longest part of the series whose existing names are sorted.
fn longest_sorted(series: &[Unnamed]) -> BTreeSet<usize> {
    let mut best: Vec<Vec<usize>> = Vec::new();
    for (at, patch) in series.iter().enumerate() {
        let mut own = Vec::new();
        if let Some(file) = &patch.file {
            let before = (0..at).filter(|before| {
                let ends = best[*before].last() == Some(before);
                ends && series[*before].file.as_ref().is_some_and(|other| other < file)
            });
            let before = before.max_by_key(|before| (best[*before].len(), usize::MAX - before));
            own = before.map_or_else(Vec::new, |before| best[before].clone());
            own.push(at);
        }
        best.push(own);
    }
    let longest = best.into_iter().rev().max_by_key(Vec::len);
    longest.unwrap_or_default().into_iter().collect()
}

/// Returns the number in front of a name.
fn number(name: &str) -> Option<u32> {
    name.split_once('-')?.0.parse().ok()
}

/// Returns a name without its number and its extension.
fn slug(name: &str) -> &str {
    let stem = name.strip_suffix(".patch").unwrap_or(name);
    match number(stem) {
        Some(_) => stem.split_once('-').map_or(stem, |(_, slug)| slug),
        None => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(series: &[&str], taken: &[&str], expected: &[&str]) {
        let series: Vec<Unnamed> = series
            .iter()
            .map(|name| match name.strip_prefix('+') {
                Some(slug) => Unnamed { file: None, slug: slug.to_owned() },
                None => Unnamed { file: Some((*name).to_owned()), slug: String::new() },
            })
            .collect();
        let taken = taken.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(names(&series, &taken), expected);
    }

    #[test]
    fn keeps_names_that_are_in_order() {
        check(&["0001-a.patch", "0003-b.patch"], &[], &["0001-a.patch", "0003-b.patch"]);
        check(
            &["0001-a.patch", "+c", "0003-b.patch"],
            &[],
            &["0001-a.patch", "0002-c.patch", "0003-b.patch"],
        );
        check(&["fix-a.patch", "fix-b.patch"], &[], &["fix-a.patch", "fix-b.patch"]);
        check(&[], &[], &[]);
    }

    #[test]
    fn renames_as_few_as_possible() {
        check(&["0002-b.patch", "0001-a.patch"], &[], &["0002-b.patch", "0003-a.patch"]);
        check(
            &["0003-c.patch", "0001-a.patch", "0002-b.patch"],
            &[],
            &["0001-c.patch", "0002-a.patch", "0003-b.patch"],
        );
        check(
            &["0001-a.patch", "+c", "0002-b.patch"],
            &[],
            &["0001-a.patch", "0002-c.patch", "0003-b.patch"],
        );
        check(&["fix-a.patch", "+b"], &[], &["0001-fix-a.patch", "0002-b.patch"]);
    }

    #[test]
    fn avoids_the_names_of_patches_for_other_versions() {
        check(&["0001-a.patch", "+b"], &["0002-b.patch"], &["0001-a.patch", "0003-b.patch"]);
    }
}
