//! `rocmrpm explain`.

use serde::Serialize;

use super::{Done, args};
use crate::build::{Cause, CauseKind, Pattern, Phase, cause, causes};
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::inspect::{RULES, RULES_VERSION, Rule, RuleId, Severity, rule};
use crate::lint::{self, rule_groups};
use crate::names::nearest;
use crate::report::{Shell, cause_text, causes_text, rule_text, rules_text};
use crate::text::visible;

/// The subject of an ID.
#[derive(Clone, Copy)]
enum Topic {
    /// A rule of inspection or lint.
    Rule(&'static Rule),
    /// A cause of failed builds.
    Cause(&'static Cause),
}

pub(super) fn run(args: &args::Explain, shell: &Shell) -> Done {
    let wanted = args.id.as_deref().map(find).transpose()?;
    if args.json {
        shell.json(&document(wanted))?;
    } else {
        shell.data(match wanted {
            None => format!("{}\n{}", rules_text(), causes_text()),
            Some(Topic::Rule(rule)) => rule_text(rule),
            Some(Topic::Cause(cause)) => cause_text(cause),
        })?;
    }
    Ok(0)
}

fn find(id: &str) -> Result<Topic, Error> {
    let found = rule(id).or_else(|| lint::rule(id)).map(Topic::Rule);
    found.or_else(|| cause(id).map(Topic::Cause)).ok_or_else(|| {
        let message = format!("there is no rule or cause of failed builds named `{}`", visible(id));
        let error = Error::new(Kind::Usage, message);
        let rules = RULES.iter().chain(lint::RULES).map(|rule| rule.id.as_str());
        match nearest(id, rules.chain(causes().iter().map(|cause| cause.id.as_str()))) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None => error.with_help("run `rocmrpm explain` to list them all"),
        }
    })
}

/// What `rocmrpm explain --json` prints: the rules of inspection and lint, and the causes of failed
/// builds that rocmrpm recognizes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Rules {
    schema: &'static str,
    /// Incremented when a rule changes what it finds.
    rules_version: u32,
    /// The rules, by group.
    rules: Vec<RuleEntry>,
    /// The causes of failed builds.
    causes: Vec<CauseEntry>,
}

/// A rule.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RuleEntry {
    /// The stable name.
    id: RuleId,
    /// The group that it belongs to.
    group: &'static str,
    /// The severity of its findings.
    severity: Severity,
    /// What it finds.
    what: &'static str,
    /// Why that matters.
    why: &'static str,
    /// An incident with real packages; null if none is known.
    incident: Option<&'static str>,
    /// How to fix it.
    help: &'static str,
}

/// A cause of failed builds.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CauseEntry {
    /// The stable name.
    id: &'static str,
    /// What has to change.
    kind: CauseKind,
    /// The phases of a build in which it occurs; empty for all.
    phases: &'static [Phase],
    /// Whether other causes are more likely if their patterns match as well.
    general: bool,
    /// Patterns in the log; each matches one or more whole lines, with captures.
    patterns: Vec<&'static str>,
    /// The cause; `{1}` and `{2}` stand for captures.
    cause: &'static str,
    /// How to fix it.
    help: &'static str,
    /// Where such a log occurred.
    seen: &'static str,
}

impl Document for Rules {
    const SCHEMA: &'static str = "rocmrpm/rules/2";
}

fn document(wanted: Option<Topic>) -> Rules {
    let rules = rule_groups()
        .into_iter()
        .flat_map(|(group, rules)| rules.iter().map(move |rule| (group, rule)));
    let rules = rules.filter(|(_, rule)| match wanted {
        None => true,
        Some(Topic::Rule(wanted)) => wanted.id == rule.id,
        Some(Topic::Cause(_)) => false,
    });
    let rules = rules.map(|(group, &Rule { id, severity, what, why, incident, help })| {
        let incident = Some(incident).filter(|incident| !incident.is_empty());
        RuleEntry { id, group, severity, what, why, incident, help }
    });
    let causes = causes().iter().filter(|cause| match wanted {
        None => true,
        Some(Topic::Rule(_)) => false,
        Some(Topic::Cause(wanted)) => wanted.id == cause.id,
    });
    let causes =
        causes.map(|Cause { id, kind, phases, general, every: _, patterns, cause, help, seen }| {
            let patterns = patterns.iter().map(Pattern::as_str).collect();
            CauseEntry { id, kind: *kind, phases, general: *general, patterns, cause, help, seen }
        });
    Rules {
        schema: Rules::SCHEMA,
        rules_version: RULES_VERSION,
        rules: rules.collect(),
        causes: causes.collect(),
    }
}
