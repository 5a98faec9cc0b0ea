//! Newer releases of what a stack is built on: the distribution of its chroots, and ROCm. The pages
//! that list them are in `pipeline.toml`.

use std::cmp::Ordering;

use super::Pipeline;
use crate::error::Error;
use crate::sources::{curl, links_of_page};
use crate::workspace::{ReleasesOf, RocmVersion, Workspace, compare};

/// The most bytes of a page that lists releases.
const MAX_PAGE: u64 = 4 << 20;

/// Returns a line for each release that is newer than what any chroot of the workspace has, and for
/// each chroot that has reached its end of life.
pub(super) fn newer(pipeline: &Pipeline<'_>) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    let workspaces: Vec<Workspace> = pipeline
        .chroots
        .iter()
        .map(|chroot| pipeline.workspace(chroot))
        .collect::<Result<_, _>>()?;
    let today = crate::workspace::today();
    lines.extend(workspaces.iter().filter_map(|w| w.end_of_life(&w.chroot, today)));
    for page in &pipeline.settings.releases {
        let (what, known): (_, Vec<String>) = match page.of {
            ReleasesOf::Distribution => {
                let all = workspaces.iter().flat_map(Workspace::all_chroots);
                let releases = all.map(|chroot| chroot.release.clone());
                ("the distribution", releases.filter(|release| !release.is_empty()).collect())
            }
            ReleasesOf::Rocm => {
                let versions = workspaces.iter().filter_map(|w| match &w.provider.version {
                    RocmVersion::Known(version) => Some(version.clone()),
                    RocmVersion::Header(_) => None,
                });
                ("ROCm", versions.collect())
            }
        };
        let Some(ours) = known.into_iter().max_by(|a, b| compare(a, b)) else { continue };
        let text = match curl(&page.url, MAX_PAGE).arg("--fail").arg(&page.url).text() {
            Ok(text) => text,
            Err(error) => {
                lines.push(format!("not checked: releases of {what}: {error}"));
                continue;
            }
        };
        if let Some(newest) = newest_in(&text).filter(|n| compare(n, &ours) == Ordering::Greater) {
            lines.push(format!("{what}: the newest release is {newest}, the chroots have {ours}"));
        }
    }
    Ok(lines)
}

/// Returns the highest version among the links of a page.
fn newest_in(page: &str) -> Option<String> {
    let is_version = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let names = links_of_page(page).into_iter().filter_map(|link| {
        let name = link.trim_end_matches('/').rsplit('/').next()?.to_owned();
        is_version(&name).then_some(name)
    });
    names.max_by(|a, b| compare(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_newest_version_among_links() {
        let page = "<a href=\"../\">up</a><a href=\"9/\">9</a><a href='/r/10/'>10</a>\
                    <a href=\"7.2.1/\">x</a><a href=\"test/\">t</a>";
        assert_eq!(newest_in(page).as_deref(), Some("10"));
        assert_eq!(newest_in("nothing"), None);
    }
}
