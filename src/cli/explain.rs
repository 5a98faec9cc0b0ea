//! `rocmrpm explain`.

use std::io::{ErrorKind, IsTerminal as _};
use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args};
use crate::build::{Cause, CauseKind, Explanation, Pattern, Phase, cause, causes};
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::inspect::{RULES, RULES_VERSION, Rule, RuleId, Severity, rule};
use crate::lint::{self, rule_groups};
use crate::names::nearest;
use crate::report::{Shell, cause_text, causes_text, explanation_text, rule_text, rules_text};
use crate::text::visible;

/// The subject of an ID.
#[derive(Clone, Copy)]
enum Topic {
    /// A rule of inspection or lint.
    Rule(&'static Rule),
    /// A cause of failures.
    Cause(&'static Cause),
}

pub(super) fn run(args: &args::Explain, shell: &Shell) -> CommandResult {
    if let Some(log) = &args.log {
        return explain_log(log, args.json, shell);
    }
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

/// Prints the cause that a log shows. A log without a known cause is an error.
fn explain_log(log: &Path, json: bool, shell: &Shell) -> CommandResult {
    let path = visible(&log.display().to_string());
    let Explanation { known, lines } = read(log, &path)?;
    if json {
        let cause = known.as_ref().and_then(|known| {
            let kind = cause(known.id)?.kind;
            Some(LogCause { id: known.id, kind, cause: &known.cause, help: &known.help })
        });
        shell.json(&LogReport { schema: LogReport::SCHEMA, log: &path, cause, lines: &lines })?;
    } else if let Some(known) = &known {
        shell.data(explanation_text(known, &lines))?;
    }
    if known.is_some() {
        return Ok(0);
    }
    let place = if path == "-" { "the standard input".to_owned() } else { format!("`{path}`") };
    let error = Error::new(Kind::Findings, format!("found no known cause in {place}"));
    Err(error.with_help("run `rocmrpm explain` to list the causes that rocmrpm knows"))
}

fn read(log: &Path, shown: &str) -> Result<Explanation, Error> {
    let usage = |message: String, help: &str| Error::new(Kind::Usage, message).with_help(help);
    if shown == "-" && std::io::stdin().is_terminal() {
        let help = "pipe a log into it, such as `journalctl -k | rocmrpm explain --log -`";
        return Err(usage("the standard input is a terminal".to_owned(), help));
    }
    Explanation::of_log(log).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => usage(
            format!("the log `{shown}` does not exist"),
            "in a workspace, `rocmrpm log --list` lists the logs of a build; `-` reads the standard input",
        ),
        ErrorKind::IsADirectory => {
            usage(format!("`{shown}` is a folder, not a log"), "name one of the files in it")
        }
        _ => IoError::doing(format!("read the log `{shown}`"))(error).into(),
    })
}

/// What `rocmrpm explain --log FILE --json` prints: the cause that a log shows.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LogReport<'a> {
    schema: &'static str,
    /// The path of the log; `-` for the standard input.
    log: &'a str,
    /// The cause; null if none is known.
    cause: Option<LogCause<'a>>,
    /// The relevant lines of the log.
    lines: &'a [String],
}

/// A cause, with what the log shows in place of `{1}` and `{2}`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LogCause<'a> {
    /// The stable name.
    id: &'static str,
    /// What has to change.
    kind: CauseKind,
    /// What went wrong.
    cause: &'a str,
    /// How to fix it.
    help: &'a str,
}

impl Document for LogReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/log-cause/1";
}

fn find(id: &str) -> Result<Topic, Error> {
    let found = rule(id).or_else(|| lint::rule(id)).map(Topic::Rule);
    found.or_else(|| cause(id).map(Topic::Cause)).ok_or_else(|| {
        let message = format!("there is no rule or cause of failures named `{}`", visible(id));
        let error = Error::new(Kind::Usage, message);
        let rules = RULES.iter().chain(lint::RULES).map(|rule| rule.id.as_str());
        match nearest(id, rules.chain(causes().iter().map(|cause| cause.id.as_str()))) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None => error.with_help("run `rocmrpm explain` to list them all"),
        }
    })
}

/// What `rocmrpm explain --json` prints: the rules of inspection and lint, and the causes of
/// failures that rocmrpm recognizes, of builds and of programs on the GPU.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Rules {
    schema: &'static str,
    /// Incremented when a rule changes what it finds.
    rules_version: u32,
    /// The rules, by group.
    rules: Vec<RuleEntry>,
    /// The causes of failures.
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

/// A cause of failures.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CauseEntry {
    /// The stable name.
    id: &'static str,
    /// What has to change.
    kind: CauseKind,
    /// The phases in which it occurs; empty for all of a build. `run` is after the build.
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
