//! Renders a component's spec from its template and provides the template's variables. It does not
//! write files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::edits::{EditValues, edits};
use super::error::SpecError;
use super::escape::{escape, key};
use super::exports::{Export, exports};
use super::history::{History, Release};
use super::surroundings::{
    ChrootValues, ClosureValues, RocmValue, chroot_values, closure_values, rocm_values,
};
use crate::digest::Sha256;
use crate::gpu::{self, GpuTarget};
use crate::rpm_version::of_pin;
use crate::sources;
use crate::stack::Stack;
use crate::template::Templates;
use crate::workspace::{Component, Pin, Source, Workspace};

/// A rendered spec with the data that a build needs.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The name of the spec file.
    pub file_name: String,
    /// The text of the spec.
    pub text: String,
    /// The digest of the text.
    pub digest: Sha256,
    /// The Release and changelog in the spec.
    pub release: Release,
}

/// The variables of a spec template.
#[derive(Serialize)]
struct SpecValues<'a> {
    name: &'a str,
    version: String,
    /// The version in RPM's syntax, for `Version:` of what comes from a package index.
    rpm_version: String,
    release: &'a str,
    changelog: &'a str,
    source: String,
    source_url: String,
    source_dir: String,
    /// The lines `Source0:`, `Source1:`, ... for all sources.
    source_lines: String,
    /// The further sources by name, with `-` replaced by `_`.
    sources: BTreeMap<String, SourceValues>,
    patches: Vec<&'a str>,
    edits: Vec<EditValues>,
    /// The versions of all pins in the set, with `-` in names replaced by `_`; empty if no template
    /// uses them.
    versions: BTreeMap<String, String>,
    gpu_targets: Vec<&'a str>,
    /// The provides that list the GPU targets of a package.
    gpu_provides: String,
    /// The processors of the GPU targets, for one package each.
    gpu_processors: Vec<Processor<'a>>,
    exports: Vec<Export>,
    /// The `[env]` table of component.toml, verbatim.
    env: BTreeMap<&'a str, &'a str>,
    memory_per_job_mb: u64,
    rocm: BTreeMap<String, RocmValue>,
    chroot: ChrootValues,
    closure: ClosureValues,
}

#[derive(Serialize)]
struct Processor<'a> {
    /// The target without features: RPM's names cannot contain `:`.
    name: &'a str,
    /// The lines of `gpu_provides` for its targets.
    provides: String,
}

#[derive(Serialize)]
struct SourceValues {
    number: usize,
    file: String,
    url: String,
    dir: String,
    version: String,
    /// The lines of the comment above its line in the spec.
    #[serde(skip)]
    comment: Vec<String>,
}

/// Renders the spec of a component, with Release and changelog from the git history.
pub fn render(
    stack: &Stack<'_>,
    component: &Component,
    history: &History,
) -> Result<Rendered, SpecError> {
    let release = history.release(stack, component);
    let form = Form { release, edit_patches: None, source_url, source_comment: origin };
    render_form(stack, component, form)
}

/// What a spec contains for its purpose.
pub(super) struct Form<'a> {
    pub release: Release,
    /// The names of patches that replace the component's edits. If given, the spec does not contain
    /// what only rocmrpm uses.
    pub edit_patches: Option<&'a [&'a str]>,
    /// Returns the value of a source's line, escaped.
    pub source_url: fn(&Pin) -> String,
    /// Returns the lines of a comment to write above a source's line.
    pub source_comment: fn(&Pin) -> Vec<String>,
}

