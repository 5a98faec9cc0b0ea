//! `rocmrpm.toml`: the name and the settings of a workspace.

use super::document::{At, File, Table};
use super::flavor::{self, Containers};
use super::index::IndexRules;
use crate::canonical::Canonical;
use crate::error::Problem;
use crate::gpu::GpuTarget;
use crate::gpu_families;
use crate::names::nearest;
use crate::text::visible;

/// The content of `rocmrpm.toml`.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The name of the stack, for labels and repository IDs.
    pub name: String,
    /// The GPU targets that every component is built for, sorted.
    pub gpu_targets: Vec<GpuTarget>,
    /// The chroot without `--chroot`.
    pub default_chroot: At<String>,
    /// The pin set without `--pins`.
    pub default_pins: At<String>,
    /// Where wheels find ROCm: `[wheels] rocm`.
    pub wheel_rocm: RocmSource,
    /// How wheels use ROCm's Python packages: further keys of `[wheels]`.
    pub wheel_sdk: SdkRules,
    /// The pip index: `[index]`.
    pub index: IndexRules,
    /// The flavors of the container file to render: `[container]`.
    pub containers: Containers,
    /// gpg's name of the key that signs packages and metadata: `[signing] key`.
    pub signing_key: Option<String>,
    /// Where users find the repository: `[repository]`.
    pub repository: PublishedRepository,
}

/// The table `[repository]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedRepository {
    /// The base URL, as written to dnf's configuration.
    pub url: Option<String>,
    /// How many builds of a package the repository keeps.
    pub keep: usize,
}

impl Default for PublishedRepository {
    fn default() -> Self {
        Self { url: None, keep: 1 }
    }
}

/// What provides the ROCm libraries of installed wheels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RocmSource {
    /// The RPMs of the chroot's ROCm provider.
    #[default]
    System,
    /// AMD's `rocm-sdk-*` wheels, in the same site-packages.
    RocmSdk,
    /// The wheel itself, with files of ROCm's Python packages.
    Bundled,
}

/// How wheels use ROCm's Python packages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SdkRules {
    /// Whether wheels require the exact version: `rocm-version = "exact"`.
    pub exact: bool,
    /// Whether another version is an error: `on-mismatch = "error"`.
    pub fails: bool,
    /// Whether symbols of loaded libraries stay out of the global scope: `rtld-global = false`.
    pub local: bool,
    /// Whether search paths are set to lead to the packages: `relink`.
    pub relink: bool,
}

impl Canonical for RocmSource {
    fn write(&self, text: &mut String) {
        text.push_str(match self {
            Self::System => "System",
            Self::RocmSdk => "RocmSdk",
            Self::Bundled => "Bundled",
        });
    }
}

impl Manifest {
    /// Reads `rocmrpm.toml`.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        file.parse(problems, |root| {
            let wheels = root.table("wheels", |table| (rocm_source(table), sdk_rules(table)));
            let (wheel_rocm, wheel_sdk) = wheels.unwrap_or_default();
            let index = root.table("index", IndexRules::read).unwrap_or_default();
            let signing_key = root.table("signing", signing_key).flatten();
            let repository = root.table("repository", repository).unwrap_or_default();
            let containers = root.table("container", flavor::read).unwrap_or_else(flavor::usual);
            let read = |stack: &mut Table<'_>| Self {
                signing_key: signing_key.clone(),
                repository: repository.clone(),
                wheel_rocm,
                wheel_sdk,
                index: index.clone(),
                containers: containers.clone(),
                name: plain(stack, "name", "the stack's name"),
                gpu_targets: gpu_targets(stack, "gpu-targets", true),
                default_chroot: or_default(stack.string("default-chroot"), "fedora-43"),
                default_pins: or_default(stack.string("default-pins"), "stable"),
            };
            match root.table("stack", read) {
                Some(manifest) => manifest,
                None => {
                    let span = root.span();
                    root.problem(
                        span,
                        "the table `[stack]` is missing",
                        "expected `[stack]`",
                        None,
                    );
                    Self {
                        name: String::new(),
                        gpu_targets: Vec::new(),
                        default_chroot: or_default(None, "fedora-43"),
                        default_pins: or_default(None, "stable"),
                        wheel_rocm,
                        wheel_sdk,
                        index,
                        signing_key,
                        repository,
                        containers,
                    }
                }
            }
        })
    }
}

/// Reads the table `[wheels]`.
fn rocm_source(table: &mut Table<'_>) -> RocmSource {
    let Some(At { value, span }) = table.string("rocm") else { return RocmSource::default() };
    match value.as_str() {
        "system" => RocmSource::System,
        "rocm-sdk" => RocmSource::RocmSdk,
        "bundled" => RocmSource::Bundled,
        other => {
            let help = nearest(other, ["system", "rocm-sdk", "bundled"]);
            let help = help.map(|name| format!("did you mean `{name}`?"));
            let message = format!("unknown source of ROCm `{}`", visible(other));
            table.problem(span, message, "expected `system`, `rocm-sdk` or `bundled`", help);
            RocmSource::default()
        }
    }
}

/// Reads how wheels use ROCm's Python packages.
fn sdk_rules(table: &mut Table<'_>) -> SdkRules {
    let mut choice = |key: &str, usual: &str, other: &str| {
        let Some(At { value, span }) = table.string(key) else { return false };
        if value != usual && value != other {
            let help =
                nearest(&value, [usual, other]).map(|name| format!("did you mean `{name}`?"));
            let message = format!("unknown value `{}` of `{key}`", visible(&value));
            table.problem(span, message, format!("expected `{usual}` or `{other}`"), help);
        }
        value == other
    };
    SdkRules {
        exact: choice("rocm-version", "minor", "exact"),
        fails: choice("on-mismatch", "warn", "error"),
        local: table.boolean("rtld-global") == Some(false),
        relink: table.boolean("relink") == Some(true),
    }
}

