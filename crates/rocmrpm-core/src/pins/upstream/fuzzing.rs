//! Entries for fuzzing; see `src/fuzzing.rs` of the program.

use super::files::Reading;
use super::{Place, cmake, table};
use rocmrpm_base::fuzzing::text;

pub fn cmake(bytes: &[u8]) -> bool {
    let Ok(commands) = cmake::commands(&text(bytes)) else { return false };
    cmake::evaluate(&commands);
    !commands.is_empty()
}

/// The first byte selects the file of upstream's: `0` the first of the table.
pub fn files(bytes: &[u8]) -> bool {
    let Some((choice, bytes)) = bytes.split_first() else { return false };
    let file = &table::all()[usize::from(choice.wrapping_sub(b'0')) % table::all().len()];
    let place = |line| Place { of: "a 1".into(), file: file.path.to_owned(), line };
    let mut reading =
        Reading { component: file.component, place: &place, statements: Vec::new(), wrong: Vec::new() };
    (file.read)(&text(bytes), &mut reading);
    !reading.statements.is_empty()
}
