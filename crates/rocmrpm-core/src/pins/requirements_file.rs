//! The lines of a requirements file, without blanks and comments. Does not interpret them.

/// Returns the requirements and options with their line numbers. A comment starts a line or follows a
/// blank, and a line can continue on the next one (pip's "Requirements File Format").
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = |(at, line)| {
        let line: &str = line;
        let before = line.split(" #").next().unwrap_or_default().trim();
        (at + 1, before.trim_end_matches('\\').trim_end())
    };
    text.lines()
        .enumerate()
        .map(numbered)
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Returns whether a line is an option of pip.
pub(super) fn is_option(line: &str) -> bool {
    line.starts_with('-')
}
