//! Checks specs for problems that rpmlint does not know: text, exports, requirements and changes of
//! upstream files. It does not render, fetch or print.

mod changes;
mod expand;
mod exports;
mod requires;
mod tags;
mod text;
mod words;

use std::collections::BTreeSet;

use serde::Serialize;

pub use crate::lint_rules::RULES;
pub use expand::{ExpandError, expand};
pub(crate) use exports::shell_words;
pub use requires::add_own;
pub(crate) use tags::unfinished_in;
pub use tags::unfinished_package;
pub use words::{SourceNames, words_of};

use crate::inspect::{self, Rule, RuleId, Severity, Waiver};
use crate::lint_rules::WAIVER_UNUSED;
use crate::packages::{Packages, PackagesError};
use crate::spec::sections::Sections;
use crate::text::{covers, visible};
use crate::workspace::{Edit, Patch};

/// Returns all rules by group: inspection rules, then rules for specs.
pub fn rule_groups() -> Vec<(&'static str, &'static [Rule])> {
    let mut groups = inspect::rule_groups();
    groups.push(("specs", RULES));
    groups
}

/// Returns the rule for specs with this ID.
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id.as_str() == id)
}

/// A spec and its origin.
pub struct Spec<'a> {
    /// The spec file, as shown in messages.
    pub file: String,
    /// The sections of the spec, with macros expanded.
    pub sections: Sections,
    /// The path and text that a person wrote: the template, or the spec itself.
    pub written: (String, String),
    /// The prefix where ROCm is installed, such as `/usr`.
    pub prefix: String,
    /// Data that only a component of the workspace has.
    pub own: Option<ComponentData<'a>>,
    /// The words in upstream's files, if available.
    pub words: Option<SourceNames>,
}

/// Data from a component of the workspace.
pub struct ComponentData<'a> {
    /// The path of `component.toml`, as shown in messages.
    pub file: String,
    /// Environment variables, verbatim from `component.toml`.
    pub env: Vec<(&'a str, &'a str)>,
    /// The patches that apply to this version.
    pub patches: Vec<&'a Patch>,
    /// The edits that apply to this version.
    pub edits: Vec<&'a Edit>,
    /// The accepted findings.
    pub waivers: &'a [Waiver],
}

/// A problem in a spec. Findings are sorted by severity, worst first, then by place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The file: a spec, a template, component.toml or a patch.
    pub file: String,
    /// The line in it; `None` for the whole file.
    pub line: Option<usize>,
    /// The ID of the rule.
    pub id: RuleId,
    /// What the rule found.
    pub found: String,
    /// What the rule expects instead.
    pub expected: String,
    /// The fix.
    pub help: String,
}

/// A finding that a waiver accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waived {
    /// What was found.
    pub finding: Finding,
    /// The reason for accepting it.
    pub reason: String,
}

fn finding(
    rule: &Rule,
    file: &str,
    line: usize,
    found: String,
    expected: impl Into<String>,
) -> Finding {
    Finding {
        severity: rule.severity,
        file: visible(file),
        line: (line > 0).then_some(line),
        id: rule.id,
        // Specs may be untrusted.
        found: visible(&found),
        expected: visible(&expected.into()),
        help: rule.help.to_owned(),
    }
}

/// Checks one spec. `packages` contains the packages of the chroot and of the stack.
pub fn lint(
    spec: &Spec<'_>,
    packages: &Packages,
) -> Result<(Vec<Finding>, Vec<Waived>), PackagesError> {
    let mut findings = requires::check(spec, packages)?;
    findings.extend(exports::check(spec));
    findings.extend(tags::check(spec));
    findings.extend(text::check(spec));
    findings.extend(changes::check(spec));
    let (mut findings, waived) = match &spec.own {
        Some(own) => waive(findings, own),
        None => (findings, Vec::new()),
    };
    findings.sort();
    findings.dedup();
    Ok((findings, waived))
}

fn waive(findings: Vec<Finding>, own: &ComponentData<'_>) -> (Vec<Finding>, Vec<Waived>) {
    let (mut kept, mut waived, mut used) = (Vec::new(), Vec::new(), BTreeSet::<usize>::new());
    for finding in findings {
        let matches = |waiver: &Waiver| {
            waiver.rule == finding.id.as_str()
                && waiver.file.as_ref().is_none_or(|pattern| covers(pattern, &finding.file))
                && waiver.found.as_ref().is_none_or(|part| finding.found.contains(part.as_str()))
        };
        let by: Vec<usize> =
            (0..own.waivers.len()).filter(|at| matches(&own.waivers[*at])).collect();
        used.extend(&by);
        match by.first() {
            None => kept.push(finding),
            Some(at) => waived.push(Waived { finding, reason: own.waivers[*at].reason.clone() }),
        }
    }
    for (at, waiver) in own.waivers.iter().enumerate() {
        if !used.contains(&at) {
            let found = format!("a waiver of `{}` that matches no finding", waiver.rule);
            kept.push(finding(&WAIVER_UNUSED, &own.file, 0, found, "a matching finding"));
        }
    }
    (kept, waived)
}

#[cfg(test)]
mod testing;
