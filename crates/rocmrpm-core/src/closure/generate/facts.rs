//! Gathers the facts about a member that its package needs: what it is built from, its license, the
//! contents of its wheel, and the needs of its source. Does not generate any files.

mod sdist;
mod wheel;

use pep440_rs::Version;

use super::error::{GenerateError, Refused};
use super::rust;
use super::terms::{self, Terms};
use crate::closure::offers::Offers;
use crate::closure::{LockedFile, LockedOrigin, Member};
use crate::license;
use crate::names::ComponentName;
use crate::sources::Fetcher;
use crate::workspace::{BuiltFrom, MemberPlace, MemberRule, Pin, Source};
pub(super) use sdist::SdistFacts;
pub(crate) use sdist::{Build, has_extensions, license_files, names_in};
pub(crate) use wheel::WheelFacts;

/// The facts about a member.
pub(super) struct Facts {
    pub built_from: Built,
    /// The reason for that choice, as a sentence.
    pub reason: String,
    /// Its license as an SPDX expression.
    pub license: String,
    /// What it is, as its metadata or the packager states it; empty if neither does.
    pub summary: String,
    /// The folders that the private package does not have, below site-packages.
    pub leave_out: Vec<String>,
    /// Whether it works on any architecture.
    pub pure: bool,
}

/// What a package is built from.
pub(super) enum Built {
    Wheel(WheelFacts),
    Sdist(SdistFacts),
}

impl Facts {
    /// Gathers the facts about a member.
    pub fn of(
        member: &Member,
        rule: Option<&MemberRule>,
        offers: &Offers,
        fetcher: &Fetcher<'_>,
        arch: &str,
    ) -> Result<Self, GenerateError> {
        let files = Files::of(member, rule, fetcher, arch)?;
        let no_choice = |problem: &str| {
            Err(files.refused(problem, "remove `from` from its `[[closure.member]]`"))
        };
        match (rule.and_then(|rule| rule.from), files.wheel, files.sdist) {
            // No other package builds against private members, and one package cannot have the
            // build tools of all members.
            (None, Some(wheel), _) if files.private() => files.wheel_facts(wheel, "it is private"),
            (Some(BuiltFrom::Wheel), Some(wheel), _) => files.wheel_facts(wheel, DECIDED),
            (Some(BuiltFrom::Wheel), None, _) => no_choice(NO_WHEEL),
            (Some(BuiltFrom::Sdist), _, Some(sdist)) => {
                files.sdist_facts(files.read_sdist(sdist)?.0, DECIDED)
            }
            (Some(BuiltFrom::Sdist), _, None) => no_choice(NO_SDIST),
            (None, Some(wheel), _) if !files.pure() => {
                let reason = "it is compiled, and upstream's wheel is for the chroot's Python";
                files.wheel_facts(wheel, reason)
            }
            (None, None, Some(sdist)) => files.sdist_facts(files.read_sdist(sdist)?.0, NO_WHEEL),
            (None, Some(wheel), Some(sdist)) => {
                let (facts, build) = files.read_sdist(sdist)?;
                match build.and_then(|build| build.plain(offers)) {
                    Ok(()) => {
                        let reason = "it is pure Python, and the release has what builds it";
                        files.sdist_facts(facts, reason)
                    }
                    Err(reason) => files.wheel_facts(wheel, reason),
                }
            }
            (None, Some(wheel), None) => files.wheel_facts(wheel, NO_SDIST),
            (None, None, None) => Err(no_file(member).into()),
        }
    }

    /// Returns the wheel that the package is built from, if any.
    pub fn wheel(&self) -> Option<&WheelFacts> {
        match &self.built_from {
            Built::Wheel(wheel) => Some(wheel),
            Built::Sdist(_) => None,
        }
    }
}

/// Reasons for what a member is built from.
const DECIDED: &str = "it is decided so";
const NO_WHEEL: &str = "it has no wheel for the chroot's Python";
const NO_SDIST: &str = "it has no source distribution";

/// The files of a member in the lock, of which its package can be built, and its rule.
struct Files<'a> {
    member: &'a Member,
    rule: Option<&'a MemberRule>,
    version: &'a Version,
    wheel: Option<&'a LockedFile>,
    sdist: Option<&'a LockedFile>,
    /// The license that the packager or the metadata states.
    license: String,
    summary: String,
    fetcher: &'a Fetcher<'a>,
    arch: &'a str,
}

