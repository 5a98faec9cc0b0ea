//! The scope of an audit: the members of a closure that the stack's packages provide to users, and
//! the components in the SBOMs of their wheels. Does not look for advisories.

use std::collections::BTreeSet;

use super::{AuditError, ProvidedBy, Request};
use crate::closure::{LockedFile, LockedOrigin, Member};
use crate::error::IoError;
use crate::names::ComponentName;
use crate::osv::{Ecosystem, Package};
use crate::parallel;
use crate::sources::{Fetcher, SourceError, normalized};
use crate::wheel::{Purl, Sboms, sboms_in};
use crate::workspace::{MemberPlace, Pin, Source};

/// How many wheels are read concurrently: most of the time is spent downloading.
const AT_ONCE: usize = 8;

/// A component in a wheel, according to its SBOM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedComponent {
    /// The component.
    pub package: Package,
    /// The wheel's file name.
    pub wheel: String,
}

/// A package to audit.
pub(super) struct Target {
    /// The distribution's normalized name.
    pub name: String,
    pub version: String,
    pub holder: ProvidedBy,
    /// The component in its wheel to audit instead of the distribution itself.
    pub part: Option<EmbeddedComponent>,
}

impl Target {
    /// Returns the package to query advisories for.
    pub fn package(&self) -> Package {
        match &self.part {
            Some(part) => part.package.clone(),
            None => {
                let (name, version) = (self.name.clone(), self.version.clone());
                Package { ecosystem: Ecosystem::PyPi, name, version }
            }
        }
    }
}

pub(super) struct Scope<'a> {
    pub targets: Vec<Target>,
    /// The members whose files are locked and shipped by the stack.
    pub ours: Vec<&'a Member>,
    pub passed_over: usize,
    /// The number of wheels with an SBOM.
    pub wheels: usize,
    /// Whether every SBOM could be read.
    pub complete: bool,
    pub warnings: Vec<String>,
}

impl<'a> Scope<'a> {
    pub fn of(request: &Request<'a>, fetcher: &Fetcher<'_>) -> Result<Self, AuditError> {
        let mut scope = Self {
            targets: Vec::new(),
            ours: Vec::new(),
            passed_over: 0,
            wheels: 0,
            complete: true,
            warnings: Vec::new(),
        };
        let (name, version) = (request.closure.graph.root.clone(), request.version.to_owned());
        scope.targets.push(Target { name, version, holder: ProvidedBy::Stack, part: None });
        for member in request.closure.members.values() {
            let Some(node) = &member.node else { continue };
            let holder = match (&node.locked.origin, member.place) {
                (LockedOrigin::Stack(_), _) => ProvidedBy::Stack,
                (_, MemberPlace::Rpm) => ProvidedBy::Rpm,
                (_, MemberPlace::Private) => ProvidedBy::Private,
                (_, MemberPlace::System) => ProvidedBy::System,
                (_, MemberPlace::Dropped) => continue,
            };
            if holder == ProvidedBy::System && !request.system {
                scope.passed_over += 1;
                continue;
            }
            let of_release = member.offer.as_ref().filter(|_| holder == ProvidedBy::System);
            let version =
                of_release.and_then(|offer| offer.version.as_ref()).unwrap_or(&node.locked.version);
            let (name, version) = (member.name.clone(), version.to_string());
            scope.targets.push(Target { name, version, holder, part: None });
            if matches!(holder, ProvidedBy::Rpm | ProvidedBy::Private) {
                scope.ours.push(member);
            }
        }
        scope.add_parts(fetcher)?;
        Ok(scope)
    }

    /// Returns the packages to query, without duplicates.
    pub fn packages(&self) -> Vec<Package> {
        let packages: BTreeSet<Package> = self.targets.iter().map(Target::package).collect();
        packages.into_iter().collect()
    }

