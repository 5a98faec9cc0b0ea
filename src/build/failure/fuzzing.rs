//! Entries for fuzzing; see `crate::fuzzing`.

use std::path::Path;

use super::{Failure, Log};
use crate::report::snippet;

pub(crate) fn log(bytes: &[u8]) -> bool {
    let spec = (Path::new("a.spec"), "Name: a\nVersion: 1\n%build\nmake\n");
    let failure = Failure::of_log(&Log::of(bytes), "a", Path::new("build.log"), spec, "rocmrpm build a");
    failure.problems.iter().for_each(|problem| drop(snippet(problem)));
    failure.hints();
    failure.to_string();
    failure.cause.is_some()
}
