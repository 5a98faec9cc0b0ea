//! Compares the license that metadata states with the texts of the license files. Does not read
//! the source.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::closure::license;
use crate::text::visible;

/// The contents of `license-texts.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    text: Vec<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    ids: Vec<String>,
    all: Vec<String>,
    none: Vec<String>,
}

static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(|| {
    // A test parses the table.
    let table: Texts = toml::from_str(include_str!("license-texts.toml"))
        .unwrap_or_else(|error| unreachable!("{error}"));
    let plain = |list: Vec<String>| list.iter().map(|text| words(text)).collect();
    let text = |text: Text| Text { all: plain(text.all), none: plain(text.none), ..text };
    table.text.into_iter().map(text).collect()
});

/// A license file that is at most this long, in bytes, may only name its license.
const NAME: usize = 60;

/// The license of a draft.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct License {
    /// The SPDX expression; `None` if the source does not state one.
    pub expression: Option<String>,
    /// What the packager must know about it.
    pub problem: Option<String>,
}

/// Decides on the license that metadata states, given the license files with their texts.
pub(super) fn decide(stated: Option<&str>, files: &[(String, String)]) -> License {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for (file, text) in files {
        found.extend(ids_of(text).into_iter().map(|ids| (file.as_str(), ids)));
    }
    let names = || files.iter().map(|(file, _)| visible(file)).collect::<Vec<_>>().join(", ");
    let stated = match stated.map(|text| (text, license::not_spdx(text))) {
        Some((text, None)) => text,
        other => {
            let why = other.and_then(|(_, problem)| problem);
            let why = why.unwrap_or_else(|| "the source does not state a license".to_owned());
            let all: BTreeSet<&Vec<String>> = found.iter().map(|(_, ids)| ids).collect();
            let only = match all.into_iter().collect::<Vec<_>>()[..] {
                [ids] if ids.len() == 1 => Some(ids[0].clone()),
                _ => None,
            };
            let problem = match &only {
                Some(id) => format!("{why}; `{id}` is the license of {}", names()),
                None if files.is_empty() => format!("{why}, and has no license file"),
                None => format!("{why}; read {}", names()),
            };
            return License { expression: only, problem: Some(problem) };
        }
    };
    let stated_ids = license::ids(stated);
    let other = found.iter().find(|(_, ids)| !ids.iter().any(|id| stated_ids.contains(id)));
    let problem = other.map(|(file, ids)| {
        let ids = ids.join("` or `");
        format!("the metadata states `{stated}`, but {} has the text of `{ids}`", visible(file))
    });
    License { expression: Some(stated.to_owned()), problem }
}

/// Returns the licenses in a text, each as the SPDX identifiers that it stands for.
fn ids_of(text: &str) -> Vec<Vec<String>> {
    let short = text.trim();
    if short.len() <= NAME && !short.is_empty() {
        return license::spdx(None, Some(short), &[]).into_iter().map(|id| vec![id]).collect();
    }
    let text = words(text);
    let has = |part: &String| text.contains(part.as_str());
    let known = TEXTS.iter().filter(|one| one.all.iter().all(has) && !one.none.iter().any(has));
    known.map(|one| one.ids.clone()).collect()
}

/// Returns the words of a text in lower case, separated by single spaces.
fn words(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIT: &str = "Permission is hereby granted, free of charge, to any person obtaining a copy\n of \
        this software and associated documentation files (the \"Software\"), to deal\n\nThe above copyright \
        notice and this permission notice shall be included in all\n * copies or substantial portions of the \
        Software.";
    const BSD: &str = "Redistribution and use in source and binary forms, with or without\nmodification \
        Redistributions in binary form must reproduce the above copyright notice, this list";
    const GPL: &str =
        "GNU GENERAL PUBLIC LICENSE\n  Version 3, 29 June 2007\n\n and more text to be long";

    fn decided(stated: Option<&str>, files: &[(&str, &str)]) -> (Option<String>, String) {
        let files: Vec<_> =
            files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        let License { expression, problem } = decide(stated, &files);
        (expression, problem.unwrap_or_default())
    }

    #[test]
    fn every_text_has_identifiers_of_the_spdx_list() {
        for id in TEXTS.iter().flat_map(|text| &text.ids) {
            assert_eq!(license::not_spdx(id), None);
        }
    }

    #[test]
    fn compares_metadata_with_license_files() {
        let ok = |id: &str| (Some(id.to_owned()), String::new());
        assert_eq!(decided(Some("MIT"), &[("LICENSE", MIT)]), ok("MIT"));
        assert_eq!(decided(Some("GPL-3.0-or-later"), &[("COPYING", GPL)]), ok("GPL-3.0-or-later"));
        assert_eq!(
            decided(
                Some("MIT"),
                &[("LICENSE", "another text that is longer than a name, which nothing knows")]
            ),
            ok("MIT")
        );
        let (id, problem) = decided(Some("MIT"), &[("LICENSE", MIT), ("x/LICENSE.bsd", BSD)]);
        assert_eq!(id.as_deref(), Some("MIT"));
        assert!(problem.ends_with("x/LICENSE.bsd has the text of `BSD-2-Clause`"), "{problem}");
    }

    #[test]
    fn uses_the_only_license_file_if_metadata_state_nothing() {
        let (id, problem) = decided(None, &[("LICENSE", MIT)]);
        assert_eq!(id.as_deref(), Some("MIT"));
        assert!(problem.contains("`MIT` is the license of LICENSE"), "{problem}");
        assert_eq!(decided(None, &[("LICENSE", "MIT\n")]).0.as_deref(), Some("MIT"));
        // The text alone does not say whether later versions apply.
        for files in [&[("COPYING", GPL)][..], &[("A", MIT), ("B", BSD)], &[]] {
            let (id, problem) = decided(None, files);
            assert_eq!(id, None, "{problem}");
        }
        let (id, problem) = decided(Some("Artistic License"), &[]);
        assert_eq!(id, None);
        assert!(problem.contains("`Artistic License` is not an SPDX expression"), "{problem}");
    }
}
