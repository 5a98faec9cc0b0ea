//! Compares two locked closures: members that were added or removed, and those with another
//! version, origin, content or place. Does not format the result.

use std::collections::BTreeMap;

use pep440_rs::Version;

use super::{Locked, LockedOrigin};
use crate::workspace::MemberPlace;

/// The known places of the members of a closure.
pub type MemberPlaces = BTreeMap<String, MemberPlace>;

/// The difference in one distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its normalized name.
    pub name: String,
    /// Its version before and after; `None` if it was or is not a member.
    pub versions: (Option<Version>, Option<Version>),
    /// Its new origin, if it changed: the stack (`true`) or an index.
    pub own: Option<bool>,
    /// Whether the index has other files of the same version.
    pub files: bool,
    /// Its place before and after, if both are known and differ.
    pub places: Option<(MemberPlace, MemberPlace)>,
}

/// What happened to a distribution, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberChange {
    /// It was added.
    Added,
    /// It was removed.
    Removed,
    /// Its version is higher.
    Up,
    /// Its version is lower.
    Down,
    /// Its version is unchanged, but something else differs.
    Other,
}

impl MemberChange {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 5] = [Self::Added, Self::Removed, Self::Up, Self::Down, Self::Other];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Up => "up",
            Self::Down => "down",
            Self::Other => "changed",
        }
    }
}

impl Difference {
    /// Returns what happened to it.
    pub fn what(&self) -> MemberChange {
        match &self.versions {
            (None, _) => MemberChange::Added,
            (_, None) => MemberChange::Removed,
            (Some(old), Some(new)) if old < new => MemberChange::Up,
            (Some(old), Some(new)) if old > new => MemberChange::Down,
            _ => MemberChange::Other,
        }
    }
}

/// Compares two locks. Compares places only for names that both sides know.
pub fn diff(old: (&[Locked], &MemberPlaces), new: (&[Locked], &MemberPlaces)) -> Vec<Difference> {
    let by_name = |packages: &[Locked]| -> BTreeMap<String, Locked> {
        packages.iter().map(|locked| (locked.name.clone(), locked.clone())).collect()
    };
    let (before, after) = (by_name(old.0), by_name(new.0));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let differences = names.into_iter().filter_map(|name| {
        let (was, is) = (before.get(name), after.get(name));
        let both = was.zip(is);
        let place = |places: &MemberPlaces| places.get(name).copied();
        let difference = Difference {
            name: name.clone(),
            versions: (was.map(|l| l.version.clone()), is.map(|l| l.version.clone())),
            own: both.filter(|(was, is)| is_own(was) != is_own(is)).map(|(_, is)| is_own(is)),
            files: both.is_some_and(|(was, is)| was.version == is.version && other_files(was, is)),
            places: both.and(place(old.1).zip(place(new.1))).filter(|(was, is)| was != is),
        };
        let same = both.is_some_and(|(was, is)| was.version == is.version)
            && difference.own.is_none()
            && !difference.files
            && difference.places.is_none();
        (!same).then_some(difference)
    });
    differences.collect()
}

fn is_own(locked: &Locked) -> bool {
    matches!(locked.origin, LockedOrigin::Stack(_))
}

/// Compares only digests: a size that one lock lacks is not a difference.
fn other_files(was: &Locked, is: &Locked) -> bool {
    match (&was.origin, &is.origin) {
        (
            LockedOrigin::Index { wheel, sdist },
            LockedOrigin::Index { wheel: new_wheel, sdist: new_sdist },
        ) => {
            let digests = |wheel: &Option<super::LockedFile>, sdist: &Option<super::LockedFile>| {
                (wheel.as_ref().map(|file| file.sha256), sdist.as_ref().map(|file| file.sha256))
            };
            digests(wheel, sdist) != digests(new_wheel, new_sdist)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::testing::Sketch;

    fn locked(sketch: Sketch) -> Vec<Locked> {
        sketch.graph().nodes.into_values().map(|node| node.locked).collect()
    }

    #[test]
    fn finds_only_differences() {
        let old = Sketch::of(&[])
            .index("gone", "1", &[])
            .index("lower", "2.0", &[])
            .index("moved", "1", &[])
            .index("same", "1.0", &[])
            .index("torch", "2.11", &[])
            .index("higher", "1.9", &[]);
        let new = Sketch::of(&[])
            .index("higher", "1.10", &[])
            .index("lower", "2.0rc1", &[])
            .index("moved", "1", &[])
            .index("new", "1", &[])
            .index("same", "1.0.0", &[])
            .own("torch", "2.11", &[]);
        let places = |place| {
            MemberPlaces::from([("moved".to_owned(), place), ("gone".to_owned(), MemberPlace::Rpm)])
        };
        let (old, mut new) = (locked(old), locked(new));
        // Two spellings of one version, whose files have different names and here different
        // digests.
        if let Some(same) = new.iter_mut().find(|locked| locked.name == "same") {
            same.origin = old.iter().find(|locked| locked.name == "same").unwrap().origin.clone();
        }
        let found =
            diff((&old, &places(MemberPlace::Private)), (&new, &places(MemberPlace::System)));
        let changes: Vec<_> =
            found.iter().map(|d| (d.name.as_str(), d.what(), d.own, d.places)).collect();
        assert_eq!(
            changes,
            [
                ("gone", MemberChange::Removed, None, None),
                ("higher", MemberChange::Up, None, None),
                ("lower", MemberChange::Down, None, None),
                (
                    "moved",
                    MemberChange::Other,
                    None,
                    Some((MemberPlace::Private, MemberPlace::System))
                ),
                ("new", MemberChange::Added, None, None),
                ("torch", MemberChange::Other, Some(true), None),
            ]
        );
        let unknown = MemberPlaces::new();
        let without = diff((&old, &unknown), (&new, &places(MemberPlace::System)));
        assert!(without.iter().all(|difference| difference.name != "moved"));
        assert!(diff((&old, &unknown), (&old, &unknown)).is_empty());
    }

    #[test]
    fn reports_other_files_of_the_same_version() {
        let old = locked(Sketch::of(&[]).index("a", "1", &[]));
        let mut new = old.clone();
        let LockedOrigin::Index { wheel, .. } = &mut new[0].origin else { panic!() };
        *wheel = None;
        let found = diff((&old, &MemberPlaces::new()), (&new, &MemberPlaces::new()));
        assert_eq!((found.len(), found[0].what(), found[0].files), (1, MemberChange::Other, true));
    }
}