    /// Adds the components in the SBOMs of wheels.
    fn add_parts(&mut self, fetcher: &Fetcher<'_>) -> Result<(), AuditError> {
        let read = parallel::try_map(&self.ours, AT_ONCE, |member| sboms(member, fetcher))?;
        let (mut unread, mut unknown, mut other) = (Vec::new(), 0, Vec::new());
        for (member, read) in self.ours.iter().zip(read) {
            let holder = if member.place == MemberPlace::Rpm {
                ProvidedBy::Rpm
            } else {
                ProvidedBy::Private
            };
            let Some(node) = &member.node else { continue };
            let version = node.locked.version.to_string();
            let (file, sboms) = match read {
                Read::NoWheel => continue,
                Read::NotCached(file) => {
                    unread.push(file);
                    continue;
                }
                Read::Sboms(file, sboms) => (file, sboms),
            };
            self.wheels += usize::from(!sboms.read.is_empty());
            other.extend(sboms.other.iter().map(|name| format!("{file}: {name}")));
            for component in &sboms.components {
                let purl = component.purl.as_deref().and_then(Purl::parse);
                let package = purl.and_then(|purl| {
                    let ecosystem = Ecosystem::of_purl_type(&purl.kind)?;
                    let name = if ecosystem == Ecosystem::PyPi {
                        normalized(&purl.name)
                    } else {
                        purl.name
                    };
                    let version = purl.version.or_else(|| component.version.clone())?;
                    Some(Package { ecosystem, name, version })
                });
                match package {
                    Some(package)
                        if package.ecosystem == Ecosystem::PyPi && package.name == member.name => {}
                    Some(package) => {
                        let part = Some(EmbeddedComponent { package, wheel: file.clone() });
                        let (name, version) = (member.name.clone(), version.clone());
                        self.targets.push(Target { name, version, holder, part });
                    }
                    None => unknown += 1,
                }
            }
        }
        self.complete = unread.is_empty() && other.is_empty();
        if !unread.is_empty() {
            let files = unread.join(", ");
            self.warnings.push(format!(
                "wheels that are not in the cache were not searched for SBOMs: {files}"
            ));
        }
        if !other.is_empty() {
            self.warnings.push(format!(
                "SBOMs in formats other than CycloneDX were not read: {}",
                other.join(", ")
            ));
        }
        if unknown > 0 {
            let noun = if unknown == 1 { "component" } else { "components" };
            self.warnings.push(format!(
                "{unknown} {noun} in SBOMs not checked: no advisories for their ecosystem"
            ));
        }
        Ok(())
    }
}

/// The result of reading a member's wheel.
enum Read {
    /// It has no wheel.
    NoWheel,
    /// The wheel of this name is not in the cache, and downloads are forbidden.
    NotCached(String),
    Sboms(String, Sboms),
}

/// Reads the SBOMs in a member's wheel, downloading it at most once.
fn sboms(member: &Member, fetcher: &Fetcher<'_>) -> Result<Read, AuditError> {
    let Some(node) = &member.node else { return Ok(Read::NoWheel) };
    let LockedOrigin::Index { wheel: Some(LockedFile { name: file, sha256, .. }), .. } =
        &node.locked.origin
    else {
        return Ok(Read::NoWheel);
    };
    let recipe = format!("sboms 1\n{sha256}\n");
    let known = fetcher.remembered(&recipe)?.and_then(|text| serde_json::from_str(&text).ok());
    if let Some(sboms) = known {
        return Ok(Read::Sboms(file.clone(), sboms));
    }
    let wrong =
        |wrong: String| AuditError::Sbom { member: member.name.clone(), file: file.clone(), wrong };
    let name = ComponentName::parse(&member.name)
        .ok_or_else(|| wrong("a wheel of this name cannot be fetched".into()))?;
    let source = Source::Wheel { file: file.clone(), sha256: Some(*sha256) };
    let fetched = fetcher.obtain(&Pin::new(name.clone(), node.locked.version.to_string(), source));
    fetcher.leave(&name);
    let path = match fetched {
        Ok(fetched) => fetched.path,
        Err(SourceError::Offline { .. }) => return Ok(Read::NotCached(file.clone())),
        Err(error) => return Err(error.into()),
    };
    let wheel = fs_err::File::open(path).map_err(IoError::doing("read a wheel"))?;
    let sboms = sboms_in(std::io::BufReader::new(wheel)).map_err(wrong)?;
    if let Ok(text) = serde_json::to_string(&sboms) {
        fetcher.remember(&recipe, &text)?;
    }
    Ok(Read::Sboms(file.clone(), sboms))
}
