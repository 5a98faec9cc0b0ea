//! The table `[index]` of rocmrpm.toml: where requirements come from that the stack does not have,
//! and a packager's decisions about wheels that the stack does not build. Does not query an index.

use std::collections::BTreeSet;

use super::document::{At, Table};
use crate::index::outside::IndexSource;
use crate::license;
use crate::names::normalized;
use crate::text::visible;

/// The table `[index]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexRules {
    /// The indexes with requirements that the stack does not have.
    pub outside: Vec<IndexSource>,
    /// The index where upstream publishes the same distributions (PEP 708, "tracks").
    pub tracks: Option<IndexSource>,
    /// Whether the index has these requirements as well, so that no other index is needed.
    pub closed: bool,
    /// Decisions about wheels that the stack does not build.
    pub foreign: Vec<ForeignRule>,
}

/// `[[index.foreign]]`: a decision about a distribution that the stack does not build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignRule {
    /// The distribution's normalized name.
    pub name: At<String>,
    /// What happens to it.
    pub decision: ForeignDecision,
    /// The reason.
    pub reason: String,
}

/// What happens to a distribution that the stack does not build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForeignDecision {
    /// The index has it; its license is this SPDX expression.
    License(String),
    /// The index does not have it, and the stack's wheels do not require it.
    LeaveOut,
}

impl IndexRules {
    pub(super) fn read(table: &mut Table<'_>) -> Self {
        let outside = table.strings("outside");
        let outside: Vec<IndexSource> =
            outside.into_iter().filter_map(|at| source(table, at)).collect();
        let tracks = table.string("tracks").and_then(|at| source(table, at));
        let closed = table.boolean("closed").unwrap_or_default();
        let foreign: Vec<ForeignRule> =
            table.tables("foreign", ForeignRule::read).into_iter().flatten().collect();
        if closed && outside.is_empty() {
            let help = "add `outside = [\"pip\"]`: the index that pip uses".to_owned();
            let label = "expected the index that has the wheels";
            let span = table.span();
            table.problem(span, "`closed` needs `outside`", label, Some(help));
        }
        for (at, ForeignRule { name, .. }) in foreign.iter().enumerate() {
            if foreign[..at].iter().any(|earlier| earlier.name.value == name.value) {
                let message = format!("`{}` has two `[[index.foreign]]` tables", name.value);
                table.problem(name.span.clone(), message, "remove one of the two", None);
            }
            if !closed {
                let help = "add `closed = true` to `[index]`".to_owned();
                let message = "`[[index.foreign]]` is for an index with `closed = true`";
                table.problem(name.span.clone(), message, "this has no effect", Some(help));
            }
        }
        Self { outside, tracks, closed, foreign }
    }

    /// Returns the names of distributions that the stack's wheels do not require.
    pub fn left_out(&self) -> BTreeSet<String> {
        let left_out = |rule: &&ForeignRule| rule.decision == ForeignDecision::LeaveOut;
        self.foreign.iter().filter(left_out).map(|rule| rule.name.value.clone()).collect()
    }

    /// Returns the license that a packager states for a distribution.
    pub fn license(&self, name: &str) -> Option<&str> {
        self.foreign.iter().find_map(|rule| match &rule.decision {
            ForeignDecision::License(license) if rule.name.value == name => Some(license.as_str()),
            _ => None,
        })
    }
}

impl ForeignRule {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let span = table.span();
        let name = table.required_string("name", "the name of a distribution");
        if let Some(At { value, span }) =
            name.as_ref().filter(|at| at.value.is_empty() || normalized(&at.value) != at.value)
        {
            let help = format!("did you mean `{}`?", normalized(value));
            let label = "expected a normalized name: lower case, with `-`";
            table.problem(span.clone(), "this is not a normalized name", label, Some(help));
        }
        let license = table.string("license");
        if let Some((At { span, .. }, wrong)) =
            license.as_ref().and_then(|at| Some((at, license::not_spdx(&at.value)?)))
        {
            let label = "expected an SPDX expression such as \"MIT\"";
            table.problem(span.clone(), wrong, label, None);
        }
        let leave_out = table.boolean("leave-out").unwrap_or_default();
        let reason = table.required_string("reason", "the reason for this decision");
        if let Some(At { span, .. }) = reason.as_ref().filter(|at| at.value.trim().is_empty()) {
            table.problem(span.clone(), "`reason` must not be empty", "expected a few words", None);
        }
        let decision = match (license, leave_out) {
            (Some(license), false) => ForeignDecision::License(license.value),
            (None, true) => ForeignDecision::LeaveOut,
            _ => {
                let label = "expected `license = \"SPDX\"` or `leave-out = true`";
                table.problem(span, "this decides nothing, or two things", label, None);
                return None;
            }
        };
        Some(Self { name: name?, decision, reason: reason?.value })
    }
}

fn source(table: &mut Table<'_>, At { value, span }: At<String>) -> Option<IndexSource> {
    if value == "pip" {
        return Some(IndexSource::Pip);
    }
    let known = ["https://", "http://", "file://"].iter().any(|scheme| value.starts_with(scheme));
    if known && !value.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some(IndexSource::Url(value));
    }
    let message = format!("`{}` is not an index", visible(&value));
    let help = "use `pip` for the index that pip on this machine uses".to_owned();
    table.problem(span, message, "expected `pip` or the URL of a Simple API", Some(help));
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::document::File;

    fn read(text: &str) -> (IndexRules, Vec<String>) {
        let file = File { name: "rocmrpm.toml".into(), text: text.into() };
        let mut problems = Vec::new();
        let read = file.parse(&mut problems, |root| root.table("index", IndexRules::read));
        (read.unwrap_or_default(), problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn reads_decisions_about_foreign_wheels() {
        let (rules, problems) = read(
            "[index]\noutside = [\"pip\"]\nclosed = true\n\
             [[index.foreign]]\nname = \"a-b\"\nleave-out = true\nreason = \"not free\"\n\
             [[index.foreign]]\nname = \"c\"\nlicense = \"MIT\"\nreason = \"its LICENSE\"\n",
        );
        assert_eq!(problems, [""; 0]);
        assert!(rules.closed);
        assert_eq!(rules.left_out(), BTreeSet::from(["a-b".to_owned()]));
        assert_eq!((rules.license("c"), rules.license("a-b")), (Some("MIT"), None));
    }

    #[test]
    fn reports_decisions_without_effect() {
        let rule = |lines: &str| format!("[[index.foreign]]\nreason = \"x\"\n{lines}");
        let (_, problems) = read(&format!(
            "[index]\nclosed = true\n{}{}{}{}",
            rule("name = \"A_b\"\nlicense = \"Free\"\n"),
            rule("name = \"c\"\n"),
            rule("name = \"d\"\nleave-out = true\n"),
            rule("name = \"d\"\nleave-out = true\n"),
        ));
        assert_eq!(
            problems,
            [
                "this is not a normalized name",
                "`Free` is not in the SPDX License List",
                "this decides nothing, or two things",
                "`closed` needs `outside`",
                "`d` has two `[[index.foreign]]` tables",
            ]
        );
        let (_, problems) = read(&rule("name = \"d\"\nleave-out = true\n"));
        assert_eq!(problems, ["`[[index.foreign]]` is for an index with `closed = true`"]);
    }
}
