//! `rocmrpm build`.

pub(super) mod documents;

use std::collections::BTreeSet;
use std::path::Path;

use super::{Done, args, container, context};
use crate::build::{
    BuildLock, Options, Outcome, Prepared, Results, Run, Stage, check_locks, prepare, result_rpms,
    run as run_plan,
};
use crate::document::Document;
use crate::error::{Error, IoError, Kind, Problems};
use crate::events::{Event, Events};
use crate::index;
use crate::machine;
use crate::names::{ComponentName, nearest};
use crate::outputs;
use crate::process::{check_stop, own_program, quote};
use crate::proof;
use crate::report::{Progress, Shell, Style, count, human_size, show_error};
use crate::rpms::name_of_file;
use crate::sources::{Cache, Fetched, Fetcher};
use crate::stack::{Stack, Verdict};
use crate::text::file_url;
use crate::workspace::{Component, Workspace, closure_not_written};
use documents::{FetchedSource, RenderedSpec, RunDocument, RunReport, SourcesReport, SpecsReport};

pub(super) fn run(args: &args::Build, dir: &Path, shell: &Shell) -> Done {
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let root = workspace.root.clone();
    let cache = Cache::from_env()?;
    let ccache = args.ccache.then(|| cache.dir().join("ccache").join(&workspace.chroot.name));
    let hermetic = args.hermetic.then(|| (cache.clone(), args.offline));
    let fetcher = Fetcher::new(cache, &root, events).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let stack = Stack::new(&workspace)?;
    // What a component requires takes part in building its RPMs, not in what comes before.
    let select = if args.until > Stage::Srpm { context::components } else { context::named };
    let selected = select(&stack, &args.components)?;
    let unwritten = closure_not_written(&workspace, &selected);
    let unwritten = unwritten.filter(|_| args.until > Stage::Srpm && !workspace.chroot.is_host());
    if let Some(problem) = unwritten {
        return Err(Problems(vec![problem]).into());
    }
    if args.until <= Stage::Sources {
        let done = fetch_sources(&workspace, &selected, &fetcher, args, shell);
        drop(progress);
        return done;
    }
    let options = context::MockOptions { ccache, hermetic };
    let (builder, note) = context::builder(&stack, args.builder, args.until, options);
    for (option, asked) in [("--ccache", args.ccache), ("--hermetic", args.hermetic)] {
        if asked && builder.name() != "mock" {
            let message = format!("`{option}` is for mock, and `{}` builds here", builder.name());
            return Err(Error::new(Kind::Usage, message));
        }
    }
    let lock = if args.until >= Stage::Srpm { Some(BuildLock::take(&workspace)?) } else { None };
    let prepared = prepare(&stack, selected, builder.as_ref(), args.until)?;
    for warning in prepared.warnings.iter().chain(note.as_ref().filter(|_| prepared.plan.stale() > 0)) {
        shell.warning(warning);
    }
    if args.hermetic {
        let stale = prepared.plan.steps.iter().filter(|step| matches!(step.verdict, Verdict::Stale(_)));
        check_locks(&workspace.build_dir(), stale.map(|step| &step.component))?;
    }
    let Some(lock) = lock else {
        drop(progress);
        return render_specs(&prepared, args.json, shell);
    };
    let options = Options {
        until: args.until,
        keep_going: args.keep_going,
        timeout: args.timeout,
        installable: proof::provided,
    };
    let done = run_plan(&lock, &prepared, builder.as_ref(), &fetcher, options, events)?;
    let outputs =
        if done.complete() { Some(make_outputs(&lock, &stack, args.until, events, shell)?) } else { None };
    drop(progress);
    if args.json {
        let run = RunReport::of(&workspace, &done, args.until, outputs.as_ref());
        shell.json(&RunDocument { schema: RunDocument::SCHEMA, run })?;
    }
    let code = report_failures(&done, shell);
    if let Some(outputs) = outputs {
        summary(&prepared, &done, &outputs, args.until, shell)?;
    }
    Ok(code)
}

fn render_specs(prepared: &Prepared<'_, '_>, json: bool, shell: &Shell) -> Done {
    let dir = prepared.stack.workspace.build_dir().join("specs");
    let mut specs = Vec::new();
    for (name, rendered) in &prepared.specs {
        let path = dir.join(&rendered.file_name);
        crate::files::write_if_changed(&path, &rendered.text)
            .map_err(IoError::doing(format!("write `{}`", path.display())))?;
        if !json {
            shell.data(path.display())?;
        }
        specs.push(RenderedSpec { component: name.as_str(), path, sha256: rendered.digest });
    }
    if json {
        shell.json(&SpecsReport { schema: SpecsReport::SCHEMA, specs })?;
    }
    Ok(0)
}

