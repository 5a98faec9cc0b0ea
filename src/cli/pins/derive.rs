//! `rocmrpm pins derive`.

use std::path::Path;

use serde_json::json;

use super::{Done, args, quiet::Quiet};
use crate::cli::context;
use crate::error::{Error, Kind};
use crate::names::is_plain;
use crate::pins::derive::{DeriveError, Followed, Outcome, Request, derive};
use crate::pins::write_set;
use crate::report::{Progress, Shell, Style, count};
use crate::sources::{Cache, Fetcher};
use crate::workspace::WorkspaceError;

pub(super) fn run(args: &args::PinsDerive, dir: &Path, shell: &Shell) -> Done {
    if let Some(name) = args.output.as_ref().filter(|name| !is_plain(name)) {
        let message = format!("`{}` cannot be the name of a pin set", crate::text::visible(name));
        return Err(Error::new(Kind::Usage, message).with_help("it has letters, digits and . _ + -"));
    }
    let choice = args::Choice { chroot: None, pins: args.base.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let has_component =
        |name: &str| matches!(workspace.component(name), Ok(_) | Err(WorkspaceError::Unpinned { .. }));
    let mut choices = std::collections::BTreeMap::new();
    for (name, version) in &args.choices {
        if choices.insert(name.as_str(), version.as_str()).is_some_and(|other| other != version) {
            let message = format!("`--choose {name}=...` is given twice");
            return Err(Error::new(Kind::Usage, message));
        }
    }
    let request = Request {
        from: (&args.from.0, &args.from.1),
        choices,
        base: &workspace.pins,
        upstreams: &workspace.upstreams,
        has_component: &has_component,
    };
    let progress = Progress::new(shell);
    let quiet = Quiet(&progress);
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, &progress).offline(args.offline);
    let reader = Fetcher::new(Cache::from_env()?, &workspace.root, &quiet).offline(args.offline);
    let derived = derive(&request, &fetcher, &reader);
    drop((fetcher, reader));
    drop(progress);
    let derived = match derived? {
        Outcome::Set(derived) => derived,
        Outcome::Contradictions(list) if args.json => {
            shell.json(&json!({
                "schema": "rocmrpm/pins-derive/1",
                "from": { "component": args.from.0, "version": args.from.1 },
                "base": workspace.pins.name,
                "contradictions": list,
            }))?;
            return Ok(Kind::Findings.exit_code());
        }
        Outcome::Contradictions(list) => {
            let from = format!("{}={}", args.from.0, args.from.1);
            return Err(DeriveError::Contradictions { from, list }.into());
        }
    };
    for oddity in &derived.oddities {
        shell.warning(oddity);
    }
    let followed = derived.decisions.values().filter(|one| one.followed != Followed::Base).count();
    let shown = args.output.as_ref().map(|name| format!("pins/{name}.toml"));
    let mut written = false;
    if let Some(shown) = &shown {
        written = write_set(&workspace.root, shown, &derived.text)?;
    }
    if args.json {
        shell.json(&json!({
            "schema": "rocmrpm/pins-derive/1",
            "from": { "component": args.from.0, "version": args.from.1 },
            "base": workspace.pins.name,
            "file": shown,
            "written": written,
            "components": derived.decisions,
            "oddities": derived.oddities,
            "text": derived.text,
        }))?;
    } else if shown.is_none() {
        shell.data(&derived.text)?;
    }
    let word = if shown.is_some() && !written { "Unchanged" } else { "Derived" };
    let total = count(derived.decisions.len(), "component");
    let place = shown.map(|shown| format!("{shown}: ")).unwrap_or_default();
    shell.status(
        Style::Good,
        word,
        format!("{place}{total}, {followed} from upstream files and upstreams.toml"),
    );
    Ok(0)
}
