//! `copr/project.toml`: the project on COPR that builds the workspace. Does not query its state.

use std::collections::BTreeMap;
use std::time::Duration;

use super::chroot::Chroot;
use super::document::{At, File, Table};
use super::manifest::text;
use crate::duration;
use crate::error::Problem;
use crate::names::nearest;
use crate::text::visible;

/// The longest time that COPR lets a build run. Source: COPR, frontend/coprs_frontend/coprs/config.py,
/// `MAX_BUILD_TIMEOUT`.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(108_000);

/// The values for mock's bootstrap chroot. Source: COPR, coprs/forms.py, `create_mock_bootstrap_field`.
const BOOTSTRAPS: &[&str] = &["default", "on", "off", "image"];

/// The values for mock's isolation. Source: COPR, coprs/forms.py, `create_isolation_field`.
const ISOLATIONS: &[&str] = &["default", "simple", "nspawn"];

/// When users get new builds.
const PUBLISHED: &[&str] = &[AFTER_INSPECTION, "at-once"];

/// Users get new builds after they pass inspection.
pub const AFTER_INSPECTION: &str = "after-inspection";

/// The URL schemes that COPR accepts for repositories. Source: COPR, coprs/forms.py,
/// `UrlRepoListValidator`.
const REPOSITORY_SCHEMES: &[&str] = &["https://", "http://", "copr://"];

/// The content of `copr/project.toml`.
#[derive(Debug, Clone)]
pub struct CoprProject {
    /// User or `@group`.
    pub owner: String,
    /// The project's name.
    pub project: String,
    /// What it builds for.
    pub chroots: Vec<CoprChroot>,
    /// Markdown, rendered with the current pins.
    pub description: At<String>,
    /// Markdown, rendered with the current pins.
    pub instructions: At<String>,
    /// The home page, if stated.
    pub homepage: Option<String>,
    /// The contact, if stated.
    pub contact: Option<String>,
    /// The time limit of builds whose component has none.
    pub timeout: Option<Duration>,
    /// Whether builds can use the network.
    pub network: bool,
    /// When users get new builds: `after-inspection` or `at-once`.
    pub publish: String,
    /// Whether the project is hidden on COPR's front page.
    pub unlisted: bool,
    /// Whether COPR deletes replaced builds.
    pub auto_prune: bool,
    /// Whether COPR adds chroots of new Fedora releases.
    pub follow_fedora_branching: bool,
    /// mock's bootstrap.
    pub bootstrap: String,
    /// mock's isolation.
    pub isolation: String,
    /// dnf's priority of the project's repository for those who enable it.
    pub priority: Option<i64>,
    /// The file it was read from.
    pub file: File,
}

/// One of COPR's chroots and its settings in the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoprChroot {
    /// COPR's name, such as `fedora-43-x86_64`.
    pub name: At<String>,
    /// The name of its definition in `mock-configs/`.
    pub definition: String,
    /// Another project for this chroot.
    pub project: Option<String>,
    /// Repositories that replace those of the definition.
    pub repositories: Option<Vec<String>>,
    /// Additional packages in every build root.
    pub packages: Vec<String>,
}

/// Fedora's COPR, as it appears in repository IDs.
const HUB: &str = "copr.fedorainfracloud.org";

/// The results of Fedora's COPR: the base URL in the .repo files that `dnf copr enable` writes.
const RESULTS: &str = "https://download.copr.fedorainfracloud.org/results";

impl CoprProject {
    /// Returns the folder of the project's results on Fedora's COPR, which contains `pubkey.gpg`.
    pub fn results_url(&self) -> String {
        format!("{RESULTS}/{}/{}", self.owner, self.project)
    }

    /// Returns the project's repository ID in dnf. Source: copr's
    /// frontend/coprs_frontend/coprs/repos.py, `generate_repo_id_and_name`.
    pub fn repository_id(&self) -> String {
        format!("copr:{HUB}:{}:{}", self.owner.replace('@', "group_"), self.project)
    }

    /// Returns the base URL of the repository for dnf, with dnf's variables. Source: dnf5's
    /// dnf5-plugins/copr_plugin/copr_repo.cpp, `get_repo_triplet`.
    pub fn repository_url(&self) -> String {
        format!("{}/fedora-$releasever-$basearch/", self.results_url())
    }