/// Fetches the sources of the selected components and no more.
fn fetch_sources(
    workspace: &Workspace,
    selected: &[&Component],
    fetcher: &Fetcher<'_>,
    args: &args::Build,
    shell: &Shell,
) -> Done {
    let mut failed: Option<Error> = None;
    let mut sources = Vec::new();
    let all = selected.iter().flat_map(|component| {
        workspace.pin(component).all_sources().map(|(name, source)| (component.name.as_str(), name, source))
    });
    for (component, name, source) in all {
        let fetched = fetcher.obtain(source);
        fetcher.leave(&source.component);
        match fetched {
            Ok(Fetched { file_name: file, path, sha256, size, .. }) => {
                sources.push(FetchedSource { component, source: name, file, path, sha256, size });
            }
            Err(error) => {
                let last = failed.replace(error.into());
                last.iter().for_each(|error| show_error(shell, error));
                if !args.keep_going {
                    break;
                }
            }
        }
    }
    let fetched = count(sources.len(), "source");
    if args.json {
        shell.json(&SourcesReport { schema: SourcesReport::SCHEMA, sources })?;
    }
    shell.status(Style::Good, "Fetched", fetched);
    failed.map_or(Ok(0), Err)
}

/// What was made of the RPMs of a complete run.
#[derive(Default)]
pub(super) struct Outputs {
    wheels: usize,
    index: Option<index::Written>,
    containers: Vec<std::path::PathBuf>,
}

fn make_outputs(
    lock: &BuildLock,
    stack: &Stack<'_>,
    until: Stage,
    events: &dyn Events,
    shell: &Shell,
) -> Result<Outputs, Error> {
    let workspace = stack.workspace;
    let mut outputs = Outputs::default();
    if until >= Stage::Wheel {
        check_stop()?;
        let wheels = outputs::make_wheels(lock, stack, events)?;
        outputs.wheels = wheels.len();
        let index_dir = workspace.build_dir().join("index");
        if until >= Stage::Index && (!wheels.is_empty() || index_dir.exists()) {
            let tracks = context::tracks(workspace)?;
            let written = index::write_tracking(&wheels, &index_dir, tracks.as_deref())?;
            if written.changed {
                let detail = count(written.distributions.len(), "distribution");
                events.event(Event::Step { word: "Indexed", detail });
            }
            outputs.index = Some(written);
        }
    }
    if until >= Stage::Container {
        for warning in unknown_packages(stack)? {
            events.event(Event::Warning(warning));
        }
    }
    if until >= Stage::Container {
        for (path, text) in container::wanted(workspace)? {
            container::write(&path, &text, workspace, shell)?;
            outputs.containers.push(path);
        }
    }
    Ok(outputs)
}

/// Warns of packages that belong into the image and that no component brought.
fn unknown_packages(stack: &Stack<'_>) -> Result<Vec<String>, IoError> {
    let rpms = result_rpms(stack, &BTreeSet::new())?;
    let names: Vec<&str> = rpms.iter().filter_map(|path| name_of_file(path)).collect();
    let mut warnings = Vec::new();
    let build_dir = stack.workspace.build_dir();
    for component in stack.order() {
        if Results::of(&build_dir, Stage::Rpm, &component.name).record()?.is_none() {
            continue;
        }
        for package in component.container_packages.iter().filter(|p| !names.contains(&p.value.as_str())) {
            let near = nearest(&package.value, names.iter().copied());
            let near = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            let file = &component.file.name;
            warnings.push(format!("{file}: no built package is called `{}`{near}", package.value));
        }
    }
    Ok(warnings)
}

/// Says what the run did not reach and returns the exit code: the first failure's.
/// Each failure was shown when it happened, but for the request to stop.
pub(super) fn report_failures(done: &Run, shell: &Shell) -> u8 {
    let mut code = 0;
    let (mut built, mut failed, mut not_tried) = (0, 0, 0);
    for (name, outcome) in &done.outcomes {
        match outcome {
            Outcome::Failed(error) => {
                // A run is stopped once, however many components it stops.
                if error.kind() == Kind::Interrupted && code != Kind::Interrupted.exit_code() {
                    shell.line("");
                    show_error(shell, error);
                    shell.line("");
                }
                if code == 0 {
                    code = error.kind().exit_code();
                }
                failed += 1;
            }
            Outcome::Skipped(reason) => {
                shell.status(Style::Warning, "Skipped", format!("{name}: {reason}"));
                not_tried += 1;
            }
            Outcome::Built(_) | Outcome::Fresh => built += 1,
        }
    }
    if code == 0 && !done.complete() {
        code = Kind::Interrupted.exit_code();
    }
    if failed + not_tried > 0 {
        let text = format!("{failed} not built, {not_tried} not tried, {built} there");
        shell.status(Style::Bad, "Incomplete", text);
    }
    code
}

