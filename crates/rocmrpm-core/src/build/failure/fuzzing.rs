//! Entry points for fuzzing; see `src/fuzzing.rs` of the program.

use std::path::Path;

use super::{Failure, Log};
use crate::error::{Diagnose as _, Problem};

/// Explains a log. Returns whether it found a cause, and the problems that it would show.
pub fn log(bytes: &[u8]) -> (bool, Vec<Problem>) {
    let spec = (Path::new("a.spec"), "Name: a\nVersion: 1\n%build\nmake\n");
    let failure = Failure::of_log(&Log::of(bytes), "a", Path::new("build.log"), spec);
    failure.help();
    failure.to_string();
    (failure.cause.is_some(), failure.problems)
}
