//! `[[check]]` of component.toml: checks of an installation with the component. `verify` runs them, with its
//! own list for ROCm.

use std::collections::BTreeSet;

use super::document::{At, File, Table};
use crate::error::Problem;

/// A check of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallationCheck {
    /// A short name.
    pub id: String,
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
        let what = table.required_string("what", "the expected state");
        let run = table.lines("run");
        let by_hand = table.string("by-hand").map(|at| at.value);
        let condition = table.lines("if").map(|at| at.value);
        let otherwise = table.string("otherwise").map(|at| at.value);
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
        Some(Self {
            id: id?.value,
            what: what?.value,
            run: run.map(|at| at.value).unwrap_or_default(),
            prints: table.string("prints").map(|at| at.value),
            any_target: table.boolean("any-target").unwrap_or(false),
            env: table.strings("env").into_iter().map(|at| at.value).collect(),
            condition: condition.zip(otherwise),
            needs_gpu: table.boolean("needs-gpu").unwrap_or(false),
            by_hand,
        })
    }
}
