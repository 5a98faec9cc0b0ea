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
    },
    /// The wheels have errors that the RPMs they were made from do not have.
    #[error("the wheels{} did not pass inspection", component.iter().map(|c| format!(" of `{c}`")).collect::<String>())]
    Wheels {
        /// The component, if they belong to one.
        component: Option<String>,
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

/// Returns a diagnosis that shows all findings, with the help of the first one.
fn of_findings<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Diagnosis {
    let findings: Vec<&Finding> = findings.into_iter().collect();
    Diagnosis::from(Kind::Findings)
        .with_help_lines(findings.first().map(|finding| &finding.help))
        .with_details(findings.iter().map(ToString::to_string))
}

impl Diagnose for ComponentError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Findings { report, path, logs, .. } => {
                let diagnosis = of_findings(report.errors())
                    .with_reference("Report", path.display())
                    .with_reference("Log", logs.display());
                // The rule about waivers cannot be waived, and its own help is complete.
                match report.errors().find(|finding| finding.id.as_str() != "waiver-unused") {
                    Some(finding) => {
                        let explain = format!("{} explain {}", own_program(), finding.id);
                        diagnosis.with_reference("Explain", explain)
                    }
                    None => diagnosis,
                }
            }
            Self::Wheels { errors, .. } => of_findings(errors),
            Self::SamePackage { other, .. } => Kind::Config.with_help(format!(
                "remove it from one of the two templates; if the package moved, build `{other}` first"
            )),
            Self::NoRpms { .. } => Kind::Build.with_help("add a `%files` section to the template"),
        }
    }
}
