//! Compares the project on COPR with `copr/project.toml`, and makes the calls that fix the
//! differences. Does not build anything.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client::Client;
use super::error::CoprError;
use super::macros::MacrosPackage;
use super::project_chroot::ProjectChroot;
use super::record::Sent;
use super::settings::{Change, DEFAULT, arguments, differences, sorted};
use super::state::Build;
use super::{repositories, texts};
use crate::error::Error;
use crate::workspace::CoprProject;
use crate::workspace::copr::AFTER_INSPECTION;

/// COPR's value for a chroot that uses the project's setting.
const UNCHANGED: &str = "unchanged";

/// The note on a project that only COPR's administrators can change back. Source: COPR,
/// coprs_logic.py, `CoprsLogic.add`; builds_logic.py,
/// `check_build_to_delete`.
const PERSISTENT: &str = "the project is persistent: COPR keeps it and its builds, also those that \
                          did not pass inspection; only COPR's administrators can change that";

/// The differences between the project and the workspace.
#[derive(Debug)]
pub struct Sync {
    /// Whether the project exists.
    pub exists: bool,
    /// The differences.
    pub changes: Vec<Change>,
    /// Notes for the user that are not differences.
    pub notes: Vec<String>,
    bootstrap: String,
    /// The chroots that exist and stay in the project.
    chroots: Vec<String>,
}

/// What a chroot of the project should contain.
struct WantedChroot {
    repositories: Vec<String>,
    packages: Vec<String>,
}

fn wanted_chroot(place: &ProjectChroot<'_>, builds: &[Build]) -> Result<WantedChroot, Error> {
    let ProjectChroot { chroot, workspace, macros } = place;
    let repositories = repositories::of_chroot(place)?;
    let mut packages = chroot.packages.clone();
    for package in workspace.chroot.additional_packages.iter().map(|at| &at.value) {
        if !packages.contains(package) {
            packages.push(package.clone());
        }
    }
    if let Some(macros) = macros
        && is_built(macros, &chroot.name.value, builds)
    {
        packages.push(macros.in_build_root());
    }
    Ok(WantedChroot { repositories, packages })
}

/// Returns whether the project has a build of exactly these macros for a chroot.
pub(super) fn is_built(macros: &MacrosPackage, chroot: &str, builds: &[Build]) -> bool {
    builds.iter().any(|build| {
        build.source_package.name.as_deref() == Some(&macros.name)
            && build.is_of(&macros.version_release, &macros.dist)
            && build.state.is_good()
            && build.chroots.iter().any(|name| name == chroot)
    })
}

