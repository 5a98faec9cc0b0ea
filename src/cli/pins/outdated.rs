//! `rocmrpm pins outdated`.

use std::path::Path;

use serde::Serialize;

use super::{Done, args, context};
use crate::events::Events;
use crate::pins::{Outdated, PinsError, State, outdated};
use crate::report::{Progress, Shell, Style, Table, count};
use crate::sources::{Cache, Fetcher};

#[derive(Serialize)]
struct Report<'r> {
    schema: &'static str,
    pins: &'r str,
    chroot: &'r str,
    python: &'r str,
    components: &'r [Outdated],
}

pub(super) fn run(args: &args::PinsOutdated, dir: &Path, shell: &Shell) -> Done {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let components: Vec<_> =
        args.components.iter().map(|name| workspace.component(name)).collect::<Result<_, _>>()?;
    let rows = outdated(&workspace, &components, &fetcher, args.pre)?;
    drop(progress);
    let python = &workspace.chroot.python;
    if args.json {
        shell.json(&Report {
            schema: "rocmrpm/pins-outdated/1",
            pins: &workspace.pins.name,
            chroot: &workspace.chroot.name,
            python,
            components: &rows,
        })?;
    } else {
        shell.data(table(&rows, python))?;
    }
    let of = |state: State| rows.iter().filter(|row| row.state == state).count();
    let (unreachable, asked) = (of(State::Unreachable), rows.len() - of(State::NotKnown));
    if let Some(error) = rows.iter().find_map(|row| row.error.as_ref()) {
        let origins = count(asked, "origin");
        shell.warning(format!("{unreachable} of {origins} could not be asked, the first because: {error}"));
    }
    if unreachable > 0 && unreachable == asked {
        return Err(PinsError::NoneReached { origins: count(asked, "origin") }.into());
    }
    let outdated: Vec<&Outdated> = rows.iter().filter(|row| row.state == State::Outdated).collect();
    if let Some(first) = outdated.iter().find(|row| row.source.is_none()) {
        let pins = args.pins.as_ref().map(|name| format!(" --pins {name}")).unwrap_or_default();
        let update = format!("`rocmrpm pins update {}{pins} --dry-run`", first.component);
        shell.talk(format!("\n{} {update} shows what another version changes", Style::Hint.paint("next:")));
    }
    Ok(u8::from(!outdated.is_empty()))
}

fn table(rows: &[Outdated], python: &str) -> String {
    let allowed = format!("python {python}");
    let mut table = Table::new(&["component", "pinned", "newest", allowed.trim_end(), "looked up"]);
    for row in rows {
        let name = match &row.source {
            Some(source) => format!("{}/{source}", row.component),
            None => row.component.clone(),
        };
        let (style, newest) = match row.state {
            State::Newest => (Some(Style::Dim), row.newest.clone()),
            State::Outdated => (Some(Style::Warning), row.newest.clone()),
            State::Ahead => (None, row.newest.clone()),
            State::NotKnown => (Some(Style::Dim), Some("not known".into())),
            State::Unreachable => (Some(Style::Bad), Some("not reached".into())),
        };
        table.styled_row(vec![
            (None, name),
            (None, row.pinned.clone()),
            (style, newest.unwrap_or_default()),
            fits(row),
            (Some(Style::Dim), row.place.clone()),
        ]);
    }
    table.text()
}

/// Says whether the chroot's Python is one that the pin and the newest release allow.
fn fits(row: &Outdated) -> (Option<Style>, String) {
    let newest = row.newest_python.clone().unwrap_or_default();
    match (row.python_allowed, row.newest_python_allowed) {
        (false, _) => (Some(Style::Bad), format!("no: {}", row.python)),
        (true, false) if row.state == State::Outdated => {
            (Some(Style::Warning), format!("yes; newest no: {newest}"))
        }
        (true, _) if row.python.is_empty() && newest.is_empty() => (Some(Style::Dim), "-".into()),
        (true, _) => (None, "yes".into()),
    }
}
