//! `rocmrpm copr`.

use std::path::Path;

use super::{Done, args};
use crate::error::{Error, Kind};
use crate::report::Shell;

pub(super) fn run(_args: &args::Copr, _dir: &Path, _shell: &Shell) -> Done {
    Err(Error::new(Kind::Internal, "`copr` is not there yet"))
}
