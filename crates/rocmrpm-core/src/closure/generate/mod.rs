//! Generates the packages for the members of a closure: the components and pins that
//! `rocmrpm closure --write` writes, as texts by path. Choosing the place of a member comes before,
//! and writing the files afterwards.

mod error;
pub(crate) mod facts;
pub(crate) mod imports;
mod linked;
pub(crate) mod member;
mod requires;
mod runtime;
pub(crate) mod rust;
pub(crate) mod terms;
pub(crate) mod text;

use std::collections::BTreeMap;

use super::offers::Offers;
use super::{Closure, LockedOrigin, Member, earlier};
use crate::build::system;
use crate::names::ComponentName;
use crate::parallel;
use crate::sources::Fetcher;
use crate::workspace::{
    CLOSURE_FILE, Component, GENERATED, GENERATED_PINS, MemberPlace, Workspace, WrittenClosure,
};
pub use error::{GenerateError, Refused};
use facts::Facts;
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
struct GeneratedComponent {
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
        matches!(origin, Some(LockedOrigin::Index { .. }))
            && matches!(member.place, MemberPlace::Rpm | MemberPlace::Private)
    };
    // The definition of the host does not state its architecture.
    let arch =
        if workspace.chroot.is_host() { std::env::consts::ARCH } else { &workspace.chroot.arch };
    let members: Vec<&Member> = closure.members.values().filter(from_index).collect();
    let (found, mut refused) = gather(component, &members, offers, fetcher, arch)?;
    refused.extend(found.iter().flat_map(|(member, _)| bad_names(workspace, member)));
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
    let mut parts: Vec<GeneratedComponent> =
        rpms.iter().map(|(member, facts)| member::part(&context, member, facts)).collect();
    parts.extend(private_part(&context, &mut private)?);
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    let private = private.iter().map(|(member, _)| member.name.clone()).collect();
    let obsoletes = earlier::obsoletes(workspace, component, closure, offers)
        .map_err(GenerateError::Earlier)?;
    let written = written(closure, private, obsoletes);
    Ok(laid_out(workspace, &parts, &written))
}

/// Members with their facts, and those that cannot become packages.
type Gathered<'m> = (Vec<(&'m Member, Facts)>, Vec<Refused>);

/// Returns the facts about members, and the members that cannot become packages.
fn gather<'m>(
    component: &Component,
    members: &[&'m Member],
    offers: &Offers,
    fetcher: &Fetcher<'_>,
    arch: &str,
) -> Result<Gathered<'m>, GenerateError> {
    let gathered = parallel::map(members, AT_ONCE, |member| {
        let rule = component.closure.as_ref().and_then(|rules| rules.member(&member.name));
        let facts = Facts::of(member, rule, offers, fetcher, arch);
        if let Some(name) = ComponentName::parse(&member.name) {
            fetcher.leave(&name);
        }
        facts
    })
    .map_err(|error| GenerateError::Source(error.into()))?;
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for (member, facts) in members.iter().zip(gathered) {
        match facts {
            Ok(facts) => found.push((*member, facts)),
            Err(GenerateError::Refused { members, .. }) => refused.extend(members),
            Err(error) => return Err(error),
        }
    }
    Ok((found, refused))
}

/// Refuses a member whose name another component has, or no component can have.
fn bad_names(workspace: &Workspace, member: &Member) -> impl Iterator<Item = Refused> + use<> {
    let other = workspace.components.get(member.name.as_str());
    let taken = member.place == MemberPlace::Rpm && other.is_some_and(|c| c.generated.is_none());
    let taken = taken.then(|| {
        let problem = "a component of the workspace has that name";
        Refused::new(&member.name, problem, "choose another place for it, or remove the component")
    });
    let invalid = ComponentName::parse(&member.name).is_none();
    taken.into_iter().chain(invalid.then(|| Refused::name(&member.name)))
}

/// Returns the package of the private members; `None` if there are none.
fn private_part(
    context: &Context<'_>,
    private: &mut [(&Member, Facts)],
) -> Result<Option<GeneratedComponent>, GenerateError> {
    let Some((first, _)) = private.first() else { return Ok(None) };
    // The first pin has the version of the component, which would be wrong for finding a source
    // distribution.
    let wheel = private.iter().position(|(_, facts)| facts.wheel().is_some());
    let Some(at) = wheel else {
        let problem = "no private member has a wheel, but the private package needs one";
        let help = "choose `from = \"wheel\"` or another place for one of them";
        let members = vec![Refused::new(&first.name, problem, help)];
        let file = context.component.file.name.clone();
        return Err(GenerateError::Refused { file, members });
    };
    private[..=at].rotate_right(1);
    Ok(Some(runtime::part(context, private)))
}

/// Returns the values for rendering the spec of the component itself.
fn written(closure: &Closure, private: Vec<String>, obsoletes: Vec<String>) -> WrittenClosure {
    let Corrections { never, extras, written } = corrections(closure, &closure.graph.root, true);
    WrittenClosure { private, not_required: never, no_extras: extras, requires: written, obsoletes }
}

/// Assigns a path to each file, and finds the files that an earlier closure left there.
fn laid_out(
    workspace: &Workspace,
    parts: &[GeneratedComponent],
    written: &WrittenClosure,
) -> Generated {
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
