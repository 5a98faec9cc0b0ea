//! `rocmrpm copr watch` and `rocmrpm copr cancel`.

use std::collections::{BTreeMap, BTreeSet};

use super::Target;
use crate::cli::{CommandResult, args};
use crate::copr::{BuildState, Client, Sent, package};
use crate::error::{Error, Kind};
use crate::report::{Progress, Shell, Style, count};
use crate::spec::{self, History};
use crate::stack::Stack;

/// An unfinished build.
struct Open {
    name: Option<String>,
    state: BuildState,
}

/// Reads the unfinished builds for the chosen chroots. Includes builds whose SRPM COPR has not read
/// yet, for any chroot.
fn open(client: &Client<'_>, target: &Target) -> Result<BTreeMap<u64, Open>, Error> {
    let mut open: BTreeMap<u64, Open> = BTreeMap::new();
    let dirs = target.workspaces.iter().map(crate::workspace::Workspace::build_dir);
    let names: BTreeMap<u64, String> =
        dirs.flat_map(|dir| Sent::names(&dir, client.project())).collect();
    for (id, state) in client.nameless()? {
        open.insert(id, Open { name: names.get(&id).cloned(), state });
    }
    for build in client.builds()?.into_iter().filter(|build| !build.state.is_over()) {
        if target.project.chroots.iter().any(|chroot| build.chroots.contains(&chroot.name.value)) {
            open.insert(build.id, Open { name: build.source_package.name, state: build.state });
        }
    }
    Ok(open)
}

pub(super) fn run(args: &args::CoprWatch, target: &Target, shell: &Shell) -> CommandResult {
    let progress = Progress::new(shell);
    let client =
        Client::new(args.access.config.as_deref(), &target.project.full_name(), &progress)?;
    let mut seen: BTreeMap<u64, Open> = BTreeMap::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut bad = BTreeSet::new();
    let mut looks = client.looks();
    loop {
        let mut now = open(&client, target)?;
        for (id, before) in &seen {
            if !now.contains_key(id) {
                // It finished, was deleted, or turned out to be for another chroot.
                let state = client.state(*id)?.unwrap_or(BuildState::Canceled);
                now.insert(*id, Open { name: before.name.clone(), state });
            }
        }
        for (id, build) in &now {
            if let Some(name) = &build.name {
                names.insert(*id, name.clone());
            }
            if seen.get(id).is_some_and(|before| before.state == build.state) {
                continue;
            }
            looks = client.looks();
            let style = match build.state {
                state if state.is_good() => Style::Good,
                state if state.is_over() => Style::Bad,
                _ => Style::Dim,
            };
            let name = names.get(id).map_or("a new package", String::as_str);
            let state = style.paint(build.state.word());
            shell.data(format!("{name}: {state} {}", client.build_page(*id)))?;
            if build.state.is_over() && !build.state.is_good() {
                bad.insert(*id);
            }
        }
        if seen.is_empty() && now.is_empty() {
            shell.talk(format!("no builds are running in {}", client.page()));
            return Ok(0);
        }
        now.retain(|_, build| !build.state.is_over());
        if now.is_empty() {
            break;
        }
        seen = now;
        looks.wait()?;
    }
    if bad.is_empty() {
        shell.status(Style::Good, "Finished", "all builds succeeded");
        return Ok(0);
    }
    shell.status(Style::Bad, "Finished", format!("{} did not succeed", count(bad.len(), "build")));
    Ok(Kind::Build.exit_code())
}

pub(super) fn cancel(args: &args::CoprCancel, target: &Target, shell: &Shell) -> CommandResult {
    let progress = Progress::new(shell);
    let client =
        Client::new(args.access.config.as_deref(), &target.project.full_name(), &progress)?;
    let mut wanted: Option<(BTreeSet<String>, BTreeSet<u64>)> = None;
    for workspace in target.workspaces.iter().filter(|_| !args.components.is_empty()) {
        let (names, ids) = wanted.get_or_insert_default();
        let stack = Stack::new(workspace)?;
        let history = History::read(workspace)?;
        for component in stack.named(&args.components)? {
            let name = package(&spec::render(&stack, component, &history)?.text);
            let name = name.unwrap_or_else(|| component.name.to_string());
            ids.extend(
                Sent::read(&workspace.build_dir(), client.project(), &name).map(|sent| sent.build),
            );
            names.insert(name);
        }
    }
    let is_wanted = |id: u64, build: &Open| match &wanted {
        None => true,
        Some((names, ids)) => {
            ids.contains(&id) || build.name.as_ref().is_some_and(|name| names.contains(name))
        }
    };
    let open: Vec<(u64, Open)> =
        open(&client, target)?.into_iter().filter(|(id, build)| is_wanted(*id, build)).collect();
    for (id, build) in &open {
        let name = build.name.as_deref().unwrap_or("a new package");
        let line = format!("{name}: {} {}", build.state.word(), client.build_page(*id));
        if args.dry_run {
            shell.data(line)?;
            continue;
        }
        client.cli(&format!("cancel build {id}"), &["cancel".to_owned(), id.to_string()])?;
        shell.status(Style::Good, "Canceled", line);
    }
    match (open.is_empty(), args.dry_run) {
        (true, _) => shell.talk("no builds are running"),
        (false, true) => shell.talk("dry run: no changes made"),
        (false, false) => {}
    }
    Ok(0)
}
