//! Helpers for the fuzzing entry points of all crates. Compiled only for fuzzing and for tests.

use std::borrow::Cow;

/// Parses bytes, and returns whether they are valid.
pub type Parser = fn(&[u8]) -> bool;

/// Converts bytes to text lossily, so that mutations that are not UTF-8 are not wasted.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
