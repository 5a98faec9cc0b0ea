//! Parses and evaluates version ranges such as `>=0.20, <0.22` in rpm's order. It does not know
//! what the versions belong to.

use std::cmp::Ordering;
use std::fmt;

/// A version range: all conditions must hold. An empty range contains every version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionRange {
    conditions: Vec<(Operator, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    AtLeast,
    Above,
    AtMost,
    Below,
    Equal,
    Not,
}

/// The operators; longer ones precede their prefixes.
const OPERATORS: &[(&str, Operator)] = &[
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("==", Operator::Equal),
    ("!=", Operator::Not),
    (">", Operator::Above),
    ("<", Operator::Below),
];

impl VersionRange {
    /// Parses comma-separated conditions; `None` if a condition is not an operator with a version.
    pub fn parse(text: &str) -> Option<Self> {
        let mut conditions = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let (sign, operator) = OPERATORS.iter().find(|(sign, _)| part.starts_with(sign))?;
            let version = part[sign.len()..].trim();
            if !crate::names::is_version(version) {
                return None;
            }
            conditions.push((*operator, version.to_owned()));
        }
        Some(Self { conditions })
    }

    /// Returns whether a version is in the range.
    pub fn holds(&self, version: &str) -> bool {
        self.conditions.iter().all(|(operator, bound)| {
            let order = compare(version, bound);
            match operator {
                Operator::AtLeast => order != Ordering::Less,
                Operator::Above => order == Ordering::Greater,
                Operator::AtMost => order != Ordering::Greater,
                Operator::Below => order == Ordering::Less,
                Operator::Equal => order == Ordering::Equal,
                Operator::Not => order != Ordering::Equal,
            }
        })
    }

    /// Returns whether a version is newer than every version in the range.
    pub fn is_behind(&self, version: &str) -> bool {
        self.conditions.iter().any(|(operator, bound)| match operator {
            Operator::AtMost | Operator::Equal => compare(version, bound) == Ordering::Greater,
            Operator::Below => compare(version, bound) != Ordering::Less,
            Operator::AtLeast | Operator::Above | Operator::Not => false,
        })
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (operator, version)) in self.conditions.iter().enumerate() {
            let sign =
                OPERATORS.iter().find(|(_, known)| known == operator).map_or("", |(sign, _)| sign);
            write!(f, "{}{sign}{version}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Compares two versions as rpm does (rpm-version(7)).
pub fn compare(a: &str, b: &str) -> Ordering {
    rpm_version::rpm_evr_compare(a, b)
}

/// Returns up to five names, such as tags, whose versions are nearest to a version in rpm's order:
/// first the older ones, then the newer ones, each from the nearest. A name's version starts at its
/// first digit.
pub fn nearest_versions(version: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let number = |name: &str| name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let order = |a: &str, b: &str| compare(&a[number(a)..], &b[number(b)..]).then_with(|| a.cmp(b));
    let named = names.into_iter().filter(|name| number(name) < name.len());
    let (mut older, mut newer): (Vec<String>, Vec<String>) =
        named.partition(|name| order(name, version).is_lt());
    older.sort_by(|a, b| order(b, a));
    newer.sort_by(|a, b| order(a, b));
    older.truncate(5 - newer.len().min(2));
    newer.truncate(5 - older.len());
    older.append(&mut newer);
    older
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_nearest_versions_by_their_order() {
        let tags = ["v0.1.16", "v0.1.2", "v0.1.20.post1", "v0.1.6", "v0.1.20", "v0.1.19", "main"];
        let near = |version: &str, names: &[&str]| {
            nearest_versions(version, names.iter().map(|name| (*name).to_owned())).join(" ")
        };
        assert_eq!(near("0.1.26", &tags), "v0.1.20.post1 v0.1.20 v0.1.19 v0.1.16 v0.1.6");
        assert_eq!(near("v0.1.17", &tags), "v0.1.16 v0.1.6 v0.1.2 v0.1.19 v0.1.20");
        assert_eq!(near("0.1.1", &tags), "v0.1.2 v0.1.6 v0.1.16 v0.1.19 v0.1.20");
        assert_eq!(near("1", &["main"]), "");
    }

    #[test]
    fn ranges_are_behind_newer_versions() {
        let behind = |range: &str| VersionRange::parse(range).unwrap().is_behind("1.10");
        let ranges =
            ["<1.10", "<=1.9", ">=1, <1.2", "==1.9", "<=1.10", ">1.10", "==1.10", "!=1.10"];
        assert_eq!(ranges.map(behind), [true, true, true, true, false, false, false, false]);
        assert!(!VersionRange::default().is_behind("1.10"));
    }

    #[test]
    fn all_conditions_must_hold() {
        let range = VersionRange::parse(">=0.20, <0.22").unwrap();
        let held: Vec<_> =
            ["0.19.9", "0.20", "0.20.2", "0.21.0", "0.22", "0.22.0"].map(|v| range.holds(v)).into();
        assert_eq!(held, [false, true, true, true, false, false]);
        assert_eq!(range.to_string(), ">=0.20, <0.22");
        assert!(VersionRange::default().holds("1"));
        assert!(VersionRange::parse("!=b10").unwrap().holds("b9"));
        assert!(VersionRange::parse(">b9999").unwrap().holds("b10000"));
    }

    #[test]
    fn rejects_invalid_conditions() {
        for bad in ["", "0.20", ">=", "~=1", ">=1,", ">= a b"] {
            assert_eq!(VersionRange::parse(bad), None, "{bad}");
        }
    }
}
