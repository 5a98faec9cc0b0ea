//! Licenses of distributions as SPDX expressions: derives them from metadata, and checks whether
//! Fedora allows them. Does not look at license files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::visible;

/// The contents of `licenses.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LicenseTable {
    allowed: BTreeSet<String>,
    exceptions: BTreeSet<String>,
    names: BTreeMap<String, String>,
    classifiers: BTreeMap<String, String>,
}

static KNOWN: LazyLock<LicenseTable> = LazyLock::new(|| {
    // A test parses the table.
    toml::from_str(include_str!("licenses.toml")).unwrap_or_else(|error| unreachable!("{error}"))
});

/// The maximum length of a `License` field that is parsed as an expression, in bytes.
const MAX_EXPRESSION: usize = 500;

/// Returns a license as an SPDX expression: `License-Expression` (PEP 639), or else what `License`
/// or the classifiers stand for. `None` if they stand for nothing.
pub fn spdx(
    expression: Option<&str>,
    license: Option<&str>,
    classifiers: &[&str],
) -> Option<String> {
    if let Some(expression) = expression.map(str::trim).filter(|text| !text.is_empty()) {
        return Some(expression.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let named = license.and_then(|text| {
        let first = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        if text.len() <= MAX_EXPRESSION && parse(first).is_some_and(|tree| tree.refused().is_none())
        {
            return Some(first.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        KNOWN.names.get(&first.to_lowercase()).cloned()
    });
    if named.is_some() {
        return named;
    }
    let mut found = BTreeSet::new();
    for text in classifiers.iter().filter_map(|text| text.trim().strip_prefix("License :: ")) {
        match KNOWN.classifiers.get(text) {
            Some(id) => {
                found.insert(id.as_str());
            }
            // A category that adds nothing to its members.
            None if text == "OSI Approved" => {}
            None => return None,
        }
    }
    // With several classifiers, it is unclear whether all of them apply.
    let only = found.pop_first()?;
    found.is_empty().then(|| only.to_owned())
}

/// Returns the license of a crate as an SPDX expression: older crates use `/` for `OR`.
pub fn of_crate(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// Returns why a text is not a valid SPDX expression: its form, or an identifier that the SPDX
/// License List does not have; `None` if it is valid.
pub fn not_spdx(expression: &str) -> Option<String> {
    let shown = visible(expression);
    let Some(tree) = parse(expression) else {
        let near = KNOWN.names.get(&expression.trim().to_lowercase());
        let near = near.map(|id| format!("; the identifier is `{id}`"));
        return Some(format!("`{shown}` is not an SPDX expression{}", near.unwrap_or_default()));
    };
    let mut unknown = None;
    tree.visit(&mut |id, exception| {
        let of_a_project = id.starts_with("LicenseRef-") || id.starts_with("DocumentRef-");
        let license = id.strip_suffix('+').unwrap_or(id);
        let known = |name: &str| license.eq_ignore_ascii_case(name);
        if !of_a_project && !spdx::identifiers::LICENSES.iter().any(|one| known(one.name)) {
            unknown.get_or_insert_with(|| {
                format!("`{}` is not in the SPDX License List", visible(id))
            });
        }
        if let Some(name) = exception
            && !spdx::identifiers::EXCEPTIONS.iter().any(|one| name.eq_ignore_ascii_case(one.name))
        {
            unknown.get_or_insert_with(|| format!("`{}` is not an SPDX exception", visible(name)));
        }
    });
    unknown
}

/// Returns the license identifiers in an SPDX expression, without exceptions.
pub(crate) fn ids(expression: &str) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    if let Some(tree) = parse(expression) {
        tree.visit(&mut |id, _| ids.extend([id.to_owned()]));
    }
    ids
}

/// Returns why Fedora does not allow a license; `None` if it is allowed.
pub fn refused(expression: &str) -> Option<String> {
    let Some(tree) = parse(expression) else {
        return Some(format!("`{}` is not an SPDX expression", visible(expression)));
    };
    tree.refused().map(|id| format!("`{}` is not a license that Fedora allows", visible(&id)))
}

/// Returns the license of a combination of all of these: `A AND (B OR C)`, without duplicates,
/// sorted.
pub fn all<'a>(expressions: impl IntoIterator<Item = &'a str>) -> String {
    let mut parts = BTreeSet::new();
    for expression in expressions {
        match parse(expression) {
            Some(Tree::All(all)) => parts.extend(all.iter().map(Tree::operand)),
            Some(tree) => {
                parts.insert(tree.operand());
            }
            None => {
                parts.insert(expression.to_owned());
            }
        }
    }
    parts.into_iter().collect::<Vec<_>>().join(" AND ")
}

/// An SPDX expression (SPDX 2.3, annex D).
#[derive(Debug, PartialEq, Eq)]
enum Tree {
    One { id: String, exception: Option<String> },
    All(Vec<Tree>),
    Any(Vec<Tree>),
}

/// The maximum depth of nested parentheses.
const MAX_DEPTH: usize = 16;

fn parse(text: &str) -> Option<Tree> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let tree = any(&tokens, &mut at, 0)?;
    (at == tokens.len()).then_some(tree)
}

fn any(tokens: &[&str], at: &mut usize, depth: usize) -> Option<Tree> {
    joined(tokens, at, "OR", Tree::Any, |tokens, at| {
        joined(tokens, at, "AND", Tree::All, |tokens, at| one(tokens, at, depth))
    })
}

fn joined(
    tokens: &[&str],
    at: &mut usize,
    word: &str,
    join: impl Fn(Vec<Tree>) -> Tree,
    operand: impl Fn(&[&str], &mut usize) -> Option<Tree>,
) -> Option<Tree> {
    let first = operand(tokens, at)?;
    let mut more = Vec::new();
    while tokens.get(*at).is_some_and(|token| token.eq_ignore_ascii_case(word)) {
        *at += 1;
        more.push(operand(tokens, at)?);
    }
    if more.is_empty() {
        return Some(first);
    }
    more.insert(0, first);
    Some(join(more))
}

fn one(tokens: &[&str], at: &mut usize, depth: usize) -> Option<Tree> {
    let token = *tokens.get(*at)?;
    *at += 1;
    if token == "(" {
        let inner = (depth < MAX_DEPTH).then(|| any(tokens, at, depth + 1))??;
        let closed = tokens.get(*at) == Some(&")");
        *at += 1;
        return closed.then_some(inner);
    }
    let word =
        |token: &str| token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.+:".contains(&b));
    let operator =
        |token: &str| ["AND", "OR", "WITH"].iter().any(|word| word.eq_ignore_ascii_case(token));
    if !word(token) || operator(token) {
        return None;
    }
    let mut exception = None;
    if tokens.get(*at).is_some_and(|token| token.eq_ignore_ascii_case("WITH")) {
        let name = *tokens.get(*at + 1).filter(|name| word(name) && !operator(name))?;
        exception = Some(name.to_owned());
        *at += 2;
    }
    Some(Tree::One { id: token.to_owned(), exception })
}

impl Tree {
    /// Calls `with` for each license and its exception.
    fn visit(&self, with: &mut impl FnMut(&str, Option<&str>)) {
        match self {
            Self::One { id, exception } => with(id, exception.as_deref()),
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.visit(with)),
        }
    }

    /// Returns the part that Fedora does not allow. Of alternatives, one allowed license is enough.
    fn refused(&self) -> Option<String> {
        match self {
            Self::One { id, exception } => match exception {
                _ if !KNOWN.allowed.contains(id) => Some(id.clone()),
                Some(name) if !KNOWN.exceptions.contains(name) => Some(format!("{id} WITH {name}")),
                _ => None,
            },
            Self::All(parts) => parts.iter().find_map(Self::refused),
            Self::Any(parts) => {
                let refused: Vec<_> = parts.iter().map(Self::refused).collect();
                refused.into_iter().collect::<Option<Vec<_>>>().map(|all| all.join(" OR "))
            }
        }
    }

    fn text(&self) -> String {
        let list = |parts: &[Self], word: &str| {
            parts.iter().map(Self::operand).collect::<Vec<_>>().join(word)
        };
        match self {
            Self::One { id, exception: None } => id.clone(),
            Self::One { id, exception: Some(exception) } => format!("{id} WITH {exception}"),
            Self::All(parts) => list(parts, " AND "),
            // Their order is irrelevant; sorting them makes the licenses of many crates comparable.
            Self::Any(parts) => {
                let sorted: BTreeSet<String> = parts.iter().map(Self::operand).collect();
                sorted.into_iter().collect::<Vec<_>>().join(" OR ")
            }
        }
    }

    /// Returns its text as an operand.
    fn operand(&self) -> String {
        match self {
            Self::One { .. } => self.text(),
            _ => format!("({})", self.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_tables_are_valid() {
        for id in KNOWN.names.values().chain(KNOWN.classifiers.values()) {
            assert_eq!(refused(id), None);
        }
        for name in KNOWN.names.keys() {
            assert_eq!(*name, name.to_lowercase());
        }
    }

    #[test]
    fn derives_license_from_metadata() {
        let mit = "License :: OSI Approved :: MIT License";
        let bsd = "License :: OSI Approved :: BSD License";
        for (expression, license, classifiers, found) in [
            (Some("MIT  OR Apache-2.0"), Some("x"), vec![], Some("MIT OR Apache-2.0")),
            (None, Some("Apache-2.0"), vec![mit], Some("Apache-2.0")),
            (None, Some("Apache 2.0"), vec![], Some("Apache-2.0")),
            (None, Some("CC0-1.0 OR Apache-2.0"), vec![], Some("CC0-1.0 OR Apache-2.0")),
            (None, Some("MIT License\n\nCopyright (c) 2026 A. Uthor\n"), vec![], Some("MIT")),
            (None, Some("see LICENSE"), vec![mit, "Topic :: X"], Some("MIT")),
            (None, None, vec!["License :: OSI Approved", mit], Some("MIT")),
            (None, Some("BSD"), vec![bsd], None),
            (None, None, vec![mit, "License :: OSI Approved :: Apache Software License"], None),
            (None, None, vec![mit, "License :: Other/Proprietary License"], None),
            (None, None, vec![], None),
        ] {
            assert_eq!(spdx(expression, license, &classifiers).as_deref(), found, "{license:?}");
        }
    }

    #[test]
    fn names_disallowed_licenses() {
        assert_eq!(refused("Apache-2.0 WITH LLVM-exception AND (MIT OR LicenseRef-x)"), None);
        assert_eq!(
            refused("MIT AND SSPL-1.0").unwrap(),
            "`SSPL-1.0` is not a license that Fedora allows"
        );
        assert!(refused("SSPL-1.0 OR BUSL-1.1").unwrap().starts_with("`SSPL-1.0 OR BUSL-1.1`"));
        for text in [
            "",
            "MIT AND",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "MIT WITH",
            "AND",
            &"(".repeat(10_000),
        ] {
            assert!(refused(text).unwrap().ends_with("is not an SPDX expression"), "{text}");
        }
    }

    #[test]
    fn accepts_only_identifiers_of_the_spdx_list() {
        for valid in [
            "MIT",
            "Apache-2.0 WITH LLVM-exception AND (MIT OR 0BSD)",
            "LicenseRef-Fedora-Public-Domain",
            "GPL-2.0+",
            // The list compares without case (SPDX 2.3, Annex D.1).
            "apache-2.0 WITH LLVM-Exception",
        ] {
            assert_eq!(not_spdx(valid), None);
        }
        for (wrong, reason) in [
            ("TODO", "`TODO` is not in the SPDX License List"),
            ("TODO: an SPDX expression", "is not an SPDX expression"),
            ("Artistic License", "`Artistic License` is not an SPDX expression"),
            ("MIT WITH no-exception", "`no-exception` is not an SPDX exception"),
            ("MIT AND Apache", "`Apache` is not in the SPDX License List"),
            ("Apache 2.0", "the identifier is `Apache-2.0`"),
        ] {
            let problem = not_spdx(wrong).unwrap();
            assert!(problem.contains(reason), "{problem}");
        }
    }

    #[test]
    fn combines_licenses() {
        let parts =
            ["MIT", "MIT OR Apache-2.0", "Apache-2.0 OR MIT", "BSD-3-Clause AND MIT", "MIT"];
        assert_eq!(all(parts), "(Apache-2.0 OR MIT) AND BSD-3-Clause AND MIT");
    }
}
