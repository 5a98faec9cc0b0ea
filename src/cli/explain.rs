//! `rocmrpm explain`.

use serde_json::json;

use super::{Done, args};
use crate::build::{Cause, Pattern, cause, causes};
use crate::error::{Error, Kind};
use crate::inspect::{RULES, RULES_VERSION, Rule, rule};
use crate::lint::{self, rule_groups};
use crate::names::nearest;
use crate::report::{Shell, cause_text, causes_text, rule_text, rules_text};
use crate::text::visible;

/// The format of `--json`.
const SCHEMA: &str = "rocmrpm/rules/2";

/// What an ID names.
#[derive(Clone, Copy)]
enum Entry {
    /// What inspection or lint looks for.
    Rule(&'static Rule),
    /// Why a build failed.
    Cause(&'static Cause),
}

pub(super) fn run(args: &args::Explain, shell: &Shell) -> Done {
    let wanted = args.id.as_deref().map(find).transpose()?;
    if args.json {
        shell.json(&document(wanted))?;
    } else {
        shell.data(match wanted {
            None => format!("{}\n{}", rules_text(), causes_text()),
            Some(Entry::Rule(rule)) => rule_text(rule),
            Some(Entry::Cause(cause)) => cause_text(cause),
        })?;
    }
    Ok(0)
}

fn find(id: &str) -> Result<Entry, Error> {
    let found = rule(id).or_else(|| lint::rule(id)).map(Entry::Rule);
    found.or_else(|| cause(id).map(Entry::Cause)).ok_or_else(|| {
        let message = format!("there is no rule `{}`, and no cause of failed builds", visible(id));
        let error = Error::new(Kind::Usage, message);
        let rules = RULES.iter().chain(lint::RULES).map(|rule| rule.id.as_str());
        match nearest(id, rules.chain(causes().iter().map(|cause| cause.id.as_str()))) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None => error.with_help("`rocmrpm explain` lists all of them"),
        }
    })
}

fn document(wanted: Option<Entry>) -> serde_json::Value {
    let rules =
        rule_groups().into_iter().flat_map(|(group, rules)| rules.iter().map(move |rule| (group, rule)));
    let rules = rules.filter(|(_, rule)| match wanted {
        None => true,
        Some(Entry::Rule(wanted)) => wanted.id == rule.id,
        Some(Entry::Cause(_)) => false,
    });
    let rules = rules.map(|(group, Rule { id, severity, what, why, incident, help })| {
        let incident = (!incident.is_empty()).then_some(incident);
        json!({
            "id": id, "group": group, "severity": severity, "what": what, "why": why,
            "incident": incident, "help": help,
        })
    });
    let causes = causes().iter().filter(|cause| match wanted {
        None => true,
        Some(Entry::Rule(_)) => false,
        Some(Entry::Cause(wanted)) => wanted.id == cause.id,
    });
    let causes = causes.map(|Cause { id, kind, phases, general, every: _, patterns, cause, help, seen }| {
        let patterns = patterns.iter().map(Pattern::as_str).collect::<Vec<_>>();
        json!({
            "id": id, "kind": kind, "phases": phases, "general": general, "patterns": patterns,
            "cause": cause, "help": help, "seen": seen,
        })
    });
    json!({
        "schema": SCHEMA, "rules_version": RULES_VERSION,
        "rules": rules.collect::<Vec<_>>(), "causes": causes.collect::<Vec<_>>(),
    })
}
