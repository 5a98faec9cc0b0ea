//! `[[closure.accept]]`: applies the findings that a packager accepts, each until a day. Does not
//! look for findings.

use jiff::civil::Date;

use super::{AuditProblem, Finding, Status};
use crate::workspace::{AcceptRule, YANKED};

/// Marks the findings that are accepted on this day. Returns warnings about rules that match
/// nothing, if the audit is complete.
pub(super) fn apply(
    rules: &[AcceptRule],
    findings: &mut [Finding],
    today: Date,
    complete: bool,
) -> Vec<String> {
    let mut used = vec![false; rules.len()];
    for finding in findings.iter_mut().filter(|finding| finding.status == Status::Open) {
        let matching = rules.iter().enumerate().filter(|(_, rule)| covers(rule, finding));
        // Of several rules, the one that lasts longest counts.
        let mut chosen: Option<&AcceptRule> = None;
        for (at, rule) in matching {
            used[at] = true;
            if chosen.is_none_or(|other| other.until < rule.until) {
                chosen = Some(rule);
            }
        }
        if let Some(AcceptRule { reason, until, .. }) = chosen {
            finding.status = match *until < today {
                true => Status::Expired(reason.clone(), *until),
                false => Status::Accepted(reason.clone(), *until),
            };
        }
    }
    let unused = rules.iter().zip(used).filter(|(_, used)| complete && !used);
    unused
        .map(|(rule, _)| {
            let of = rule.package.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
            format!(
                "no finding matches the acceptance of `{}`{of}: remove its `[[closure.accept]]`",
                rule.id.value
            )
        })
        .collect()
}

fn covers(rule: &AcceptRule, finding: &Finding) -> bool {
    rule.package.as_ref().is_none_or(|package| *package == finding.package)
        && match &finding.what {
            AuditProblem::Yanked(_) => rule.id.value == YANKED,
            AuditProblem::Vulnerable(one) => {
                one.ids().any(|id| id.eq_ignore_ascii_case(&rule.id.value))
            }
        }
}
