//! `rocmrpm pins derive`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, quiet::Quiet};
use crate::cli::context;
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::names::is_plain;
use crate::pins::derive::{
    Contradiction, Decision, DeriveError, Followed, Outcome, Request, Unreachable, derive,
};
use crate::pins::upstream::Oddity;
use crate::pins::write_set;
use crate::report::{Progress, Shell, Style, count};
use crate::sources::{Cache, Fetcher};
use crate::workspace::WorkspaceError;

/// What `rocmrpm pins derive --json` prints: the pin set that follows from one version.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct DeriveReport<'a> {
    schema: &'static str,
    /// The version to start from.
    from: StartVersion<'a>,
    /// The pin set that the other pins come from.
    base: &'a str,
    #[serde(flatten)]
    result: Derived<'a>,
}

/// The version to start from.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StartVersion<'a> {
    /// The component.
    component: &'a str,
    /// Its version.
    version: &'a str,
}

/// The pin set, or the contradictions that prevent it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Derived<'a> {
    /// The pin set.
    Set {
        /// The file of the pin set; null if it was only printed.
        file: Option<&'a str>,
        /// Whether the file was written.
        written: bool,
        /// The components with their versions, and where these come from.
        components: &'a BTreeMap<String, Decision>,
        /// Unusual statements in upstream files.
        oddities: &'a [Oddity],
        /// The text of the pin set.
        text: &'a str,
    },
    /// The contradictions.
    Contradictions {
        /// Components for which upstream files state different versions.
        contradictions: Vec<Contradiction>,
        /// Sources that could not be fetched.
        unreachable: Vec<Unreachable>,
    },
}

impl Document for DeriveReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/pins-derive/1";
}

pub(super) fn run(args: &args::PinsDerive, dir: &Path, shell: &Shell) -> CommandResult {
    if let Some(name) = args.output.as_ref().filter(|name| !is_plain(name)) {
        let message = format!("`{}` is not a valid name for a pin set", crate::text::visible(name));
        return Err(Error::new(Kind::Usage, message).with_help("use letters, digits, and . _ + -"));
    }
    let choice = args::Choice { chroot: None, pins: args.base.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let has_component = |name: &str| {
        matches!(workspace.component(name), Ok(_) | Err(WorkspaceError::Unpinned { .. }))
    };
    let mut choices = std::collections::BTreeMap::new();
    for (name, version) in &args.choices {
        if choices.insert(name.as_str(), version.as_str()).is_some_and(|other| other != version) {
            let message = format!("`--choose {name}=...` is given twice, with different versions");
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
    let fetcher =
        Fetcher::new(Cache::from_env()?, &workspace.root, &progress).offline(args.offline);
    let reader = Fetcher::new(Cache::from_env()?, &workspace.root, &quiet).offline(args.offline);
    let derived = derive(&request, &fetcher, &reader);
    drop((fetcher, reader));
    drop(progress);
    let from = StartVersion { component: &args.from.0, version: &args.from.1 };
    let base = workspace.pins.name.as_str();
    let derived = match derived? {
        Outcome::Set(derived) => derived,
        Outcome::Contradictions { list, unreachable } if args.json => {
            let result = Derived::Contradictions { contradictions: list, unreachable };
            shell.json(&DeriveReport { schema: DeriveReport::SCHEMA, from, base, result })?;
            return Ok(Kind::Findings.exit_code());
        }
        Outcome::Contradictions { list, unreachable } => {
            let from = format!("{}={}", args.from.0, args.from.1);
            return Err(DeriveError::Contradictions { from, list, unreachable }.into());
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
        let result = Derived::Set {
            file: shown.as_deref(),
            written,
            components: &derived.decisions,
            oddities: &derived.oddities,
            text: &derived.text,
        };
        shell.json(&DeriveReport { schema: DeriveReport::SCHEMA, from, base, result })?;
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
