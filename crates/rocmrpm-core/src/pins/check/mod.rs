//! Compares a pin set with upstream's files and the versions that work together, and reports what is
//! impossible or doubtful. `rules` has one function per rule; this file reads the sources.

mod rules;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use super::derive::for_reading;
use super::upstream::{self, Oddity, Upstream};
use crate::error::{Diagnose, Error, Kind, Problem};
use crate::sources::{Fetcher, SourceError};
use crate::text::line_of;
use crate::workspace::{Pin, Workspace};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The set is impossible.
    Error,
    /// The set is doubtful.
    Warning,
    /// The set is possible; the note is for information.
    Note,
}

/// A finding.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The rule that found it.
    pub rule: &'static str,
    /// The component with the pin.
    pub component: String,
    /// A lower-case sentence without a period.
    pub message: String,
    /// The file of the workspace.
    pub file: String,
    /// The line in it, counted from 1.
    pub line: usize,
    /// The statements of upstream or of the table, each with its place.
    pub upstream: Vec<String>,
    /// The fix, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    #[serde(skip)]
    span: Range<usize>,
    #[serde(skip)]
    text: String,
}

impl Finding {
    /// Returns the finding as a problem in the file of the workspace.
    pub fn problem(&self) -> Problem {
        Problem {
            file: self.file.clone(),
            text: self.text.clone(),
            span: Some(self.span.clone()),
            message: self.message.clone(),
            label: self.upstream.first().cloned().unwrap_or_default(),
            help: self
                .help
                .clone()
                .or_else(|| (self.upstream.len() > 1).then(|| self.upstream[1..].join("; "))),
        }
    }
}

/// A source that was not checked.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotLookedAt {
    /// The component and its version.
    pub source: String,
    /// The reason.
    pub reason: String,
}

/// The result of a check.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The findings, worst first.
    pub findings: Vec<Finding>,
    /// The files that were read, by component and version.
    pub read: BTreeMap<String, Vec<String>>,
    /// The sources that were not checked.
    pub not_looked_at: Vec<NotLookedAt>,
}

impl Report {
    /// Returns the number of findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// The input and the findings of the rules.
struct Check<'a> {
    workspace: &'a Workspace,
    read: BTreeMap<String, Upstream>,
    findings: Vec<Finding>,
}

/// Checks a workspace's chosen pin set for its chosen chroot.
pub fn check(workspace: &Workspace, reader: &Fetcher<'_>) -> Result<Report, Error> {
    let mut check = Check { workspace, read: BTreeMap::new(), findings: Vec::new() };
    let mut report = Report::default();
    for name in workspace.upstreams.readable() {
        let Some(pin) = check.pin(name) else { continue };
        let (version, source) = (pin.version.clone(), format!("{name} {}", pin.version));
        match reader.tree(&for_reading(pin, Vec::new())) {
            Ok(tree) => {
                let upstream = upstream::read(&workspace.upstreams, name, &version, &tree.dir);
                report.read.insert(source, upstream.files.clone());
                for oddity in &upstream.oddities {
                    check.odd(name, oddity);
                }
                check.read.insert(name.to_owned(), upstream);
            }
            Err(error) if may_be_absent(&error) => {
                let error = Error::from(error);
                let causes: String =
                    error.causes().iter().map(|cause| format!(": {cause}")).collect();
                report
                    .not_looked_at
                    .push(NotLookedAt { source, reason: format!("{error}{causes}") });
            }
            Err(error) if matches!(error.kind(), Kind::Config) => {
                check.find(
                    Severity::Error,
                    "source",
                    name,
                    &["version"],
                    error.to_string(),
                    Vec::new(),
                );
            }
            Err(error) => return Err(error.into()),
        }
    }
    check.rules();
    check.findings.sort_by(|a, b| (a.severity, a.line, a.rule).cmp(&(b.severity, b.line, b.rule)));
    report.findings = check.findings;
    Ok(report)
}

/// Returns whether a source is only unreachable or not locked yet.
fn may_be_absent(error: &SourceError) -> bool {
    matches!(error, SourceError::NotPinned { .. }) || error.kind() == Kind::Network
}

impl<'a> Check<'a> {
    fn pin(&self, name: &str) -> Option<&'a Pin> {
        self.workspace
            .pins
            .pins
            .iter()
            .find(|(key, _)| key.as_str() == name)
            .map(|(_, at)| &at.value)
    }

    fn odd(&mut self, name: &str, oddity: &Oddity) {
        let message = format!("a file of {} has an unexpected form", oddity.place.of);
        self.find(
            Severity::Warning,
            "upstream-file",
            name,
            &["version"],
            message,
            vec![oddity.to_string()],
        );
    }

    /// Adds a finding about a value of the set: the keys below the component's table.
    fn find(
        &mut self,
        severity: Severity,
        rule: &'static str,
        component: &str,
        keys: &[&str],
        message: String,
        upstream: Vec<String>,
    ) {
        let file = &self.workspace.pins.file;
        let span = span_of(&file.text, component, keys);
        let line = line_of(&file.text, span.start);
        self.findings.push(Finding {
            severity,
            rule,
            component: component.to_owned(),
            message,
            file: file.name.clone(),
            line,
            upstream,
            help: None,
            span,
            text: file.text.clone(),
        });
    }
}

/// Returns the position of a key's value below a component's table, or of the last table on the way
/// to it that exists.
fn span_of(text: &str, component: &str, keys: &[&str]) -> Range<usize> {
    let Ok(root) = toml::de::DeTable::parse(text) else { return 0..0 };
    let mut table = root.get_ref();
    let mut span = 0..0;
    for key in std::iter::once(&component).chain(keys) {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == key) else {
            break;
        };
        match value.get_ref().as_table() {
            Some(inner) => {
                table = inner;
                span = name.span();
            }
            None => return value.span(),
        }
    }
    span
}
