//! The local label of rocmrpm's versions, such as `+rocm7.14.gfx1151.3`: a newer ROCm or release
//! never sorts below an older one. This module does not write the label anywhere.

use std::fmt;

use pep440_rs::Version;

use super::WheelError;
use rocmrpm_base::gpu::GpuTarget;

/// The local part of a wheel's version, without the `+`:
///
/// | | up to ROCm 9 | from ROCm 10 on |
/// |---|---|---|
/// | a release | `rocm7.14.gfx1151.3` | `10.0.rocm.gfx1151.3` |
/// | uncommitted changes | `rocm7.14.gfx1151.dirty.3` | `10.0.rocm.gfx1151.dirty.3` |
///
/// Local parts are compared segment by segment, split at dots. A segment of digits is a number, any
/// other is text, a number sorts above any text, and of two that are equal so far the longer one
/// sorts above (version specifiers of the Python packaging user guide, "Local version
/// identifiers"). It follows that:
///
/// - `rocm10` sorts *below* `rocm7`, so from ROCm 10 on the label starts with the number, which
///   sorts above every label that starts with a word, including other publishers' labels.
/// - The RPM's Release comes last and is a number: a newer build of the same version for the same
///   GPU targets sorts above older ones. Between it and the ROCm version there is always a word,
///   the GPU target or `rpm` for builds without targets: ROCm 7.14.1 stays above the third release
///   for ROCm 7.14.
/// - `dirty` is a word in the place of a release's number, so it sorts below all releases.
///
/// Labels for different lists of GPU targets sort by the names of the targets, not by release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalLabel {
    text: String,
    /// Length in bytes of the part that identifies what the wheel is for, not which build it is.
    base: usize,
    has_targets: bool,
}

impl LocalLabel {
    /// Returns the label for a ROCm version of dotted numbers and the build's GPU targets, in any
    /// order.
    pub fn new(rocm_version: &str, targets: &[GpuTarget]) -> Result<Self, WheelError> {
        let numbers: Option<Vec<u32>> = rocm_version.split('.').map(plain_number).collect();
        let numbers = numbers.ok_or_else(|| WheelError::RocmVersion(rocm_version.to_owned()))?;
        let version: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let version = version.join(".");
        let mut text =
            if numbers[0] < 10 { format!("rocm{version}") } else { format!("{version}.rocm") };
        let mut targets: Vec<&GpuTarget> = targets.iter().collect();
        targets.sort();
        targets.dedup();
        for target in &targets {
            text.push('.');
            text.push_str(&segment(target));
        }
        Ok(Self { base: text.len(), text, has_targets: !targets.is_empty() })
    }

    /// Marks the label as one of a build from uncommitted changes.
    #[must_use]
    pub fn dirty(mut self) -> Self {
        self.text.insert_str(self.base, ".dirty");
        self
    }

    /// Appends the Release of the RPM.
    #[must_use]
    pub fn release(mut self, number: u32) -> Self {
        if !self.has_targets {
            self.text += ".rpm";
        }
        self.text += &format!(".{number}");
        self
    }

    /// Returns the label without the `+`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns `version` with this label. An existing local part follows the label, because a
    /// commit in front would decide the order. A version that already has the label is unchanged.
    pub fn apply(&self, version: &str) -> String {
        match version.split_once('+') {
            None => format!("{version}+{self}"),
            Some((_, local)) if local == self.text || local.starts_with(&format!("{self}.")) => {
                version.to_owned()
            }
            Some((public, local)) => format!("{public}+{self}.{local}"),
        }
    }
}

impl fmt::Display for LocalLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns a version's public part and its label, which is empty if it has none. Versions of a
/// distribution with the same public part differ in order by the label only.
pub fn public_and_label(version: &Version) -> (Version, String) {
    let label: Vec<String> = version.local().iter().map(ToString::to_string).collect();
    (version.clone().without_local(), label.join("."))
}

