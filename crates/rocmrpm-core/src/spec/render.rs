//! Renders a component's spec from its template and provides the template's variables. It does not
//! write files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::exclude::requires_pattern;
use super::history::{History, Release};
use crate::digest::Sha256;
use crate::error::{Diagnose, Diagnosis, Kind, Problem};
use crate::machine;
use crate::names::nearest;
use crate::process::ProcessError;
use crate::rpm_version::of_pin;
use crate::sources;
use crate::stack::Stack;
use crate::template::{TemplateError, Templates};
use crate::workspace::{
    Capability, Component, MemberPlace, Pin, Provider, RocmVersion, Source, Workspace,
};

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

/// Errors that occur while rendering a spec.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The template is invalid.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// An environment variable in `component.toml` is invalid.
    #[error("`{component}` has invalid environment variables")]
    Env {
        /// The name of the component.
        component: String,
        /// The invalid values.
        problems: Vec<Problem>,
    },
    /// An edit in `component.toml` is invalid.
    #[error("`{component}` has invalid edits")]
    Edits {
        /// The name of the component.
        component: String,
        /// The invalid edits.
        problems: Vec<Problem>,
    },
    /// The template ignores something in the pin or `component.toml`.
    #[error("the template `{template}` does not use {}", missing.join(", "))]
    LeavesOut {
        /// The path of the template in the workspace.
        template: String,
        /// The missing parts.
        missing: Vec<String>,
    },
    /// The header specified by the provider does not contain ROCm's version.
    #[error("cannot find ROCm's version in `{}`", path.display())]
    NoRocm {
        /// The path of the header.
        path: PathBuf,
    },
    /// A template could not be read.
    #[error("cannot read a template")]
    Io(#[from] std::io::Error),
    /// A program to query this machine failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Diagnose for SpecError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Template(error) => error.diagnosis(),
            Self::Env { problems, .. } | Self::Edits { problems, .. } => {
                Diagnosis::from(Kind::Config).with_problems(problems)
            }
            Self::LeavesOut { .. } => Kind::Config.with_help(
                "write the sources with `<{ source_lines }>`, the patches with a loop over `patches`, and \
                 the edits with `<@ include \"_shared/edits.tera\" @>` after %autosetup",
            ),
            Self::NoRocm { .. } => Kind::MissingTool.with_help(
                "on Fedora: `dnf install rocm-hip-devel`; on Debian: `apt-get install libamdhip64-dev`",
            ),
            Self::Io(error) => Diagnosis::of_io(error),
            Self::Process(error) => error.diagnosis(),
        }
    }
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
    exports: Vec<Export>,
    /// The `[env]` table of component.toml, verbatim.
    env: BTreeMap<&'a str, &'a str>,
    memory_per_job_mb: u64,
    rocm: BTreeMap<String, RocmValue>,
    chroot: ChrootValues,
    closure: ClosureValues,
}

/// The last written Python closure of a component; empty if it has none.
#[derive(Serialize, Default)]
struct ClosureValues {
    /// The package of the private members; empty if there are none.
    runtime: String,
    /// The prefix of the private members.
    prefix: String,
    /// Code at the top of a module that makes the system Python print which Python to use instead.
    guard: String,
    private: Vec<String>,
    dropped: Vec<DroppedValues>,
    /// The value of `__requires_exclude`; empty if nothing is excluded.
    requires_exclude: String,
    requires: Vec<String>,
    /// RPMs of an earlier release to remove on upgrade.
    obsoletes: Vec<String>,
}

