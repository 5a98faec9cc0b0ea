//! The two streams: status lines and warnings to stderr, data to stdout. Colours
//! only where the stream is a terminal that wants them.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;

use anstyle::{AnsiColor, Color};

use crate::error::{Error, IoError};

/// What a piece of text means; its colour follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Something went well, or is under way.
    Good,
    /// Something is wrong.
    Bad,
    /// Something should be known.
    Warning,
    /// A remedy, a name.
    Hint,
    /// Less important than the rest.
    Dim,
    /// More important than the rest.
    Bold,
}

impl Style {
    fn ansi(self) -> anstyle::Style {
        let color = |color: AnsiColor| anstyle::Style::new().bold().fg_color(Some(Color::Ansi(color)));
        match self {
            Style::Good => color(AnsiColor::Green),
            Style::Bad => color(AnsiColor::Red),
            Style::Warning => color(AnsiColor::Yellow),
            Style::Hint => color(AnsiColor::Cyan),
            Style::Dim => anstyle::Style::new().dimmed(),
            Style::Bold => anstyle::Style::new().bold(),
        }
    }

    /// Returns the text in this style; streams that want no colour drop it again.
    pub fn paint(self, text: impl Display) -> String {
        let style = self.ansi();
        format!("{style}{text}{style:#}")
    }
}

/// Returns text for a file, which has no colors whatever the terminal wants.
pub fn uncolored(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// The process's streams. Shared between threads.
pub struct Shell {
    quiet: bool,
    /// The progress bars, which must step aside while a line is written.
    bars: Mutex<Option<indicatif::MultiProgress>>,
}

impl Shell {
    /// Returns the streams; `quiet` drops everything but warnings and errors.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, bars: Mutex::new(None) }
    }

    /// Returns whether only warnings and errors are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns whether progress can be shown in place: stderr is a terminal and
    /// nobody asked for plain lines.
    pub fn is_live(&self) -> bool {
        !self.quiet && std::io::stderr().is_terminal() && std::env::var_os("CI").is_none()
    }

    /// Writes data to stdout as it is, with a line feed at its end. A reader that
    /// went away is no error: it has seen enough.
    pub fn data(&self, text: impl Display) -> Result<(), Error> {
        let mut out = anstream::stdout().lock();
        let text = text.to_string();
        let done = out.write_all(text.as_bytes()).and_then(|()| {
            if text.ends_with('\n') { out.flush() } else { out.write_all(b"\n").and_then(|()| out.flush()) }
        });
        match done {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(IoError::doing("write to stdout")(error).into())
            }
            _ => Ok(()),
        }
    }

    /// Writes a value as one JSON document to stdout.
    pub fn json(&self, value: &impl serde::Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| Error::new(crate::error::Kind::Internal, e.to_string()))?;
        self.data(text)
    }

    /// Writes a line to stderr: a status word, right-aligned as cargo does, and what
    /// it is about.
    pub fn status(&self, style: Style, word: &str, text: impl Display) {
        if !self.quiet {
            self.line(format!("{} {text}", style.paint(format!("{word:>12}"))));
        }
    }

    /// Writes a line of talk to stderr.
    pub fn talk(&self, text: impl Display) {
        if !self.quiet {
            self.line(text.to_string());
        }
    }

    /// Writes a warning to stderr.
    pub fn warning(&self, text: impl Display) {
        self.line(format!("{} {text}", Style::Warning.paint("warning:")));
    }

    /// Writes a line to stderr whatever happens; a closed stderr is nobody's loss.
    pub fn line(&self, text: impl Display) {
        let bars = self.bars.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let write = || {
            let _ = writeln!(anstream::stderr().lock(), "{text}");
        };
        match bars.as_ref() {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    /// Registers the progress bars, or takes them away.
    pub(super) fn set_bars(&self, bars: Option<indicatif::MultiProgress>) {
        *self.bars.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = bars;
    }
}

/// Writes a duration as people say it: `1.2s`, `3m 05s`, `1h 02m`.
pub fn human_time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 59.95 => format!("{seconds:.1}s"),
        0..3600 => format!("{}m {:02}s", whole / 60, whole % 60),
        _ => format!("{}h {:02}m", whole / 3600, whole % 3600 / 60),
    }
}

/// Writes a size as people say it: `512 B`, `16.0 kB`, `1.2 GB`; decimal units, as
/// dnf and curl have them.
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

/// Writes a count with its noun: `1 wheel`, `2 wheels`.
pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_read_well() {
        let times: Vec<_> = [0.04, 59.94, 59.96, 185.0, 3720.0].map(human_time).into();
        assert_eq!(times, ["0.0s", "59.9s", "1m 00s", "3m 05s", "1h 02m"]);
        let sizes: Vec<_> = [0, 999, 1000, 16_000, 999_999, 3_400_000_000].map(human_size).into();
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "16.0 kB", "1.0 MB", "3.4 GB"]);
    }
}
