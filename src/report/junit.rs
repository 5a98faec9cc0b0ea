//! Formats the results of `verify` as JUnit's XML, which CI systems read: a test suite with a test case
//! per check.

use crate::text::{escaped, visible};
use crate::verify::{Outcome, Verified};

/// Returns the document.
pub fn verify_junit(verified: &Verified) -> String {
    let quoted = |text: &str| escaped(&visible(text));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
        quoted(&verified.place),
        verified.checks.len(),
        verified.number(Outcome::Fail),
        verified.number(Outcome::NotRun),
    );
    for check in &verified.checks {
        let kind = match check.outcome {
            Outcome::Pass => None,
            Outcome::Fail => Some("failure"),
            Outcome::NotRun => Some("skipped"),
        };
        text += &format!("  <testcase name=\"{}: {}\"", quoted(&check.id), quoted(&check.what));
        text += &match kind {
            None => "/>\n".to_owned(),
            Some(kind) => {
                format!("><{kind} message=\"{}\"/></testcase>\n", quoted(&check.detail))
            }
        };
    }
    text + "</testsuite>\n"
}
