//! Everything that the versions of a closure follow from, its digest, and what uv answers to it.
//! Reads and writes nothing in the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pep440_rs::Version;

use super::cutoff::Cutoff;
use super::lock::Lock;
use super::offers::Offers;
use super::own::{self, OwnDistribution};
use super::roots::StatedRequirements;
use super::{ClosureError, LockedOrigin, Upgrade, pylock};
use crate::digest::Sha256;
use crate::error::IoError;
use crate::sources::Fetcher;
use crate::uv::{self, Failure, FailureReason};
use crate::workspace::{ClosureRules, Component, MemberPlace, Upstreams};
use python_packaging::environment::Environment;

/// All inputs of a closure.
pub(super) struct ClosureQuery<'a> {
    /// The workspace's folder.
    pub folder: &'a Path,
    pub upstreams: &'a Upstreams,
    pub component: &'a Component,
    pub chroot: &'a str,
    pub environment: Environment,
    pub root: StatedRequirements,
    pub own: BTreeMap<String, OwnDistribution>,
    pub cutoff: Cutoff,
    pub rules: &'a ClosureRules,
    pub offers: &'a Offers,
    pub upgrade: Upgrade<'a>,
}

impl ClosureQuery<'_> {
    /// Returns the component's own extras that are requested.
    pub fn extras(&self) -> BTreeSet<String> {
        self.rules.extras.iter().map(|extra| extra.value.clone()).collect()
    }

    /// Returns the distributions that the component drops.
    pub fn dropped(&self) -> BTreeSet<&str> {
        let dropped =
            self.rules.members.iter().filter(|member| member.place == Some(MemberPlace::Dropped));
        dropped.map(|member| member.name.value.as_str()).collect()
    }

    pub fn must_be_of(&self, lock: &Lock, file: &str) -> Result<(), ClosureError> {
        let python = self.environment.python();
        for (what, has, wanted) in [
            ("the component", lock.component.as_str(), self.component.name.as_str()),
            ("the chroot", &lock.chroot, self.chroot),
            ("Python", &lock.python, &python),
            ("the architecture", &lock.arch, self.environment.arch()),
        ] {
            if has != wanted {
                let file = file.to_owned();
                let [has, wanted] =
                    [has, wanted].map(|value| format!("{what} `{}`", crate::text::visible(value)));
                return Err(ClosureError::OtherLock { file, has, wanted });
            }
        }
        Ok(())
    }

    /// Returns a digest of all inputs of the closure with these contents: of the release's offers,
    /// only those of its members count.
    pub fn inputs(&self, lock: &Lock) -> Sha256 {
        let glibc = self.environment.glibc().map(|(major, minor)| format!("{major}.{minor}"));
        let mut text = format!(
            "rocmrpm closure 2\n{} {} {} {} {}\n",
            self.component.name,
            self.chroot,
            self.environment.python(),
            self.environment.arch(),
            glibc.as_deref().unwrap_or("none")
        );
        text += &self.cutoff.lines();
        text += &self.requirements();
        for name in self.dropped() {
            text += &format!("without {name}\n");
        }
        for (name, own) in &self.own {
            text += &format!("own {name} {} {}\n", own.version, own.component);
            let mut needs: Vec<String> =
                own.needs.requires.iter().map(|need| need.parsed.to_string()).collect();
            needs.sort();
            needs.iter().for_each(|need| text += &format!("  {need}\n"));
        }
        for locked in lock
            .packages
            .iter()
            .filter(|locked| matches!(locked.origin, LockedOrigin::Index { .. }))
        {
            let offer = self.offers.of_dist(&locked.name).and_then(|offer| offer.version.as_ref());
            let offer = offer.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            text += &format!("offer {} {offer}\n", locked.name);
        }
        Sha256::of_bytes(text)
    }

    /// Returns the component's requirements that hold, one per line, sorted.
    fn requirements(&self) -> String {
        let holding = self.root.holding(&self.environment, &self.extras());
        let lines: BTreeSet<String> = holding
            .into_iter()
            .map(|need| {
                let mut requirement = need.parsed.clone();
                requirement.marker = pep508_rs::MarkerTree::TRUE;
                requirement.to_string()
            })
            .collect();
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// Returns the release's versions that are newer than the locked ones, possibly only because of
    /// the cutoff: a release also has packages from after that day.
    pub fn later_in_release(&self, lock: &Lock) -> BTreeMap<String, Version> {
        let index = lock
            .packages
            .iter()
            .filter(|locked| matches!(locked.origin, LockedOrigin::Index { .. }));
        let later = index.filter_map(|locked| {
            let offered = self.offers.of_dist(&locked.name)?.version.as_ref()?;
            let limited =
                self.cutoff.day.is_some() && !self.cutoff.members.contains_key(&locked.name);
            (limited && *offered > locked.version).then(|| (locked.name.clone(), offered.clone()))
        });
        later.collect()
    }

    /// Returns the versions that uv prefers: the release's, and the locked ones of what it lacks.
    fn preferred<'o>(&'o self, old: Option<&'o Lock>) -> BTreeMap<&'o str, &'o Version> {
        let mut preferred: BTreeMap<&str, _> = BTreeMap::new();
        for locked in old.into_iter().flat_map(|old| &old.packages) {
            preferred.insert(&locked.name, &locked.version);
        }
        for (name, version) in
            self.offers.iter().filter_map(|(n, offer)| Some((n, offer.version.as_ref()?)))
        {
            // If only single members move, an unsuitable offer must not move another one.
            if self.upgrade == Upgrade::None || !preferred.contains_key(name) {
                preferred.insert(name, version);
            }
        }
        let moves = |name: &str| self.upgrade != Upgrade::All && self.upgrade.moves(name);
        preferred.retain(|name, _| !self.own.contains_key(*name) && !moves(name));
        preferred
    }

    /// Returns the overrides, one per line: one whose marker never holds replaces all requirements
    /// on that name.
    fn overrides(&self, attempt: &Attempt<'_>) -> String {
        let never = |name: &str| format!("{name} ; python_version < \"0\"\n");
        let without = self.dropped().into_iter().map(never);
        let free = attempt.free.map(|name| match self.own.contains_key(name) {
            true => format!("{name}\n"),
            false => never(name),
        });
        without.chain(free).collect()
    }

    /// Runs uv. If the requirements conflict, returns uv's output.
    pub fn attempt(
        &self,
        old: Option<&Lock>,
        attempt: &Attempt<'_>,
        fetcher: &Fetcher<'_>,
    ) -> Result<Result<Lock, Vec<String>>, ClosureError> {
        let scratch = tempfile::tempdir().map_err(IoError::doing("create a folder for uv"))?;
        let action = || IoError::doing("write files for uv");
        let stand_in = own::stand_in(&self.own, scratch.path()).map_err(action())?;
        let preferred = self.preferred(old);
        let output = scratch.path().join(OUTPUT);
        // uv cannot read a file without packages.
        if !preferred.is_empty() {
            fs_err::write(&output, pylock::preferences(preferred)).map_err(action())?;
        }
        let overrides = self.overrides(attempt);
        fs_err::write(scratch.path().join(OVERRIDES), overrides).map_err(action())?;
        // Allow versions up to the release's; beyond that, the cutoff applies.
        let constraint = |(name, version): (&String, &Version)| format!("{name} <= {version}\n");
        let constraints: String = attempt.of_release.iter().map(constraint).collect();
        fs_err::write(scratch.path().join(CONSTRAINTS), constraints).map_err(action())?;
        let indexes = [stand_in.url(), fetcher.index_url()?.to_owned()];
        let cutoff = self.cutoff.uv_args(self.own.keys().chain(attempt.of_release.keys()));
        let mut args = vec!["--format", "pylock.toml", "--output-file", OUTPUT];
        args.extend(["--override", OVERRIDES, "--constraint", CONSTRAINTS]);
        args.extend(cutoff.iter().map(String::as_str));
        match uv::compile(
            self.folder,
            &self.environment,
            scratch.path(),
            self.requirements(),
            &indexes,
            &args,
        ) {
            Ok(_) => {}
            Err(Failure::Process(error)) => return Err(error.into()),
            Err(Failure::Io(error)) => return Err(error.into()),
            Err(Failure::Refused { reported, why: FailureReason::Unsatisfiable }) => {
                return Ok(Err(reported));
            }
            Err(Failure::Refused { reported, why }) => {
                let reported = uv::last(reported);
                return Err(match why {
                    FailureReason::Network => ClosureError::Unreachable { reported },
                    _ => ClosureError::Refused { reported },
                });
            }
        }
        let text =
            fs_err::read_to_string(&output).map_err(IoError::doing("read what uv resolved"))?;
        let mut lock = Lock {
            component: self.component.name.to_string(),
            chroot: self.chroot.to_owned(),
            python: self.environment.python(),
            arch: self.environment.arch().to_owned(),
            not_after: self.cutoff.day,
            inputs: Sha256::of_bytes(""),
            packages: pylock::read(&text, &self.own, &self.environment)?,
        };
        lock.inputs = self.inputs(&lock);
        Ok(Ok(lock))
    }
}

