//! `rocmrpm lint`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context, trust};
use crate::document::Document;
use crate::error::{Error, IoError, Kind, Problems};
use crate::events::Silent;
use crate::files;
use crate::inspect::Severity;
use crate::lint::{self, ComponentData, Finding, SourceNames, Spec, Waived};
use crate::packages::Packages;
use crate::publishing::check_closures;
use crate::report::{Shell, Style, lint_text};
use crate::sources::{Cache, Fetcher};
use crate::spec::{self, History};
use crate::stack::Stack;
use crate::workspace::{Component, Source, Workspace};

/// What `rocmrpm lint --json` prints: findings in specs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LintReport<'a> {
    schema: &'static str,
    /// The chroot whose packages satisfy requirements.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// The specs that were checked.
    specs: Vec<CheckedSpec<'a>>,
    /// The findings, worst first.
    findings: &'a [Finding],
    /// Findings that a waiver accepted, with its reason.
    waived: &'a [Waived],
}

/// A spec that was checked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CheckedSpec<'a> {
    /// The file.
    file: &'a str,
    /// Whether its sources were in the cache, so that exports were compared with them.
    source_read: bool,
}

impl<'a> CheckedSpec<'a> {
    fn of(spec: &'a Spec<'_>) -> Self {
        Self { file: &spec.file, source_read: spec.words.is_some() }
    }
}

impl Document for LintReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/lint/2";
}

pub(super) fn run(args: &args::Lint, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    if args.spec.is_none() {
        check_closures([&workspace], &args.components)?;
    }
    let stack = Stack::new(&workspace)?;
    let mut packages = Packages::of(&workspace, args.live)?;
    let own = of_components(&stack)?;
    for (component, spec) in &own {
        let project = match &workspace.pin(component).source {
            Source::Sdist { project, .. } => project.as_str(),
            _ => component.name.as_str(),
        };
        lint::add_own(&mut packages, &spec.sections, &[project, component.name.as_str()]);
    }
    let specs: Vec<Spec<'_>> = match &args.spec {
        Some(path) => {
            let spec = of_file(path, args.source.as_deref(), &workspace)?;
            // The packages of the spec may require each other.
            lint::add_own(&mut packages, &spec.sections, &[]);
            vec![spec]
        }
        None => {
            let wanted = stack.named(&args.components)?;
            let is_wanted = |component: &Component| wanted.iter().any(|w| w.name == component.name);
            let mut own: Vec<_> =
                own.into_iter().filter(|(component, _)| is_wanted(component)).collect();
            for (component, spec) in &mut own {
                spec.words = words(&workspace, component);
            }
            note_missing_sources(&own, shell);
            own.into_iter().map(|(_, spec)| spec).collect()
        }
    };
    let (mut findings, mut waived) = (Vec::new(), Vec::new());
    for spec in &specs {
        let (mut found, mut accepted) = lint::lint(spec, &packages)?;
        findings.append(&mut found);
        waived.append(&mut accepted);
    }
    findings.sort();
    if args.json {
        shell.json(&LintReport {
            schema: LintReport::SCHEMA,
            chroot: &workspace.chroot.name,
            pins: &workspace.pins.name,
            specs: specs.iter().map(CheckedSpec::of).collect(),
            findings: &findings,
            waived: &waived,
        })?;
    } else {
        shell.data(lint_text(&findings, &waived, specs.len()))?;
    }
    let errors = findings.iter().any(|finding| finding.severity == Severity::Error);
    Ok(if errors { Kind::Findings.exit_code() } else { 0 })
}

/// Lists the components whose sources are not in the cache.
fn note_missing_sources(specs: &[(&Component, Spec<'_>)], shell: &Shell) {
    let unread = specs.iter().filter(|(_, spec)| spec.words.is_none());
    let unread: Vec<&str> = unread.map(|(component, _)| component.name.as_str()).collect();
    if !unread.is_empty() {
        shell.talk(format!(
            "{} exports are not compared with sources that are not in the cache: {}; \
             fetch them with `rocmrpm build --until sources`",
            Style::Dim.paint("note:"),
            unread.join(", ")
        ));
    }
}

/// Renders the specs of all components, because they may provide each other's requirements. Writes
/// them where `render` does, so that findings have a location. Does not read their sources.
fn of_components<'s>(stack: &Stack<'s>) -> Result<Vec<(&'s Component, Spec<'s>)>, Error> {
    let workspace = stack.workspace;
    let history = History::read(workspace)?;
    let (mut specs, mut problems) = (Vec::new(), Problems::default());
    for component in stack.order().iter().copied() {
        let rendered = match spec::render(stack, component, &history) {
            Ok(rendered) => rendered,
            Err(error) => {
                problems.absorb(error)?;
                continue;
            }
        };
        let path = workspace.build_dir().join("specs").join(&rendered.file_name);
        files::write_if_changed(&path, &rendered.text)
            .map_err(IoError::doing(format!("write `{}`", path.display())))?;
        let file = shown(workspace, &path);
        let template = fs_err::read_to_string(&component.template)
            .map_err(IoError::doing("read a template"))?;
        let version = &workspace.pin(component).version;
        specs.push((
            component,
            Spec {
                sections: lint::expand(
                    &rendered.text,
                    &file,
                    None,
                    &workspace.chroot,
                    &workspace.root,
                )?,
                file,
                written: (shown(workspace, &component.template), template),
                prefix: workspace.provider.prefix.clone(),
                own: Some(ComponentData {
                    file: component.file.name.clone(),
                    env: component
                        .env
                        .iter()
                        .map(|(name, at)| (name.as_str(), at.value.as_str()))
                        .collect(),
                    patches: component.patches_for(version).collect(),
                    edits: component.edits_for(version).collect(),
                    waivers: &component.lint_waivers,
                }),
                words: None,
            },
        ));
    }
    if problems.0.is_empty() { Ok(specs) } else { Err(problems.into()) }
}

fn shown(workspace: &Workspace, path: &Path) -> String {
    path.strip_prefix(&workspace.root).unwrap_or(path).display().to_string()
}

/// Returns the words in all sources of a component, if the cache has all of them.
fn words(workspace: &Workspace, component: &Component) -> Option<SourceNames> {
    let fetcher = Fetcher::new(Cache::from_env().ok()?, &workspace.root, &Silent).offline(true);
    let mut words = SourceNames::default();
    for (_, pin) in workspace.pin(component).all_sources() {
        // A name could be in any missing source, so a partial result is useless.
        let tree = fetcher.tree(pin).ok()?;
        lint::words_of(&tree.dir, &mut words).ok()?;
    }
    Some(words)
}

/// Reads a spec that does not belong to a component.
fn of_file(
    path: &Path,
    source: Option<&Path>,
    workspace: &Workspace,
) -> Result<Spec<'static>, Error> {
    let file = path.display().to_string();
    let bytes = fs_err::read(path).map_err(IoError::doing(format!("read `{file}`")))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let words = match source {
        None => None,
        Some(folder) => {
            let mut words = SourceNames::default();
            lint::words_of(folder, &mut words)
                .map_err(IoError::doing(format!("read `{}`", folder.display())))?;
            Some(words)
        }
    };
    let whole = fs_err::canonicalize(path).map_err(IoError::doing(format!("read `{file}`")))?;
    let code = trust::folder_of_spec(&whole, &workspace.root);
    Ok(Spec {
        sections: lint::expand(&text, &file, whole.parent(), &workspace.chroot, code)?,
        written: (file.clone(), text),
        file,
        prefix: workspace.provider.prefix.clone(),
        own: None,
        words,
    })
}
