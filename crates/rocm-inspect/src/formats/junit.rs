//! An inspection as JUnit XML, which CI systems show as tests: a suite for each
//! subject, a case for each file and for each finding about more than a file.

use std::collections::{BTreeMap, BTreeSet};

use super::{findings_by_place, severity_word, tally, verdict_line, waived_by_place};
use crate::{Finding, Report, Severity, Subject, Waived};
use rocmrpm_base::text::{escaped, visible};

/// A test case: errors make it fail, what else there is to say stands in its output.
struct Case {
    class: String,
    name: String,
    errors: Vec<String>,
    /// What the first error found, and its rule.
    first: Option<(String, &'static str)>,
    output: Vec<String>,
}

/// Returns a report as JUnit XML. Errors are failures; warnings, notes and waived
/// findings are output, since a CI must not fail on them. The order of elements
/// is that of the schema that Jenkins publishes (`junit-10.xsd`); the result has no
/// time stamp, so that the same files give the same bytes.
pub fn to_junit(report: &Report) -> String {
    let findings = findings_by_place(report);
    let waived = waived_by_place(report);
    let mut suites = Vec::new();
    for subject in &report.subjects {
        suites.push((subject.name.clone(), cases(subject, &findings, &waived)));
    }
    suites.push(("the whole set".to_owned(), set_cases(&findings, &waived)));
    let all = || suites.iter().flat_map(|(_, cases)| cases);
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = counts(all());
    text.push_str(&format!("<testsuites name=\"rocmrpm inspect\" {counts}>\n"));
    for (at, (name, cases)) in suites.iter().enumerate() {
        text.push_str(&format!("  <testsuite name=\"{}\" {}>\n", xml(name), self::counts(cases)));
        cases.iter().for_each(|case| text.push_str(&case.xml()));
        if at + 1 == suites.len() {
            let lines = [tally(report), verdict_line(report)];
            let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|l| !l.is_empty()).collect();
            text.push_str(&format!("    <system-out>{}</system-out>\n", xml_text(&lines.join("\n"))));
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn counts<'a>(cases: impl IntoIterator<Item = &'a Case>) -> String {
    let (mut tests, mut failures) = (0usize, 0usize);
    for case in cases {
        tests += 1;
        failures += usize::from(!case.errors.is_empty());
    }
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"0\" time=\"0\"")
}

type Places<'a, T> = BTreeMap<(Option<String>, Option<String>), Vec<&'a T>>;

/// The cases of a subject: itself, its files, and places that only findings name.
fn cases(subject: &Subject, findings: &Places<'_, Finding>, waived: &Places<'_, Waived>) -> Vec<Case> {
    let here = |place: &(Option<String>, Option<String>)| place.0.as_ref() == Some(&subject.path);
    let named = findings.keys().chain(waived.keys()).filter(|place| here(place)).map(|place| place.1.clone());
    let files = subject.files.iter().map(|file| Some(file.path.clone()));
    let places: BTreeSet<Option<String>> = files.chain(named).chain([None]).collect();
    let cases = places.into_iter().map(|file| {
        let name = file.clone().unwrap_or_else(|| "as a whole".to_owned());
        let mut case = Case::new(&subject.name, &name);
        let place = (Some(subject.path.clone()), file);
        findings.get(&place).into_iter().flatten().for_each(|finding| case.found(finding));
        waived.get(&place).into_iter().flatten().for_each(|waived| case.waived(waived));
        case
    });
    cases.collect()
}

/// The cases of the set: one for each rule that found something in no single file.
fn set_cases(findings: &Places<'_, Finding>, waived: &Places<'_, Waived>) -> Vec<Case> {
    let mut cases: BTreeMap<&'static str, Case> = BTreeMap::new();
    let class = "the whole set";
    for finding in findings.iter().filter(|(place, _)| place.0.is_none()).flat_map(|(_, all)| all) {
        let id = finding.id.as_str();
        cases.entry(id).or_insert_with(|| Case::new(class, id)).found(finding);
    }
    for waived in waived.iter().filter(|(place, _)| place.0.is_none()).flat_map(|(_, all)| all) {
        let id = waived.finding.id.as_str();
        cases.entry(id).or_insert_with(|| Case::new(class, id)).waived(waived);
    }
    if cases.is_empty() {
        return vec![Case::new(class, "rules about the whole set")];
    }
    cases.into_values().collect()
}

impl Case {
    fn new(class: &str, name: &str) -> Self {
        let (class, name) = (class.to_owned(), name.to_owned());
        Self { class, name, errors: Vec::new(), first: None, output: Vec::new() }
    }

    fn found(&mut self, finding: &Finding) {
        let Finding { severity, id, found, expected, help, file, .. } = finding;
        let line = format!("[{id}] found {found}, expected {expected}; help: {help}");
        // A finding about a subject that was not inspected still names its file.
        let line = match file {
            Some(file) if *file != self.name => format!("{file}: {line}"),
            _ => line,
        };
        if *severity == Severity::Error {
            self.errors.push(line);
            self.first.get_or_insert_with(|| (found.clone(), id.as_str()));
        } else {
            self.output.push(format!("{}: {line}", severity_word(*severity)));
        }
    }

    fn waived(&mut self, waived: &Waived) {
        let Waived { finding, reason, place } = waived;
        self.output.push(format!("waived in {place}: {reason}; [{}] found {}", finding.id, finding.found));
    }

    fn xml(&self) -> String {
        let (class, name) = (xml(&self.class), xml(&self.name));
        let head = format!("    <testcase classname=\"{class}\" name=\"{name}\" time=\"0\"");
        if self.errors.is_empty() && self.output.is_empty() {
            return format!("{head}/>\n");
        }
        let mut text = format!("{head}>\n");
        // Readers differ in what they make of several failures; one has them all.
        if let Some((found, id)) = &self.first {
            let message = match self.errors.len() {
                1 => format!("found {found}"),
                n => format!("found {found}, and {} more", n - 1),
            };
            let lines = xml_lines(&self.errors);
            let message = xml(&message);
            text.push_str(&format!("      <failure message=\"{message}\" type=\"{id}\">{lines}</failure>\n"));
        }
        if !self.output.is_empty() {
            text.push_str(&format!("      <system-out>{}</system-out>\n", xml_lines(&self.output)));
        }
        text.push_str("    </testcase>\n");
        text
    }
}

fn xml_lines(lines: &[String]) -> String {
    lines.iter().map(|line| xml(line)).collect::<Vec<_>>().join("\n")
}

fn xml_text(text: &str) -> String {
    xml_lines(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Writes text of strangers as XML 1.0, in an attribute or between tags. Control
/// characters, which XML cannot have, are written visibly; U+FFFE and U+FFFF are
/// replaced (section 2.2 of the specification).
fn xml(text: &str) -> String {
    escaped(&visible(text)).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}
