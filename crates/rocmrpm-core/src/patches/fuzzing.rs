//! Entry points for fuzzing; see `src/fuzzing.rs` of the program.

use rocmrpm_base::fuzzing::text;

pub fn patch(bytes: &[u8]) -> bool {
    let text = text(bytes);
    let changes = super::parse(&text);
    changes.iter().for_each(|change| assert!(change.names().count() < 3));
    !changes.is_empty()
}
