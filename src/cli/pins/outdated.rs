//! `rocmrpm pins outdated`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::cli::closure::lock_with_places;
use crate::closure::diff::MemberPlaces;
use crate::closure::lock::Lock;
use crate::closure::{Locked, LockedOrigin};
use crate::document::Document;
use crate::error::Error;
use crate::events::Events;
use crate::pins::{MemberOutdated, Outdated, OutdatedState, PinsError, outdated, outdated_members};
use crate::report::{Progress, Shell, Style, Table, count, watch_text, watch_warning};
use crate::sources::{Cache, Fetcher, normalized};
use crate::watch::{Watched, watched};
use crate::workspace::{Component, MemberPlace, Workspace, WorkspaceError};

/// What `rocmrpm pins outdated --json` prints: pins and locked members, compared with the newest releases,
/// and the watch list.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct OutdatedReport<'r> {
    schema: &'static str,
    /// The pin set.
    pins: &'r str,
    /// The chroot.
    chroot: &'r str,
    /// The version of the chroot's Python, such as `3.14`.
    python: &'r str,
    /// The components, and their further sources that have a version.
    components: &'r [Outdated],
    /// The members of the Python closure.
    members: &'r [MemberOutdated],
    /// The entries of the watch list that concern a pin or are out of date.
    watched: &'r [Watched],
}

impl Document for OutdatedReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/pins-outdated/1";
}

pub(super) fn run(args: &args::PinsOutdated, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let locked = lock_with_places(dir, &args.choice)?;
    let wanted = Wanted::of(&workspace, locked.as_ref(), &args.names)?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let rows = match args.names.is_empty() || !wanted.components.is_empty() {
        true => outdated(&workspace, &wanted.components, &fetcher, args.pre)?,
        false => Vec::new(),
    };
    let members = match &locked {
        Some((lock, _)) => outdated_members(lock, &wanted.members, &fetcher, args.pre)?,
        None => Vec::new(),
    };
    let names: Vec<&str> = wanted.components.iter().map(|one| one.name.as_str()).collect();
    let watched = match args.names.is_empty() || !names.is_empty() {
        true => watched(&workspace, &names, &fetcher)?,
        false => Vec::new(),
    };
    drop(progress);
    let python = &workspace.chroot.python;
    if args.json {
        shell.json(&OutdatedReport {
            schema: OutdatedReport::SCHEMA,
            pins: &workspace.pins.name,
            chroot: &workspace.chroot.name,
            python,
            components: &rows,
            members: &members,
            watched: &watched,
        })?;
    } else {
        if !rows.is_empty() {
            shell.data(table(&rows, python))?;
        }
        if !members.is_empty() {
            let between = if rows.is_empty() { "" } else { "\n" };
            shell.data(format!("{between}{}", members_text(&members, args.names.is_empty())))?;
        }
        if !watched.is_empty() {
            let between = if rows.is_empty() && members.is_empty() { "" } else { "\n" };
            shell.data(format!("{between}{}", watch_text(&watched)))?;
        }
    }
    watch_warning(&watched).iter().for_each(|warning| shell.warning(warning));
    check_reachable(&rows, &members, shell)?;
    let is_stale =
        |row: &Outdated| matches!(row.state, OutdatedState::Outdated | OutdatedState::Withdrawn);
    let stale = rows.iter().any(is_stale);
    let first =
        rows.iter().find(|row| row.state == OutdatedState::Outdated && row.source.is_none());
    let first_member = members.iter().find(|member| member.state == OutdatedState::Outdated);
    let pins = args.choice.pins.as_ref().map(|name| format!(" --pins {name}")).unwrap_or_default();
    let next = match (first, first_member) {
        (Some(row), _) if row.branch.is_some() => {
            Some(format!("run `rocmrpm lock{pins} --update` to move to the newest commit"))
        }
        (Some(row), _) => Some(format!(
            "run `rocmrpm pins update {}{pins} --dry-run` to see what a newer version changes",
            row.component
        )),
        (None, Some(member)) => Some(format!(
            "run `rocmrpm closure{pins} --upgrade {}` to see what a newer version changes",
            member.name
        )),
        (None, None) => None,
    };
    if let Some(next) = next {
        shell.talk(format!("\n{} {next}", Style::Note.paint("next:")));
    }
    let is_due = watched.iter().any(|watched| watched.due);
    Ok(u8::from(stale || first_member.is_some() || is_due))
}

/// The components and members to check.
struct Wanted<'w> {
    /// All components if both lists are empty.
    components: Vec<&'w Component>,
    members: Vec<(&'w str, Option<&'static str>)>,
}

