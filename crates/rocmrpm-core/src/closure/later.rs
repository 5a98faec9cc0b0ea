//! The packages of a workspace's later releases: after an upgrade, one of the stack's RPMs with a
//! higher version would stay installed instead of their package. Upgrades from earlier releases are
//! up to `earlier`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pep440_rs::Version;

use super::Offer;
use crate::rpm_version::of_spec;
use crate::workspace::compare;

/// The offers of later releases.
#[derive(Debug, Clone, Default)]
pub struct Later {
    /// By normalized distribution name: the chroot and its offer, earliest release first.
    by_dist: BTreeMap<String, Vec<(String, Offer)>>,
}

impl Later {
    /// Returns the given offers, earliest release first.
    pub fn from_releases<'c, O>(releases: impl IntoIterator<Item = (&'c str, O)>) -> Self
    where
        O: IntoIterator<Item = (String, Offer)>,
    {
        let mut by_dist: BTreeMap<String, Vec<(String, Offer)>> = BTreeMap::new();
        for (chroot, offers) in releases {
            for (name, offer) in offers {
                by_dist.entry(name).or_default().push((chroot.to_owned(), offer));
            }
        }
        Self { by_dist }
    }

    /// Returns which release's package an RPM of a distribution would hide. The same version hides
    /// none, because the stack's Releases start with `0.`.
    pub fn hidden(&self, name: &str, version: &Version) -> Option<String> {
        let ours = of_spec(version);
        let hidden = |(_, offer): &&(String, Offer)| compare(&offer.evr, &ours) == Ordering::Less;
        let (chroot, offer) = self.by_dist.get(name)?.iter().find(hidden)?;
        Some(match offer.evr.as_str() {
            "" => format!(
                "{chroot} has {offer} in an unknown version: an RPM of {ours} could hide it"
            ),
            _ => format!("{chroot} has {offer}: an RPM of {ours} would hide it after an upgrade"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::place;
    use crate::closure::testing::{Sketch, offers, rules};
    use crate::workspace::MemberPlace;

    fn later() -> Later {
        let fedora_44 =
            offers(&[("old", "1.0"), ("same", "2.0"), ("epoch", "1:0.1"), ("dark", "?")]);
        Later::from_releases([
            ("fedora-44", fedora_44),
            ("fedora-45", offers(&[("old", "3"), ("late", "1~rc1")])),
        ])
    }

    #[test]
    fn hides_only_lower_versions() {
        let hidden = |name: &str, version: &str| later().hidden(name, &version.parse().unwrap());
        assert_eq!(
            hidden("old", "1.1").as_deref(),
            Some("fedora-44 has python3-old 1.0: an RPM of 1.1 would hide it after an upgrade")
        );
        assert_eq!(
            hidden("late", "1.0").as_deref(),
            Some("fedora-45 has python3-late 1~rc1: an RPM of 1.0 would hide it after an upgrade")
        );
        assert_eq!(
            hidden("dark", "0.1").as_deref(),
            Some("fedora-44 has python3-dark in an unknown version: an RPM of 0.1 could hide it")
        );
        for (name, version) in
            [("same", "2.0"), ("old", "1.0"), ("late", "1rc1"), ("epoch", "9"), ("none", "1")]
        {
            assert_eq!(hidden(name, version), None, "{name} {version}");
        }
    }

    #[test]
    fn makes_hiding_members_private_by_default() {
        let graph = || {
            Sketch::of(&["old", "same", "above"])
                .index("old", "1.1", &[])
                .index("same", "2.0", &[])
                .index("above", "1.0", &["old>=1.1"])
                .graph()
        };
        let has = || offers(&[]).with_later(later());
        let closure = place::place(graph(), &has(), &rules(&[]), "fedora-43", "stable").unwrap();
        let at = |name: &str| (closure.members[name].place, closure.members[name].reason.as_str());
        let reason = "fedora-44 has python3-old 1.0: an RPM of 1.1 would hide it after an upgrade";
        assert_eq!(at("old"), (MemberPlace::Private, reason));
        assert_eq!(at("above"), (MemberPlace::Private, "requires old>=1.1, which is private"));
        assert_eq!(at("same"), (MemberPlace::Rpm, "fedora-43 has no such distribution"));

        let decided = rules(&[("old", Some(MemberPlace::Rpm), "no other program uses it")]);
        let closure = place::place(graph(), &has(), &decided, "fedora-43", "stable").unwrap();
        assert_eq!(closure.members["old"].place, MemberPlace::Rpm);
        assert_eq!(closure.members["above"].place, MemberPlace::Rpm);
    }
}
