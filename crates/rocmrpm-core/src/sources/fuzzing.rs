//! Entry points for fuzzing; see `src/fuzzing.rs` of the program.

use super::{crates, index};
use rocmrpm_base::fuzzing::text;

pub fn page(bytes: &[u8]) -> bool {
    let offered = index::read_page(&text(bytes), "https://index.example/simple/a/", "a");
    offered.is_ok_and(|offered| !offered.sdists.is_empty() || !offered.others.is_empty())
}

pub fn cargo_lock(bytes: &[u8]) -> bool {
    crates::Named::read(&text(bytes)).is_ok()
}