impl<'w> Wanted<'w> {
    /// Splits the names into components and members. Without names, selects the members that the
    /// stack packages itself.
    fn of(
        workspace: &'w Workspace,
        locked: Option<&'w (Lock, MemberPlaces)>,
        names: &[String],
    ) -> Result<Self, Error> {
        let all = || locked.iter().flat_map(|(lock, _)| &lock.packages);
        let of_index = |locked: &&Locked| matches!(locked.origin, LockedOrigin::Index { .. });
        let place = |name: &str| locked.and_then(|(_, places)| places.get(name)).copied();
        let with_place =
            |member: &'w Locked| (member.name.as_str(), place(&member.name).map(MemberPlace::name));
        if names.is_empty() {
            let ours =
                all().filter(of_index).filter(|one| place(&one.name) != Some(MemberPlace::System));
            return Ok(Self { components: Vec::new(), members: ours.map(with_place).collect() });
        }
        let mut wanted = Self { components: Vec::new(), members: Vec::new() };
        for name in names {
            match all().filter(of_index).find(|one| one.name == normalized(name)) {
                Some(member) => wanted.members.push(with_place(member)),
                None => {
                    wanted.components.push(workspace.component(name).map_err(
                        |error| match error {
                            WorkspaceError::Unknown { name, mut known, .. } => {
                                known.extend(all().filter(of_index).map(|one| one.name.clone()));
                                WorkspaceError::Unknown {
                                    kind: "component or member of the closure",
                                    name,
                                    known,
                                }
                            }
                            error => error,
                        },
                    )?)
                }
            }
        }
        Ok(wanted)
    }
}

/// Warns about unreachable origins; fails if all of them are.
fn check_reachable(
    rows: &[Outdated],
    members: &[MemberOutdated],
    shell: &Shell,
) -> Result<(), Error> {
    let of = |state: OutdatedState| rows.iter().filter(|row| row.state == state).count();
    let (mut unreachable, mut asked) =
        (of(OutdatedState::Unreachable), rows.len() - of(OutdatedState::NotKnown));
    let error = rows.iter().find_map(|row| row.error.as_ref());
    // The index counts as a single origin for all members.
    let of_members = members.iter().find_map(|member| member.error.as_ref());
    asked += usize::from(!members.is_empty());
    unreachable += usize::from(of_members.is_some());
    if let Some(error) = error.or(of_members) {
        let origins = count(asked, "origin");
        shell.warning(format!(
            "{unreachable} of {origins} could not be queried; the first error: {error}"
        ));
    }
    if unreachable > 0 && unreachable == asked {
        return Err(PinsError::NoneReached { origins: count(asked, "origin") }.into());
    }
    Ok(())
}

/// Returns a table of members. If `all`, members without a newer release are only counted.
fn members_text(members: &[MemberOutdated], all: bool) -> String {
    let newest = |member: &&MemberOutdated| {
        matches!(member.state, OutdatedState::Newest | OutdatedState::Ahead)
    };
    let shown: Vec<&MemberOutdated> =
        members.iter().filter(|member| !all || !newest(member)).collect();
    let mut table = Table::new(&["member", "place", "locked", "newest"]);
    for member in &shown {
        let (style, newest) = newest_cell(member.state, member.newest.clone());
        table.styled_row(vec![
            (None, member.name.clone()),
            (Some(Style::Dim), member.place.unwrap_or_default().to_owned()),
            (None, member.locked.clone()),
            (style, newest),
        ]);
    }
    let mut text = if shown.is_empty() { String::new() } else { table.text() };
    let rest = members.len() - shown.len();
    if rest > 0 {
        let noun = if shown.is_empty() { "member" } else { "other member" };
        let verb = if rest == 1 { "is" } else { "are" };
        let line = format!("{} of the closure {verb} up to date", count(rest, noun));
        text.push_str(&format!("{}\n", Style::Dim.paint(line)));
    }
    text
}

fn newest_cell(state: OutdatedState, newest: Option<String>) -> (Option<Style>, String) {
    let (style, newest) = match state {
        OutdatedState::Newest => (Some(Style::Dim), newest),
        OutdatedState::Outdated => (Some(Style::Warning), newest),
        OutdatedState::Ahead => (None, newest),
        OutdatedState::Withdrawn => (
            Some(Style::Bad),
            newest.map(|newest| format!("{newest}; the pinned release was withdrawn")),
        ),
        OutdatedState::NotKnown => (Some(Style::Dim), Some("unknown".into())),
        OutdatedState::Unreachable => (Some(Style::Bad), Some("unreachable".into())),
    };
    (style, newest.unwrap_or_default())
}

fn table(rows: &[Outdated], python: &str) -> String {
    let allowed = format!("python {python}");
    let mut table = Table::new(&["component", "pinned", "newest", allowed.trim_end(), "looked up"]);
    for row in rows {
        let name = match &row.source {
            Some(source) => format!("{}/{source}", row.component),
            None => row.component.clone(),
        };
        let (style, newest) = newest_cell(row.state, row.newest.clone());
        table.styled_row(vec![
            (None, name),
            (None, row.pinned.clone()),
            (style, newest),
            fits(row),
            (Some(Style::Dim), row.place.clone()),
        ]);
    }
    table.text()
}

/// Describes whether the pin and the newest release support the chroot's Python.
fn fits(row: &Outdated) -> (Option<Style>, String) {
    let newest = row.newest_python.clone().unwrap_or_default();
    match (row.python_allowed, row.newest_python_allowed) {
        (false, _) => (Some(Style::Bad), format!("no: {}", row.python)),
        (true, false) if row.state == OutdatedState::Outdated => {
            (Some(Style::Warning), format!("yes; newest no: {newest}"))
        }
        (true, _) if row.python.is_empty() && newest.is_empty() => (Some(Style::Dim), "-".into()),
        (true, _) => (None, "yes".into()),
    }
}
