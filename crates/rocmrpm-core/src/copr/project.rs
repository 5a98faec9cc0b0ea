//! Compares the project on COPR with `copr/project.toml`, and makes the calls that fix the
//! differences. Does not build anything.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CoprError;
use super::macros::MacrosPackage;
use super::project_chroot::ProjectChroot;
use super::repositories;
use super::state::Build;
use crate::error::Error;
use crate::template::Templates;
use crate::workspace::copr::AFTER_INSPECTION;
use crate::workspace::document::At;
use crate::workspace::{CoprProject, Workspace};

/// COPR's value for a chroot that uses the project's setting.
const UNCHANGED: &str = "unchanged";

/// A setting that differs from `copr/project.toml`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The chroot; `None` for the project itself.
    pub chroot: Option<String>,
    /// The key of `copr/project.toml`.
    pub key: &'static str,
    /// The value on COPR; null if the project does not exist yet.
    pub old: Value,
    /// The value in the workspace.
    pub new: Value,
    /// Whether the user must set it on COPR's page because copr-cli has no option for it.
    pub by_hand: bool,
    #[serde(skip)]
    arguments: Vec<String>,
}

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

/// The rendered texts of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The description of the project.
    pub description: String,
    /// The instructions for its users.
    pub instructions: String,
}

#[derive(Serialize)]
struct ProjectValues<'a> {
    owner: &'a str,
    project: &'a str,
    stack: &'a str,
    gpu_targets: Vec<&'a str>,
    /// The versions of all pins of the set; their names have `_` instead of `-`.
    versions: BTreeMap<String, &'a str>,
    chroots: Vec<ChrootValues<'a>>,
}

#[derive(Serialize)]
struct ChrootValues<'a> {
    name: &'a str,
    definition: &'a str,
    release: &'a str,
    arch: &'a str,
    python: &'a str,
    repositories: Vec<RepositoryValues<'a>>,
}

#[derive(Serialize)]
struct RepositoryValues<'a> {
    id: &'a str,
    url: &'a str,
    gpg_key: &'a str,
    priority: i64,
}