#[derive(Serialize)]
struct DroppedValues {
    name: String,
    /// The feature that is unavailable without it.
    without: String,
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

/// An edit of the upstream text with quoted shell words, for `_shared/edits.tera`.
#[derive(Serialize)]
struct EditValues {
    matches: usize,
    file: String,
    find: String,
    replace: String,
    reason: String,
}

#[derive(Serialize)]
struct Export {
    name: String,
    value: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RocmValue {
    Text(String),
    Names(Vec<String>),
    Capability(BTreeMap<&'static str, String>),
}

#[derive(Serialize)]
struct ChrootValues {
    name: String,
    release: String,
    python: String,
}

/// The variables that build systems read GPU targets from; all get the same list.
pub const TARGET_VARIABLES: &[&str] = &[
    "AMDGPU_TARGETS",
    "AOTRITON_TARGET_ARCH",
    "CMAKE_HIP_ARCHITECTURES",
    "GPU_ARCHS",
    "GPU_TARGETS",
    "PYTORCH_ROCM_ARCH",
];

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
        env: component.env.iter().map(|(name, at)| (name.as_str(), at.value.as_str())).collect(),
        exports: exports(component, &workspace.provider, &targets)?,
        gpu_targets: targets,
        memory_per_job_mb: component.memory_per_job / 1_000_000,
        rocm: rocm_values(&workspace.provider),
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
    let line = |target: &&str| format!("Provides:       rocm-gfx({target})");
    targets.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns a name that templates can use after a dot.
fn key(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the component's edits for this version with placeholders replaced.
fn edits(
    workspace: &Workspace,
    component: &Component,
    pin: &Pin,
) -> Result<Vec<EditValues>, SpecError> {
    let (mut edits, mut problems) = (Vec::new(), Vec::new());
    for edit in component.edits_for(&pin.version) {
        let replace = edit_text(workspace, pin, &edit.replace.value).unwrap_or_else(|unknown| {
            let known = EDIT_PLACEHOLDERS.join(" ");
            let message = format!("unknown placeholder `{unknown}`");
            let at = edit.replace.span.clone();
            problems.push(component.file.problem(at, message, format!("expected one of {known}")));
            String::new()
        });
        let folder = match &edit.source {
            None => String::new(),
            Some(name) => match pin.sources.get(name) {
                Some(source) => format!("{}/", sources::source_dir(source)),
                None => {
                    let message = format!("the pin has no source `{name}`");
                    problems.push(component.file.problem(
                        edit.span.clone(),
                        message,
                        "this edit names it",
                    ));
                    continue;
                }
            },
        };
        let word = |text: &str| escape(&format!("'{}'", single_quoted(text)));
        edits.push(EditValues {
            matches: edit.matches,
            file: word(&format!("{folder}{}", edit.file)),
            find: word(&edit.find),
            replace: word(&replace),
            reason: escape(&edit.reason),
        });
    }
    if problems.is_empty() {
        return Ok(edits);
    }
    Err(SpecError::Edits { component: component.name.to_string(), problems })
}

/// The placeholders in an edit's `replace`.
const EDIT_PLACEHOLDERS: &[&str] = &["@PREFIX@", "@LIBDIR@", "@LLVM_BIN@", "@VERSION@", "@PYTHON@"];

/// Replaces the placeholders of an edit; the error is the first unknown one.
pub fn edit_text(workspace: &Workspace, pin: &Pin, text: &str) -> Result<String, String> {
    let Provider { prefix, libdir, llvm_bin, .. } = &workspace.provider;
    let python = workspace.chroot.python.clone();
    let values = [prefix, libdir, llvm_bin, &pin.version, &python];
    let filled = EDIT_PLACEHOLDERS
        .iter()
        .zip(values)
        .fold(text.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value));
    // A remaining uppercase word between two `@` is a misspelled placeholder.
    let mut parts = filled.split('@').skip(1).collect::<Vec<_>>();
    parts.pop();
    let capitals = |part: &&&str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    };
    match parts.iter().find(capitals) {
        Some(part) => Err(format!("@{part}@")),
        None => Ok(filled),
    }
}

/// Returns the ROCm version of the provider, such as `7.2`.
pub fn rocm_version(provider: &Provider) -> Result<String, SpecError> {
    match &provider.version {
        RocmVersion::Known(version) => Ok(version.clone()),
        RocmVersion::Header(path) => {
            let path = Path::new(path);
            machine::hip_version(path).ok_or_else(|| SpecError::NoRocm { path: path.to_owned() })
        }
    }
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

fn exports(
    component: &Component,
    provider: &Provider,
    targets: &[&str],
) -> Result<Vec<Export>, SpecError> {
    let joined = targets.join(";");
    let mut exports: BTreeMap<String, String> =
        TARGET_VARIABLES.iter().map(|name| ((*name).to_owned(), joined.clone())).collect();
    let mut problems = Vec::new();
    for (name, at) in &component.env {
        if !is_variable_name(name) {
            let message = format!("`{name}` cannot be the name of an environment variable");
            let label = "expected letters, digits and `_`, starting with a letter or `_`";
            problems.push(component.file.problem(at.span.clone(), message, label));
            continue;
        }
        match fill_in(&at.value, &[("prefix", &provider.prefix), ("gpu-targets", &joined)]) {
            Ok(value) => {
                exports.insert(name.clone(), value);
            }
            Err(unknown) => {
                let near = nearest(&unknown, ["prefix", "gpu-targets"]);
                let message = format!("unknown placeholder `{{{unknown}}}` in `{name}`");
                let problem = component.file.problem(
                    at.span.clone(),
                    message,
                    "expected {prefix} or {gpu-targets}",
                );
                problems.push(Problem {
                    help: near.map(|n| format!("did you mean `{{{n}}}`?")),
                    ..problem
                });
            }
        }
    }
    if !problems.is_empty() {
        return Err(SpecError::Env { component: component.name.to_string(), problems });
    }
    Ok(exports
        .into_iter()
        .map(|(name, value)| Export { name, value: escape(&single_quoted(&value)) })
        .collect())
}

/// Returns whether `name` is a valid shell variable name.
fn is_variable_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(word) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Escapes a value for the single quotes that templates put around it.
fn single_quoted(value: &str) -> String {
    value.replace('\'', r"'\''")
}

/// Replaces `{name}` with its value; the error is the first unknown name. Keeps `${NAME}` for the
/// shell.
fn fill_in(text: &str, values: &[(&str, &str)]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, inner) = rest.split_at(open);
        out.push_str(before);
        rest = inner;
        let Some(close) = inner.find('}') else { break };
        let name = &inner[1..close];
        if before.ends_with('$') {
            out.push_str(&inner[..=close]);
        } else {
            let value = values.iter().find(|(known, _)| *known == name);
            out.push_str(value.ok_or_else(|| name.to_owned())?.1);
        }
        rest = &inner[close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn rocm_values(provider: &Provider) -> BTreeMap<String, RocmValue> {
    let text = |value: &str| RocmValue::Text(escape(value));
    let mut values: BTreeMap<String, RocmValue> = provider
        .capabilities
        .iter()
        .map(|(name, Capability { runtime, devel, soname })| {
            let fields = [
                ("runtime", runtime.as_deref()),
                ("devel", devel.as_deref()),
                ("soname", soname.as_ref().map(|s| s.as_str())),
            ];
            let fields = fields
                .into_iter()
                .filter_map(|(key, value)| value.map(|value| (key, escape(value))));
            (key(name), RocmValue::Capability(fields.collect()))
        })
        .collect();
    for (name, value) in [
        ("provider", &provider.name),
        ("prefix", &provider.prefix),
        ("libdir", &provider.libdir),
        ("llvm_bin", &provider.llvm_bin),
        ("device_libs", &provider.device_libs),
    ] {
        values.insert(name.to_owned(), text(value));
    }
    let brings = provider.brings.iter().map(|at| escape(&at.value)).collect();
    values.insert("brings".to_owned(), RocmValue::Names(brings));
    if let Ok(version) = rocm_version(provider) {
        values.insert("version".to_owned(), text(&version));
    }
    values
}

fn chroot_values(workspace: &Workspace) -> Result<ChrootValues, SpecError> {
    let chroot = &workspace.chroot;
    let name = chroot.name.clone();
    if chroot.is_host() {
        let release = machine::os_release().version_id;
        return Ok(ChrootValues {
            name,
            release: escape(&release),
            python: machine::python_version()?,
        });
    }
    Ok(ChrootValues { name, release: escape(&chroot.release), python: escape(&chroot.python) })
}

fn closure_values(workspace: &Workspace, component: &Component) -> ClosureValues {
    let (Some(rules), Some(written)) = (&component.closure, &workspace.closure) else {
        return ClosureValues::default();
    };
    let dropped = rules.members.iter().filter(|member| member.place == Some(MemberPlace::Dropped));
    let dropped = dropped.map(|member| DroppedValues {
        name: member.name.value.clone(),
        without: escape(member.without.as_deref().unwrap_or_default()),
    });
    let (runtime, prefix) = match written.private.is_empty() {
        true => Default::default(),
        false => (component.runtime_name(), format!("%{{_libdir}}/{}", component.prefix_name())),
    };
    ClosureValues {
        guard: guard(component.name.as_str(), &prefix),
        runtime,
        prefix,
        private: written.private.clone(),
        dropped: dropped.collect(),
        requires_exclude: requires_pattern(&written.not_required, &written.no_extras)
            .unwrap_or_default(),
        requires: written.requires.clone(),
        obsoletes: written.obsoletes.clone(),
    }
}

/// Returns the first lines of a module whose dependencies are in a private prefix. They reject the
/// system Python, which has other versions of these dependencies. Wheels and virtual environments
/// are unaffected.
fn guard(component: &str, prefix: &str) -> String {
    format!(
        "import os as _os\nimport sys as _sys\n\n\
         if _sys.prefix == \"%{{_prefix}}\" and _os.path.exists(\"{prefix}/bin/python3\"):\n    \
         raise ImportError(\n        \"{component} runs in {prefix}/bin/python3: \"\n        \
         \"this Python has other versions of what it requires\"\n    )\n"
    )
}

/// Doubles `%` so that rpm uses the value literally.
pub(super) fn escape(text: &str) -> String {
    text.replace('%', "%%")
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

    #[test]
    fn fills_in_placeholders_and_keeps_shell_variables() {
        let values = [("prefix", "/usr")];
        assert_eq!(fill_in("{prefix}/lib:${HOME}/x", &values).unwrap(), "/usr/lib:${HOME}/x");
        assert_eq!(fill_in("{prefx}", &values).unwrap_err(), "prefx");
        assert_eq!(fill_in("a{b", &values).unwrap(), "a{b");
    }
}
