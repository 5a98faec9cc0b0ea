//! Rules about how ELF files were finished: stripping, hardening, program headers,
//! what got lost between an RPM and its wheel.

use crate::inspect::expectations::Expectations;
use crate::inspect::facts::Subject;
use crate::inspect::report::Finding;

pub(super) fn check(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let _ = (subjects, expectations);
    Vec::new()
}
