//! The two streams: status lines and warnings to stderr, data to stdout. Colours
//! only where the stream is a terminal that wants them.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;

use crate::document::Document;
use crate::error::{Error, IoError};
use crate::style::Style;

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

    /// Writes a JSON document to stdout.
    pub fn json(&self, value: &impl Document) -> Result<(), Error> {
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
