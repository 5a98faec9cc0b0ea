//! What the fuzzing entries of all crates share. Compiled only for fuzzing and for tests.

use std::borrow::Cow;

/// Parses bytes, and returns whether they are valid.
pub type Parser = fn(&[u8]) -> bool;

/// Returns bytes as text, so that no mutation is wasted on what is not UTF-8.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
