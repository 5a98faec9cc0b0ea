//! The local label that our versions carry, such as `+rocm7.14.gfx1151`: built so
//! that a newer ROCm never sorts below an older one. Not where it is written.

use std::fmt;

use super::WheelError;
use crate::gpu::GpuTarget;

/// The local part that a wheel's version gets, without the `+`.
///
/// Local parts are compared segment by segment between dots; a segment of digits
/// is a number, any other is text, and a number is above every text (version
/// specifiers of the Python packaging user guide, "Local version identifiers").
/// So `rocm10` is *below* `rocm7`. Up to ROCm 9 the label is `rocm7.14.gfx1151`;
/// from ROCm 10 on it begins with the number, `10.0.rocm.gfx1151`, which is above
/// every label that begins with a word, whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLabel(String);

impl LocalLabel {
    /// Returns the label for a ROCm version of dotted numbers and the GPU targets
    /// of the build, in any order.
    pub fn new(rocm_version: &str, targets: &[GpuTarget]) -> Result<Self, WheelError> {
        let numbers: Option<Vec<u32>> = rocm_version.split('.').map(plain_number).collect();
        let numbers = numbers.ok_or_else(|| WheelError::RocmVersion(rocm_version.to_owned()))?;
        let version: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let version = version.join(".");
        let mut label = if numbers[0] < 10 { format!("rocm{version}") } else { format!("{version}.rocm") };
        let mut targets: Vec<&GpuTarget> = targets.iter().collect();
        targets.sort();
        targets.dedup();
        for target in targets {
            label.push('.');
            label.push_str(&segment(target));
        }
        Ok(Self(label))
    }

    /// Returns the label of what was made from something that is not recorded.
    #[must_use]
    pub fn dirty(self) -> Self {
        Self(self.0 + ".dirty")
    }

    /// Returns the label without the `+`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `version` with this label. A local part that it already has follows
    /// the label, because a commit in front would decide the order; a version that
    /// has the label stays as it is.
    pub fn apply(&self, version: &str) -> String {
        match version.split_once('+') {
            None => format!("{version}+{self}"),
            Some((_, local)) if local == self.0 || local.starts_with(&format!("{self}.")) => {
                version.to_owned()
            }
            Some((public, local)) => format!("{public}+{self}.{local}"),
        }
    }
}

