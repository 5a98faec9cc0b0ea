//! Orders versions by ecosystem: PEP 440 for PyPI, Semantic Versioning for the others (OSV schema,
//! "affected[].ranges[].type"; semver.org, section 11). It does not read advisories.

use std::cmp::Ordering;
use std::str::FromStr;

use super::Ecosystem;

/// A version that can be compared with others of the same ecosystem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Pep440(pep440_rs::Version),
    Semantic(Semantic),
}

impl Version {
    /// Parses a version; `None` if it is invalid in that ecosystem.
    pub fn parse(ecosystem: Ecosystem, text: &str) -> Option<Self> {
        match ecosystem {
            Ecosystem::PyPi => pep440_rs::Version::from_str(text).ok().map(Self::Pep440),
            Ecosystem::CratesIo | Ecosystem::Npm | Ecosystem::Go => {
                Semantic::parse(text).map(Self::Semantic)
            }
        }
    }
}

/// A Semantic Versioning version without build metadata, which does not affect the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Semantic {
    numbers: [u64; 3],
    pre: Vec<String>,
}

impl Semantic {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split('+').next().unwrap_or(text);
        let (release, pre) = match text.split_once('-') {
            Some((release, pre)) => (release, pre.split('.').map(str::to_owned).collect()),
            None => (text, Vec::new()),
        };
        if pre.iter().any(String::is_empty) {
            return None;
        }
        let mut numbers = [0; 3];
        let parts: Vec<&str> = release.split('.').collect();
        // Advisories abbreviate versions, such as `1` and `1.2`.
        if parts.len() > numbers.len() {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number =
                part.parse().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()))?;
        }
        Some(Self { numbers, pre })
    }
}

impl Ord for Semantic {
    fn cmp(&self, other: &Self) -> Ordering {
        let pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let pairs = self.pre.iter().zip(&other.pre).map(|(a, b)| identifiers(a, b));
                let first = pairs.into_iter().find(|order| order.is_ne());
                first.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        };
        self.numbers.cmp(&other.numbers).then_with(pre)
    }
}

impl PartialOrd for Semantic {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn identifiers(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_semantic_versions() {
        // The example in semver.org, section 11, between two other releases.
        let sorted = [
            "0.9.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.10",
            "1.2",
            "2",
        ];
        let read = |text: &&str| Version::parse(Ecosystem::CratesIo, text).unwrap();
        assert!(sorted.iter().map(read).is_sorted_by(|a, b| a < b));
        assert_eq!(read(&"1.2.0+build.5"), read(&"v1.2"));
        for wrong in ["", "1.", "1.x", "1.2.3.4", "1.0-", "1.0-a..b", "+1"] {
            assert_eq!(Version::parse(Ecosystem::CratesIo, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn orders_python_versions() {
        let read = |text: &str| Version::parse(Ecosystem::PyPi, text).unwrap();
        assert!(read("1.0rc1") < read("1.0") && read("1.0") < read("1.0.post1"));
        assert_eq!(read("1.0"), read("1.0.0"));
        assert_eq!(Version::parse(Ecosystem::PyPi, "2025k"), None);
    }
}