/// Renders the description and the instructions with the current pins.
pub fn rendered(project: &CoprProject, places: &[ProjectChroot<'_>]) -> Result<Texts, Error> {
    let Some(first) = places.first() else { return Err(CoprError::NoProjectFile.into()) };
    let Workspace { manifest, pins, .. } = first.workspace;
    let chroots = places.iter().map(|place| {
        let chroot = &place.workspace.chroot;
        let repositories = chroot.repositories.iter();
        ChrootValues {
            name: &place.chroot.name.value,
            definition: &chroot.name,
            release: &chroot.release,
            arch: &chroot.arch,
            python: &chroot.python,
            repositories: repositories
                .map(|r| RepositoryValues {
                    id: &r.id,
                    url: &r.url,
                    gpg_key: &r.gpg_key,
                    priority: r.priority,
                })
                .collect(),
        }
    });
    let versions =
        pins.pins.iter().map(|(name, at)| (name.as_str().replace('-', "_"), &*at.value.version));
    let values = ProjectValues {
        owner: &project.owner,
        project: &project.project,
        stack: &manifest.name,
        gpu_targets: manifest.gpu_targets.iter().map(|target| target.as_str()).collect(),
        versions: versions.collect(),
        chroots: chroots.collect(),
    };
    let render = |key: &str, text: &At<String>| -> Result<String, Error> {
        let name = format!("{} ({key})", project.file.name);
        let templates = Templates::parse([(name.clone(), text.value.clone())])?;
        Ok(templates.render(&name, &values)?)
    };
    Ok(Texts {
        description: render("description", &project.description)?,
        instructions: render("instructions", &project.instructions)?,
    })
}

/// One setting of the project: the key in `copr/project.toml`, COPR's name for it, the wanted
/// value, and copr-cli's option.
struct Setting {
    key: &'static str,
    field: &'static str,
    wanted: Value,
    option: Option<&'static str>,
}

/// Lists the settings of the project in the workspace. Leaves out those that COPR accepts but does
/// not report (`delete-after-days`, `multilib`, `fedora-review`), because they cannot be compared.
/// Source: COPR, apiv3_projects.py, `to_dict`.
fn settings(project: &CoprProject, texts: &Texts) -> Vec<Setting> {
    let chroots: Vec<&str> = project.chroots.iter().map(|chroot| &*chroot.name.value).collect();
    let setting = |key, field, wanted, option| Setting { key, field, wanted, option };
    let mut settings = vec![
        setting("chroots", "chroot_repos", json!(chroots), Some("chroot")),
        setting("description", "description", json!(texts.description), Some("description")),
        setting("instructions", "instructions", json!(texts.instructions), Some("instructions")),
        // Each chroot has its own repositories.
        setting("repositories", "additional_repos", json!([]), Some("repo")),
        setting("network", "enable_net", json!(project.network), Some("enable-net")),
        setting("unlisted", "unlisted_on_hp", json!(project.unlisted), Some("unlisted-on-hp")),
        setting("auto-prune", "auto_prune", json!(project.auto_prune), Some("auto-prune")),
        setting(
            "follow-fedora-branching",
            "follow_fedora_branching",
            json!(project.follow_fedora_branching),
            Some("follow-fedora-branching"),
        ),
        setting("bootstrap", "bootstrap", json!(project.bootstrap), Some("bootstrap")),
        setting("isolation", "isolation", json!(project.isolation), Some("isolation")),
        // If COPR only creates the metadata on request, builds still see everything built so far,
        // in a separate repository. Source: COPR, complex_logic.py, `generate_build_config`.
        setting("publish", "devel_mode", json!(project.publish), Some("disable_createrepo")),
    ];
    if let Some(priority) = project.priority {
        settings.push(setting("priority", "repo_priority", json!(priority), Some("repo-priority")));
    }
    for (key, value) in [("homepage", &project.homepage), ("contact", &project.contact)] {
        if let Some(value) = value {
            settings.push(setting(key, key, json!(value), None));
        }
    }
    settings
}

/// Normalizes a value from COPR for the comparison: texts without the CRLF of a web form, lists
/// sorted, chroots by name.
fn normal(key: &str, value: Option<&Value>) -> Value {
    match value {
        Some(Value::Bool(devel)) if key == "publish" => {
            json!(if *devel { AFTER_INSPECTION } else { "at-once" })
        }
        Some(Value::String(text)) => json!(text.replace("\r\n", "\n")),
        Some(Value::Object(chroots)) => sorted(chroots.keys().map(String::as_str).collect()),
        Some(Value::Array(list)) => sorted(list.iter().filter_map(Value::as_str).collect()),
        None | Some(Value::Null) if key == "chroots" || key == "repositories" => json!([]),
        None | Some(Value::Null) if matches!(key, "bootstrap" | "isolation") => json!("default"),
        None | Some(Value::Null) if key == "priority" => Value::Null,
        None | Some(Value::Null) => json!(""),
        Some(other) => other.clone(),
    }
}

fn sorted(mut list: Vec<&str>) -> Value {
    list.sort_unstable();
    json!(list)
}

/// Returns copr-cli's arguments for a setting. The value is part of the option, so that a value
/// that starts with `-` is not taken for an option.
fn arguments(option: &str, wanted: &Value) -> Vec<String> {
    match wanted {
        Value::Array(list) if list.is_empty() => vec![format!("--{option}=")],
        Value::Array(list) => {
            list.iter().filter_map(Value::as_str).map(|item| format!("--{option}={item}")).collect()
        }
        Value::String(when) if option == "disable_createrepo" => {
            vec![format!("--{option}={}", when == AFTER_INSPECTION)]
        }
        Value::Bool(on) => vec![format!("--{option}={}", if *on { "on" } else { "off" })],
        Value::String(text) => vec![format!("--{option}={text}")],
        other => vec![format!("--{option}={other}")],
    }
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
        let texts = rendered(project, places)?;
        let remote = client.project_settings()?;
        let builds = if remote.is_some() { client.builds()? } else { Vec::new() };
        let bootstrap = project.bootstrap.clone();
        let (changes, notes, chroots) = (Vec::new(), Vec::new(), Vec::new());
        let mut sync = Self { exists: remote.is_some(), changes, notes, bootstrap, chroots };
        for setting in settings(project, &texts) {
            let Setting { key, field, wanted, option } = setting;
            let wanted = if key == "chroots" { normal(key, Some(&wanted)) } else { wanted };
            let old = remote.as_ref().map(|remote| normal(key, remote.get(field)));
            if old.as_ref() == Some(&wanted) || old.is_none() && is_nothing(&wanted) {
                continue;
            }
            let arguments = match option {
                Some(option) => arguments(option, &wanted),
                None => Vec::new(),
            };
            let (old, by_hand) = (old.unwrap_or(Value::Null), option.is_none());
            sync.changes.push(Change { chroot: None, key, old, new: wanted, by_hand, arguments });
        }
        sync.compare_repositories(client, project, places)?;
        for place in places {
            let there = remote.as_ref().and_then(|remote| remote.get("chroot_repos"));
            let there =
                there.is_some_and(|chroots| chroots.get(&place.chroot.name.value).is_some());
            sync.compare_chroot(client, place, there, &builds)?;
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

    fn compare_chroot(
        &mut self,
        client: &Client<'_>,
        place: &ProjectChroot<'_>,
        there: bool,
        builds: &[Build],
    ) -> Result<(), Error> {
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
        // A chroot's own isolation overrides the project's.
        let isolation = remote.get("isolation").and_then(Value::as_str).unwrap_or(UNCHANGED);
        if isolation != UNCHANGED {
            let (chroot, key, arguments) =
                (Some(name.clone()), "isolation", vec!["--reset=isolation".to_owned()]);
            let (old, new) = (json!(isolation), json!(UNCHANGED));
            self.changes.push(Change { chroot, key, old, new, by_hand: false, arguments });
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
        // A chroot's own bootstrap overrides the project's, and COPR does not show it: always reset
        // it.
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

/// Returns whether a new project has a value by default.
fn is_nothing(wanted: &Value) -> bool {
    match wanted {
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty() || matches!(text.as_str(), "default" | "at-once"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_part_of_their_options() {
        assert_eq!(arguments("description", &json!("- a\nb")), ["--description=- a\nb"]);
        assert_eq!(arguments("repo", &json!([])), ["--repo="]);
        assert_eq!(arguments("chroot", &json!(["a", "b"])), ["--chroot=a", "--chroot=b"]);
        assert_eq!(arguments("enable-net", &json!(false)), ["--enable-net=off"]);
        assert_eq!(
            arguments("disable_createrepo", &json!("at-once")),
            ["--disable_createrepo=false"]
        );
    }

    #[test]
    fn normalizes_values_from_copr() {
        assert_eq!(normal("description", Some(&json!("a\r\nb"))), json!("a\nb"));
        assert_eq!(normal("chroots", Some(&json!({"b": "url", "a": "url"}))), json!(["a", "b"]));
        assert_eq!(normal("instructions", Some(&Value::Null)), json!(""));
        assert_eq!(normal("publish", Some(&json!(true))), json!(AFTER_INSPECTION));
        assert_eq!(normal("bootstrap", None), json!("default"));
    }
}