/// uv's output file; PEP 751 restricts its name.
const OUTPUT: &str = "pylock.toml";
const OVERRIDES: &str = "overrides.txt";
const CONSTRAINTS: &str = "constraints.txt";

/// The options of a single uv run.
#[derive(Debug, Default)]
pub(super) struct Attempt<'a> {
    /// A distribution to treat as not required; if it is one of the stack's own, any version will
    /// do.
    pub free: Option<&'a str>,
    /// Versions of the release that may be newer than the cutoff, by normalized name.
    pub of_release: BTreeMap<String, Version>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closure::{Locked, testing};
    use crate::workspace::Workspace;
    use crate::workspace::testing::sample;
    use python_packaging::needs::Needs;

    fn question<'a>(
        workspace: &'a Workspace,
        rules: &'a ClosureRules,
        offers: &'a Offers,
        requires: &str,
        cutoff: Cutoff,
    ) -> ClosureQuery<'a> {
        ClosureQuery {
            folder: &workspace.root,
            upstreams: &workspace.upstreams,
            component: workspace.component("one").unwrap(),
            chroot: "fedora-43",
            environment: Environment::new("3.14", "x86_64", None).unwrap(),
            root: StatedRequirements {
                name: "one".into(),
                needs: Needs::read(requires),
                metadata: None,
            },
            own: BTreeMap::new(),
            cutoff,
            rules,
            offers,
            upgrade: Upgrade::None,
        }
    }

    fn lock(packages: &[(&str, &str)]) -> Lock {
        let locked = |(name, version): &(&str, &str)| {
            let origin = LockedOrigin::Index { wheel: None, sdist: None };
            Locked { name: (*name).into(), version: version.parse().unwrap(), origin }
        };
        Lock {
            component: "one".into(),
            chroot: "fedora-43".into(),
            python: "3.14".into(),
            arch: "x86_64".into(),
            not_after: None,
            inputs: Sha256::of_bytes(""),
            packages: packages.iter().map(locked).collect(),
        }
    }

    fn cutoff(day: Option<&str>, members: &[&str]) -> Cutoff {
        let parse = |text: &str| text.parse().unwrap();
        let members =
            members.iter().map(|name| ((*name).to_owned(), parse("2026-01-01"))).collect();
        Cutoff { day: day.map(parse), members }
    }

    #[test]
    fn decisions_make_a_lock_stale() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let inputs =
            |place: MemberPlace, offers: &[(&str, &str)], requires: &str, day: Option<&str>| {
                let (rules, offers) =
                    (testing::rules(&[("ray", Some(place), "x")]), testing::offers(offers));
                question(&workspace, &rules, &offers, requires, cutoff(day, &[]))
                    .inputs(&lock(&[("numpy", "2")]))
            };
        let (private, numpy, two) =
            (MemberPlace::Private, "Requires-Dist: numpy\n", &[("numpy", "2")][..]);
        let first = inputs(private, two, numpy, None);
        for (what, other) in [
            ("dropped", inputs(MemberPlace::Dropped, two, numpy, None)),
            ("offer", inputs(private, &[("numpy", "3")], numpy, None)),
            ("requirement", inputs(private, two, "Requires-Dist: numpy>1\n", None)),
            ("day", inputs(private, two, numpy, Some("2026-01-01"))),
        ] {
            assert_ne!(other, first, "{what}");
        }
        assert_eq!(inputs(private, &[("numpy", "2"), ("scipy", "1")], numpy, None), first);
        let never = "Requires-Dist: numpy\nRequires-Dist: x ; python_version < '3'\n";
        assert_eq!(inputs(private, two, never, None), first);
    }

    #[test]
    fn allows_release_versions_after_the_cutoff() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let rules = testing::rules(&[]);
        let offers =
            testing::offers(&[("newer", "3"), ("older", "1"), ("same", "2"), ("own-day", "3")]);
        let later = |cutoff: Cutoff| {
            let lock = lock(&[
                ("newer", "2"),
                ("older", "2"),
                ("own-day", "2"),
                ("same", "2"),
                ("other", "2"),
            ]);
            let later = question(&workspace, &rules, &offers, "", cutoff).later_in_release(&lock);
            later.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>()
        };
        assert_eq!(later(cutoff(Some("2026-01-01"), &["own-day"])), ["newer 3"]);
        assert_eq!(later(cutoff(Some("2026-01-01"), &[])), ["newer 3", "own-day 3"]);
        assert_eq!(later(cutoff(None, &[])), [""; 0]);
    }

    #[test]
    fn lists_requirements_with_extras() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let offers = testing::offers(&[]);
        let requires = "Requires-Dist: b>=1 ; python_version > '3'\nRequires-Dist: a\n\
                        Requires-Dist: old ; python_version < '3'\nRequires-Dist: c ; extra == 'fast'\n\
                        Requires-Dist: d ; extra == 'slow'\n";
        let of = |extras: &[&str]| {
            let at = |extra: &&str| crate::workspace::document::At {
                value: (*extra).to_owned(),
                span: 0..0,
            };
            let rules =
                ClosureRules { extras: extras.iter().map(at).collect(), ..testing::rules(&[]) };
            question(&workspace, &rules, &offers, requires, cutoff(None, &[])).requirements()
        };
        assert_eq!(of(&[]), "a\nb>=1\n");
        assert_eq!(of(&["fast"]), "a\nb>=1\nc\n");
    }

    #[test]
    fn rejects_lock_of_another_python_or_chroot() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let (rules, offers) = (testing::rules(&[]), testing::offers(&[]));
        let question = question(&workspace, &rules, &offers, "", cutoff(None, &[]));
        let refused = |change: fn(&mut Lock)| {
            let mut lock = lock(&[]);
            change(&mut lock);
            question
                .must_be_of(&lock, "x.lock")
                .err()
                .map_or(String::new(), |error| error.to_string())
        };
        assert_eq!(refused(|_| ()), "");
        assert!(refused(|lock| lock.python = "3.13".into()).contains("Python `3.13`"));
        assert!(
            refused(|lock| lock.chroot = "fedora-44".into()).contains("the chroot `fedora-44`")
        );
        assert!(
            refused(|lock| lock.arch = "aarch64".into()).contains("the architecture `aarch64`")
        );
        assert!(refused(|lock| lock.component = "two".into()).contains("the component `two`"));
    }

    #[test]
    fn lock_inputs_are_stable() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let rules = testing::rules(&[("ray", Some(MemberPlace::Dropped), "x")]);
        let offers = testing::offers(&[("numpy", "2")]);
        let cutoff = cutoff(Some("2026-05-10"), &["torch"]);
        let question = question(&workspace, &rules, &offers, "Requires-Dist: numpy\n", cutoff);
        let text = "rocmrpm closure 2\none fedora-43 3.14 x86_64 none\nnot-after 2026-05-10\n\
                    not-after torch 2026-01-01\nnumpy\nwithout ray\noffer numpy 2\n";
        assert_eq!(question.inputs(&lock(&[("numpy", "2")])), Sha256::of_bytes(text));
    }
}
