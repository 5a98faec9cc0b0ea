//! `rocmrpm publish`.

use std::path::Path;

use super::{Done, args};
use crate::report::Shell;

pub(super) fn run(_args: &args::Publish, _dir: &Path, _shell: &Shell) -> Done {
    Ok(70)
}
