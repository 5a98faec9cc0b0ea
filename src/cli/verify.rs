//! `rocmrpm verify`.

use std::path::Path;

use super::{Done, args};
use crate::error::{Error, Kind};
use crate::report::Shell;

pub(super) fn run(_args: &args::Verify, _dir: &Path, _shell: &Shell) -> Done {
    Err(Error::new(Kind::Internal, "`verify` is not there yet"))
}
