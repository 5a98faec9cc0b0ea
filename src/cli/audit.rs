//! `rocmrpm audit`.

use std::path::Path;

use super::{Done, args};
use crate::error::{Error, Kind};
use crate::report::Shell;

pub(super) fn run(args: &args::Audit, dir: &Path, _shell: &Shell) -> Done {
    Err(Error::new(Kind::Internal, format!("not there yet: {args:?} in {}", dir.display())))
}
