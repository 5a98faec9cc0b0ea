//! Components: `specs-templates/<name>/` with its `component.toml`, template and patches.
//! Does not interpret the values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::closure::ClosureRules;
use super::document::{At, File, Table};
use super::edit::Edit;
use super::installation_check::InstallationCheck;
use super::manifest::gpu_targets;
use super::offline::Offline;
use super::patch::Patch;
use super::pin::Pin;
use crate::duration;
use crate::error::Problem;
use crate::gpu::GpuTarget;
use crate::inspect::{RULES, Rule, Waiver};
use crate::lint_rules;
use crate::names::{ComponentName, is_plain, nearest};
use crate::text::visible;

/// How one upstream project becomes RPMs.
#[derive(Debug, Clone)]
pub struct Component {
    /// The name.
    pub name: ComponentName,
    /// The folder.
    pub dir: PathBuf,
    /// The components that must be built before it, as written.
    pub requires: Vec<At<String>>,
    /// Whether the stack is complete without it.
    pub optional: bool,
    /// The peak memory of one compile job, in bytes.
    pub memory_per_job: u64,
    /// The time limit of one build, if any.
    pub timeout: Option<Duration>,
    /// The final size of the build root in bytes, if known.
    pub build_space: Option<u64>,
    /// Whether builds may use the compiler cache.
    pub ccache: bool,
    /// The GPU targets that upstream supports; `None` for all.
    pub gpu_targets: Option<Vec<GpuTarget>>,
    /// Environment variables of `%build`, before placeholders are replaced.
    pub env: BTreeMap<String, At<String>>,
    /// Whether the packages must have device code (`true`), must not have any (`false`), or may
    /// have it.
    pub device_code: Option<bool>,
    /// Accepted findings of the inspection, with reasons.
    pub waivers: Vec<Waiver>,
    /// Accepted findings of lint, with reasons.
    pub lint_waivers: Vec<Waiver>,
    /// The packages of this component that belong in the container image.
    pub container_packages: Vec<At<String>>,
    /// The packages that belong in the image for Vulkan.
    pub vulkan_packages: Vec<At<String>>,
    /// Whether images do not contain the component at all: `packages = []`.
    pub outside_images: bool,
    /// Files of the packages that the wheel does not contain; `*` matches any characters.
    pub wheel_leaves_out: Vec<At<String>>,
    /// How its Python closure is computed, if it has one.
    pub closure: Option<ClosureRules>,
    /// The template's path.
    pub template: PathBuf,
    /// The patches, sorted by file name.
    pub patches: Vec<Patch>,
    /// The edits of the upstream text, in file order.
    pub edits: Vec<Edit>,
    /// What satisfies upstream's download points.
    pub offline: Vec<Offline>,
    /// The checks of an installation with it.
    pub checks: Vec<InstallationCheck>,
    /// The component whose Python closure this one was generated for.
    pub generated: Option<At<String>>,
    /// `component.toml`, for messages about it.
    pub file: File,
}

/// The memory that one compile job is assumed to need without `memory-per-job`: 2 GB, which Fedora's
/// PyTorch package assumes for C++.
const DEFAULT_MEMORY_PER_JOB: u64 = 2_000_000_000;

/// Reads the table `[container]`: packages for the stack's own image, and for that of Vulkan.
/// Also returns whether an empty list keeps the component out of images.
fn container_packages(table: &mut Table<'_>) -> (Vec<At<String>>, Vec<At<String>>, bool) {
    let listed = table.has("packages");
    let mut packages = |key| {
        let packages = table.strings(key);
        packages.iter().for_each(|name| table.must_be_plain(name, "a package's name"));
        packages
    };
    let (own, vulkan) = (packages("packages"), packages("vulkan-packages"));
    let outside = listed && own.is_empty() && vulkan.is_empty();
    (own, vulkan, outside)
}