    /// Returns the URL of the key with which COPR signs the project's packages.
    pub fn key_url(&self) -> String {
        format!("{}/pubkey.gpg", self.results_url())
    }

    /// Reads `copr/project.toml`. Each of its chroots must be one of `chroots`.
    pub fn read(
        file: File,
        chroots: &BTreeMap<String, Chroot>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        file.clone().parse(problems, |root| {
            let owner = root.required_string("owner", "the COPR user or @group");
            let owner = name(root, "owner", owner, "the COPR user or @group");
            let project = root.required_string("project", "the COPR project");
            let project = name(root, "project", project, "the COPR project");
            let listed = root.strings("chroots");
            if listed.is_empty() {
                let (span, help) =
                    (root.span(), "add `chroots = [\"fedora-44-x86_64\"]`".to_owned());
                root.problem(
                    span,
                    "`chroots` is missing or empty",
                    "expected COPR's chroots",
                    Some(help),
                );
            }
            let mut settings = chroot_settings(root, &listed);
            let mut resolved = Vec::new();
            for at in listed {
                let (named, settings) = settings.remove(&at.value).unwrap_or_default();
                if let Some(definition) = definition(root, &at, named, chroots) {
                    resolved.push(CoprChroot { name: at, definition, ..settings });
                }
            }
            let long = |root: &mut Table<'_>, key| {
                root.lines(key).unwrap_or(At { value: String::new(), span: 0..0 })
            };
            Self {
                owner,
                project,
                chroots: resolved,
                description: long(root, "description"),
                instructions: long(root, "instructions"),
                homepage: root.string("homepage").map(|at| at.value),
                contact: root.string("contact").map(|at| at.value),
                timeout: timeout(root),
                network: root.boolean("network").unwrap_or(false),
                publish: one_of(root, "publish", PUBLISHED),
                unlisted: root.boolean("unlisted").unwrap_or(false),
                auto_prune: root.boolean("auto-prune").unwrap_or(true),
                follow_fedora_branching: root.boolean("follow-fedora-branching").unwrap_or(false),
                bootstrap: one_of(root, "bootstrap", BOOTSTRAPS),
                isolation: one_of(root, "isolation", ISOLATIONS),
                priority: root.integer("priority"),
                file,
            }
        })
    }

    /// Returns `owner/project`, as copr-cli takes it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.project)
    }

    /// Returns the projects in which the chroots are built: this one, and those that single chroots
    /// name.
    pub fn split(&self) -> Vec<Self> {
        let mut projects: Vec<Self> = Vec::new();
        for chroot in &self.chroots {
            let name = chroot.project.as_ref().unwrap_or(&self.project);
            match projects.iter_mut().find(|project| project.project == *name) {
                Some(project) => project.chroots.push(chroot.clone()),
                None => {
                    let chroots = vec![chroot.clone()];
                    projects.push(Self { project: name.clone(), chroots, ..self.clone() });
                }
            }
        }
        projects
    }

    /// Returns the project in which a definition of `mock-configs/` is built; this one if the
    /// definition is not one of the chroots.
    pub fn of_definition(&self, definition: &str) -> Self {
        let has = |project: &Self| project.chroot_of(definition).is_some();
        self.split().into_iter().find(has).unwrap_or_else(|| self.clone())
    }

    /// Returns the chroot for a definition of `mock-configs/`.
    pub fn chroot_of(&self, definition: &str) -> Option<&CoprChroot> {
        self.chroots.iter().find(|chroot| chroot.definition == definition)
    }
}

impl Default for CoprChroot {
    fn default() -> Self {
        let name = At { value: String::new(), span: 0..0 };
        Self {
            name,
            definition: String::new(),
            project: None,
            repositories: None,
            packages: Vec::new(),
        }
    }
}

/// Reads a name that becomes part of URLs and arguments. Source: COPR, coprs/forms.py,
/// `CoprForm`: `^[\w.-]+$`; an owner can be a group.
fn name(table: &mut Table<'_>, key: &str, at: Option<At<String>>, what: &str) -> String {
    if let Some(At { value, span }) = &at {
        let rest = if key == "owner" { value.strip_prefix('@').unwrap_or(value) } else { value };
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if rest.is_empty() || rest.starts_with('-') || !rest.chars().all(plain) {
            let message = format!("`{}` cannot be {what}", visible(value));
            table.problem(span.clone(), message, "expected letters, digits and . _ -", None);
        }
    }
    text(at)
}