/// Renders the spec of a component in this form.
pub(super) fn render_form(
    stack: &Stack<'_>,
    component: &Component,
    form: Form<'_>,
) -> Result<Rendered, SpecError> {
    let Form { release, edit_patches, source_url, source_comment } = form;
    let workspace = stack.workspace;
    let pin = workspace.pin(component);
    let targets: Vec<&str> = stack.gpu_targets(component).iter().map(|t| t.as_str()).collect();
    let all_sources: Vec<(&str, SourceValues)> = pin
        .all_sources()
        .enumerate()
        .map(|(n, (name, pin))| {
            (name, source_values(n, pin, source_url(pin), &source_comment(pin)))
        })
        .collect();
    let source_lines = source_lines(&all_sources);
    let files = template_files(workspace, component)?;
    let values = SpecValues {
        name: component.name.as_str(),
        version: escape(&pin.version),
        rpm_version: escape(&of_pin(pin)),
        release: &release.release,
        changelog: &release.changelog,
        source: all_sources[0].1.file.clone(),
        source_url: all_sources[0].1.url.clone(),
        source_dir: all_sources[0].1.dir.clone(),
        source_lines,
        sources: all_sources
            .into_iter()
            .skip(1)
            .map(|(name, values)| (key(name), values))
            .collect(),
        patches: component
            .patches_for(&pin.version)
            .map(|patch| patch.file_name.as_str())
            .chain(edit_patches.unwrap_or_default().iter().copied())
            .collect(),
        edits: match edit_patches {
            None => edits(workspace, component, pin)?,
            Some(_) => Vec::new(),
        },
        versions: if mention_versions(&files) { versions(workspace) } else { BTreeMap::new() },
        gpu_provides: match edit_patches {
            None => gpu_provides(&targets),
            Some(_) => String::new(),
        },
        gpu_processors: processors(stack.gpu_targets(component), edit_patches.is_none()),
        env: component.env.iter().map(|(name, at)| (name.as_str(), at.value.as_str())).collect(),
        exports: exports(component, &workspace.provider, &targets)?,
        gpu_targets: targets,
        memory_per_job_mb: component.memory_per_job / 1_000_000,
        rocm: rocm_values(&workspace.provider, stack.gpu_targets(component)),
        chroot: chroot_values(workspace)?,
        closure: closure_values(workspace, component),
    };
    let template = relative(&workspace.root, &component.template);
    let templates = Templates::parse(files)?;
    let text = templates.render(&template, &values)?;
    let missing = left_out(&values, &text);
    if !missing.is_empty() {
        return Err(SpecError::LeavesOut { template, missing });
    }
    let text = format!("{}\n", text.trim_end());
    let digest = Sha256::of_bytes(&text);
    Ok(Rendered { file_name: component.spec_name(), digest, text, release })
}

/// Returns whether templates use the versions, or tera's variable that contains all others.
fn mention_versions(files: &[(String, String)]) -> bool {
    files.iter().any(|(_, text)| text.contains("versions") || text.contains("__tera_context"))
}

/// Returns the versions of all pins. In a workspace with 1000 components, this is the most
/// expensive part of rendering a spec.
fn versions(workspace: &Workspace) -> BTreeMap<String, String> {
    let pins = workspace.pins.pins.iter();
    pins.map(|(name, at)| (key(name.as_str()), escape(&at.value.version))).collect()
}

/// Returns what a template omits. Otherwise a package could silently be built without a patch, or
/// with a download from the network.
fn left_out(values: &SpecValues<'_>, text: &str) -> Vec<String> {
    // A spec cannot be built without its main source, whose name may be built from macros.
    let sources = values.sources.values().filter(|source| {
        !text.contains(&format!("Source{}:", source.number)) && !text.contains(&source.file)
    });
    let sources = sources.map(|source| format!("source `{}`", source.file));
    let patches = values.patches.iter().filter(|file| !text.contains(**file));
    let patches = patches.map(|file| format!("patch `{file}`"));
    let edits = values
        .edits
        .iter()
        .filter(|edit| !text.contains(&format!("{} {} {}", edit.file, edit.find, edit.replace)));
    let edits = edits.map(|edit| format!("edit of {}", edit.file));
    sources.chain(patches).chain(edits).collect()
}

/// Returns the value of a `Source:` line, escaped.
pub(super) fn source_url(pin: &Pin) -> String {
    let file = sources::file_name(pin);
    let url = match &pin.source {
        // Strip credentials: specs are published.
        Source::Url { url, .. } if url.ends_with(&file) => sources::shown_url(url),
        Source::Url { url, .. } => format!("{}#/{file}", sources::shown_url(url)),
        _ => file,
    };
    escape(&url)
}

