//! The errors of components that were built but not accepted.

use std::path::PathBuf;

use crate::error::{Diagnose, Diagnosis, Kind};
use crate::inspect::{Finding, Report};
use crate::process::own_program;

/// Why a component was built but not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// The inspection found errors.
    #[error("`{component}` did not pass inspection: {}", count(report))]
    Findings {
        /// The component.
        component: String,
        /// The inspection's report.
        report: Box<Report>,
        /// The path of the full report.
        path: PathBuf,
        /// The folder with the build's logs.
        logs: PathBuf,
        /// The command that retries.
        retry: String,
    },
    /// The wheels have errors that the RPMs they were made from do not have.
    #[error("the wheels of `{component}` did not pass inspection")]
    Wheels {
        /// The component.
        component: String,
        /// The errors that only the wheels have.
        errors: Vec<Finding>,
    },
    /// Another component provides the same package.
    #[error("`{component}` and `{other}` both provide the package `{package}`")]
    SamePackage {
        /// The component that was built.
        component: String,
        /// The component that already provides the package.
        other: String,
        /// The RPM's file name.
        package: String,
    },
    /// The build succeeded without making a package.
    #[error("the build of `{component}` succeeded but made no RPMs")]
    NoRpms {
        /// The component.
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
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Findings { report, path, logs, retry, .. } => {
                let mut help: Vec<String> = report.errors().map(|finding| finding.help.clone()).collect();
                help.dedup();
                // The rule about waivers cannot be waived, and its own help is complete.
                if let Some(finding) = report.errors().find(|finding| finding.id.as_str() != "waiver-unused")
                {
                    help.push(format!("explain or waive it: {} explain {}", own_program(), finding.id));
                }
                Diagnosis::from(Kind::Findings)
                    .with_help_lines(help)
                    .with_help(format!("full report: {}", path.display()))
                    .with_help(format!("build logs: {}", logs.display()))
                    .with_help(format!("retry: {retry}"))
                    .with_details(report.errors().map(ToString::to_string))
            }
            Self::Wheels { errors, .. } => {
                let mut help: Vec<&str> = errors.iter().map(|finding| finding.help.as_str()).collect();
                help.dedup();
                Diagnosis::from(Kind::Findings)
                    .with_help_lines(help)
                    .with_details(errors.iter().map(ToString::to_string))
            }
            Self::SamePackage { other, .. } => Kind::Config.with_help(format!(
                "remove it from one of the two templates; if the package moved, build `{other}` first"
            )),
            Self::NoRpms { .. } => Kind::Build.with_help("add a `%files` section to the template"),
        }
    }
}