impl fmt::Display for LocalLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn plain_number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Spells a target with the characters that a local part allows.
fn segment(target: &GpuTarget) -> String {
    let mut parts = target.as_str().split(':');
    let processor = parts.next().unwrap_or_default().replace('-', ".");
    parts.fold(processor, |text, feature| text + "." + &feature.replace('+', "on").replace('-', "off"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pep440_rs::Version;
    use std::str::FromStr;

    fn targets(names: &[&str]) -> Vec<GpuTarget> {
        names.iter().map(|name| GpuTarget::parse(name).unwrap()).collect()
    }

    fn label(version: &str, names: &[&str]) -> LocalLabel {
        LocalLabel::new(version, &targets(names)).unwrap()
    }

    fn with(label: &str) -> Version {
        Version::from_str(&format!("2.12.0+{label}")).unwrap()
    }

    #[test]
    fn labels_are_spelled_normally() {
        for (version, names, expected) in [
            ("7.14", vec!["gfx1151"], "rocm7.14.gfx1151"),
            ("7.14", vec!["gfx1151", "gfx1100", "gfx1151"], "rocm7.14.gfx1100.gfx1151"),
            ("7.14", vec![], "rocm7.14"),
            ("10.0", vec!["gfx1151"], "10.0.rocm.gfx1151"),
            ("6.4.3", vec!["gfx90a:sramecc+:xnack-"], "rocm6.4.3.gfx90a.srameccon.xnackoff"),
            ("7.0", vec!["gfx11-generic"], "rocm7.0.gfx11.generic"),
        ] {
            let label = label(version, &names);
            assert_eq!(label.as_str(), expected);
            assert_eq!(with(label.as_str()).to_string(), format!("2.12.0+{label}"), "not normal");
        }
    }

    #[test]
    fn only_dotted_numbers_are_a_rocm_version() {
        for bad in ["", "7.", ".7", "7.x", "+7.1", "7 1", "99999999999.1"] {
            let error = LocalLabel::new(bad, &[]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
    }

    #[test]
    fn a_newer_rocm_never_sorts_below_an_older_one() {
        let releases = [
            "4.5.2", "5.2", "5.7.1", "6.0", "6.4", "6.4.3", "7.0", "7.0.2", "7.1", "7.2", "7.2.3", "7.13",
            "7.14", "7.14.1", "9.9", "10.0", "10.0.1", "10.2", "10.10", "11.0", "100.0",
        ];
        let lists: [&[&str]; 4] = [&[], &["gfx1151"], &["gfx942", "gfx950"], &["gfx90a:xnack-", "gfx1100"]];
        for (at, older) in releases.iter().enumerate() {
            for newer in &releases[at + 1..] {
                for (a, b) in lists.iter().flat_map(|a| lists.iter().map(move |b| (a, b))) {
                    let (old, new) = (label(older, a), label(newer, b));
                    assert!(with(old.as_str()) < with(new.as_str()), "{old} is not below {new}");
                }
            }
        }
    }

    /// Labels that other publishers use, with the ROCm version they stand for.
    const IN_USE: [(&str, (u32, u32)); 13] = [
        ("git1c57644", (0, 0)),
        ("git0263a6a6", (0, 0)),
        ("rocm5.2", (5, 2)),
        ("rocm6.4", (6, 4)),
        ("rocm7.0", (7, 0)),
        ("rocm7.2.3.torch2.12.ae984f5.d20261008", (7, 2)),
        ("rocm7.13.0", (7, 13)),
        ("rocm7.14.0a20260624", (7, 14)),
        ("rocm7.14.0", (7, 14)),
        ("rocm10.0.0", (10, 0)),
        ("rocm100", (10, 0)),
        ("rocm10.0.0.gf46a9dfe2.d20260826", (10, 0)),
        ("rocm71torch2.9cxx11abitrue", (7, 1)),
    ];

    #[test]
    fn ours_are_above_the_labels_of_older_rocm_in_use() {
        for (ours, rocm) in [("7.15", (7, 15)), ("9.0", (9, 0)), ("10.1", (10, 1)), ("11.0", (11, 0))] {
            for (theirs, _) in IN_USE.iter().filter(|(_, theirs)| *theirs < rocm) {
                // `rocm71` spells 7.1 without a dot and so sorts as version 71; no label that
                // begins with `rocm7` or `rocm9` can be above it, ours from ROCm 10 on are.
                if theirs.starts_with("rocm71") && rocm < (8, 0) {
                    continue;
                }
                let ours = label(ours, &["gfx1151"]);
                assert!(with(theirs) < with(ours.as_str()), "{theirs} is not below {ours}");
            }
        }
    }

    #[test]
    fn from_rocm_10_on_ours_are_above_everything_in_use() {
        let ours = label("10.0", &["gfx1151"]);
        assert!(IN_USE.iter().all(|(theirs, _)| with(theirs) < with(ours.as_str())));
        // The trap itself, so that a change of the rule in pep440_rs is noticed.
        assert!(with("rocm10.0") < with("rocm7.14"));
    }

    #[test]
    fn a_local_part_that_is_there_follows() {
        let label = label("7.14", &["gfx1151"]);
        assert_eq!(label.apply("1.0rc1"), "1.0rc1+rocm7.14.gfx1151");
        assert_eq!(label.apply("2.9.0a0+git1c57644"), "2.9.0a0+rocm7.14.gfx1151.git1c57644");
        assert_eq!(label.apply("1.0+rocm7.14.gfx1151"), "1.0+rocm7.14.gfx1151");
    }
}