/// Reads `[chroot.<name>]`: the definition that it names, and its other settings.
fn chroot_settings(
    root: &mut Table<'_>,
    listed: &[At<String>],
) -> BTreeMap<String, (Option<At<String>>, CoprChroot)> {
    let read = |key: At<String>, table: &mut Table<'_>| {
        if !listed.iter().any(|at| at.value == key.value) {
            let near = nearest(&key.value, listed.iter().map(|at| at.value.as_str()));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let message = format!("`{}` is not one of `chroots`", visible(&key.value));
            table.problem(
                key.span.clone(),
                message,
                "add it to `chroots`, or remove this table",
                help,
            );
        }
        let named = table.string("definition");
        let project = table.string("project");
        let project = project.map(|at| name(table, "project", Some(at), "the COPR project"));
        let repositories = table.has("repositories").then(|| urls(table, "repositories"));
        let packages = table.strings("packages");
        for At { value, span } in &packages {
            if value.is_empty() || value.contains(|c: char| c.is_whitespace() || c.is_control()) {
                let message = format!("`{}` cannot be a package's name", visible(value));
                table.problem(span.clone(), message, "expected one word without spaces", None);
            }
        }
        let packages = packages.into_iter().map(|at| at.value).collect();
        (
            key.value,
            (named, CoprChroot { project, repositories, packages, ..CoprChroot::default() }),
        )
    };
    root.table("chroot", |table| table.each_table(read)).unwrap_or_default().into_iter().collect()
}

/// Finds the definition of a chroot: the named one, else the only one that includes the mock config
/// of this name or has its release and architecture.
fn definition(
    root: &mut Table<'_>,
    at: &At<String>,
    named: Option<At<String>>,
    chroots: &BTreeMap<String, Chroot>,
) -> Option<String> {
    let matching: Vec<&String> = chroots
        .values()
        .filter(|chroot| !chroot.is_host() && stands_for(chroot, &at.value))
        .map(|chroot| &chroot.name)
        .collect();
    match (named, matching.as_slice()) {
        (Some(named), _) if chroots.get(&named.value).is_some_and(|chroot| !chroot.is_host()) => {
            Some(named.value)
        }
        (Some(named), _) => {
            let near = nearest(&named.value, chroots.keys().map(String::as_str));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let message = format!("unknown chroot `{}`", visible(&named.value));
            root.problem(named.span, message, "mock-configs/ has no definition of this name", help);
            None
        }
        (None, [one]) => Some((*one).clone()),
        (None, []) => {
            let known: Vec<&str> = chroots
                .values()
                .filter(|chroot| !chroot.is_host())
                .filter_map(|chroot| chroot.base_config.strip_suffix(".cfg"))
                .collect();
            let help = match nearest(&at.value, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("add a definition with `base-config = \"{}.cfg\"`", visible(&at.value))
                }
            };
            let message =
                format!("mock-configs/ has no definition for the chroot `{}`", visible(&at.value));
            root.problem(at.span.clone(), message, "no definition has this release", Some(help));
            None
        }
        (None, several) => {
            let list: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            let message = format!("`{}` is ambiguous: {}", visible(&at.value), list.join(" or "));
            let help = format!(
                "choose one: set `definition = \"{}\"` in `[chroot.{}]`",
                list[0], at.value
            );
            root.problem(
                at.span.clone(),
                message,
                "several definitions have this release",
                Some(help),
            );
            None
        }
    }
}

/// Returns whether a definition is for COPR's chroot of this name. COPR names its chroots after
/// the configs of mock-core-configs.
fn stands_for(chroot: &Chroot, name: &str) -> bool {
    match chroot.base_config.strip_suffix(".cfg") {
        Some(config) => config == name,
        None => name.ends_with(&format!("-{}-{}", chroot.release, chroot.arch)),
    }
}

