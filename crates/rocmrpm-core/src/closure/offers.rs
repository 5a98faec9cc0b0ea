//! What a chroot's release has for each Python distribution: from the package tables, or from
//! `python3.14dist(NAME) = VERSION` in the repositories. Whether that suffices is decided in
//! `place`.

use std::collections::BTreeMap;
use std::str::FromStr;

use pep440_rs::Version;

use super::later::Later;
use super::{ClosureError, Offer, Requires, version};
use crate::packages::{self, ChangedPackages, Packages, PackagesError, Provided};
use crate::parallel;
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
    /// Returns the offers of a workspace's chroot: from its package tables or, with `live`, from
    /// its repositories. dnf keeps their metadata in rocmrpm's cache; with `offline`, only the
    /// cached metadata are used.
    pub fn of(workspace: &Workspace, live: bool, offline: bool) -> Result<Self, ClosureError> {
        let own = || match live {
            true => Self::of_repositories(workspace, offline),
            false => Self::of_release(workspace),
        };
        // Each of them reads package tables of several megabytes.
        let (later, own) = parallel::both(|| Self::of_later_releases(workspace), own);
        Ok(own?.with_later(later?))
    }

    fn of_repositories(workspace: &Workspace, offline: bool) -> Result<Self, ClosureError> {
        let chroot = &workspace.chroot;
        let cache = Cache::from_env()?.dir().join("dnf").join(&chroot.name);
        Ok(Self::from_provides(packages::dist_provides(chroot, &cache, offline)?))
    }

    fn of_release(workspace: &Workspace) -> Result<Self, ClosureError> {
        let mut offers = Self::of_tables(&Packages::of_release(workspace)?);
        for changed in Packages::changed(workspace)? {
            offers.change(&changed)?;
        }
        Ok(offers)
    }

    /// Returns the offers of all later releases with the same Python, from their package tables.
    /// With another Python, the stack's packages cannot stay installed.
    fn of_later_releases(workspace: &Workspace) -> Result<Later, ClosureError> {
        let mut chroots = workspace.later_chroots();
        chroots.retain(|chroot| chroot.python == workspace.chroot.python);
        let tables = parallel::try_map(&chroots, chroots.len(), |chroot| {
            Ok::<_, ClosureError>(Self::of_tables(&Packages::of_chroot(&workspace.root, chroot)?))
        })?;
        let releases = chroots.iter().map(|chroot| chroot.name.as_str()).zip(tables);
        Ok(Later::from_releases(releases))
    }

    /// Returns the offers in package tables.
    fn of_tables(packages: &Packages) -> Self {
        let offer = |(project, package, evr): (&str, &str, &str)| {
            let (package, evr) = (package.to_owned(), evr.to_owned());
            let version = version::of_package(&evr);
            (project.to_owned(), Offer { package, evr, version, requires: Requires::default() })
        };
        // A table also has packages whose names contain a macro.
        let projects = packages.python_projects();
        let projects =
            projects.filter(|(project, ..)| normalized(project).as_deref() == Some(*project));
        Self::from_list(projects.map(offer))
    }

    /// Adds the offers of later releases.
    #[must_use]
    pub fn with_later(self, later: Later) -> Self {
        Self { later, ..self }
    }

    /// Returns the offers of later releases.
    pub fn later(&self) -> &Later {
        &self.later
    }

    /// Applies what packages actually require; a list for other versions is outdated.
    fn change(&mut self, changed: &ChangedPackages) -> Result<(), PackagesError> {
        let mut problems = Vec::new();
        for package in &changed.packages {
            let offer = self.by_dist.get_mut(&package.name.value);
            match offer.filter(|offer| offer.version == Version::from_str(&package.version).ok()) {
                Some(offer) => offer.requires = Requires::Except(package.requires.clone()),
                None => {
                    let has = self.by_dist.get(&package.name.value);
                    let has = has.and_then(|offer| offer.version.as_ref()).map(ToString::to_string);
                    problems.push(
                        changed.outdated(package, has.as_deref().unwrap_or("no known version")),
                    );
                }
            }
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(PackagesError::Requires(problems)),
        }
    }

    /// Returns the given offers.
    pub fn from_list(offers: impl IntoIterator<Item = (String, Offer)>) -> Self {
        Self { by_dist: offers.into_iter().collect(), later: Later::default() }
    }

    fn from_provides(provides: Vec<Provided>) -> Self {
        let mut by_dist: BTreeMap<String, Offer> = BTreeMap::new();
        for Provided { project, version, package, evr, unmet } in provides {
            let version = version::of_provide(&version);
            let offer = Offer { package, evr, version, requires: Requires::Unmet(unmet) };
            // Of several packages, dnf picks the newest. The one with the project's own name comes
            // before a compatibility package such as `python3-x1`.
            let named = |offer: &Offer| {
                crate::sources::normalized(&offer.package) == format!("python3-{project}")
            };
            let better = by_dist.get(&project).is_none_or(|known| {
                (named(&offer), compare(&offer.evr, &known.evr))
                    > (named(known), std::cmp::Ordering::Equal)
            });
            if better {
                by_dist.insert(project, offer);
            }
        }
        Self { by_dist, later: Later::default() }
    }

    /// Returns what the release has for a distribution, given by its normalized name.
    pub fn of_dist(&self, name: &str) -> Option<&Offer> {
        self.by_dist.get(name)
    }

    /// Returns all offers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Offer)> {
        self.by_dist.iter().map(|(name, offer)| (name.as_str(), offer))
    }
}

impl IntoIterator for Offers {
    type Item = (String, Offer);
    type IntoIter = std::collections::btree_map::IntoIter<String, Offer>;

    fn into_iter(self) -> Self::IntoIter {
        self.by_dist.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Selection;

    fn provided(project: &str, version: &str, package: &str, evr: &str) -> Provided {
        let [project, version, package, evr] = [project, version, package, evr].map(str::to_owned);
        Provided { project, version, package, evr, unmet: Vec::new() }
    }

    #[test]
    fn prefers_package_of_the_projects_name() {
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

    #[test]
    fn reads_what_the_real_releases_packages_require() {
        let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let of_chroot = |chroot: &str| {
            let selection = Selection {
                chroot: Some(chroot.to_owned()),
                without_generated: true,
                ..Selection::default()
            };
            Offers::of(&Workspace::load(root, &selection).unwrap(), false, true).unwrap()
        };
        let dropped = |offers: &Offers, name: &str, on: &str| {
            let Some(Offer { requires: Requires::Except(requires), .. }) = offers.of_dist(name)
            else {
                panic!("{name}");
            };
            requires.get(on).is_some_and(Option::is_none)
        };
        for chroot in ["fedora-43", "fedora-44", "fedora-45"] {
            let offers = of_chroot(chroot);
            assert!(dropped(&offers, "pandas", "tzdata"), "{chroot}");
            assert!(offers.of_dist("pyyaml").unwrap().version.is_some(), "{chroot}");
        }
        let offers = of_chroot("fedora-44");
        let Requires::Except(requires) = &offers.of_dist("datasets").unwrap().requires else {
            panic!("the requirements are not from a table");
        };
        let free: Vec<&str> = requires
            .iter()
            .filter(|(_, s)| s.as_ref().unwrap().is_empty())
            .map(|(n, _)| n.as_str())
            .collect();
        assert_eq!(free, ["dill", "fsspec", "multiprocess"]);
    }
}