impl Component {
    /// Reads a component's folder. Returns `None` and adds problems if the folder is not a
    /// component. `shown` is the folder's name in messages.
    pub fn read(
        dir: &Path,
        shown: &str,
        problems: &mut Vec<Problem>,
    ) -> std::io::Result<Option<Self>> {
        let folder = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !dir.join("component.toml").is_file() {
            let folder = File { name: shown.to_owned(), text: String::new() };
            let problem = folder.problem(0..0, "the folder has no `component.toml`", "");
            let help = "create it (it may be empty), or start the folder's name with `_`";
            problems.push(Problem { span: None, help: Some(help.to_owned()), ..problem });
            return Ok(None);
        }
        let file = File::read(&dir.join("component.toml"), format!("{shown}/component.toml"))?;
        let (mut templates, mut patches) = (Vec::new(), Vec::new());
        for entry in fs_err::read_dir(dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".spec.tera") {
                templates.push(name);
            } else if name.ends_with(".patch") {
                patches.push(name);
            }
        }
        patches.sort();
        templates.sort();
        let whole = |message: String, help: &str| Problem {
            help: Some(help.to_owned()),
            span: None,
            ..file.problem(0..0, message, "")
        };
        let name = ComponentName::parse(&folder);
        if name.is_none() {
            problems.push(whole(
                format!("`{folder}` is not a valid component name"),
                "rename the folder: use lower-case letters, digits and `-`",
            ));
        }
        if templates.len() != 1 {
            problems.push(whole(
                format!("expected one spec template, found {}", templates.len()),
                "keep exactly one `*.spec.tera` in its folder",
            ));
        }
        for patch in patches.iter().filter(|patch| !is_plain(patch)) {
            problems.push(whole(
                format!("`{}` is not a valid name of a patch", visible(patch)),
                "rename it: use only letters, digits and . _ + -",
            ));
        }
        let read = |name| Patch::read(&dir.join(name), &format!("{shown}/{name}"), problems);
        let patches: Vec<Patch> = patches.iter().map(read).collect::<Result<_, _>>()?;
        let mut component = Self::from_file(&file, dir, patches, problems);
        let (Some(name), [template]) = (name, templates.as_slice()) else { return Ok(None) };
        component.name = name;
        component.template = dir.join(template);
        Ok(Some(component))
    }

    /// Reads `component.toml`. The caller fills in the name and the template, which follow from the
    /// folder.
    pub(super) fn from_file(
        file: &File,
        dir: &Path,
        patches: Vec<Patch>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        file.parse(problems, |root| {
            let inspect = root.table("inspect", |inspect| Inspect {
                device_code: inspect.boolean("device-code"),
                waivers: inspect
                    .tables("waive", |waive| waiver(waive, file, RULES))
                    .into_iter()
                    .flatten()
                    .collect(),
            });
            let Inspect { device_code, waivers } = inspect.unwrap_or_default();
            let (container_packages, vulkan_packages, outside_images) =
                root.table("container", container_packages).unwrap_or_default();
            Self {
                name: ComponentName::parse("x")
                    .unwrap_or_else(|| unreachable!("`x` is a component name")),
                dir: dir.to_owned(),
                requires: root.strings("requires"),
                optional: root.boolean("optional").unwrap_or(false),
                memory_per_job: memory(root, "memory-per-job").unwrap_or(DEFAULT_MEMORY_PER_JOB),
                build_space: memory(root, "build-space"),
                ccache: root.boolean("ccache").unwrap_or(true),
                timeout: root.string("timeout").and_then(|at| {
                    let timeout = duration::parse(&at.value);
                    if timeout.is_none() {
                        let label = "expected a duration such as `8 h` or `90 min`";
                        root.problem(at.span, "this is not a duration", label, None);
                    }
                    timeout
                }),
                gpu_targets: root
                    .has("gpu-targets")
                    .then(|| gpu_targets(root, "gpu-targets", false)),
                env: root.string_map("env"),
                device_code,
                waivers,
                lint_waivers: root
                    .table("lint", |lint| {
                        lint.tables("waive", |waive| waiver(waive, file, lint_rules::RULES))
                    })
                    .unwrap_or_default()
                    .into_iter()
                    .flatten()
                    .collect(),
                container_packages,
                vulkan_packages,
                outside_images,
                wheel_leaves_out: root
                    .table("wheel", |wheel| wheel.strings("leave-out"))
                    .unwrap_or_default(),
                closure: root.table("closure", ClosureRules::read),
                template: PathBuf::new(),
                patches,
                edits: root.tables("edit", Edit::read).into_iter().flatten().collect(),
                offline: root.tables("offline", Offline::read).into_iter().flatten().collect(),
                checks: InstallationCheck::read_all(root),
                generated: root.string("generated"),
                file: file.clone(),
            }
        })
    }

    /// Returns the patches for this version.
    pub fn patches_for<'c>(&'c self, version: &'c str) -> impl Iterator<Item = &'c Patch> {
        self.patches.iter().filter(move |patch| patch.versions.holds(version))
    }

    /// Returns the GPU targets of a stack that upstream supports.
    pub fn supported(&self, wanted: &[GpuTarget]) -> Vec<GpuTarget> {
        let Some(supported) = &self.gpu_targets else { return wanted.to_vec() };
        let same = |w: &&GpuTarget| supported.iter().any(|s| s.processor() == w.processor());
        wanted.iter().filter(same).cloned().collect()
    }

    /// Removes the edits and the further sources that are for other GPU targets than those that the
    /// component is built for in a stack.
    pub(super) fn keep_for(&mut self, wanted: &[GpuTarget], pin: &mut Pin) {
        let mut mine = self.supported(wanted);
        if mine.is_empty() {
            // It is left out, and only examined.
            mine = self.gpu_targets.clone().unwrap_or_default();
        }
        let has = |list: &[GpuTarget], target: &GpuTarget| {
            list.iter().any(|listed| listed.processor() == target.processor())
        };
        let only = |edit: &Edit| mine.iter().all(|target| has(&edit.gpu_targets, target));
        self.edits.retain(|edit| edit.gpu_targets.is_empty() || only(edit));
        let any = |source: &Pin| mine.iter().any(|target| has(&source.gpu_targets, target));
        pin.sources.retain(|_, source| source.gpu_targets.is_empty() || any(source));
    }

    /// Returns the edits for this version.
    pub fn edits_for<'c>(&'c self, version: &'c str) -> impl Iterator<Item = &'c Edit> {
        self.edits.iter().filter(move |edit| edit.versions.holds(version))
    }

    /// Returns the name of the package with the private members of the Python closure.
    pub fn runtime_name(&self) -> String {
        let written = self.closure.as_ref().and_then(|rules| rules.runtime.as_ref());
        written.map_or_else(|| format!("{}-runtime", self.name), |at| at.value.clone())
    }

    /// Returns the folder in `%{_libdir}` with the private members.
    pub fn prefix_name(&self) -> String {
        let name = self.runtime_name();
        name.strip_suffix("-runtime").filter(|stem| !stem.is_empty()).unwrap_or(&name).to_owned()
    }

    /// Returns the spec's file name: the template's without `.tera`.
    pub fn spec_name(&self) -> String {
        let name = self.template.file_name().unwrap_or_default().to_string_lossy();
        name.trim_end_matches(".tera").to_owned()
    }
}

