//! `rocmrpm shell`.

use std::path::Path;

use super::{Done, args};
use crate::error::{Error, Kind};
use crate::report::Shell;

pub(super) fn run(_args: &args::EnterShell, _dir: &Path, _shell: &Shell) -> Done {
    Err(Error::new(Kind::Internal, "`shell` is not there yet"))
}
