//! Makes a project on COPR ready for builds: the login, the project's settings, and the macros package.

use serde_json::Value;

use super::builder::CoprBuilder;
use super::error::CoprError;
use super::project::Sync;
use super::project_chroot::ProjectChroot;
use crate::error::{Error, Kind};
use crate::process::own_program;

/// Keys of the project that do not affect builds.
const TEXTS: &[&str] = &[
    "auto-prune",
    "contact",
    "description",
    "follow-fedora-branching",
    "homepage",
    "instructions",
    "priority",
    "runtime-repositories",
    "unlisted",
];

/// Makes the builder's project ready for builds of a chroot, one of `places`.
///
/// # Errors
///
/// Fails if the user is not logged in, or if the project's settings on COPR differ from the workspace.
pub fn get_ready(
    builder: &CoprBuilder<'_>,
    places: &[ProjectChroot<'_>],
    place: &ProjectChroot<'_>,
) -> Result<(), Error> {
    builder.client.check_login()?;
    check_synced(builder, places)?;
    if let Some(macros) = &place.macros {
        let work = place.workspace.build_dir().join("work").join(&macros.name);
        builder.provide_macros(macros, &work)?;
    }
    Ok(())
}

fn check_synced(builder: &CoprBuilder<'_>, places: &[ProjectChroot<'_>]) -> Result<(), Error> {
    let client = builder.client;
    let sync = Sync::find(client, builder.project, places)?;
    if !sync.exists {
        let (project, url) = (client.project().to_owned(), client.url().to_owned());
        return Err(CoprError::NoProject { project, url }.into());
    }
    let differs = sync.changes.iter().find(|change| {
        let only_macros = change.key == "packages"
            && places.iter().filter_map(|place| place.macros.as_ref()).any(|macros| {
                let others = |list: &Value| -> Vec<String> {
                    let list = list.as_array().into_iter().flatten().filter_map(Value::as_str);
                    list.filter(|package| !macros.is_one(package)).map(str::to_owned).collect()
                };
                others(&change.old) == others(&change.new)
            });
        !TEXTS.contains(&change.key) && !only_macros
    });
    let Some(change) = differs else { return Ok(()) };
    let place = change.chroot.as_deref().map(|chroot| format!(" of {chroot}")).unwrap_or_default();
    let message =
        format!("the project on COPR differs from copr/project.toml: `{}`{place}", change.key);
    let help = format!("run `{} copr sync` to show and apply the differences", own_program());
    Err(Error::new(Kind::Config, message).with_help(help))
}