/// Says what there is now, where it lies, and what to try next.
fn summary(
    prepared: &Prepared<'_, '_>,
    done: &Run,
    outputs: &Outputs,
    until: Stage,
    shell: &Shell,
) -> Result<(), IoError> {
    let workspace = prepared.stack.workspace;
    let built: Vec<&ComponentName> =
        done.outcomes.iter().filter(|(_, o)| matches!(o, Outcome::Built(_))).map(|(name, _)| name).collect();
    let fresh = done.outcomes.len() - built.len();
    let here = std::env::current_dir().unwrap_or_default();
    let shown = |path: &Path| path.strip_prefix(&here).unwrap_or(path).display().to_string();
    shell.status(Style::Good, "Finished", format!("{} built, {fresh} fresh", built.len()));
    // An SRPM is all that was asked for, so its place is told in any case.
    let all = || done.outcomes.iter().map(|(name, _)| name).collect();
    let listed = if built.is_empty() && until <= Stage::Srpm { all() } else { built };
    if !listed.is_empty() {
        shell.talk("");
    }
    for name in listed {
        let results = Results::of(&workspace.build_dir(), until, name);
        let Some(record) = results.record()? else { continue };
        for file in record.outputs.iter().filter(|f| f.file.ends_with(".rpm")) {
            let path = shown(&results.dir().join(&file.file));
            shell.talk(format!("  {path}  {}", Style::Dim.paint(human_size(file.size))));
        }
        if !record.unchecked_build_requires.is_empty() {
            let list = record.unchecked_build_requires.join(", ");
            let text = format!("unchecked BuildRequires of {name}: {list}");
            shell.talk(format!("  {}", Style::Dim.paint(text)));
        }
    }
    if until >= Stage::Rpm {
        let repository = workspace.build_dir().join("repository");
        shell.talk(format!("\n  repository      {}", shown(&repository)));
    }
    if let Some(index) = &outputs.index {
        let wheels = count(outputs.wheels, "wheel");
        shell.talk(format!("  pip index       {} ({wheels})", shown(&index.simple)));
    }
    for path in &outputs.containers {
        shell.talk(format!("  container file  {}", shown(path)));
    }
    let next = what_next(prepared, done, outputs, until, &shown);
    if !next.is_empty() {
        shell.talk(format!("\n{}", Style::Bold.paint("What to try next:")));
    }
    for (what, command) in next {
        shell.talk(format!("  {what}:\n    {}", Style::Note.paint(command)));
    }
    Ok(())
}

/// Lists commands that show the results at work, each with what it is good for.
fn what_next(
    prepared: &Prepared<'_, '_>,
    done: &Run,
    outputs: &Outputs,
    until: Stage,
    shown: &impl Fn(&Path) -> String,
) -> Vec<(&'static str, String)> {
    let workspace = prepared.stack.workspace;
    let mut next = Vec::new();
    let Some((component, _)) = done.outcomes.last().filter(|_| until >= Stage::Rpm) else { return next };
    let results = Results::of(&workspace.build_dir(), until, component);
    let rpms = format!("{}/*.rpm", quote(&shown(results.dir())));
    next.push(("see what is in the packages", format!("{} inspect {rpms}", own_program())));
    let package = prepared.selected.iter().flat_map(|c| &c.container_packages).next_back();
    if let Some(package) = package.filter(|_| workspace.chroot.is_host() && machine::packages_are_rpms()) {
        let repository = workspace.build_dir().join("repository");
        let origin = quote(&format!("local,file://{}", repository.display()));
        let command =
            format!("sudo dnf install --repofrompath={origin} --setopt=local.gpgcheck=0 {}", package.value);
        next.push(("install a package", command));
    }
    let distribution = outputs.index.as_ref().and_then(|index| index.distributions.keys().next_back());
    if let (Some(index), Some(distribution)) = (&outputs.index, distribution) {
        let url = quote(&file_url(&index.simple));
        let install = format!("try/bin/pip install --index-url {url} {distribution}");
        next.push(("install a wheel", format!("{} -m venv try && {install}", machine::PYTHON)));
    }
    next
}
