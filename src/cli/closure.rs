//! `rocmrpm closure`: the Python closure of a component, why a member is in it, and the differences
//! between two lock files.

mod audit;
mod upgrade;

use std::path::Path;

use super::{CommandResult, args, install, trust, user};
use crate::closure::changes::Changes;
use crate::closure::compute::{Computed, component, compute, known_places};
use crate::closure::diff::{MemberPlaces, diff};
use crate::closure::lock::Lock;
use crate::closure::place::needless;
use crate::closure::why::why;
use crate::closure::{generate, imports};
use crate::error::{Error, Kind};
use crate::events::Events;
use crate::report::{
    Extras, Progress, Shell, Style, closure_html, closure_json, closure_text, count, diff_json,
    diff_text, imports_json, install_json, show_imports, why_json, why_text,
};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;
use crate::text::visible;
use crate::workspace::{Component, Selection, Workspace};

pub(super) fn run(args: &args::Closure, dir: &Path, shell: &Shell) -> CommandResult {
    match &args.command {
        None => show(args, dir, shell),
        Some(args::ClosureCommand::Why(args)) => show_why(args, dir, shell),
        Some(args::ClosureCommand::Diff(args)) => show_diff(args, dir, shell),
        Some(args::ClosureCommand::Audit(args)) => audit::run(args, dir, shell),
    }
}

/// Reads the workspace without generated files, so that the output of an earlier run, which may be
/// incomplete, has no influence.
fn workspace(dir: &Path, choice: &args::Choice) -> Result<Workspace, Error> {
    let selection = Selection { without_generated: true, ..user::selection(choice)? };
    Ok(Workspace::load(dir, &selection)?)
}

/// Refuses a component without a closure of its own.
fn must_have_table(component: &Component) -> Result<(), Error> {
    if component.closure.is_some() {
        return Ok(());
    }
    let message = format!(
        "`{}` has no `[closure]` table, so there is no closure to write or check",
        component.name
    );
    let help = format!("add `[closure]` to {}", component.file.name);
    Err(Error::new(Kind::Usage, message).with_help(help))
}

fn show(args: &args::Closure, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = workspace(dir, &args.choice)?;
    let stack = Stack::new(&workspace)?;
    let component = component(&stack, args.component.as_deref())?;
    if args.write || args.check {
        must_have_table(component)?;
    }
    trust::ask_to_resolve(&workspace, component, &args.how, shell)?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let cache = Cache::from_env()?;
    // Of two concurrent writers, the second one waits, and then finds everything up to date.
    let closures = format!("closures of {}", workspace.root.display());
    let _lock = args.write.then(|| cache.lock(&closures)).transpose()?;
    let fetcher = Fetcher::new(cache, &workspace.root, events).offline(args.how.offline);
    let before = component.closure.as_ref().and(args.how.upgrade.as_deref());
    let before = upgrade::Before::of(&workspace, before);
    let computed = compute(&stack, component, args.how.computation(), &fetcher, events)?;
    let Computed { closure, lock, offers, .. } = &computed;
    let differences = before.as_ref().map(|before| before.differences(closure, lock));
    let mut changes = Changes::default();
    let mut imports = None;
    if args.write || args.check {
        imports = Some(imports::check(&workspace, component, closure, &lock.python, &fetcher)?);
        let generated = generate::files(&workspace, closure, component, offers, &fetcher)?;
        changes = Changes::of(&workspace, lock, generated)?;
    }
    let proof = match args.check && changes.is_empty() {
        true => Some(install::of_closure(dir, &args.choice, &closure.graph, &fetcher, events)?),
        false => None,
    };
    drop(progress);
    if let (Some(before), Some(differences), false) = (&before, &differences, args.json) {
        before.show(differences, lock, shell)?;
    }
    let broken = imports.as_ref().is_some_and(|imports| imports.errors().next().is_some());
    // Nothing is written before all checks have passed.
    if args.write && !broken {
        changes.make(&workspace.root)?;
    }
    let differs: Vec<String> = changes.paths().map(str::to_owned).collect();
    if args.json {
        let written = args.write && !broken && !differs.is_empty();
        let extras = Extras {
            differs: &differs,
            written,
            upgraded: differences.as_deref(),
            proof: proof.as_ref().map(install_json),
            imports: imports.as_ref().map(imports_json),
        };
        shell.json(&closure_json(closure, extras))?;
    } else if args.html {
        shell.data(closure_html(closure))?;
    } else if before.is_none_or(|before| !before.names_members()) {
        shell.data(closure_text(closure))?;
    }
    for rule in needless(closure, &computed.rules) {
        shell.warning(format!(
            "nothing requires `{}` any longer; remove the decision to drop it from {}",
            rule.name.value, component.file.name
        ));
    }
    if let Some(imports) = &imports {
        show_imports(shell, imports, &component.file.name);
    }
    if let Some(proof) = &proof {
        install::show(proof, &workspace.chroot.name, shell)?;
    }
    if broken && args.write {
        return Ok(1);
    }
    if args.check || args.write {
        return Ok(report_changes(&changes, args.check, shell).max(u8::from(broken)));
    }
    let differs = differences.is_none_or(|differences| !differences.is_empty());
    if computed.fresh && component.closure.is_some() && differs {
        suggest_writing(args.how.upgrade.as_deref(), shell);
    }
    Ok(0)
}