fn urls(table: &mut Table<'_>, key: &str) -> Vec<String> {
    let listed = table.strings(key);
    for At { value, span } in &listed {
        if let Some(what) = refused_url(value) {
            let message = format!("COPR does not accept the repository `{}`", visible(value));
            table.problem(span.clone(), message, what, None);
        }
    }
    listed.into_iter().map(|at| at.value).collect()
}

/// Returns the reason why COPR would reject a repository's URL, if it would.
pub fn refused_url(url: &str) -> Option<&'static str> {
    if !REPOSITORY_SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return Some("expected https://, http:// or copr://");
    }
    url.contains(|c: char| c.is_whitespace() || c.is_control()).then_some("expected no spaces")
}

fn timeout(root: &mut Table<'_>) -> Option<Duration> {
    let At { value, span } = root.string("timeout")?;
    let timeout = duration::parse(&value);
    match timeout {
        None => {
            root.problem(span, "this is not a duration", "expected a duration such as `18 h`", None)
        }
        Some(timeout) if timeout > MAX_TIMEOUT => {
            root.problem(span, "COPR stops builds after 30 hours", "expected at most `30 h`", None);
        }
        Some(_) => {}
    }
    timeout
}

/// Reads one of the known words. [default: the first]
fn one_of(root: &mut Table<'_>, key: &str, known: &[&str]) -> String {
    let Some(At { value, span }) = root.string(key) else { return known[0].to_owned() };
    if !known.contains(&value.as_str()) {
        let near = nearest(&value, known.iter().copied());
        let help = near.map(|near| format!("did you mean `{near}`?"));
        let label = format!("expected one of: {}", known.join(", "));
        root.problem(span, format!("`{}` is not a value of `{key}`", visible(&value)), label, help);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chroots() -> BTreeMap<String, Chroot> {
        let text = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
                    rocm-provider = \"p\"\nbase-config = \"fedora-43-x86_64.cfg\"\n";
        let mut problems = Vec::new();
        let mut read = |name: &str| {
            let file = File { name: format!("mock-configs/{name}.toml"), text: text.to_owned() };
            (name.to_owned(), Chroot::read(name, file, &mut problems))
        };
        BTreeMap::from([read("fedora-43"), read("host")])
    }

    fn read(text: &str) -> (CoprProject, Vec<(String, Option<String>)>) {
        let file = File { name: "copr/project.toml".into(), text: text.to_owned() };
        let mut problems = Vec::new();
        let project = CoprProject::read(file, &chroots(), &mut problems);
        (project, problems.into_iter().map(|p| (p.message, p.help)).collect())
    }

    #[test]
    fn minimal_project_has_safe_defaults_and_a_chroot() {
        let (project, problems) =
            read("owner = \"@g\"\nproject = \"p\"\nchroots = [\"fedora-43-x86_64\"]\n");
        assert_eq!(problems, []);
        assert_eq!(project.full_name(), "@g/p");
        assert_eq!(project.repository_id(), "copr:copr.fedorainfracloud.org:group_g:p");
        assert_eq!(project.chroots[0].definition, "fedora-43");
        assert_eq!(project.chroot_of("fedora-43").unwrap().name.value, "fedora-43-x86_64");
        assert!(!project.network && project.auto_prune && project.timeout.is_none());
    }

    #[test]
    fn reports_every_mistake() {
        let (_, problems) = read(
            "owner = \"a b\"\nproject = \"p\"\nchroots = [\"fedora-44-x86_64\"]\ntimeout = \"31 h\"\n\
             bootstrap = \"onn\"\n[chroot.fedora-43]\nrepositories = [\"file:///x\"]\n",
        );
        let messages: Vec<&str> = problems.iter().map(|(message, _)| message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "`a b` cannot be the COPR user or @group",
                "`fedora-43` is not one of `chroots`",
                "COPR does not accept the repository `file:///x`",
                "mock-configs/ has no definition for the chroot `fedora-44-x86_64`",
                "COPR stops builds after 30 hours",
                "`onn` is not a value of `bootstrap`",
            ]
        );
        assert_eq!(problems[3].1.as_deref(), Some("did you mean `fedora-43-x86_64`?"));
        assert_eq!(problems[5].1.as_deref(), Some("did you mean `on`?"));
    }
}
