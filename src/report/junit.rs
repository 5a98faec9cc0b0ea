//! Formats the results of `verify` as JUnit's XML, which CI systems read: a test case per check.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::text::visible;
use crate::verify::{Outcome, Verified};

/// Returns the document.
pub fn verify_junit(verified: &Verified) -> String {
    let mut suite = TestSuite::new(visible(&verified.place));
    suite.add_test_cases(verified.checks.iter().map(|check| {
        let mut status = match check.outcome {
            Outcome::Pass => TestCaseStatus::success(),
            Outcome::Fail => TestCaseStatus::non_success(NonSuccessKind::Failure),
            Outcome::NotRun => TestCaseStatus::skipped(),
        };
        if check.outcome != Outcome::Pass {
            status.set_message(visible(&check.detail));
        }
        let mut case = TestCase::new(visible(&check.what), status);
        case.set_classname(visible(&check.id));
        case
    }));
    let mut report = Report::new("rocmrpm verify");
    report.add_test_suite(suite);
    report.to_string().expect("writing to memory cannot fail")
}
