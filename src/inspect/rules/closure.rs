//! Rules about the set's libraries as a whole: what is missing, what is there
//! twice, what does not fit together.

use crate::inspect::expectations::Expectations;
use crate::inspect::facts::Subject;
use crate::inspect::report::{Finding, Need};

pub(super) fn check(subjects: &[Subject], needs: &[Need], expectations: &Expectations) -> Vec<Finding> {
    let _ = (subjects, needs, expectations);
    Vec::new()
}
