//! Entry points for fuzzing; see `src/fuzzing.rs` of the program.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::readers::Reading;
use super::{UpstreamLocation, cmake};
use crate::workspace::Upstreams;
use crate::workspace::document::File;
use rocmrpm_base::fuzzing::text;

/// The repository's own upstreams.toml.
static UPSTREAMS: LazyLock<Upstreams> = LazyLock::new(|| {
    let text = include_str!("../../../../../upstreams.toml").to_owned();
    Upstreams::read(&File { name: "upstreams.toml".into(), text }, &mut Vec::new())
});

pub fn cmake(bytes: &[u8]) -> bool {
    let Ok(commands) = cmake::commands(&text(bytes)) else { return false };
    cmake::evaluate(&commands, &BTreeMap::new());
    !commands.is_empty()
}

/// The first byte selects the file: `0` is the first one that the repository declares.
pub fn files(bytes: &[u8]) -> bool {
    let Some((choice, bytes)) = bytes.split_first() else { return false };
    let files = &UPSTREAMS.files;
    let file = &files[usize::from(choice.wrapping_sub(b'0')) % files.len()];
    let place = |line| UpstreamLocation { of: "a 1".into(), file: file.paths[0].clone(), line };
    let (statements, wrong) = (Vec::new(), Vec::new());
    let mut reading = Reading { upstreams: &UPSTREAMS, file, place: &place, statements, wrong };
    reading.read(&text(bytes));
    !reading.statements.is_empty()
}