impl<'a> Files<'a> {
    fn of(
        member: &'a Member,
        rule: Option<&'a MemberRule>,
        fetcher: &'a Fetcher<'a>,
        arch: &'a str,
    ) -> Result<Self, Refused> {
        let node = member.node.as_ref().ok_or_else(|| no_file(member))?;
        let LockedOrigin::Index { wheel, sdist } = &node.locked.origin else {
            return Err(no_file(member));
        };
        let license = rule.and_then(|rule| rule.license.clone());
        let license = license.or_else(|| node.about.license.clone()).ok_or_else(|| {
            let help = decide("`license = \"SPDX\"` from its source");
            Refused::new(&member.name, "its metadata does not state its license", help)
        })?;
        if let Some(problem) = license::refused(&license) {
            let help = format!(
                "if that is not its license, {}; otherwise drop it, because Fedora may not distribute it",
                decide("`license = \"SPDX\"`")
            );
            return Err(Refused::new(&member.name, problem, help));
        }
        let summary = rule.and_then(|rule| rule.summary.clone());
        let summary = summary.unwrap_or_else(|| node.about.summary.clone());
        let (wheel, sdist) = (wheel.as_ref(), sdist.as_ref());
        let version = &node.locked.version;
        Ok(Self { member, rule, version, wheel, sdist, license, summary, fetcher, arch })
    }

    fn private(&self) -> bool {
        self.member.place == MemberPlace::Private
    }

    /// Returns whether the wheel, if there is one, works on any architecture.
    fn pure(&self) -> bool {
        self.wheel.is_none_or(|file| file.name.ends_with("-none-any.whl"))
    }

    fn refused(&self, problem: impl Into<String>, help: impl Into<String>) -> GenerateError {
        Refused::new(&self.member.name, problem, help).into()
    }

    fn facts(&self, built_from: Built, reason: String, license: String, pure: bool) -> Facts {
        let summary = self.summary.clone();
        let leave_out = self.rule.map_or_else(Vec::new, |rule| rule.leave_out.clone());
        Facts { built_from, reason, license, summary, leave_out, pure }
    }

    fn wheel_facts(
        &self,
        file: &LockedFile,
        reason: impl Into<String>,
    ) -> Result<Facts, GenerateError> {
        let Self { member, version, .. } = *self;
        let (mut wheel, traces) = WheelFacts::of(&member.name, version, file, self.fetcher)?;
        let terms = terms::of(&terms::Wheel {
            name: &member.name,
            version,
            license: &self.license,
            contents: &wheel.contents,
            traces: &traces,
            decided: self.rule.and_then(|rule| rule.bundled.as_deref()),
        });
        let Terms { license, bundled } = terms.map_err(|problem| {
            let what = "review the contents of its wheel, and add `bundled = [\"NAME = VERSION\"]` and \
                        `license = \"SPDX\"` to its `[[closure.member]]`";
            self.refused(problem, what)
        })?;
        wheel.bundled = bundled;
        Ok(self.facts(Built::Wheel(wheel), reason.into(), license, self.pure()))
    }

    fn read_sdist(
        &self,
        file: &LockedFile,
    ) -> Result<(SdistFacts, Result<sdist::Build, String>), GenerateError> {
        SdistFacts::of(&self.member.name, self.version, file, self.fetcher)
    }

    fn sdist_facts(&self, mut sdist: SdistFacts, reason: &str) -> Result<Facts, GenerateError> {
        sdist.packages = self.rule.map_or_else(Vec::new, |rule| rule.build_requires.clone());
        let license = match (&sdist.rust, self.wheel) {
            // The private package has one source per member.
            (Some(_), Some(wheel)) if self.private() => {
                return self.wheel_facts(wheel, "it is private, and its source is written in Rust");
            }
            (Some(_), None) if self.private() => {
                return Err(self.refused(
                    "its source is written in Rust, and the private package cannot vendor its crates",
                    "run `rocmrpm closure --write --upgrade` to look for a version with a wheel, \
                     or choose another place for it",
                ));
            }
            (Some(project), _) => {
                let pin = sdist::pin(&self.member.name, self.version, &sdist.file)?;
                let crates = self.fetcher.linked_crates(&pin, project, self.arch)?;
                let help = match self.wheel {
                    Some(_) => decide("`from = \"wheel\"`"),
                    None => "choose another place for it".into(),
                };
                rust::with_crates(&self.license, &crates)
                    .map_err(|problem| self.refused(problem, help))?
            }
            (None, _) => self.license.clone(),
        };
        let compiled = sdist.rust.is_some() || (self.wheel.is_none() && sdist.extensions);
        if let Some(file) = self.wheel {
            let (wheel, _) = WheelFacts::of(&self.member.name, self.version, file, self.fetcher)?;
            sdist.contents = Some(wheel.contents);
        }
        let pure = self.pure() && !compiled;
        Ok(self.facts(Built::Sdist(sdist), reason.to_owned(), license, pure))
    }
}

fn no_file(member: &Member) -> Refused {
    Refused::new(&member.name, "the lock has no file of it", "run `rocmrpm closure --write`")
}

fn decide(what: &str) -> String {
    format!("add {what} to its `[[closure.member]]`")
}

/// Returns the pin of a file of a member.
fn pin_of(name: &str, version: &Version, source: Source) -> Result<Pin, Refused> {
    let component = ComponentName::parse(name).ok_or_else(|| Refused::name(name))?;
    Ok(Pin::new(component, version.to_string(), source))
}
