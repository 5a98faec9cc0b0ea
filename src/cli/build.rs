//! `rocmrpm build`.

pub(super) mod documents;

use std::path::Path;

use super::plan::{self, PlanRequest};
use super::{CommandResult, args, context};
use crate::build::{Outcome, Prepared, Results, Run, Stage};
use crate::document::Document;
use crate::error::{Error, IoError, Kind, Reference};
use crate::machine;
use crate::names::ComponentName;
use crate::process::{own_program, quote};
use crate::production::{Order, Outputs, Production, produce, render, selected};
use crate::report::{Progress, Shell, Style, count, human_size, show_error, show_references};
use crate::sources::{Cache, Fetched, Fetcher};
use crate::stack::Stack;
use crate::text::file_url;
use crate::workspace::{Component, Workspace};
use documents::{FetchedSource, RenderedSpec, RunDocument, RunReport, SourcesReport, SpecsReport};

pub(super) fn run(args: &args::Build, dir: &Path, shell: &Shell) -> CommandResult {
    if args.dry_run {
        return plan::show(&PlanRequest::of_build(args), dir, shell);
    }
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let stack = Stack::new(&workspace)?;
    if args.until <= Stage::Sources {
        let selected = selected(&stack, &args.components, args.until)?;
        let done = fetch_sources(&workspace, &selected, &fetcher, args, shell);
        drop(progress);
        return done;
    }
    let order = Order {
        components: args.components.clone(),
        until: args.until,
        builder: args.builder.map(Into::into),
        ccache: args.ccache,
        hermetic: args.hermetic,
        offline: args.offline,
        keep_going: args.keep_going,
        force: args.force,
        wait: args.wait,
        verbose: args.verbose,
        timeout: args.timeout,
    };
    if args.until <= Stage::Spec {
        let rendered = render(&stack, &order, &fetcher, &progress)?;
        drop(progress);
        return write_specs(&rendered, args.json, shell);
    }
    let Production { prepared, run, outputs } = produce(&stack, &order, &fetcher, &progress)?;
    drop(progress);
    if args.json {
        let report = RunReport::of(&workspace, &run, args.until, outputs.as_ref());
        shell.json(&RunDocument { schema: RunDocument::SCHEMA, run: report })?;
    }
    let code = report_failures(&run, shell);
    if let Some(outputs) = outputs {
        summary(&prepared, &run, &outputs, args.until, shell)?;
    }
    Ok(code)
}

