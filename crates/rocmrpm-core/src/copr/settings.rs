//! The settings of a project in the workspace, compared with those on COPR. Does not call COPR.

use serde::Serialize;
use serde_json::{Value, json};

use super::texts::Texts;
use crate::workspace::CoprProject;
use crate::workspace::copr::AFTER_INSPECTION;

/// COPR's value for a bootstrap and an isolation that mock's configuration chooses.
pub(super) const DEFAULT: &str = "default";

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
    pub(super) arguments: Vec<String>,
}

/// Returns the settings of the project that differ from those on COPR, `None` for a new project.
pub(super) fn differences(
    project: &CoprProject,
    texts: &Texts,
    remote: Option<&Value>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for Setting { key, field, wanted, option } in settings(project, texts) {
        let wanted = if key == "chroots" { normal(key, Some(&wanted)) } else { wanted };
        let old = remote.map(|remote| normal(key, remote.get(field)));
        if old.as_ref() == Some(&wanted) || old.is_none() && is_nothing(key, &wanted) {
            continue;
        }
        let arguments = match option {
            Some(option) => arguments(option, &wanted),
            None => Vec::new(),
        };
        let (old, by_hand) = (old.unwrap_or(Value::Null), option.is_none());
        changes.push(Change { chroot: None, key, old, new: wanted, by_hand, arguments });
    }
    changes
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
        // Settings that the workspace does not have. The stack is not in modules, its packages have
        // no AppStream metadata, and only `copr push` builds them.
        setting("module-hotfixes", "module_hotfixes", json!(false), Some("module-hotfixes")),
        setting("appstream", "appstream", json!(false), Some("appstream")),
        setting(
            "packit-forge-projects",
            "packit_forge_projects_allowed",
            json!([]),
            Some("packit-forge-project-allowed"),
        ),
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
        None | Some(Value::Null)
            if matches!(key, "chroots" | "repositories" | "packit-forge-projects") =>
        {
            json!([])
        }
        None | Some(Value::Null) if matches!(key, "module-hotfixes" | "appstream") => json!(false),
        None | Some(Value::Null) if matches!(key, "bootstrap" | "isolation") => json!(DEFAULT),
        None | Some(Value::Null) if key == "priority" => Value::Null,
        None | Some(Value::Null) => json!(""),
        Some(other) => other.clone(),
    }
}

pub(super) fn sorted(mut list: Vec<&str>) -> Value {
    list.sort_unstable();
    json!(list)
}

/// Returns copr-cli's arguments for a setting. The value is part of the option, so that a value
/// that starts with `-` is not taken for an option.
pub(super) fn arguments(option: &str, wanted: &Value) -> Vec<String> {
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

/// Returns whether a new project has a value by default.
fn is_nothing(key: &str, wanted: &Value) -> bool {
    match wanted {
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty() || matches!(text.as_str(), DEFAULT | "at-once"),
        Value::Bool(on) => !on && matches!(key, "module-hotfixes" | "appstream"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::workspace::document::File;

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

    fn project() -> CoprProject {
        let text = "owner = \"alice\"\nproject = \"lab\"\nchroots = [\"fedora-43-x86_64\"]\n";
        let file = File { name: "copr/project.toml".into(), text: text.into() };
        // The chroot has no definition here.
        CoprProject::read(file, &BTreeMap::new(), &mut Vec::new())
    }

    /// Returns the arguments that make COPR's project like the workspace's.
    fn fixes(remote: Option<&Value>) -> Vec<String> {
        let texts = Texts { description: String::new(), instructions: String::new() };
        let changes = differences(&project(), &texts, remote);
        changes.into_iter().flat_map(|change| change.arguments).collect()
    }

    #[test]
    fn resets_settings_that_the_workspace_does_not_have() {
        // The fields of apiv3_projects.py, `to_dict`, with values that other users set.
        let mut remote = json!({
            "chroot_repos": {}, "description": "", "instructions": null, "additional_repos": [],
            "enable_net": false, "unlisted_on_hp": false, "auto_prune": true, "bootstrap": "default",
            "isolation": "default", "devel_mode": true, "follow_fedora_branching": false,
            "persistent": false, "storage": "backend", "repo_priority": null,
            "module_hotfixes": true, "appstream": true,
            "packit_forge_projects_allowed": ["github.com/a/b"],
        });
        let reset = ["--module-hotfixes=off", "--appstream=off", "--packit-forge-project-allowed="];
        assert_eq!(fixes(Some(&remote)), reset);
        for field in ["module_hotfixes", "appstream", "packit_forge_projects_allowed"] {
            remote[field] = Value::Null;
        }
        assert_eq!(fixes(Some(&remote)), [""; 0]);
    }

    #[test]
    fn new_project_gets_only_what_differs_from_the_defaults() {
        let expected = [
            "--enable-net=off",
            "--unlisted-on-hp=off",
            "--auto-prune=on",
            "--follow-fedora-branching=off",
            "--disable_createrepo=true",
        ];
        assert_eq!(fixes(None), expected);
    }
}
