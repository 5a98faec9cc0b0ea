//! A closure, why a member is in it, and what differs between two, as JSON documents.

use serde_json::{Value, json};

use super::{groups, size};
use crate::closure::diff::Difference;
use crate::closure::why::{Why, chains, required_by};
use crate::closure::{Closure, Edge, LockedFile, Member, Origin};
use crate::workspace::Place;

/// Returns the document `rocmrpm/closure/1`. `differs` are the files that are not as they should
/// be, where that was asked; `written` says whether they were written.
pub fn closure_json(closure: &Closure, differs: &[String], written: bool) -> Value {
    let chains = chains(closure);
    let totals: serde_json::Map<String, Value> = groups(closure)
        .iter()
        .map(|group| {
            let sums = json!({ "members": group.members.len(), "bytes": group.bytes });
            (group.place.name().to_owned(), sums)
        })
        .collect();
    let member = |member: &Member| {
        let chain = chains.get(member.name.as_str()).map_or(&[][..], |(chain, _)| chain);
        let mut value = member_json(member);
        value["chain"] = edges(chain);
        value["required_by"] = edges(&required_by(closure, &member.name));
        value
    };
    json!({
        "schema": "rocmrpm/closure/1",
        "component": closure.graph.component.as_str(),
        "distribution": closure.graph.root,
        "chroot": closure.chroot,
        "pins": closure.pins,
        "not_after": closure.graph.not_after.map(|day| day.to_string()),
        "totals": totals,
        "members": closure.members.values().map(member).collect::<Vec<_>>(),
        "differs": differs,
        "written": written,
    })
}

/// Returns the document `rocmrpm/closure-why/1`.
pub fn why_json(closure: &Closure, why: &Why<'_>) -> Value {
    let mut value = member_json(why.member);
    value["schema"] = "rocmrpm/closure-why/1".into();
    value["component"] = closure.graph.component.as_str().into();
    value["chroot"] = closure.chroot.as_str().into();
    value["pins"] = closure.pins.as_str().into();
    value["chain"] = edges(&why.chain);
    value["other_chains"] = why.others.into();
    value["required_by"] = edges(&why.required_by);
    value
}

/// Returns the document `rocmrpm/closure-diff/1`.
pub fn diff_json(old: &str, new: &str, differences: &[Difference]) -> Value {
    let difference = |difference: &Difference| {
        let place =
            |place: fn(&(Place, Place)) -> Place| difference.places.as_ref().map(|both| place(both).name());
        json!({
            "name": difference.name,
            "what": difference.what().name(),
            "old": difference.versions.0.as_ref().map(ToString::to_string),
            "new": difference.versions.1.as_ref().map(ToString::to_string),
            "now_own": difference.own,
            "other_files": difference.files,
            "old_place": place(|both| both.0),
            "new_place": place(|both| both.1),
        })
    };
    json!({
        "schema": "rocmrpm/closure-diff/1",
        "old": old,
        "new": new,
        "differences": differences.iter().map(difference).collect::<Vec<_>>(),
    })
}

fn edges(edges: &[&Edge]) -> Value {
    let edge = |edge: &&Edge| json!({ "from": edge.from, "to": edge.to, "requirement": edge.text });
    edges.iter().map(edge).collect()
}

fn member_json(member: &Member) -> Value {
    let node = member.node.as_ref();
    let (own, wheel, sdist) = match node.map(|node| &node.locked.origin) {
        Some(Origin::Stack(component)) => (Some(component.as_str()), None, None),
        Some(Origin::Index { wheel, sdist }) => (None, wheel.as_ref(), sdist.as_ref()),
        None => (None, None, None),
    };
    let file = |file: Option<&LockedFile>| {
        file.map(|file| json!({ "name": file.name, "sha256": file.sha256.to_string(), "size": file.size }))
    };
    json!({
        "name": member.name,
        "version": node.map(|node| node.locked.version.to_string()),
        "place": member.place.name(),
        "reason": member.reason,
        "decided": member.decided,
        "without": member.without,
        "made_by": own,
        "offer": member.offer.as_ref().map(|offer| json!({
            "package": offer.package,
            "evr": Some(&offer.evr).filter(|evr| !evr.is_empty()),
            "version": offer.version.as_ref().map(ToString::to_string),
        })),
        "wheel": file(wheel),
        "sdist": file(sdist),
        "bytes": size(member),
        "summary": node.map(|node| node.about.summary.as_str()),
        "license": node.and_then(|node| node.about.license.as_deref()),
        "home": node.and_then(|node| node.about.home.as_deref()),
    })
}
