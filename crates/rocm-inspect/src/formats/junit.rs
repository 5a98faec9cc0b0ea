//! Formats an inspection as JUnit XML, which CI systems show as tests: a suite for each subject,
//! and a case for each file and for each finding that concerns more than one file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::{Program, severity_word, tally, verdict_line};
use crate::{Finding, Report, Severity, Subject, Waived};
use rocmrpm_base::text::visible;

/// A test case. Errors make it fail; everything else goes to its output.
struct Case {
    class: String,
    name: String,
    errors: Vec<String>,
    /// What the first error found, and its rule.
    first: Option<(String, &'static str)>,
    output: Vec<String>,
}

/// Returns a report as JUnit XML. Errors are failures; warnings, notes and waived findings are
/// output, since they must not fail a CI job. Times are 0 and there are no time stamps, so that the
/// same files produce the same bytes.
pub fn to_junit(report: &Report, program: Program<'_>) -> String {
    let findings = findings_by_place(report);
    let waived = waived_by_place(report);
    let mut junit = quick_junit::Report::new(program.name);
    junit.set_time(Duration::ZERO);
    for subject in &report.subjects {
        junit.add_test_suite(suite(&subject.name, cases(subject, &findings, &waived)));
    }
    let mut set = suite("the whole set", set_cases(&findings, &waived));
    let verdict = verdict_line(report);
    set.set_system_out(lines([tally(report).as_str()].into_iter().chain(verdict.lines())));
    junit.add_test_suite(set);
    junit.to_string().expect("writing to memory cannot fail")
}

/// Groups findings or waived findings by subject and file. Findings that do not name an inspected
/// subject are under `None`.
fn by_place<'a, T>(
    report: &'a Report,
    all: &'a [T],
    finding: impl Fn(&T) -> &Finding,
) -> BTreeMap<(Option<String>, Option<String>), Vec<&'a T>> {
    let known: BTreeSet<&str> = report.subjects.iter().map(|s| s.path.as_str()).collect();
    let mut places: BTreeMap<_, Vec<&T>> = BTreeMap::new();
    for item in all {
        let Finding { subject, file, .. } = finding(item);
        let subject = subject.clone().filter(|s| known.contains(s.as_str()));
        places.entry((subject, file.clone())).or_default().push(item);
    }
    places
}

fn findings_by_place(report: &Report) -> BTreeMap<(Option<String>, Option<String>), Vec<&Finding>> {
    by_place(report, &report.findings, |finding| finding)
}

fn waived_by_place(report: &Report) -> BTreeMap<(Option<String>, Option<String>), Vec<&Waived>> {
    by_place(report, &report.waived, |waived| &waived.finding)
}

fn suite(name: &str, cases: Vec<Case>) -> TestSuite {
    let mut suite = TestSuite::new(text(name));
    suite.set_time(Duration::ZERO);
    suite.add_test_cases(cases.into_iter().map(TestCase::from));
    suite
}

type FindingsByFile<'a, T> = BTreeMap<(Option<String>, Option<String>), Vec<&'a T>>;

/// Returns the cases of a subject: the subject itself, its files, and other files that findings
/// name.
fn cases(
    subject: &Subject,
    findings: &FindingsByFile<'_, Finding>,
    waived: &FindingsByFile<'_, Waived>,
) -> Vec<Case> {
    let here = |place: &(Option<String>, Option<String>)| place.0.as_ref() == Some(&subject.path);
    let named = findings
        .keys()
        .chain(waived.keys())
        .filter(|place| here(place))
        .map(|place| place.1.clone());
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

/// Returns the cases of the set: one for each rule with a finding that does not belong to a single
/// file.
fn set_cases(
    findings: &FindingsByFile<'_, Finding>,
    waived: &FindingsByFile<'_, Waived>,
) -> Vec<Case> {
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
        // A finding about a subject that was not inspected still names the file.
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
        self.output
            .push(format!("waived in {place}: {reason}; [{}] found {}", finding.id, finding.found));
    }
}

impl From<Case> for TestCase {
    fn from(case: Case) -> Self {
        // Tools handle several failures differently, so one failure contains all of them.
        let status = match &case.first {
            None => TestCaseStatus::success(),
            Some((found, id)) => {
                let message = match case.errors.len() {
                    1 => format!("found {found}"),
                    n => format!("found {found}, and {} more", n - 1),
                };
                let mut failure = TestCaseStatus::non_success(NonSuccessKind::Failure);
                failure
                    .set_message(text(&message))
                    .set_type(id)
                    .set_description(lines(&case.errors));
                failure
            }
        };
        let mut test = TestCase::new(text(&case.name), status);
        test.set_classname(text(&case.class)).set_time(Duration::ZERO);
        if !case.output.is_empty() {
            test.set_system_out(lines(&case.output));
        }
        test
    }
}

fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let lines = lines.into_iter().map(|line| text(line.as_ref()));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Prepares untrusted text for XML 1.0, which does not allow control characters, U+FFFE and U+FFFF
/// (section 2.2 of the specification). `quick_junit` would silently drop the former and write the
/// latter.
fn text(text: &str) -> String {
    visible(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}