fn plain_number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Spells a GPU target with the characters that a local part allows.
fn segment(target: &GpuTarget) -> String {
    let mut parts = target.as_str().split(':');
    let processor = parts.next().unwrap_or_default().replace('-', ".");
    parts.fold(processor, |text, feature| {
        text + "." + &feature.replace('+', "on").replace('-', "off")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn labels_are_normalized() {
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
            assert_eq!(
                with(label.as_str()).to_string(),
                format!("2.12.0+{label}"),
                "not normalized"
            );
        }
    }

    #[test]
    fn rejects_invalid_rocm_versions() {
        for bad in ["", "7.", ".7", "7.x", "+7.1", "7 1", "99999999999.1"] {
            let error = LocalLabel::new(bad, &[]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
    }

    #[test]
    fn newer_rocm_sorts_above_older() {
        let releases = [
            "4.5.2", "5.2", "5.7.1", "6.0", "6.4", "6.4.3", "7.0", "7.0.2", "7.1", "7.2", "7.2.3",
            "7.13", "7.14", "7.14.1", "9.9", "10.0", "10.0.1", "10.2", "10.10", "11.0", "100.0",
        ];
        let lists: [&[&str]; 4] =
            [&[], &["gfx1151"], &["gfx942", "gfx950"], &["gfx90a:xnack-", "gfx1100"]];
        for (at, older) in releases.iter().enumerate() {
            for newer in &releases[at + 1..] {
                for (a, b) in lists.iter().flat_map(|a| lists.iter().map(move |b| (a, b))) {
                    let (old, new) = (label(older, a), label(newer, b));
                    assert!(with(old.as_str()) < with(new.as_str()), "{old} is not below {new}");
                }
            }
        }
    }

    #[test]
    fn sorts_releases_above_dirty_builds() {
        for rocm in ["6.4", "7.14", "9.0.1", "10.0"] {
            for list in
                [&[][..], &["gfx1151"], &["gfx90a:sramecc+:xnack-"], &["gfx942", "gfx11-generic"]]
            {
                let label = || label(rocm, list);
                let rising = [
                    label().dirty().release(1),
                    label().dirty().release(30),
                    label().release(1),
                    label().release(2),
                    label().release(9),
                    label().release(10),
                    label().release(u32::MAX),
                ];
                for pair in rising.windows(2) {
                    assert!(
                        with(pair[0].as_str()) < with(pair[1].as_str()),
                        "{} {}",
                        pair[0],
                        pair[1]
                    );
                }
                // Wheels made before labels had a release.
                assert!(with(label().as_str()) < with(label().release(1).as_str()));
                assert!(with(label().as_str()) < with(label().dirty().release(1).as_str()));
            }
        }
    }

    #[test]
    fn sorts_by_rocm_before_release() {
        let releases =
            ["6.4", "6.4.3", "7.0", "7.14", "7.14.1", "7.14.2", "9.9", "10.0", "10.0.1", "10.1"];
        let lists: [&[&str]; 4] =
            [&[], &["gfx1151"], &["gfx90a:xnack-"], &["gfx11-generic", "gfx942"]];
        for (at, older) in releases.iter().enumerate() {
            for newer in &releases[at + 1..] {
                for (a, b) in lists.iter().flat_map(|a| lists.iter().map(move |b| (a, b))) {
                    for new in [label(newer, b).release(1), label(newer, b).dirty().release(1)] {
                        let old = label(older, a).release(99);
                        assert!(
                            with(old.as_str()) < with(new.as_str()),
                            "{old} is not below {new}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_of_calls_does_not_matter() {
        let label = label("7.14", &["gfx1151"]);
        assert_eq!(
            label.clone().release(3).dirty().as_str(),
            label.clone().dirty().release(3).as_str()
        );
        assert_eq!(label.dirty().release(3).as_str(), "rocm7.14.gfx1151.dirty.3");
    }

    #[test]
    fn splits_versions() {
        for (version, public, label) in [
            ("2.11.0+rocm7.14.gfx1151.3", "2.11.0", "rocm7.14.gfx1151.3"),
            ("1!2.0a1+10.0.ROCM-gfx1151", "1!2.0a1", "10.0.rocm.gfx1151"),
            ("2.0", "2.0", ""),
        ] {
            let (found, local) = public_and_label(&Version::from_str(version).unwrap());
            assert_eq!((found.to_string().as_str(), local.as_str()), (public, label));
        }
    }

    /// Labels of other publishers, with their ROCm version.
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
    fn sorts_above_labels_of_older_rocm() {
        for (ours, rocm) in
            [("7.15", (7, 15)), ("9.0", (9, 0)), ("10.1", (10, 1)), ("11.0", (11, 0))]
        {
            for (theirs, _) in IN_USE.iter().filter(|(_, theirs)| *theirs < rocm) {
                // `rocm71` spells 7.1 without a dot and so sorts as version 71. No label that
                // starts with `rocm7` or `rocm9` can sort above it; rocmrpm's labels from ROCm 10
                // on do.
                if theirs.starts_with("rocm71") && rocm < (8, 0) {
                    continue;
                }
                let ours = label(ours, &["gfx1151"]);
                for ours in [ours.clone(), ours.clone().release(1), ours.dirty().release(1)] {
                    assert!(with(theirs) < with(ours.as_str()), "{theirs} is not below {ours}");
                }
            }
        }
    }

    #[test]
    fn sorts_above_all_other_labels_from_rocm_10() {
        let ours = label("10.0", &["gfx1151"]);
        for ours in [ours.clone(), ours.clone().release(1), ours.dirty().release(1)] {
            assert!(IN_USE.iter().all(|(theirs, _)| with(theirs) < with(ours.as_str())));
        }
        // Asserts the pitfall itself, to notice if pep440_rs changes the rule.
        assert!(with("rocm10.0") < with("rocm7.14"));
    }

    #[test]
    fn keeps_existing_local_part_after_label() {
        let label = label("7.14", &["gfx1151"]);
        assert_eq!(label.apply("1.0rc1"), "1.0rc1+rocm7.14.gfx1151");
        assert_eq!(label.apply("2.9.0a0+git1c57644"), "2.9.0a0+rocm7.14.gfx1151.git1c57644");
        assert_eq!(label.apply("1.0+rocm7.14.gfx1151"), "1.0+rocm7.14.gfx1151");
        let label = label.release(3);
        assert_eq!(label.apply("2.9.0a0+git1c57644"), "2.9.0a0+rocm7.14.gfx1151.3.git1c57644");
        assert_eq!(label.apply("1.0+rocm7.14.gfx1151.3"), "1.0+rocm7.14.gfx1151.3");
    }
}