/// Reads the table `[signing]`.
fn signing_key(table: &mut Table<'_>) -> Option<String> {
    let At { value, span } =
        table.required_string("key", "gpg's name of a key: its fingerprint or a user ID")?;
    if value.trim().is_empty() || value.chars().any(char::is_control) {
        let help = "list your keys with `gpg --list-secret-keys`".to_owned();
        table.problem(
            span,
            "`key` must not be empty",
            "expected a fingerprint or a user ID",
            Some(help),
        );
        return None;
    }
    Some(value)
}

/// Reads the table `[repository]`.
fn repository(table: &mut Table<'_>) -> PublishedRepository {
    let url = table.string("url").and_then(|At { value, span }| {
        let known =
            ["https://", "http://", "file:///"].iter().any(|scheme| value.starts_with(scheme));
        if known && !value.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Some(value.trim_end_matches('/').to_owned());
        }
        let message = format!("`{}` is not a repository URL that dnf supports", visible(&value));
        table.problem(
            span,
            message,
            "expected a URL such as `https://example.org/rocm/$releasever`",
            None,
        );
        None
    });
    let keep = table.integer("keep").unwrap_or(1);
    let number = usize::try_from(keep).ok().filter(|number| *number > 0);
    if number.is_none() {
        let span = table.span();
        let message = format!("`keep` must be 1 or more, found {keep}");
        table.problem(span, message, "expected the number of builds to keep of each package", None);
    }
    PublishedRepository { url, keep: number.unwrap_or(1) }
}

/// Reads a list of GPU targets and TheRock's families of them, and suggests the nearest known name
/// for an unknown one. The result has targets only, is sorted, and has no duplicates.
pub(super) fn gpu_targets(table: &mut Table<'_>, key: &str, required: bool) -> Vec<GpuTarget> {
    if required && !table.has(key) {
        let span = table.span();
        table.problem(
            span,
            format!("`{key}` is missing"),
            "expected a list of GPU targets",
            Some(format!("add `{key} = [\"gfx1151\"]`")),
        );
    }
    let listed = table.strings(key);
    let mut targets = Vec::new();
    for At { value, span } in &listed {
        match gpu_families::targets_of(value) {
            Some(of_name) => targets.extend(of_name),
            None => {
                let near = gpu_families::nearest_to(value);
                let help = near.map(|near| format!("did you mean `{near}`?"));
                table.problem(
                    span.clone(),
                    format!("unknown GPU target `{value}`"),
                    "LLVM's AMDGPU backend has no such target",
                    help,
                );
            }
        }
    }
    if required && table.is_empty_list(key) {
        let span = table.span();
        table.problem(span, format!("`{key}` is empty"), "expected at least one GPU target", None);
    }
    targets.sort();
    targets.dedup();
    targets
}

/// Reads a required name that becomes part of file names and command lines.
pub(super) fn plain(table: &mut Table<'_>, key: &str, what: &str) -> String {
    let name = table.required_string(key, what);
    if let Some(name) = &name {
        table.must_be_plain(name, what);
    }
    text(name)
}

pub(super) fn text(value: Option<At<String>>) -> String {
    value.map(|at| at.value).unwrap_or_default()
}

fn or_default(value: Option<At<String>>, default: &str) -> At<String> {
    value.unwrap_or_else(|| At { value: default.to_owned(), span: 0..0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tables: &str) -> (Manifest, Vec<String>) {
        let text = format!("[stack]\nname = \"s\"\ngpu-targets = [\"gfx1151\"]\n{tables}");
        let mut problems = Vec::new();
        let manifest = Manifest::read(&File { name: "rocmrpm.toml".into(), text }, &mut problems);
        (manifest, problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn validates_optional_signing_and_repository() {
        let (manifest, problems) = read("");
        assert_eq!((manifest.signing_key, manifest.repository.keep, problems.len()), (None, 1, 0));
        let (manifest, problems) = read(
            "[signing]\nkey = \"A <a@b>\"\n[repository]\nurl = \"https://h/$releasever/\"\nkeep = 3\n",
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(manifest.signing_key.as_deref(), Some("A <a@b>"));
        let repository = PublishedRepository { url: Some("https://h/$releasever".into()), keep: 3 };
        assert_eq!(manifest.repository, repository);
        let (_, problems) =
            read("[signing]\nkey = \" \"\nkeys = 1\n[repository]\nurl = \"ftp://h x\"\nkeep = 0\n");
        assert_eq!(problems.len(), 4, "{problems:?}");
        let (_, problems) = read("[signing]\n");
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    #[test]
    fn expands_families_of_gpu_targets() {
        let read = |targets: &str| {
            let text = format!("[stack]\nname = \"s\"\ngpu-targets = [{targets}]\n");
            let mut problems = Vec::new();
            let file = File { name: "rocmrpm.toml".into(), text };
            let targets = Manifest::read(&file, &mut problems).gpu_targets;
            let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
            let problems = problems.into_iter().map(|p| (p.message, p.help.unwrap_or_default()));
            (names.join(" "), problems.collect::<Vec<_>>())
        };
        let (targets, problems) = read("\"gfx1151\", \"gfx110X-dgpu\", \"gfx1100\"");
        assert_eq!((targets.as_str(), problems), ("gfx1100 gfx1101 gfx1102 gfx1151", vec![]));
        let (_, problems) = read("\"gfx110X\"");
        let help = "did you mean `gfx110X-all`?".to_owned();
        assert_eq!(problems, [("unknown GPU target `gfx110X`".to_owned(), help)]);
    }
}
