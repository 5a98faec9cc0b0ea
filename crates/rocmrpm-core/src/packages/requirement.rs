//! Parses requirements in rpm's notation: a name with an optional version, or a rich requirement
//! such as `(a >= 1 or b)` (rpm's "Boolean dependencies"). It does not check whether anything
//! satisfies them.

use std::cmp::Ordering;
use std::fmt;

use crate::workspace::compare;

/// A requirement of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// A name with an optional version bound.
    Name {
        /// The name, such as `cmake`, `python3dist(torch)` or `/usr/bin/git`.
        name: String,
        /// The version bound, if any.
        bound: Option<Bound>,
    },
    /// All of these requirements: `and`, `with`.
    All(Vec<Requirement>),
    /// At least one of these requirements: `or`.
    Any(Vec<Requirement>),
    /// The first requirement if the second is satisfied (`if`) or is not (`unless`).
    Conditional(Box<Requirement>),
}

/// A version bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    sign: String,
    version: String,
}

impl Bound {
    /// Returns whether a version is within the bound. Like rpm, compares releases only if both
    /// sides have one (rpm's rpmdsCompare).
    pub fn holds(&self, version: &str) -> bool {
        let (mut have, mut want) = (version, self.version.as_str());
        if !have.contains('-') {
            want = want.split('-').next().unwrap_or(want);
        }
        if !want.contains('-') {
            have = have.split('-').next().unwrap_or(have);
        }
        let order = compare(have, want);
        let parts = |sign: char, wanted: Ordering| self.sign.contains(sign) && order == wanted;
        parts('<', Ordering::Less) || parts('>', Ordering::Greater) || parts('=', Ordering::Equal)
    }

    /// Returns whether the bound's version has a digit, as every version does.
    pub fn has_number(&self) -> bool {
        self.version.bytes().any(|byte| byte.is_ascii_digit())
    }

    /// Returns whether a version is too old for the bound, so that an update could satisfy it.
    pub fn wants_newer(&self, version: &str) -> bool {
        !self.sign.contains('<')
            && !self.holds(version)
            && compare(version, &self.version) == Ordering::Less
    }
}

/// Maximum nesting depth of rich requirements; rpm's own are two or three deep.
const MAX_DEPTH: usize = 16;

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Self], operator: &str| {
            let parts: Vec<String> = parts.iter().map(Self::to_string).collect();
            write!(f, "({})", parts.join(operator))
        };
        match self {
            Self::Name { name, bound: None } => f.write_str(name),
            Self::Name { name, bound: Some(Bound { sign, version }) } => {
                write!(f, "{name} {sign} {version}")
            }
            Self::All(parts) => list(f, parts, " and "),
            Self::Any(parts) => list(f, parts, " or "),
            Self::Conditional(first) => write!(f, "{first}"),
        }
    }
}

impl Requirement {
    /// Returns the name and the bounds of requirements on a single name, such as a range. One
    /// package must satisfy all of them; `None` if the requirements are on several names.
    pub fn on_one_name(parts: &[Self]) -> Option<(&str, Vec<&Bound>)> {
        let mut one = None;
        let mut bounds = Vec::new();
        for part in parts {
            let Self::Name { name, bound } = part else { return None };
            if *one.get_or_insert(name.as_str()) != name {
                return None;
            }
            bounds.extend(bound);
        }
        Some((one?, bounds))
    }

    /// Parses one requirement; `None` if rpm would reject it.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text.trim(), 0)
    }
}

fn parse(text: &str, depth: usize) -> Option<Requirement> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(inner) = text.strip_prefix('(') {
        return rich(inner.strip_suffix(')')?, depth);
    }
    let mut words = text.split_whitespace();
    let name = words.next()?.to_owned();
    let bound = match (words.next(), words.next(), words.next()) {
        (None, ..) => None,
        (Some(sign), Some(version), None) if is_sign(sign) => {
            Some(Bound { sign: sign.to_owned(), version: version.to_owned() })
        }
        _ => return None,
    };
    Some(Requirement::Name { name, bound })
}

