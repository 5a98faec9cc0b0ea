//! The entry for fuzzing archives: reads them on one thread, and judges them. Compiled only for
//! fuzzing and for tests.

use std::path::Path;

use super::{Depth, Expectations, Subject, closure, rules, sources};

/// Inspects the RPM, wheel or tar archive at `path`. Returns `None` for another file, or if it is
/// unreadable.
pub fn archive(path: &Path) -> Option<Subject> {
    let subject = sources::read_alone(path, Depth::Deep).ok()??;
    let expectations = Expectations::default();
    closure::resolve(std::slice::from_ref(&subject), &expectations.system);
    rules::apply(std::slice::from_ref(&subject), &expectations);
    Some(subject)
}
