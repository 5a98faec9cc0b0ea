//! `rocmrpm.toml` and `copr/project.toml`: what the workspace is called, builds
//! for, and publishes to.

use super::document::{At, File, Table};
use crate::error::Problem;
use crate::gpu::GpuTarget;
use crate::names::nearest;

/// The content of `rocmrpm.toml`.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The stack's name, for labels and repository ids.
    pub name: String,
    /// The GPU targets that every component is built for, sorted.
    pub gpu_targets: Vec<GpuTarget>,
    /// The chroot to build against unless `--chroot` says otherwise.
    pub default_chroot: At<String>,
    /// The pin set to use unless `--pins` says otherwise.
    pub default_pins: At<String>,
}

impl Manifest {
    /// Reads `rocmrpm.toml`.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        file.parse(problems, |root| {
            let read = |stack: &mut Table<'_>| Self {
                name: plain(stack, "name", "the stack's name"),
                gpu_targets: gpu_targets(stack, "gpu-targets", true),
                default_chroot: or_default(stack.string("default-chroot"), "fedora-43"),
                default_pins: or_default(stack.string("default-pins"), "stable"),
            };
            match root.table("stack", read) {
                Some(manifest) => manifest,
                None => {
                    let span = root.span();
                    root.problem(span, "the table `[stack]` is missing", "expected `[stack]`", None);
                    Self {
                        name: String::new(),
                        gpu_targets: Vec::new(),
                        default_chroot: or_default(None, "fedora-43"),
                        default_pins: or_default(None, "stable"),
                    }
                }
            }
        })
    }
}

/// The content of `copr/project.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoprProject {
    /// User or `@group`.
    pub owner: String,
    /// The project's name.
    pub project: String,
    /// COPR's chroots, such as `fedora-43-x86_64`.
    pub chroots: Vec<String>,
    /// Markdown.
    pub description: String,
    /// Markdown.
    pub instructions: String,
}

impl CoprProject {
    /// Reads `copr/project.toml`.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        file.parse(problems, |root| Self {
            owner: text(root.required_string("owner", "the COPR user or @group")),
            project: text(root.required_string("project", "the COPR project")),
            chroots: root.strings("chroots").into_iter().map(|at| at.value).collect(),
            description: root.lines("description").map(|at| at.value).unwrap_or_default(),
            instructions: root.lines("instructions").map(|at| at.value).unwrap_or_default(),
        })
    }
}

/// Reads a list of GPU targets; unknown names are problems with the nearest known
/// one. The result is sorted and free of duplicates.
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
        match GpuTarget::parse(value) {
            Some(target) => targets.push(target),
            None => {
                let help = nearest(value, GpuTarget::known()).map(|n| format!("did you mean `{n}`?"));
                table.problem(
                    span.clone(),
                    format!("unknown GPU target `{value}`"),
                    "not a name that LLVM's AMDGPU backend knows",
                    help,
                );
            }
        }
    }
    if required && table.has(key) && listed.is_empty() {
        let span = table.span();
        table.problem(span, format!("`{key}` is empty"), "expected at least one GPU target", None);
    }
    targets.sort();
    targets.dedup();
    targets
}

/// Reads a required name that ends up in file names and command lines.
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