/// Parses the text inside the parentheses of a rich requirement.
fn rich(text: &str, depth: usize) -> Option<Requirement> {
    let (mut parts, mut operators, mut part) = (Vec::new(), Vec::new(), Vec::new());
    for word in words(text)? {
        if ["and", "or", "if", "else", "unless", "with", "without"].contains(&word) {
            operators.push(word);
            parts.push(std::mem::take(&mut part).join(" "));
        } else {
            part.push(word);
        }
    }
    parts.push(part.join(" "));
    let mut parts: Vec<Requirement> =
        parts.iter().map(|part| parse(part, depth + 1)).collect::<Option<_>>()?;
    match operators.first().copied() {
        None => parts.pop(),
        // rpm accepts only chains of the same operator.
        Some(one @ ("and" | "with" | "or")) if operators.iter().all(|o| *o == one) => {
            Some(if one == "or" { Requirement::Any(parts) } else { Requirement::All(parts) })
        }
        Some("if" | "unless") => Some(Requirement::Conditional(Box::new(parts.swap_remove(0)))),
        Some("without") => Some(parts.swap_remove(0)),
        Some(_) => None,
    }
}

/// Splits a text at spaces outside parentheses; `None` if parentheses are unbalanced.
fn words(text: &str) -> Option<Vec<&str>> {
    let (mut words, mut depth, mut start) = (Vec::new(), 0usize, None);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if c.is_whitespace() && depth == 0 {
            words.extend(start.take().map(|from| &text[from..at]));
        } else {
            start = start.or(Some(at));
        }
    }
    words.extend(start.map(|from| &text[from..]));
    (depth == 0).then_some(words)
}

fn is_sign(word: &str) -> bool {
    ["<", "<=", "=<", "=", "==", ">=", "=>", ">"].contains(&word)
}

/// Splits a tag's value into requirements at commas and spaces; an operator binds the version after
/// it (rpm's parseRCPOT). Returns the whole value if it cannot be split.
pub fn split(value: &str) -> Vec<String> {
    let commas = value.replace(',', " ");
    // A comma in parentheses is part of a name, as in unexpanded macros.
    let text = if value.contains('(') { value } else { commas.as_str() };
    let Some(words) = words(text) else { return vec![value.trim().to_owned()] };
    let mut list: Vec<String> = Vec::new();
    let mut bound = false;
    for word in words {
        let word = word.trim_matches(',');
        if word.is_empty() {
            continue;
        }
        match list.last_mut() {
            Some(last) if bound || is_sign(word) => {
                last.push(' ');
                last.push_str(word);
                bound = is_sign(word);
            }
            _ => list.push(word.to_owned()),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Requirement {
        Requirement::Name { name: text.to_owned(), bound: None }
    }

    #[test]
    fn parses_rich_requirements() {
        assert_eq!(
            Requirement::parse("(a or b)"),
            Some(Requirement::Any(vec![name("a"), name("b")]))
        );
        let range = Requirement::parse("(python3dist(x) >= 1 with python3dist(x) < 2)").unwrap();
        assert!(matches!(range, Requirement::All(parts) if parts.len() == 2));
        let nested = Requirement::parse("((a and b) if c)").unwrap();
        assert_eq!(
            nested,
            Requirement::Conditional(Box::new(Requirement::All(vec![name("a"), name("b")])))
        );
        for bad in ["(a or b", "(a or b and c)", "a >= ", "a b", "", "(a or )"] {
            assert_eq!(Requirement::parse(bad), None, "{bad}");
        }
        let deep = format!("{}a{}", "(".repeat(40), ")".repeat(40));
        assert_eq!(Requirement::parse(&deep), None);
    }

    #[test]
    fn bounds_compare_as_rpm_does() {
        let holds = |text: &str, version: &str| match Requirement::parse(text) {
            Some(Requirement::Name { bound: Some(bound), .. }) => bound.holds(version),
            other => panic!("{other:?}"),
        };
        assert!(holds("a >= 3.26", "3.31.6") && !holds("a < 3.26", "3.31.6"));
        assert!(holds("a = 1.2", "1.2-3.fc43") && holds("a = 1.2-3", "1.2"));
        assert!(!holds("a = 1.2-3", "1.2-4"));
        assert!(holds("a >= 2", "1:1.0"), "a higher epoch wins");
        assert!(holds("a > 1~rc1", "1"));
        assert!(holds("a => 1", "1") && !holds("a =< 1", "2"), "rpm also reads these");
    }

    #[test]
    fn splits_lists_as_rpm_does() {
        let split = |text: &str| split(text).join("|");
        assert_eq!(split("a, b >= 1 c,d"), "a|b >= 1|c|d");
        assert_eq!(split("(a or b) cmake(x) >= 2"), "(a or b)|cmake(x) >= 2");
        assert_eq!(split("python3dist(x[y,z]), b"), "python3dist(x[y,z])|b");
    }
}
