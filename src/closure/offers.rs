//! What a chroot's release has of each Python distribution: from the package tables, or from
//! the repositories' `python3.14dist(NAME) = VERSION`. Whether that is enough is decided
//! elsewhere.

use std::collections::BTreeMap;

use super::later::Later;
use super::{ClosureError, Offer, version};
use crate::packages::{self, Packages, Provided};
use crate::sources::Cache;
use crate::wheel::normalized;
use crate::workspace::{Workspace, compare};

/// The offers of a release, by the distribution's normalized name.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    by_dist: BTreeMap<String, Offer>,
    later: Later,
}

impl Offers {
    /// Returns what a workspace's chroot has: by its package tables or, where `live` is wanted,
    /// by its repositories, of which dnf keeps the metadata in our cache; with `offline` these
    /// must do.
    pub fn of(workspace: &Workspace, live: bool, offline: bool) -> Result<Self, ClosureError> {
        let later = Later::of(workspace)?;
        if live {
            let chroot = &workspace.chroot;
            let cache = Cache::from_env()?.dir().join("dnf").join(&chroot.name);
            let provides = packages::dist_provides(chroot, &cache, offline)?;
            return Ok(Self::from_provides(provides).with_later(later));
        }
        Ok(Self::of_tables(&Packages::of(workspace, false)?).with_later(later))
    }

    /// Returns what package tables have.
    pub(super) fn of_tables(packages: &Packages) -> Self {
        let offer = |(project, package, evr): (&str, &str, &str)| {
            let (package, evr) = (package.to_owned(), evr.to_owned());
            let version = version::of_package(&evr);
            (project.to_owned(), Offer { package, evr, version })
        };
        // A table has packages that are named by a macro, too.
        let projects = packages.python_projects();
        let projects = projects.filter(|(project, ..)| normalized(project).as_deref() == Some(*project));
        Self::from_list(projects.map(offer))
    }

    /// Adds what later releases have.
    #[must_use]
    pub fn with_later(self, later: Later) -> Self {
        Self { later, ..self }
    }

    /// Returns what later releases have.
    pub fn later(&self) -> &Later {
        &self.later
    }

    /// Returns exactly these offers.
    pub fn from_list(offers: impl IntoIterator<Item = (String, Offer)>) -> Self {
        Self { by_dist: offers.into_iter().collect(), later: Later::default() }
    }

    fn from_provides(provides: Vec<Provided>) -> Self {
        let mut by_dist: BTreeMap<String, Offer> = BTreeMap::new();
        for Provided { project, version, package, evr } in provides {
            let offer = Offer { package, evr, version: version::of_provide(&version) };
            // Of several packages dnf takes the newest; the one with the project's own name
            // comes before a compatibility package such as `python3-x1`.
            let named =
                |offer: &Offer| crate::sources::normalized(&offer.package) == format!("python3-{project}");
            let better = by_dist.get(&project).is_none_or(|known| {
                (named(&offer), compare(&offer.evr, &known.evr)) > (named(known), std::cmp::Ordering::Equal)
            });
            if better {
                by_dist.insert(project, offer);
            }
        }
        Self { by_dist, later: Later::default() }
    }

    /// Returns what the release has of a distribution, given by its normalized name.
    pub fn of_dist(&self, name: &str) -> Option<&Offer> {
        self.by_dist.get(name)
    }

    /// Returns all offers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Offer)> {
        self.by_dist.iter().map(|(name, offer)| (name.as_str(), offer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provided(project: &str, version: &str, package: &str, evr: &str) -> Provided {
        let [project, version, package, evr] = [project, version, package, evr].map(str::to_owned);
        Provided { project, version, package, evr }
    }

    #[test]
    fn the_package_of_the_projects_name_comes_first_then_the_newest() {
        let offers = Offers::from_provides(vec![
            provided("pydantic", "2.11", "python3-pydantic", "2.11.0-1"),
            provided("pydantic", "3", "python3-pydantic3", "3.0-1"),
            provided("a", "1", "one", "1-1"),
            provided("a", "2~rc1", "two", "2~rc1-1"),
            provided("ruamel-yaml", "1", "python3-ruamel-yaml-x", "9-1"),
            provided("ruamel-yaml", "0.18", "python3-ruamel.yaml", "0.18-1"),
        ]);
        let of = |name: &str| offers.of_dist(name).map(|offer| offer.package.as_str());
        assert_eq!(of("pydantic"), Some("python3-pydantic"));
        assert_eq!(of("a"), Some("two"));
        assert_eq!(of("ruamel-yaml"), Some("python3-ruamel.yaml"));
        assert_eq!(of("none"), None);
        let version = offers.of_dist("a").and_then(|offer| offer.version.clone()).unwrap();
        assert_eq!(version.to_string(), "2rc1");
    }
}
