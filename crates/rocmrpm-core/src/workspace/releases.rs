//! Compares the releases of a workspace's chroots: upgrades, and replacements for releases that are no
//! longer supported. Does not decide what an upgrade changes.

use std::cmp::Ordering;

use jiff::civil::Date;

use super::chroot::Chroot;
use super::load::Workspace;
use crate::range::compare;

impl Chroot {
    /// Compares the releases of two chroots of one distribution and architecture; `None` if neither
    /// can be upgraded to the other, as with this machine.
    fn compare_release(&self, other: &Self) -> Option<Ordering> {
        let same = !self.is_host()
            && !other.is_host()
            && self.arch == other.arch
            && distribution(&self.dist) == distribution(&other.dist);
        same.then(|| compare(&self.release, &other.release))
    }

    /// Returns whether the release has reached its end of life.
    pub fn is_over(&self, today: Date) -> bool {
        self.end_of_life.is_some_and(|day| today >= day)
    }
}

/// Returns the start of a distribution's dist tags: `.fc` of `.fc43`.
fn distribution(dist: &str) -> &str {
    dist.split(|c: char| c.is_ascii_digit()).next().unwrap_or(dist)
}

impl Workspace {
    /// Returns the chroots that can be upgraded to the chosen one, oldest release first.
    pub fn earlier_chroots(&self) -> Vec<&Chroot> {
        self.others(&self.chroot, Ordering::Less)
    }

    /// Returns the chroots that the chosen one can be upgraded to, oldest release first.
    pub fn later_chroots(&self) -> Vec<&Chroot> {
        self.others(&self.chroot, Ordering::Greater)
    }

    fn others(&self, chroot: &Chroot, wanted: Ordering) -> Vec<&Chroot> {
        let all = self.all_chroots();
        let mut others: Vec<_> =
            all.filter(|other| other.compare_release(chroot) == Some(wanted)).collect();
        others.sort_by(|a, b| compare(&a.release, &b.release).then_with(|| a.name.cmp(&b.name)));
        others
    }

    /// Returns all chroots of the workspace: first the chosen one, then the others by name.
    pub fn all_chroots(&self) -> impl Iterator<Item = &Chroot> {
        std::iter::once(&self.chroot).chain(self.other_chroots.values())
    }

    /// Returns a warning that the release of a chroot has reached its end of life, with the chroot to
    /// switch to; `None` before that day.
    pub fn end_of_life(&self, chroot: &Chroot, today: Date) -> Option<String> {
        let day = chroot.end_of_life.filter(|_| chroot.is_over(today))?;
        let later = self.others(chroot, Ordering::Greater);
        let advice = match later.into_iter().find(|later| !later.is_over(today)) {
            Some(Chroot { name, .. }) => {
                format!("switch to {name}: `rocmrpm plan --chroot {name}`")
            }
            None => "the workspace has no later release: add one to mock-configs/".to_owned(),
        };
        Some(format!("{} reached its end of life on {day}; {advice}", chroot.name))
    }
}

/// Returns today's date in UTC.
pub fn today() -> Date {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::document::File;

    fn chroot(name: &str, dist: &str, arch: &str) -> Chroot {
        let (_, release) = name.rsplit_once('-').unwrap();
        let text = format!(
            "release = \"{release}\"\narch = \"{arch}\"\npython = \"3.14\"\ndist = \"{dist}\"\n\
             rocm-provider = \"p\"\nbase-config = \"f.cfg\"\nend-of-life = \"2026-12-02\"\n"
        );
        let mut problems = Vec::new();
        let chroot = Chroot::read(name, File { name: "x.toml".into(), text }, &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        chroot
    }

    #[test]
    fn upgrades_stay_within_distribution_and_architecture() {
        let old = chroot("fedora-9", ".fc9", "x86_64");
        let new = chroot("fedora-43", ".fc43", "x86_64");
        assert_eq!(old.compare_release(&new), Some(Ordering::Less));
        assert_eq!(new.compare_release(&new), Some(Ordering::Equal));
        assert_eq!(old.compare_release(&chroot("fedora-43", ".fc43", "aarch64")), None);
        assert_eq!(old.compare_release(&chroot("epel-10", ".el10_1", "x86_64")), None);
        let host = Chroot::read(
            "host",
            File { name: "host.toml".into(), text: "rocm-provider = \"p\"\n".into() },
            &mut Vec::new(),
        );
        assert_eq!([host.compare_release(&new), new.compare_release(&host)], [None, None]);
    }

    #[test]
    fn release_is_over_from_its_last_day() {
        let chroot = chroot("fedora-43", ".fc43", "x86_64");
        let over = |day: &str| chroot.is_over(day.parse().unwrap());
        assert_eq!(["2026-12-01", "2026-12-02", "2027-01-01"].map(over), [false, true, true]);
    }
}