impl Sync {
    /// Reads the project and finds the differences.
    pub fn find(
        client: &Client<'_>,
        project: &CoprProject,
        places: &[ProjectChroot<'_>],
    ) -> Result<Self, Error> {
        let texts = texts::rendered(project, places)?;
        let remote = client.project_settings()?;
        let builds = if remote.is_some() { client.builds()? } else { Vec::new() };
        let bootstrap = project.bootstrap.clone();
        let changes = differences(project, &texts, remote.as_ref());
        let (notes, chroots) = (Vec::new(), Vec::new());
        let mut sync = Self { exists: remote.is_some(), changes, notes, bootstrap, chroots };
        if remote.as_ref().and_then(|remote| remote.get("persistent")) == Some(&json!(true)) {
            sync.notes.push(PERSISTENT.to_owned());
        }
        sync.compare_repositories(client, project, places)?;
        for place in places {
            let there = remote.as_ref().and_then(|remote| remote.get("chroot_repos"));
            let there =
                there.is_some_and(|chroots| chroots.get(&place.chroot.name.value).is_some());
            let settings = sync.compare_chroot(client, place, there, &builds)?;
            if let Some(remote) = remote.as_ref().filter(|_| there) {
                sync.compare_overrides(client, place, remote, &settings)?;
            }
        }
        Ok(sync)
    }

    /// Compares the repositories that users get in addition to the project's own.
    fn compare_repositories(
        &mut self,
        client: &Client<'_>,
        project: &CoprProject,
        places: &[ProjectChroot<'_>],
    ) -> Result<(), Error> {
        let (wanted, notes) = repositories::of_users(places)?;
        self.notes.extend(notes);
        let there =
            if self.exists { repositories::read(client, project, &wanted)? } else { Vec::new() };
        let sorted = |list: &[String]| sorted(list.iter().map(String::as_str).collect());
        let (old, new) = (sorted(&there), sorted(&wanted));
        if old != new {
            let old = if self.exists { old } else { Value::Null };
            let arguments = arguments("runtime-repo-dependency", &new);
            let (chroot, key) = (None, "runtime-repositories");
            self.changes.push(Change { chroot, key, old, new, by_hand: false, arguments });
        }
        Ok(())
    }

    /// Compares the lists of a chroot. Returns its settings on COPR.
    fn compare_chroot(
        &mut self,
        client: &Client<'_>,
        place: &ProjectChroot<'_>,
        there: bool,
        builds: &[Build],
    ) -> Result<Value, Error> {
        let name = &place.chroot.name.value;
        let wanted = wanted_chroot(place, builds)?;
        if there {
            self.chroots.push(name.clone());
        }
        let remote: Value = match there {
            false => Value::Null,
            true => {
                let args = ["get-chroot".to_owned(), format!("{}/{name}", client.project())];
                let text = client.cli(&format!("read the chroot `{name}`"), &args)?;
                serde_json::from_str(&text).map_err(|error| CoprError::Answer {
                    asked: client.command(&["get-chroot"]),
                    why: error.to_string(),
                })?
            }
        };
        let lists = [
            ("repositories", "additional_repos", "repos", wanted.repositories),
            ("packages", "additional_packages", "packages", wanted.packages),
            // Settings that affect builds and that the workspace does not have.
            ("modules", "additional_modules", "modules", Vec::new()),
            ("rpmbuild --with", "with_opts", "rpmbuild-with", Vec::new()),
            ("rpmbuild --without", "without_opts", "rpmbuild-without", Vec::new()),
        ];
        for (key, field, option, mut wanted) in lists {
            let old = match remote.get(field) {
                Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            let macros = place.macros.as_ref().filter(|_| key == "packages");
            if let Some(macros) = macros
                && !wanted.iter().any(|package| macros.is_one(package))
            {
                // Until the new macros are built, the build root keeps the current ones.
                wanted.extend(
                    old.iter().filter(|package| macros.is_one(package)).map(|p| (*p).to_owned()),
                );
                let package = macros.in_build_root();
                self.notes.push(format!(
                    "{name}: `{package}` is not built yet; `copr push` builds it and adds it to the build root"
                ));
            }
            // The order has no meaning for packages, nor for repositories in dnf.
            let (old, new) = (sorted(old), sorted(wanted.iter().map(String::as_str).collect()));
            if old != new {
                let arguments = match wanted.is_empty() {
                    true => vec![format!("--reset={field}")],
                    false => vec![format!("--{option}={}", wanted.join(" "))],
                };
                let (chroot, old) = (Some(name.clone()), if there { old } else { Value::Null });
                self.changes.push(Change { chroot, key, old, new, by_hand: false, arguments });
            }
        }
        Ok(remote)
    }

    /// Compares the settings that a chroot has instead of the project's, whose settings are
    /// `project`.
    fn compare_overrides(
        &mut self,
        client: &Client<'_>,
        place: &ProjectChroot<'_>,
        project: &Value,
        settings: &Value,
    ) -> Result<(), Error> {
        let name = &place.chroot.name.value;
        let text = |value: &Value, field: &str, default: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or(default).to_owned()
        };
        // COPR shows a chroot's bootstrap only for a build. Builds of others may have their own.
        let sent = Sent::all(&place.workspace.build_dir(), client.project());
        let sent = sent.values().map(|sent| sent.build).max();
        let bootstrap = sent.map(|build| client.bootstrap(build, name)).transpose()?.flatten();
        let bootstrap = bootstrap.filter(|own| *own != text(project, "bootstrap", DEFAULT));
        for (key, old, new, argument) in [
            (
                "isolation",
                text(settings, "isolation", UNCHANGED),
                UNCHANGED,
                Some("--reset=isolation"),
            ),
            // `--reset=comps_name` would keep the content.
            ("comps", text(settings, "comps_name", ""), "", Some("--delete-comps")),
            // `apply` always resets it.
            ("bootstrap", bootstrap.unwrap_or_else(|| UNCHANGED.to_owned()), UNCHANGED, None),
        ] {
            if old != new {
                let arguments = argument.map(str::to_owned).into_iter().collect();
                let (chroot, old, new) = (Some(name.clone()), json!(old), json!(new));
                self.changes.push(Change { chroot, key, old, new, by_hand: false, arguments });
            }
        }
        Ok(())
    }

    /// Applies the workspace's settings to the project, as far as copr-cli can.
    pub fn apply(&self, client: &Client<'_>) -> Result<(), CoprError> {
        let is_refused = |change: &Change| change.key == "auto-prune" && change.new == json!(false);
        if self.changes.iter().any(is_refused) {
            return Err(CoprError::AutoPrune);
        }
        let own = self.changes.iter().filter(|change| change.chroot.is_none());
        let arguments: Vec<String> =
            own.flat_map(|change| change.arguments.iter().cloned()).collect();
        let action = if self.exists { "modify" } else { "create" };
        if !self.exists || !arguments.is_empty() {
            let mut args = vec![action.to_owned(), client.project().to_owned()];
            // By default, copr-cli sets it to `default` (main.py, `BOOTSTRAP_MAP`).
            args.push(format!("--bootstrap={}", self.bootstrap));
            args.extend(arguments);
            client.cli(&format!("{action} the project"), &args)?;
        }
        // A chroot's own bootstrap overrides the project's, and COPR may not show it: always reset it.
        let reset = |chroot: &String| (chroot.clone(), vec![format!("--bootstrap={UNCHANGED}")]);
        let mut chroots: BTreeMap<String, Vec<String>> = self.chroots.iter().map(reset).collect();
        for change in &self.changes {
            if let Some(chroot) = &change.chroot {
                chroots.entry(chroot.clone()).or_default().extend(change.arguments.iter().cloned());
            }
        }
        for (chroot, arguments) in chroots {
            let mut args = vec!["edit-chroot".to_owned(), format!("{}/{chroot}", client.project())];
            args.extend(arguments);
            client.cli(&format!("edit the chroot `{chroot}`"), &args)?;
        }
        Ok(())
    }

    /// Returns whether COPR would publish everything immediately once this is applied.
    pub fn publishes_all(&self) -> bool {
        let publish = self.changes.iter().find(|change| change.key == "publish");
        publish.is_some_and(|change| change.old == json!(AFTER_INSPECTION))
    }
}
