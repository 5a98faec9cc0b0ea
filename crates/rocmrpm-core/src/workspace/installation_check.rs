//! `[[check]]` of component.toml: checks of an installation with the component. `verify` runs them, with its
//! own list for ROCm.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::document::{At, File, Table};
use crate::error::Problem;

const CHECKLIST: &str = include_str!("checklist.toml");

/// The IDs of checks that are not in a list.
const RESERVED: &[&str] = &["file-conflicts", "gpu", "labels", "wheels"];

/// A check of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallationCheck {
    /// A short name.
    pub id: String,
    /// The position of the name.
    pub span: Range<usize>,
    /// The expected state. `{gpu-target}` is filled in, here and in `prints`.
    pub what: String,
    /// A script for sh, run at the location; exit code 0 passes. Like `condition`, it has the variables
    /// `prefix` and `device_libs` of the ROCm provider, and `versions` of the GPU targets. Empty if rocmrpm
    /// does not run the check.
    pub run: String,
    /// What its output must contain, for every GPU target of the stack.
    pub prints: Option<String>,
    /// Whether one of these targets is enough.
    pub any_target: bool,
    /// The caller's variables that the script reads.
    pub env: Vec<String>,
    /// A script, and the reason why the check is skipped if the script fails.
    pub condition: Option<(String, String)>,
    /// Whether this machine needs a GPU that ROCm can use.
    pub needs_gpu: bool,
    /// Why rocmrpm does not run the check.
    pub by_hand: Option<String>,
}

impl InstallationCheck {
    /// Reads all checks of a file.
    pub(crate) fn read_all(root: &mut Table<'_>) -> Vec<Self> {
        let mut ids = BTreeSet::new();
        root.tables("check", |table| Self::read(table, &mut ids)).into_iter().flatten().collect()
    }

    /// Returns the checks of every stack that uses ROCm. A test reads the file.
    pub(crate) fn general() -> &'static [Self] {
        static GENERAL: LazyLock<Vec<InstallationCheck>> =
            LazyLock::new(|| InstallationCheck::list("checklist.toml", CHECKLIST, &mut Vec::new()));
        &GENERAL
    }

    /// Reads the checks in a text that only has checks.
    pub(crate) fn list(name: &str, text: &str, problems: &mut Vec<Problem>) -> Vec<Self> {
        File { name: name.to_owned(), text: text.to_owned() }.parse(problems, Self::read_all)
    }

    /// Reads one `[[check]]`; `None` if a key is missing or wrong.
    fn read(table: &mut Table<'_>, ids: &mut BTreeSet<String>) -> Option<Self> {
        let id = table.required_string("id", "a short name, such as `torch-hip`");
        if let Some(At { value, span }) = &id
            && !ids.insert(value.clone())
        {
            let message = format!("two checks have the ID `{value}`");
            table.problem(span.clone(), message, "choose another ID", None);
        }
        if let Some(id) = &id {
            table.must_be_plain(id, "the ID of a check");
            if RESERVED.contains(&id.value.as_str()) {
                let message = format!("rocmrpm has a check with the ID `{}`", id.value);
                table.problem(id.span.clone(), message, "choose another ID", None);
            }
        }
        let what = table.required_string("what", "the expected state");
        let run = table.lines("run");
        let by_hand = table.string("by-hand").map(|at| at.value);
        let condition = table.lines("if").map(|at| at.value);
        let otherwise = table.string("otherwise").map(|at| at.value);
        let prints = table.string("prints").map(|at| at.value);
        let any_target = table.boolean("any-target").unwrap_or(false);
        let env = table.strings("env").into_iter().map(|at| at.value).collect();
        let needs_gpu = table.boolean("needs-gpu").unwrap_or(false);
        let mut wrong = |message: &str, label: &str| {
            let span = table.span();
            table.problem(span, message, label, None);
        };
        if run.is_some() == by_hand.is_some() {
            wrong("a check has either `run` or `by-hand`", "keep one of the two");
        }
        if condition.is_some() != otherwise.is_some() {
            wrong("`if` and `otherwise` belong together", "add the other one");
        }
        let At { value: id, span } = id?;
        Some(Self {
            id,
            span,
            what: what?.value,
            run: run.map(|at| at.value).unwrap_or_default(),
            prints,
            any_target,
            env,
            condition: condition.zip(otherwise),
            needs_gpu,
            by_hand,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        InstallationCheck::list("x.toml", text, &mut problems);
        problems.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn checklist_is_valid() {
        assert_eq!(problems(CHECKLIST), [""; 0]);
        assert!(InstallationCheck::general().len() > 5);
    }

    #[test]
    fn reports_only_what_is_wrong() {
        let check = |id: &str| format!("[[check]]\nid = \"{id}\"\nwhat = \"x\"\nrun = \"true\"\n");
        assert_eq!(problems(&(check("a") + &check("b"))), [""; 0]);
        assert_eq!(problems(&(check("a") + &check("a"))), ["two checks have the ID `a`"]);
        assert_eq!(
            problems(&check("import torch")),
            ["`import torch` cannot be the ID of a check"]
        );
        assert_eq!(problems(&check("labels")), ["rocmrpm has a check with the ID `labels`"]);
        let rest =
            "what = \"x\"\nrun = \"true\"\nprints = \"y\"\nany-target = true\nneeds-gpu = true\n";
        assert_eq!(problems(&format!("[[check]]\n{rest}")), ["`id` is missing in `[check]`"]);
    }
}
