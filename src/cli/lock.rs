//! `rocmrpm lock`.

use std::path::Path;

use serde_json::json;

use super::{Done, args, context, render};
use crate::error::{IoError, Problems};
use crate::events::Events;
use crate::files;
use crate::report::{Progress, Shell, Style, count};
use crate::sources::{Cache, Fetcher, Locked};
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{Lock, PinSet};

pub(super) fn run(args: &args::Lock, dir: &Path, shell: &Shell) -> Done {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let set = &workspace.pins;
    let shown = format!("pins/{}.lock", set.name);
    let path = workspace.root.join(&shown);
    let old = match path.is_file() {
        true => File::read(&path, &shown).map_err(IoError::doing(format!("read `{shown}`")))?,
        false => File { name: shown.clone(), text: String::new() },
    };
    let mut problems = Vec::new();
    let old_lock = Lock::read(&old, &mut problems);
    // As written: the workspace's own pins are completed by the lock.
    let pins = PinSet::read(&set.name, set.file.clone(), &Lock::default(), &Overrides::new(), &mut problems);
    if !problems.is_empty() {
        return Err(Problems(problems).into());
    }

    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events).offline(args.offline);
    let locked = fetcher.lock(&pins, &old_lock)?;
    drop(progress);
    let text = locked.lock.text();
    let differs = text != old.text;
    let diff =
        similar::TextDiff::from_lines(&old.text, &text).unified_diff().header(&shown, &shown).to_string();
    // Written only when every source was found out: a partial lock would look whole.
    if !args.check && differs {
        files::write_durably(&path, &text).map_err(IoError::doing(format!("write `{shown}`")))?;
    }
    if args.json {
        shell.json(&document(&set.name, &shown, &locked, differs, args.check))?;
    } else if args.check && differs {
        shell.data(render::colored(&diff))?;
    }
    if !locked.unseen.is_empty() {
        shell.warning(format!(
            "{} not in the cache, and recorded by digest or commit alone: {}",
            count(locked.unseen.len(), "source"),
            locked.unseen.join(", ")
        ));
    }
    let unmoved = locked.lock.unmoved_since(&old_lock);
    if !unmoved.is_empty() {
        shell.warning(format!(
            "another version with the same commit or digest as before: {}; is it that version's?",
            unmoved.join(", ")
        ));
    }
    let sources = format!("{shown}: {}", count(locked.lock.entries.len(), "source"));
    match (args.check, differs) {
        (true, true) => {
            shell.status(Style::Bad, "Differs", sources);
            let help = match locked.lock.learned_since(&old_lock) {
                Some(names) => format!(
                    "what it has is right; `rocmrpm lock` adds what it lacks of {}, locked without being reached",
                    names.join(", ")
                ),
                None => "`rocmrpm lock` writes it anew".to_owned(),
            };
            shell.talk(format!("\n{} {help}", Style::Note.paint("help:")));
            return Ok(1);
        }
        (true, false) => shell.status(Style::Good, "Checked", sources),
        (false, true) => shell.status(Style::Good, "Locked", sources),
        (false, false) => shell.status(Style::Dim, "Unchanged", sources),
    }
    Ok(0)
}

fn document(set: &str, file: &str, locked: &Locked, differs: bool, check: bool) -> serde_json::Value {
    let sources: Vec<_> = locked
        .lock
        .entries
        .iter()
        .map(|((component, source), entry)| {
            json!({
                "component": component.as_str(),
                "source": source,
                "version": entry.version,
                "origin": entry.origin,
                "paths": entry.paths,
                "sha256": entry.sha256.map(|digest| digest.to_string()),
                "size": entry.size,
                "commit": entry.commit,
                "tree": entry.tree,
                "submodules": entry.submodules,
                "archive": entry.archive.map(|digest| digest.to_string()),
                "crates": entry.crates,
                "git": entry.git,
            })
        })
        .collect();
    json!({
        "schema": "rocmrpm/lock/1",
        "pins": set,
        "file": file,
        "differs": differs,
        "written": differs && !check,
        "unseen": locked.unseen,
        "sources": sources,
    })
}
