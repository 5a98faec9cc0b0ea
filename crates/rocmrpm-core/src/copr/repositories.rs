//! Repositories besides a project's own: those that builds see, per chroot, and those that
//! `dnf copr enable` enables for users, for which COPR has a single list for all chroots. Does not
//! change the project.

use serde_json::Value;

use super::client::Client;
use super::error::CoprError;
use super::project_chroot::ProjectChroot;
use crate::error::{Error, Problem, Problems};
use crate::workspace::CoprProject;
use crate::workspace::copr::refused_url;

/// Returns the repositories that builds for a chroot see.
pub(super) fn of_chroot(place: &ProjectChroot<'_>) -> Result<Vec<String>, Error> {
    let ProjectChroot { chroot, workspace, .. } = place;
    let derived = || workspace.chroot.repositories.iter().map(|r| r.url.clone()).collect();
    let repositories: Vec<String> = chroot.repositories.clone().unwrap_or_else(derived);
    for url in &repositories {
        let Some(why) = refused_url(url) else { continue };
        let file = &workspace.chroot.file;
        let problem = Problem {
            file: file.name.clone(),
            text: file.text.clone(),
            span: file.text.find(url.as_str()).map(|at| at..at + url.len()),
            message: format!("COPR does not accept the repository `{url}`"),
            label: why.to_owned(),
            help: Some(format!(
                "set other repositories for COPR with `repositories = [...]` in `[chroot.{}]` of copr/project.toml",
                chroot.name.value
            )),
        };
        return Err(Problems(vec![problem]).into());
    }
    Ok(repositories)
}

/// Returns the repositories that users of a project need: those that all its chroots share. One
/// that only some chroots have is left out with a note. On the other releases it would offer
/// packages in place of the release's: dnf may pick either of two providers of a library.
pub(super) fn of_users(places: &[ProjectChroot<'_>]) -> Result<(Vec<String>, Vec<String>), Error> {
    let lists = places.iter().map(of_chroot).collect::<Result<Vec<_>, _>>()?;
    let (mut shared, mut notes) = (Vec::new(), Vec::new());
    for (place, list) in places.iter().zip(&lists) {
        for url in list {
            let everywhere = lists.iter().all(|other| other.contains(url));
            if everywhere && !shared.contains(url) {
                shared.push(url.clone());
            }
            if !everywhere {
                let name = &place.chroot.name.value;
                notes.push(format!(
                    "{name}: users must add {url} themselves, because COPR has one list for all chroots of a \
                     project and some chroots lack it; to let `dnf copr enable` enable it, set \
                     `project = \"NAME\"` in `[chroot.{name}]` of copr/project.toml"
                ));
            }
        }
    }
    Ok((shared, notes))
}

/// Reads the repositories that users get along with the project's own. COPR's answer is the one for
/// dnf5, up to two minutes old; the project itself does not show it. Source: COPR,
/// views/apiv3_ns/apiv3_rpmrepo.py.
pub(super) fn read(
    client: &Client<'_>,
    project: &CoprProject,
    wanted: &[String],
) -> Result<Vec<String>, Error> {
    let Some(chroot) = project.chroots.first() else { return Ok(Vec::new()) };
    let release = chroot.name.value.rsplit_once('-').map_or("", |(release, _)| release);
    let path = format!("rpmrepo/{}/{release}", project.full_name());
    let Some(answer) = client.api("read the project's repositories for users", &path, &[])? else {
        return Ok(Vec::new());
    };
    let Some(list) = answer.get("dependencies").and_then(Value::as_array) else {
        let why = "no list `dependencies`".to_owned();
        return Err(
            CoprError::Answer { asked: format!("{}/api_3/{path}", client.url()), why }.into()
        );
    };
    let mut there: Vec<String> = list.iter().filter_map(dependency).collect();
    if wanted.iter().any(|url| url.starts_with("copr://")) {
        // COPR also lists the repositories of those other projects.
        there.retain(|url| wanted.contains(url));
    }
    Ok(there)
}

/// Returns a dependency in the form in which it was set.
fn dependency(entry: &Value) -> Option<String> {
    let data = entry.get("data")?;
    let text = |key: &str| data.get(key).and_then(Value::as_str);
    match text("pattern") {
        Some(url) => Some(url.to_owned()),
        None => Some(format!("copr://{}/{}", text("owner")?, text("projectname")?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::CoprChroot;
    use crate::workspace::testing::sample;

    #[test]
    fn users_get_the_repositories_that_all_chroots_share() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let lists = [&["https://all", "https://all", "https://one"][..], &["https://all"]];
        let chroots = lists.map(|list| {
            let mut chroot = workspace.copr.as_ref().unwrap().chroots[0].clone();
            chroot.repositories = Some(list.iter().map(|url| (*url).to_owned()).collect());
            chroot
        });
        let of = |chroots: &[CoprChroot]| {
            let place = |chroot| ProjectChroot { chroot, workspace: &workspace, macros: None };
            of_users(&chroots.iter().map(place).collect::<Vec<_>>()).unwrap()
        };
        let (shared, notes) = of(&chroots);
        assert_eq!(shared, ["https://all"]);
        let [note] = &notes[..] else { panic!("{notes:?}") };
        assert!(
            note.starts_with("fedora-43-x86_64: users must add https://one themselves"),
            "{note}"
        );
        assert_eq!(of(&chroots[..1]), (vec!["https://all".into(), "https://one".into()], vec![]));
    }

    #[test]
    fn dependencies_are_urls_or_projects() {
        for (data, expected) in [
            (serde_json::json!({"pattern": "https://a"}), Some("https://a")),
            (serde_json::json!({"owner": "alice", "projectname": "lab"}), Some("copr://alice/lab")),
            (serde_json::json!({"owner": "alice"}), None),
        ] {
            assert_eq!(
                dependency(&serde_json::json!({ "data": data })).as_deref(),
                expected,
                "{data}"
            );
        }
    }
}
