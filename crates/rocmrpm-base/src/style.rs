//! Text for people: styles, which become colors on a terminal, and sizes, durations, and counts. It
//! does not know what the text is about.

use std::fmt::Display;

use anstyle::{AnsiColor, Color};

/// The meaning of a piece of text, which determines its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Something succeeded or is running.
    Good,
    /// Something is wrong.
    Bad,
    /// Something that the user should know.
    Warning,
    /// A help line or a name.
    Note,
    /// Less important than the rest.
    Dim,
    /// More important than the rest.
    Bold,
}

impl Style {
    fn ansi(self) -> anstyle::Style {
        let color =
            |color: AnsiColor| anstyle::Style::new().bold().fg_color(Some(Color::Ansi(color)));
        match self {
            Style::Good => color(AnsiColor::Green),
            Style::Bad => color(AnsiColor::Red),
            Style::Warning => color(AnsiColor::Yellow),
            Style::Note => color(AnsiColor::Cyan),
            Style::Dim => anstyle::Style::new().dimmed(),
            Style::Bold => anstyle::Style::new().bold(),
        }
    }

    /// Returns the text with the escape sequences of this style.
    pub fn paint(self, text: impl Display) -> String {
        let style = self.ansi();
        format!("{style}{text}{style:#}")
    }
}

/// Removes the escape sequences of [`Style::paint`].
pub fn uncolored(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    out
}

/// Formats a duration in seconds: `1.2s`, `3m 05s`, `1h 02m`.
pub fn human_time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 59.95 => format!("{seconds:.1}s"),
        0..3600 => format!("{}m {:02}s", whole / 60, whole % 60),
        _ => format!("{}h {:02}m", whole / 3600, whole % 3600 / 60),
    }
}

/// Formats a size in bytes: `512 B`, `16.0 kB`, `1.2 GB`; in decimal units, as dnf and curl do.
pub fn human_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.95 || unit == "GB" {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{bytes} B")
}

/// Returns a count with its noun: `1 wheel`, `2 wheels`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_the_colors_of_every_style() {
        use Style::{Bad, Bold, Dim, Good, Note, Warning};
        for style in [Good, Bad, Warning, Note, Dim, Bold] {
            let painted = style.paint("12 mm");
            assert_ne!(painted, "12 mm");
            assert_eq!(uncolored(&format!("a {painted} b\n")), "a 12 mm b\n");
        }
    }

    #[test]
    fn formats_durations_and_sizes() {
        let times: Vec<_> = [0.04, 59.94, 59.96, 185.0, 3720.0].map(human_time).into();
        assert_eq!(times, ["0.0s", "59.9s", "1m 00s", "3m 05s", "1h 02m"]);
        let sizes: Vec<_> = [0, 999, 1000, 16_000, 999_999, 3_400_000_000].map(human_size).into();
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "16.0 kB", "1.0 MB", "3.4 GB"]);
    }
}
