//! Puts the wheels together from the files of each package.

use std::collections::BTreeMap;

use python_packaging::wheel::{Assembly, Content, Member, Spool};

use super::layout::Part;
use super::packages::{Key, Packages};
use super::release::Release;
use super::tree::Tree;
use super::{Request, SdkError, devel, selector};

/// Returns the wheels to write.
pub(super) fn assemblies(
    packages: &Packages,
    request: Request<'_>,
    release: &Release,
    tree: &Tree,
    spool: &mut Spool,
) -> Result<Vec<Assembly>, SdkError> {
    let licenses: BTreeMap<String, String> = tree
        .licenses()
        .filter_map(|(name, stored)| {
            let text = spool.small(stored, 1 << 20).ok()??;
            Some((format!("licenses/{name}"), String::from_utf8(text).ok()?))
        })
        .collect();
    let mut all = Vec::new();
    for (key, entries) in &packages.contents {
        let mut members = BTreeMap::new();
        if key.part == Part::Devel {
            continue;
        }
        let folder = packages.folder(key.part);
        for (path, entry) in entries {
            let member = Member { content: entry.content.clone(), executable: entry.executable };
            members.insert(format!("{folder}/{path}"), member);
        }
        if key.part != Part::Device {
            members.insert(format!("{folder}/__init__.py"), Member::text(""));
        } else if let Some(target) = key.target {
            let links = devel::device_links(packages, &release.version, entries.keys());
            members.insert(format!("{folder}/.devel_links/{target}.json"), Member::text(links));
        }
        all.push(selector::assembly(request, release, packages, key, members, &licenses));
    }
    let archive = devel::archive(packages, request, spool)?;
    let devel = Key { part: Part::Devel, target: None };
    let content = Content::File(archive);
    let members = [("rocm_sdk_devel/_devel.tar".to_owned(), Member { content, executable: false })];
    all.push(selector::assembly(request, release, packages, &devel, members.into(), &licenses));
    Ok(all)
}
