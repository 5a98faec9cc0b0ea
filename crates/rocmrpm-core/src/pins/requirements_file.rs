//! The lines of a requirements file, without blanks and comments. What they require is not
//! known here.

/// Returns the lines that say something, options among them, with their numbers. A comment
/// begins a line or follows a blank, and a line may go on (pip's "Requirements File Format").
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let said = |(at, line)| {
        let line: &str = line;
        let before = line.split(" #").next().unwrap_or_default().trim();
        (at + 1, before.trim_end_matches('\\').trim_end())
    };
    text.lines().enumerate().map(said).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Returns whether a line is an option of pip's.
pub(super) fn is_option(line: &str) -> bool {
    line.starts_with('-')
}
