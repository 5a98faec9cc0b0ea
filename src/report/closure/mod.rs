//! Formats a Python closure as text, JSON and HTML, why a member is in it, and the differences
//! between two closures. `closure` determines the facts.

mod audit;
mod html;
mod imports;
mod json;
#[cfg(test)]
mod tests;
mod text;

pub use audit::{AuditReport, audit_json, audit_text};
pub use html::closure_html;
pub use imports::{imports_json, show_imports};
pub use json::{ClosureReport, DiffReport, Extras, WhyReport, closure_json, diff_json, why_json};
pub use text::{closure_text, diff_text, why_text};

use crate::closure::{Closure, LockedOrigin, Member};
use crate::workspace::MemberPlace;

/// The members of a place.
struct Group<'c> {
    place: MemberPlace,
    members: Vec<&'c Member>,
    /// The total size of their files in bytes.
    bytes: u64,
}

/// Returns the members by place, in display order.
fn groups(closure: &Closure) -> Vec<Group<'_>> {
    let group = |place| {
        let members: Vec<&Member> =
            closure.members.values().filter(|member| member.place == place).collect();
        let bytes = members.iter().filter_map(|member| size(member)).sum();
        Group { place, members, bytes }
    };
    MemberPlace::ALL.map(group).into()
}

/// Returns the size of a member's wheel, or of its sdist if it has no wheel.
fn size(member: &Member) -> Option<u64> {
    match &member.node.as_ref()?.locked.origin {
        LockedOrigin::Stack(_) => None,
        LockedOrigin::Index { wheel, sdist } => wheel.as_ref().or(sdist.as_ref())?.size,
    }
}

/// Returns the component of the stack that builds a member, if any.
fn maker(member: &Member) -> Option<&str> {
    match &member.node.as_ref()?.locked.origin {
        LockedOrigin::Stack(component) => Some(component.as_str()),
        LockedOrigin::Index { .. } => None,
    }
}

/// Returns a member's locked version; empty if it is dropped.
fn version(member: &Member) -> String {
    member.node.as_ref().map(|node| node.locked.version.to_string()).unwrap_or_default()
}

/// Returns the version that gets installed: the release's version for members from the system.
fn installed(member: &Member) -> String {
    let of_release = member.offer.as_ref().filter(|_| member.place == MemberPlace::System);
    match of_release.and_then(|offer| offer.version.as_ref()) {
        Some(version) => version.to_string(),
        None => version(member),
    }
}

/// Returns the name of a member or component, with its version if it is a member.
fn named(closure: &Closure, name: &str) -> String {
    match closure.members.get(name).map(version) {
        Some(version) if !version.is_empty() => format!("{name} {version}"),
        _ => name.to_owned(),
    }
}

/// Returns the meaning of a place.
fn meaning(place: MemberPlace, chroot: &str) -> String {
    match place {
        MemberPlace::System => format!("provided by {chroot}"),
        MemberPlace::Rpm => "built as an RPM".to_owned(),
        MemberPlace::Private => "installed in the private prefix".to_owned(),
        MemberPlace::Dropped => "left out".to_owned(),
    }
}