fn source_values(number: usize, pin: &Pin, url: String, comment: &[String]) -> SourceValues {
    SourceValues {
        number,
        file: escape(&sources::file_name(pin)),
        url,
        dir: escape(&sources::source_dir(pin)),
        version: escape(&pin.version),
        comment: comment.iter().map(|line| escape(line)).collect(),
    }
}

/// Returns where a source without a URL comes from, as the lines of a comment.
fn origin(pin: &Pin) -> Vec<String> {
    match &pin.source {
        Source::Url { .. } => Vec::new(),
        Source::Git { url, commit, submodules, paths } => {
            let commit = commit.as_deref().unwrap_or("that is pinned");
            let what = match (submodules, paths.as_slice()) {
                (true, []) => ", with its submodules".to_owned(),
                (_, []) => String::new(),
                (_, paths) => format!(", only {}", paths.join(" ")),
            };
            vec![
                format!("Packed by rocmrpm from {}", sources::shown_url(url)),
                format!("at commit {commit}{what}."),
            ]
        }
        Source::Sdist { .. } => {
            vec!["From the Python package index, a source distribution.".into()]
        }
        Source::Wheel { .. } => vec!["From the Python package index, upstream's wheel.".into()],
        Source::Folder { .. } => vec!["Packed by rocmrpm from a folder of its workspace.".into()],
        Source::Crates { lock_file, .. } => {
            vec![format!("The crates of {lock_file}, vendored and packed by rocmrpm.")]
        }
    }
}

fn source_lines(sources: &[(&str, SourceValues)]) -> String {
    let mut lines = Vec::new();
    let mut above: &[String] = &[];
    for (_, source) in sources {
        // One comment for several sources that share it.
        if source.comment != above {
            lines.extend(source.comment.iter().map(|line| format!("# {line}")));
            above = &source.comment;
        }
        let tag = format!("Source{}:", source.number);
        lines.push(format!("{tag:<15} {}", source.url));
    }
    lines.join("\n")
}

fn gpu_provides(targets: &[&str]) -> String {
    let line = |target: &&str| format!("Provides:       {}", gpu::provide(target));
    targets.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn processors(targets: &[GpuTarget], provides: bool) -> Vec<Processor<'_>> {
    let mut processors: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for target in targets {
        let provided = processors.entry(target.processor()).or_default();
        provided.extend(provides.then_some(target.as_str()));
    }
    let processors = processors.into_iter();
    processors.map(|(name, of)| Processor { name, provides: gpu_provides(&of) }).collect()
}

fn template_files(
    workspace: &Workspace,
    component: &Component,
) -> std::io::Result<Vec<(String, String)>> {
    let mut paths = vec![component.template.clone()];
    let shared = workspace.root.join("specs-templates/_shared");
    if shared.is_dir() {
        for entry in fs_err::read_dir(shared)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "tera") {
                paths.push(path);
            }
        }
    }
    let read =
        |path: &PathBuf| Ok((relative(&workspace.root, path), fs_err::read_to_string(path)?));
    paths.iter().map(read).collect()
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_the_origin_of_sources_without_a_url() {
        let sources: Vec<_> = [
            Source::Git {
                url: "https://h/x".into(),
                commit: Some("0123".into()),
                submodules: true,
                paths: Vec::new(),
            },
            Source::Wheel { file: "a-1-py3-none-any.whl".into(), sha256: None },
            Source::Wheel { file: "b-1-py3-none-any.whl".into(), sha256: None },
            Source::Url { url: "https://h/c-1.tar.gz".into(), sha256: None },
        ]
        .into_iter()
        .enumerate()
        .map(|(number, source)| {
            let name = crate::names::ComponentName::parse("x").unwrap();
            let pin = Pin::new(name, "1", source);
            ("x", source_values(number, &pin, source_url(&pin), &origin(&pin)))
        })
        .collect();
        assert_eq!(
            source_lines(&sources),
            "# Packed by rocmrpm from https://h/x\n\
             # at commit 0123, with its submodules.\n\
             Source0:        x-1.tar.gz\n\
             # From the Python package index, upstream's wheel.\n\
             Source1:        a-1-py3-none-any.whl\n\
             Source2:        b-1-py3-none-any.whl\n\
             Source3:        https://h/c-1.tar.gz"
        );
    }
}
