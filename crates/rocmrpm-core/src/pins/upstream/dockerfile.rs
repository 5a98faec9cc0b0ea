//! The defaults of a Dockerfile's ARGs.
//!
//! Source: Dockerfile reference, "ARG".

/// One ARG.
pub(super) struct Arg<'t> {
    pub name: &'t str,
    pub value: &'t str,
    /// The line, counted from 1.
    pub line: usize,
}

/// Returns the ARGs that have a default.
pub(super) fn args(text: &str) -> Vec<Arg<'_>> {
    let mut args = Vec::new();
    let mut continues = false;
    for (at, line) in text.lines().enumerate() {
        let inside = continues;
        continues = line.trim_end().ends_with('\\');
        let Some((word, rest)) = line.trim_start().split_once(char::is_whitespace) else {
            continue;
        };
        if inside || !word.eq_ignore_ascii_case("ARG") {
            continue;
        }
        let Some((name, value)) = rest.trim_start().split_once('=') else { continue };
        let value = match value.strip_prefix(['"', '\'']) {
            Some(quoted) => quoted.split(['"', '\'']).next(),
            None => value.split_whitespace().next(),
        };
        args.push(Arg { name, value: value.unwrap_or_default(), line: at + 1 });
    }
    args
}
