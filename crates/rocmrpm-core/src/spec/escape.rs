//! Escapes values for spec files and for the shell.

/// Doubles `%` so that rpm uses the value literally.
pub(super) fn escape(text: &str) -> String {
    text.replace('%', "%%")
}

/// Escapes a value for the single quotes that templates put around it.
pub(super) fn single_quoted(value: &str) -> String {
    value.replace('\'', r"'\''")
}

/// Returns a name that templates can use after a dot.
pub(super) fn key(name: &str) -> String {
    name.replace('-', "_")
}
