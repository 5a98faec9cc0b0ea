//! `rocmrpm explain`.

use serde_json::json;

use super::{Done, args};
use crate::error::{Error, Kind};
use crate::inspect::{RULES, RULES_VERSION, Rule, rule};
use crate::lint::{self, rule_groups};
use crate::names::nearest;
use crate::report::{Shell, rule_text, rules_text};
use crate::text::visible;

/// The format of `--json`.
const SCHEMA: &str = "rocmrpm/rules/1";

pub(super) fn run(args: &args::Explain, shell: &Shell) -> Done {
    let wanted = args.rule.as_deref().map(find).transpose()?;
    if args.json {
        shell.json(&document(wanted))?;
    } else {
        shell.data(wanted.map_or_else(rules_text, rule_text))?;
    }
    Ok(0)
}

fn find(id: &str) -> Result<&'static Rule, Error> {
    rule(id).or_else(|| lint::rule(id)).ok_or_else(|| {
        let error = Error::new(Kind::Usage, format!("there is no rule `{}`", visible(id)));
        let all = RULES.iter().chain(lint::RULES);
        match nearest(id, all.map(|rule| rule.id.as_str())) {
            Some(near) => error.hinted(format!("did you mean `{near}`?")),
            None => error.hinted("`rocmrpm explain` lists all rules"),
        }
    })
}

fn document(wanted: Option<&Rule>) -> serde_json::Value {
    let rules =
        rule_groups().into_iter().flat_map(|(group, rules)| rules.iter().map(move |rule| (group, rule)));
    let rules = rules.filter(|(_, rule)| wanted.is_none_or(|wanted| wanted.id == rule.id));
    let rules = rules.map(|(group, Rule { id, severity, what, why, incident, mend })| {
        let incident = (!incident.is_empty()).then_some(incident);
        json!({
            "id": id, "group": group, "severity": severity, "what": what, "why": why,
            "incident": incident, "mend": mend,
        })
    });
    json!({ "schema": SCHEMA, "rules_version": RULES_VERSION, "rules": rules.collect::<Vec<_>>() })
}
