//! Escapes values for spec files and for the shell.

use crate::workspace::PREFIX_MACRO;

/// Doubles `%` so that rpm uses the value literally, except for the macro with ROCm's folder.
pub(super) fn escape(text: &str) -> String {
    text.replace('%', "%%").replace(&format!("%{PREFIX_MACRO}"), PREFIX_MACRO)
}

/// Escapes a value for the single quotes that templates put around it.
pub(super) fn single_quoted(value: &str) -> String {
    value.replace('\'', r"'\''")
}

/// Returns a name that templates can use after a dot.
pub(super) fn key(name: &str) -> String {
    name.replace('-', "_")
}