fn suggest_writing(upgrade: Option<&[String]>, shell: &Shell) {
    let names =
        upgrade.unwrap_or_default().iter().fold(String::new(), |list, name| list + " " + name);
    let upgrade = upgrade.map(|_| format!(" --upgrade{names}")).unwrap_or_default();
    shell.talk(format!(
        "\n{} run `rocmrpm closure --write{upgrade}` to lock this result and package its members",
        Style::Note.paint("help:")
    ));
}

/// Reports the files that were written or are out of date; returns the exit code.
fn report_changes(changes: &Changes, check: bool, shell: &Shell) -> u8 {
    let (style, word) = if check { (Style::Bad, "Differs") } else { (Style::Good, "Wrote") };
    changes.texts.iter().for_each(|(path, _)| shell.status(style, word, path));
    let (style, word) = if check { (Style::Bad, "Obsolete") } else { (Style::Good, "Removed") };
    changes.obsolete.iter().for_each(|path| shell.status(style, word, path));
    let any = !changes.is_empty();
    match (check, any) {
        (true, true) => shell.talk(format!(
            "\n{} run `rocmrpm closure --write` to update the files",
            Style::Note.paint("help:")
        )),
        (true, false) => shell.status(Style::Good, "Checked", count(changes.unchanged, "file")),
        (false, true) => {}
        (false, false) => shell.status(Style::Dim, "Unchanged", count(changes.unchanged, "file")),
    }
    u8::from(check && any)
}

fn show_why(args: &args::ClosureWhy, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = workspace(dir, &args.choice)?;
    let stack = Stack::new(&workspace)?;
    let component = component(&stack, args.component.as_deref())?;
    trust::ask_to_resolve(&workspace, component, &args.how, shell)?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher =
        Fetcher::new(Cache::from_env()?, &workspace.root, events).offline(args.how.offline);
    let computed = compute(&stack, component, args.how.computation(), &fetcher, events)?;
    drop(progress);
    let why = why(&computed.closure, &computed.offers, &computed.rules, &args.name)?;
    if args.json {
        shell.json(&why_json(&computed.closure, &why))?;
    } else {
        shell.data(why_text(&computed.closure, &why))?;
    }
    Ok(0)
}

fn show_diff(args: &args::ClosureDiff, dir: &Path, shell: &Shell) -> CommandResult {
    let (old, old_places) = locked(&args.old, dir)?;
    let (new, new_places) = locked(&args.new, dir)?;
    let differences = diff((&old.packages, &old_places), (&new.packages, &new_places));
    if args.json {
        shell.json(&diff_json(&args.old, &args.new, &differences))?;
    } else {
        shell.data(diff_text(&differences))?;
    }
    Ok(u8::from(!differences.is_empty()))
}

/// Reads a lock file: the file with this name, else that of the pin set. The places are known if
/// the latter matches the workspace.
fn locked(name: &str, dir: &Path) -> Result<(Lock, MemberPlaces), Error> {
    if Path::new(name).is_file() {
        let lock = Lock::read(Path::new(name))?;
        return Ok((lock.ok_or_else(|| no_lock(name))?, MemberPlaces::new()));
    }
    if name.contains(['/', '.']) {
        return Err(no_lock(name));
    }
    let choice = args::Choice { chroot: None, pins: Some(name.to_owned()) };
    let workspace = workspace(dir, &choice)?;
    let lock = Lock::read(&workspace.closure_lock())?.ok_or_else(|| {
        let message = format!("the pin set `{name}` has no locked closure");
        let help = format!("run `rocmrpm closure --pins {name} --write` to lock it");
        Error::new(Kind::Usage, message).with_help(help)
    })?;
    Ok((lock, known_places(&workspace).unwrap_or_default()))
}

/// Returns the lock of the chosen pin set and chroot with the places of its members, if known;
/// `None` without a lock file.
pub(super) fn lock_with_places(
    dir: &Path,
    choice: &args::Choice,
) -> Result<Option<(Lock, MemberPlaces)>, Error> {
    let workspace = workspace(dir, choice)?;
    let lock = Lock::read(&workspace.closure_lock())?;
    Ok(lock.map(|lock| (lock, known_places(&workspace).unwrap_or_default())))
}

fn no_lock(name: &str) -> Error {
    Error::new(Kind::Usage, format!("`{}` is neither a file nor a pin set", visible(name)))
}
