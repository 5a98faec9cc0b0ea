//! Generates the packages for the members of a closure: the components and pins that
//! `rocmrpm closure --write` writes, as texts by path. Choosing the place of a member comes before,
//! and writing the files afterwards.

mod error;
mod facts;
mod imports;
mod linked;
mod member;
mod requires;
mod runtime;
mod rust;
mod terms;
mod text;

use std::collections::BTreeMap;

use super::offers::Offers;
use super::{Closure, Member, Origin, earlier};
use crate::build::system;
use crate::names::ComponentName;
use crate::parallel;
use crate::sources::Fetcher;
use crate::workspace::{
    CLOSURE_FILE, Component, GENERATED, GENERATED_PINS, MemberPlace, Workspace, WrittenClosure,
};
pub use error::{GenerateError, Refused};
use facts::{Built, Facts};
use linked::Linked;
use requires::{Corrections, corrections};

/// How many members are processed concurrently: most of the time is spent waiting for the index.
const AT_ONCE: usize = 4;

/// The files that `rocmrpm closure --write` writes besides the lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Generated {
    /// The contents of files, by their paths in the workspace.
    pub files: BTreeMap<String, String>,
    /// The files of an earlier closure that this one no longer has, sorted.
    pub gone: Vec<String>,
}

/// What all generated files of a closure share.
struct Context<'a> {
    closure: &'a Closure,
    component: &'a Component,
    /// The version of the component.
    version: &'a str,
    /// The architecture of the chroot, in rpm's spelling.
    arch: &'a str,
    /// The libraries that the members' wheels link to, by member.
    linked: &'a BTreeMap<String, Linked>,
}

/// A generated component: its files by name, and its pin.
struct Part {
    name: String,
    files: Vec<(String, String)>,
    pin: String,
}

/// Returns the generated files for the members of a closure that the release does not have; if the
/// release has them all, the files state that. Reads their wheels and source distributions, which
/// the fetcher caches.
pub fn files(
    workspace: &Workspace,
    closure: &Closure,
    component: &Component,
    offers: &Offers,
    fetcher: &Fetcher<'_>,
) -> Result<Generated, GenerateError> {
    let from_index = |member: &&Member| {
        let origin = member.node.as_ref().map(|node| &node.locked.origin);
        matches!(origin, Some(Origin::Index { .. }))
            && matches!(member.place, MemberPlace::Rpm | MemberPlace::Private)
    };
    // The definition of the host does not state its architecture.
    let arch =
        if workspace.chroot.is_host() { std::env::consts::ARCH } else { &workspace.chroot.arch };
    let members: Vec<&Member> = closure.members.values().filter(from_index).collect();
    let looked = parallel::map(&members, AT_ONCE, |member| {
        let rule = component.closure.as_ref().and_then(|rules| rules.member(&member.name));
        let facts = Facts::of(member, rule, offers, fetcher, arch);
        if let Some(name) = ComponentName::parse(&member.name) {
            fetcher.leave(&name);
        }
        facts
    })
    .map_err(|error| GenerateError::Source(error.into()))?;
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for (member, facts) in members.into_iter().zip(looked) {
        match facts {
            Ok(facts) => found.push((member, facts)),
            Err(GenerateError::Refused { members, .. }) => refused.extend(members),
            Err(error) => return Err(error),
        }
    }
    let taken = |name: &str| {
        let other = workspace.components.get(name);
        other.is_some_and(|other| other.generated.is_none())
    };
    for (member, _) in &found {
        if member.place == MemberPlace::Rpm && taken(&member.name) {
            refused.push(Refused {
                member: member.name.clone(),
                problem: "a component of the workspace has that name".into(),
                help: "choose another place for it, or remove the component".into(),
            });
        }
        if ComponentName::parse(&member.name).is_none() {
            refused.push(Refused {
                member: member.name.clone(),
                problem: "its name is not valid for a component".into(),
                help: "choose another place for it".into(),
            });
        }
    }
    let (linked, missing) =
        linked::resolve(closure, &found, &system(workspace)?, &workspace.upstreams);
    refused.extend(missing);
    if !refused.is_empty() {
        return Err(GenerateError::Refused { file: component.file.name.clone(), members: refused });
    }

    let version = &workspace.pin(component).version;
    let context = Context { closure, component, version, arch, linked: &linked };
    let (rpms, mut private): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(member, _)| member.place == MemberPlace::Rpm);
    let mut parts: Vec<Part> =
        rpms.iter().map(|(member, facts)| member::part(&context, member, facts)).collect();
    // The first pin has the version of the component, which would be wrong for finding a source
    // distribution.
    if let Some(at) =
        private.iter().position(|(_, facts)| matches!(facts.built_from, Built::Wheel(_)))
    {
        private[..=at].rotate_right(1);
        parts.push(runtime::part(&context, &private));
    } else if let Some((member, _)) = private.first() {
        let member = member.name.clone();
        let problem = "no private member has a wheel, but the private package needs one".into();
        let help = "choose `from = \"wheel\"` or another place for one of them".into();
        let members = vec![Refused { member, problem, help }];
        return Err(GenerateError::Refused { file: component.file.name.clone(), members });
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    let private = private.iter().map(|(member, _)| member.name.clone()).collect();
    let obsoletes = earlier::obsoletes(workspace, component, closure, offers)
        .map_err(GenerateError::Earlier)?;
    let written = written(closure, private, obsoletes);
    Ok(laid_out(workspace, &parts, &written))
}

/// Returns the values for rendering the spec of the component itself.
fn written(closure: &Closure, private: Vec<String>, obsoletes: Vec<String>) -> WrittenClosure {
    let Corrections { never, extras, written } = corrections(closure, &closure.graph.root, true);
    WrittenClosure { private, not_required: never, no_extras: extras, requires: written, obsoletes }
}

/// Assigns a path to each file, and finds the files that an earlier closure left there.
fn laid_out(workspace: &Workspace, parts: &[Part], written: &WrittenClosure) -> Generated {
    let stem = workspace.closure_stem();
    let folder = format!("specs-templates/{GENERATED}/{stem}");
    let pins = format!("pins/{stem}{GENERATED_PINS}.toml");
    let mut generated = Generated::default();
    for part in parts {
        for (name, text) in &part.files {
            generated.files.insert(format!("{folder}/{}/{name}", part.name), text.clone());
        }
    }
    generated.files.insert(format!("{folder}/{CLOSURE_FILE}"), text::closure_file(written));
    let text = parts.iter().map(|part| part.pin.as_str()).collect::<Vec<_>>().join("\n");
    generated.files.insert(pins, format!("{}\n{text}", text::PINS_HEADER));
    let mut earlier = files_below(&workspace.root, &folder);
    earlier
        .retain(|path| !generated.files.contains_key(path) && workspace.root.join(path).is_file());
    earlier.sort();
    generated.gone = earlier;
    generated
}

/// Returns the paths of all entries in a folder of the workspace and in its direct subfolders.
fn files_below(root: &std::path::Path, folder: &str) -> Vec<String> {
    let names = |dir: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root.join(dir)).into_iter().flatten().flatten();
        entries.map(|entry| format!("{dir}/{}", entry.file_name().to_string_lossy())).collect()
    };
    names(folder).into_iter().flat_map(|path| [names(&path), vec![path]].concat()).collect()
}
