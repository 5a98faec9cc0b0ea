//! Resolves what the stack's own wheels require from outside with uv, to wheels only. Prefers the
//! versions in the closure's lock, of which an installer cannot use those without a wheel.

use std::collections::{BTreeMap, BTreeSet};

use fs_err as fs;
use pep440_rs::Version;

use super::ForeignError;
use crate::closure::lock::Lock;
use crate::closure::{Cutoff, Locked, LockedOrigin, OwnDistribution, name_of, pylock, stand_in};
use crate::digest::Sha256;
use crate::error::IoError;
use crate::index::outside::Outside;
use crate::uv::{self, Failure, FailureReason};
use crate::workspace::{IndexSource, Workspace};
use python_packaging::environment::Environment;

/// uv's output file; PEP 751 restricts its name.
const OUTPUT: &str = "pylock.toml";

/// What a lock answers.
pub(super) struct ForeignQuery<'a> {
    pub workspace: &'a Workspace,
    /// The stack's own distributions, with the versions and requirements of their wheels.
    pub own: BTreeMap<String, OwnDistribution>,
    /// The lock of the closure.
    pub closure: Option<Lock>,
    pub environment: Environment,
    pub outside: &'a [Outside],
}

impl ForeignQuery<'_> {
    /// Returns a digest of everything that the lock depends on. The versions of the stack's own
    /// wheels do not count, because each build has another one.
    pub fn inputs(&self) -> Sha256 {
        let glibc = self.environment.glibc().map(|(major, minor)| format!("{major}.{minor}"));
        let mut text = format!(
            "rocmrpm index 1\n{} {} {} {}\n",
            self.workspace.chroot.name,
            self.environment.python(),
            self.environment.arch(),
            glibc.as_deref().unwrap_or("none")
        );
        for source in &self.workspace.manifest.index.outside {
            let name = match source {
                IndexSource::Pip => "pip",
                IndexSource::Url(url) => url,
            };
            text += &format!("outside {name}\n");
        }
        for name in self.workspace.manifest.index.left_out() {
            text += &format!("without {name}\n");
        }
        if let Some(closure) = &self.closure {
            text += &format!("closure {}\n", Sha256::of_bytes(closure.text()));
        }
        for (root, own) in self.roots().iter().zip(self.own.values()) {
            text += &format!("own {}\n", root.split("==").next().unwrap_or_default());
            for need in self.needs(own) {
                text += &format!("  {need}\n");
            }
        }
        Sha256::of_bytes(text)
    }

    /// Returns the sorted requirements of a distribution. Of those on the stack's own, only the names
    /// and extras count.
    fn needs(&self, own: &OwnDistribution) -> BTreeSet<String> {
        let needs = own.needs.requires.iter().map(|need| {
            let mut requirement = need.parsed.clone();
            if self.own.contains_key(need.name()) {
                requirement.version_or_url = None;
            }
            requirement.to_string()
        });
        needs.collect()
    }

    /// Returns the requirements that uv resolves: the stack's own distributions, in their order. The
    /// one with the closure has the closure's extras.
    fn roots(&self) -> Vec<String> {
        let with = self.workspace.with_closure();
        let with = with.map(|component| (name_of(self.workspace, component), component));
        let root = |(name, own): (&String, &OwnDistribution)| {
            let extras = with.as_ref().filter(|(of, _)| of == name).and_then(|(_, component)| {
                let extras = &component.closure.as_ref()?.extras;
                let extras: Vec<&str> = extras.iter().map(|at| at.value.as_str()).collect();
                (!extras.is_empty()).then(|| format!("[{}]", extras.join(",")))
            });
            format!("{name}{}=={}", extras.unwrap_or_default(), own.version)
        };
        self.own.iter().map(root).collect()
    }

    /// Returns the versions that uv prefers: those of the closure that have a wheel, else the old
    /// ones.
    fn preferred<'l>(&'l self, old: Option<&'l Lock>) -> BTreeMap<&'l str, &'l Version> {
        let old = old.into_iter().flat_map(|old| &old.packages);
        let all = old.chain(self.of_closure());
        all.filter(|locked| !self.own.contains_key(&locked.name))
            .map(|locked| (locked.name.as_str(), &locked.version))
            .collect()
    }

    /// Returns the distributions of the closure that have a wheel.
    fn of_closure(&self) -> impl Iterator<Item = &Locked> {
        let closure = self.closure.iter().flat_map(|closure| &closure.packages);
        closure.filter(|locked| matches!(locked.origin, LockedOrigin::Index { wheel: Some(_), .. }))
    }

    /// Runs uv.
    pub fn resolve(&self, old: Option<&Lock>, inputs: Sha256) -> Result<Lock, ForeignError> {
        let scratch = tempfile::tempdir().map_err(IoError::doing("create a folder for uv"))?;
        let action = || IoError::doing("write files for uv");
        let own = stand_in(&self.own, scratch.path()).map_err(action())?;
        let output = scratch.path().join(OUTPUT);
        let preferred = self.preferred(old);
        // uv cannot read a file without packages.
        if !preferred.is_empty() {
            fs::write(&output, pylock::preferences(preferred)).map_err(action())?;
        }
        let mut indexes = vec![own.url()];
        indexes.extend(self.outside.iter().map(|index| index.url.clone()));
        let day = self.closure.as_ref().and_then(|closure| closure.not_after);
        let cutoff = Cutoff { day, members: BTreeMap::new() };
        // The closure has its own days for single members, and versions of the release.
        let exempt = self.own.keys().chain(self.of_closure().map(|locked| &locked.name));
        let cutoff = cutoff.uv_args(exempt);
        let mut args =
            vec!["--format", "pylock.toml", "--output-file", OUTPUT, "--only-binary", ":all:"];
        args.extend(cutoff.iter().map(String::as_str));
        let roots: String = self.roots().iter().map(|root| format!("{root}\n")).collect();
        let root = &self.workspace.root;
        match uv::compile(root, &self.environment, scratch.path(), roots, &indexes, &args) {
            Ok(_) => {}
            Err(Failure::Refused { reported, why }) => {
                let (reported, network) = (uv::last(reported), why == FailureReason::Network);
                return Err(ForeignError::Resolve { reported, network });
            }
            Err(Failure::Process(error)) => return Err(error.into()),
            Err(Failure::Io(error)) => return Err(error.into()),
        }
        let text = fs::read_to_string(&output).map_err(IoError::doing("read what uv resolved"))?;
        let packages = pylock::read(&text, &self.own, &self.environment)?;
        old.map_or(Ok(()), |old| same_files(old, &packages))?;
        let left_out = self.workspace.manifest.index.left_out();
        if let Some(locked) = packages.iter().find(|locked| left_out.contains(&locked.name)) {
            return Err(ForeignError::LeftOut { name: locked.name.clone() });
        }
        Ok(Lock {
            component: "index".into(),
            chroot: self.workspace.chroot.name.clone(),
            python: self.environment.python(),
            arch: self.environment.arch().to_owned(),
            not_after: day,
            inputs,
            packages: packages.into_iter().filter(is_foreign).collect(),
        })
    }
}

/// Fails if a file with the name of a locked one has another digest: no one may replace a file.
fn same_files(old: &Lock, new: &[Locked]) -> Result<(), ForeignError> {
    let wheel = |locked: &Locked| match &locked.origin {
        LockedOrigin::Index { wheel, .. } => wheel.clone(),
        LockedOrigin::Stack(_) => None,
    };
    let old: BTreeMap<String, Sha256> =
        old.packages.iter().filter_map(wheel).map(|file| (file.name, file.sha256)).collect();
    for file in new.iter().filter_map(wheel) {
        if let Some(locked) = old.get(&file.name).filter(|locked| **locked != file.sha256) {
            let (file, found) = (file.name, file.sha256);
            return Err(ForeignError::Changed { file, locked: *locked, found });
        }
    }
    Ok(())
}

/// Returns whether a distribution is from outside: the stack's own have another version after each
/// build, and are not in the lock.
fn is_foreign(locked: &Locked) -> bool {
    matches!(locked.origin, LockedOrigin::Index { .. })
}