/// The table `[inspect]`.
#[derive(Default)]
struct Inspect {
    device_code: Option<bool>,
    waivers: Vec<Waiver>,
}

/// Reads one `[[inspect.waive]]` or `[[lint.waive]]`, a waiver of one of `rules`. `None` if a key is
/// missing or wrong.
fn waiver(table: &mut Table<'_>, file: &File, rules: &[Rule]) -> Option<Waiver> {
    let id = filled(table, "rule", Some("a rule's ID, such as `library-missing`"));
    let id = id.and_then(|id| {
        let known = rules.iter().any(|rule| rule.id.as_str() == id.value);
        if !known {
            let near = nearest(&id.value, rules.iter().map(|rule| rule.id.as_str()));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`rocmrpm explain` lists all rules".to_owned(),
            };
            let message = format!("unknown rule `{}`", id.value);
            table.problem(id.span, message, "not a rule of this kind", Some(help));
        }
        known.then_some(id.value)
    });
    let part = |table: &mut Table<'_>, key| filled(table, key, None).map(|at| at.value);
    let (file_pattern, found) = (part(table, "file"), part(table, "found"));
    let reason = filled(table, "reason", Some("why the finding is accepted"))?.value;
    Some(Waiver { rule: id?, file: file_pattern, found, reason, place: file.name.clone() })
}

/// Returns a string that must not be empty. `what` describes a required key; `None` makes the
/// key optional.
fn filled(table: &mut Table<'_>, key: &str, what: Option<&str>) -> Option<At<String>> {
    let string = match what {
        Some(what) => table.required_string(key, what),
        None => table.string(key),
    }?;
    if string.value.trim().is_empty() {
        let label = match what {
            Some(what) => format!("expected {what}"),
            None => format!("leave `{key}` out to accept any"),
        };
        table.problem(string.span, format!("`{key}` must not be empty"), label, None);
        return None;
    }
    Some(string)
}

/// Reads an optional amount of memory.
fn memory(root: &mut Table<'_>, key: &str) -> Option<u64> {
    let At { value, span } = root.string(key)?;
    let bytes = crate::limits::parse_size(&value);
    if bytes.is_none() {
        root.problem(
            span,
            "this is not an amount of memory",
            "expected an amount such as `4 GB`",
            None,
        );
    }
    bytes
}
