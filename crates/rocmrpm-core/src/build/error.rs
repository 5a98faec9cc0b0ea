//! Why a component that was built is not accepted.

use std::path::PathBuf;

use crate::error::{Diagnose, Kind};
use crate::inspect::{Finding, Report};
use crate::process::own_program;

/// Why a component was built and yet not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// The inspection found errors.
    #[error("`{component}` did not pass inspection: {}", count(report))]
    Findings {
        /// Which component.
        component: String,
        /// Everything that was found.
        report: Box<Report>,
        /// Where the whole report is.
        path: PathBuf,
        /// The folder with the build's logs.
        logs: PathBuf,
        /// The command that tries again.
        retry: String,
    },
    /// Wheels have errors that the RPMs which they were made from do not have.
    #[error("the wheels of `{component}` did not pass inspection")]
    Wheels {
        /// Which component.
        component: String,
        /// What is wrong with them alone.
        errors: Vec<Finding>,
    },
    /// Another component brings the same package.
    #[error("`{component}` makes the package `{package}`, as `{other}` does")]
    SamePackage {
        /// The component that was built.
        component: String,
        /// The component that has the package already.
        other: String,
        /// The RPM's file name.
        package: String,
    },
    /// The build succeeded without a package.
    #[error("`{component}` was built, but no RPM came of it")]
    NoRpms {
        /// Which component.
        component: String,
    },
}

fn count(report: &Report) -> String {
    match report.errors().count() {
        1 => "1 error".to_owned(),
        n => format!("{n} errors"),
    }
}

impl Diagnose for ComponentError {
    fn kind(&self) -> Kind {
        match self {
            Self::Findings { .. } | Self::Wheels { .. } => Kind::Findings,
            Self::SamePackage { .. } => Kind::Config,
            Self::NoRpms { .. } => Kind::Build,
        }
    }

    fn details(&self) -> Vec<String> {
        match self {
            Self::Findings { report, .. } => report.errors().map(ToString::to_string).collect(),
            Self::Wheels { errors, .. } => errors.iter().map(ToString::to_string).collect(),
            Self::SamePackage { .. } | Self::NoRpms { .. } => Vec::new(),
        }
    }

    fn help(&self) -> Vec<String> {
        match self {
            Self::Findings { report, path, logs, retry, .. } => {
                let mut help: Vec<String> = report.errors().map(|finding| finding.help.clone()).collect();
                help.dedup();
                // The rule about waivers cannot be waived, and says all in its help.
                if let Some(finding) = report.errors().find(|finding| finding.id.as_str() != "waiver-unused")
                {
                    help.push(format!("why, and how to waive it: {} explain {}", own_program(), finding.id));
                }
                help.push(format!("the whole report: {}", path.display()));
                help.push(format!("the build's logs: {}", logs.display()));
                help.push(format!("to try again: {retry}"));
                help
            }
            Self::Wheels { errors, .. } => {
                let mut help: Vec<String> = errors.iter().map(|finding| finding.help.clone()).collect();
                help.dedup();
                help
            }
            Self::SamePackage { other, .. } => vec![format!(
                "take it out of one of the two templates; if it moved here, build `{other}` first"
            )],
            Self::NoRpms { .. } => vec!["does the template have a `%files` section?".into()],
        }
    }
}
