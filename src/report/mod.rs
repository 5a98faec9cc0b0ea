//! Writes to the terminal and formats the output. Only this module writes to stdout and stderr:
//! data to stdout, messages to stderr.

mod closure;
mod errors;
mod graph;
mod index_check;
mod install;
mod junit;
mod lint;
mod offline;
mod patch_compare;
mod patches;
mod pins_update;
mod progress;
mod proof;
mod reproduction;
mod rules;
mod shell;
mod verify;
mod watch;

pub use closure::{
    AuditReport, ClosureReport, DiffReport, Extras, WhyReport, audit_json, audit_text,
    closure_html, closure_json, closure_text, diff_json, diff_text, imports_json, show_imports,
    why_json, why_text,
};
#[cfg(any(test, fuzzing))]
pub(crate) use errors::snippet;
pub use errors::{show_error, show_problems, show_references};
pub use graph::{GraphNode, graph_dot, graph_html, graph_svg, graph_text};
pub use index_check::index_check_text;
pub use install::{install_json, install_notes, install_summary};
pub use junit::verify_junit;
pub use lint::lint_text;
pub use offline::offline_text;
pub use patch_compare::comparison_of_patches;
pub use patches::{conflict_text, series_text};
pub use pins_update::{changed_text, pins_update_text};
pub use progress::Progress;
pub use proof::{proof_summary, proof_text};
pub use reproduction::reproduction_text;
pub use rules::{cause_text, causes_text, explanation_text, rule_text, rules_text};
pub use shell::Shell;
pub use verify::verify_text;
pub use watch::{watch_text, watch_warning};

pub use crate::style::{Style, count, human_size, human_time, uncolored};
pub use crate::table::Table;
