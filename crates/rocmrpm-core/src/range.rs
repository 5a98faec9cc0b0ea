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

#[cfg(test)]
mod tests {
    use super::*;

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
