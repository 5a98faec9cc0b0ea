//! `rocmrpm pins outdated`.

use std::path::Path;

use super::{Done, args};
use crate::error::{Error, Kind};
use crate::report::Shell;

pub(super) fn run(args: &args::PinsOutdated, dir: &Path, _shell: &Shell) -> Done {
    Err(Error::new(Kind::Internal, format!("not there yet: {args:?} in {}", dir.display())))
}