fn write_specs(prepared: &Prepared<'_, '_>, json: bool, shell: &Shell) -> CommandResult {
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

/// Only fetches the sources of the selected components.
fn fetch_sources(
    workspace: &Workspace,
    selected: &[&Component],
    fetcher: &Fetcher<'_>,
    args: &args::Build,
    shell: &Shell,
) -> CommandResult {
    let mut failed: Option<Error> = None;
    let mut sources = Vec::new();
    let all = selected.iter().flat_map(|component| {
        workspace
            .pin(component)
            .all_sources()
            .map(|(name, source)| (component.name.as_str(), name, source))
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

/// Reports the components that the run did not finish, where to read more, and the command that
/// retries. Returns the exit code of the first failure. Failures were already shown, except for an
/// interruption.
pub(super) fn report_failures(done: &Run, shell: &Shell) -> u8 {
    let mut code = 0;
    let (mut built, mut failed, mut skipped) = (0, 0, 0);
    let mut references = Vec::new();
    for (name, outcome) in &done.outcomes {
        match outcome {
            Outcome::Failed(error) => {
                // Shows an interruption once, however many components it affects.
                if error.kind() == Kind::Interrupted && code != Kind::Interrupted.exit_code() {
                    shell.line("");
                    show_error(shell, error);
                    shell.line("");
                }
                if code == 0 {
                    code = error.kind().exit_code();
                }
                references.extend(error.diagnosis().references.iter().cloned());
                failed += 1;
            }
            Outcome::Skipped(reason) => {
                shell.status(Style::Warning, "Skipped", format!("{name}: {reason}"));
                skipped += 1;
            }
            Outcome::Built(_) | Outcome::Fresh => built += 1,
        }
    }
    if code == 0 && !done.complete() {
        code = Kind::Interrupted.exit_code();
    }
    if failed + skipped > 0 {
        let text = format!("{failed} failed, {skipped} skipped, {built} up to date");
        shell.status(Style::Bad, "Incomplete", text);
    }
    if failed > 1 {
        // Components with several lines each would hide what failed.
        references.retain(|reference| reference.label == "Log");
    }
    let retry = done.retry.clone().map(|target| Reference { label: "Retry", target });
    show_references(shell, references.iter().chain(&retry));
    code
}

/// Prints a summary of the results, their folders, and the next commands.
fn summary(
    prepared: &Prepared<'_, '_>,
    done: &Run,
    outputs: &Outputs,
    until: Stage,
    shell: &Shell,
) -> Result<(), IoError> {
    let workspace = prepared.stack.workspace;
    let built: Vec<&ComponentName> = done
        .outcomes
        .iter()
        .filter(|(_, o)| matches!(o, Outcome::Built(_)))
        .map(|(name, _)| name)
        .collect();
    let fresh = done.outcomes.iter().filter(|(_, o)| matches!(o, Outcome::Fresh)).count();
    let here = std::env::current_dir().unwrap_or_default();
    let shown = |path: &Path| path.strip_prefix(&here).unwrap_or(path).display().to_string();
    let counts = format!("{} built, {fresh} fresh", built.len());
    match done.complete() {
        true => shell.status(Style::Good, "Finished", counts),
        false => {
            shell.status(Style::Warning, "Finished", format!("{counts}, without what failed"));
        }
    }
    // SRPMs are the requested output, so their folders are always listed.
    let all = || done.outcomes.iter().map(|(name, _)| name).collect();
    let listed = if built.is_empty() && until <= Stage::Srpm { all() } else { built };
    if !listed.is_empty() {
        shell.talk("");
    }
    for name in listed {
        let results = Results::of(&workspace.build_dir_of(name), until, name);
        let Some(record) = results.record()? else { continue };
        for file in record.outputs.iter().filter(|f| f.file.ends_with(".rpm")) {
            let path = shown(&results.dir().join(&file.file));
            shell.talk(format!("  {path}  {}", Style::Dim.paint(human_size(file.size))));
        }
        if !record.unchecked_build_requires.is_empty() {
            let list = record.unchecked_build_requires.join(", ");
            let text = format!("unchecked BuildRequires of {name}: {list}");
            // Those that are installed in an unknown version have a comparison.
            let versions_only = record
                .unchecked_build_requires
                .iter()
                .all(|name| name.contains(char::is_whitespace));
            match versions_only {
                true => shell.talk(format!("  {}", Style::Dim.paint(text))),
                false => shell.warning(format!("{text}; install them, or build with mock")),
            }
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
        shell.talk(format!("\n{}", Style::Bold.paint("Next steps:")));
    }
    for (what, command) in next {
        shell.talk(format!("  {what}:\n    {}", Style::Note.paint(command)));
    }
    Ok(())
}

/// Lists commands that use the results, each with its purpose.
fn what_next(
    prepared: &Prepared<'_, '_>,
    done: &Run,
    outputs: &Outputs,
    until: Stage,
    shown: &impl Fn(&Path) -> String,
) -> Vec<(&'static str, String)> {
    let workspace = prepared.stack.workspace;
    let mut next = Vec::new();
    // What was just built, or else anything that can be inspected.
    let succeeded = |built: bool| {
        done.outcomes.iter().rev().find(|(_, outcome)| match outcome {
            Outcome::Built(_) => built,
            Outcome::Fresh => !built,
            Outcome::Failed(_) | Outcome::Skipped(_) => false,
        })
    };
    let component = succeeded(true).or_else(|| succeeded(false));
    let Some((component, _)) = component.filter(|_| until >= Stage::Rpm) else {
        return next;
    };
    let results = Results::of(&workspace.build_dir_of(component), until, component);
    let rpms = format!("{}/*.rpm", quote(&shown(results.dir())));
    next.push(("see what is in the packages", format!("{} inspect {rpms}", own_program())));
    let package = prepared.selected.iter().flat_map(|c| &c.container_packages).next_back();
    if let Some(package) =
        package.filter(|_| workspace.chroot.is_host() && machine::packages_are_rpms())
    {
        let repository = workspace.build_dir().join("repository");
        let origin = quote(&format!("local,file://{}", repository.display()));
        let command = format!(
            "sudo dnf install --repofrompath={origin} --setopt=local.gpgcheck=0 {}",
            package.value
        );
        next.push(("install a package", command));
    }
    let distribution =
        outputs.index.as_ref().and_then(|index| index.distributions.keys().next_back());
    if let (Some(index), Some(distribution)) = (&outputs.index, distribution) {
        let url = quote(&file_url(&index.simple));
        let install = format!("try/bin/pip install --index-url {url} {distribution}");
        next.push(("install a wheel", format!("{} -m venv try && {install}", machine::PYTHON)));
    }
    next
}
