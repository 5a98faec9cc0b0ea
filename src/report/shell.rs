//! The two output streams: status lines and warnings to stderr, data to stdout. Colors are only
//! used if the stream is a terminal that supports them.

use std::fmt::Display;
use std::io::{IsTerminal, Read, Write};
use std::sync::Mutex;

use crate::document::Document;
use crate::error::{Error, IoError};
use crate::style::Style;
use crate::table::wrapped;

/// The narrowest terminal that messages are wrapped for.
const NARROWEST: usize = 40;

/// The output streams of the process, shared between threads.
pub struct Shell {
    quiet: bool,
    /// The width of the terminal that messages go to.
    width: Option<usize>,
    /// Whether to write no data.
    mute: bool,
    /// The progress bars, which are hidden while a line is written.
    bars: Mutex<Option<indicatif::MultiProgress>>,
}

impl Shell {
    /// Returns the streams; `quiet` suppresses everything except warnings and errors.
    pub fn new(quiet: bool) -> Self {
        // It fails if stderr is not a terminal; some terminals do not know their width.
        let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
        let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
        Self { quiet, width, mute: false, bars: Mutex::new(None) }
    }

    /// Returns the streams for a command whose data is not wanted.
    pub fn without_data(&self) -> Self {
        Self { mute: true, ..Self::new(self.quiet) }
    }

    /// Returns whether to print only warnings and errors.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns whether progress can be updated in place: stderr is a terminal that can move its
    /// cursor, and neither `--quiet` nor `CI` is set.
    pub fn is_live(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        !self.quiet && !dumb && std::io::stderr().is_terminal() && std::env::var_os("CI").is_none()
    }

    /// Writes data to stdout unchanged, with a line feed at its end. It is not an error if the
    /// reader has closed the pipe.
    pub fn data(&self, text: impl Display) -> Result<(), Error> {
        if self.mute {
            return Ok(());
        }
        let mut out = anstream::stdout().lock();
        let text = text.to_string();
        let done = out.write_all(text.as_bytes()).and_then(|()| {
            if text.ends_with('\n') {
                out.flush()
            } else {
                out.write_all(b"\n").and_then(|()| out.flush())
            }
        });
        match done {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(IoError::doing("write to stdout")(error).into())
            }
            _ => Ok(()),
        }
    }

    /// Copies text to stdout; returns whether there is still a reader. Removes control characters if
    /// stdout is a terminal, because the text is untrusted.
    pub fn copy(&self, from: &mut impl Read) -> std::io::Result<bool> {
        let mut out = std::io::stdout().lock();
        let terminal = out.is_terminal();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = from.read(&mut buffer)?;
            let done = match (length, terminal) {
                (0, _) => out.flush(),
                (_, false) => out.write_all(&buffer[..length]),
                (_, true) => out.write_all(without_controls(&buffer[..length]).as_bytes()),
            };
            match done {
                Ok(()) if length > 0 => {}
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(false),
                done => return done.map(|()| true),
            }
        }
    }

    /// Writes a JSON document to stdout.
    pub fn json(&self, value: &impl Document) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| Error::new(crate::error::Kind::Internal, e.to_string()))?;
        self.data(text)
    }

    /// Writes a line to stderr: a status word, right-aligned as in cargo, and its object.
    pub fn status(&self, style: Style, word: &str, text: impl Display) {
        if !self.quiet {
            self.line(format!("{} {text}", style.paint(format!("{word:>12}"))));
        }
    }

    /// Writes a message to stderr.
    pub fn talk(&self, text: impl Display) {
        if !self.quiet {
            self.line(text.to_string());
        }
    }

    /// Writes a warning to stderr.
    pub fn warning(&self, text: impl Display) {
        self.message(Style::Warning, "warning:", text);
    }

    /// Writes a line of help to stderr, unless quiet.
    pub fn help(&self, text: impl Display) {
        if !self.quiet {
            self.message(Style::Note, "help:", text);
        }
    }

    /// Writes a word and a message to stderr, even if quiet. On a terminal, wraps it between words.
    pub(super) fn message(&self, style: Style, word: &str, text: impl Display) {
        let text = self.wrap(&format!("{word} {text}"));
        self.line(format!("{}{}", style.paint(word), &text[word.len()..]));
    }

    /// Wraps a message between words if it goes to a terminal; further lines are indented.
    pub(super) fn wrap(&self, text: &str) -> String {
        wrap(text, self.width)
    }

    /// Writes a line to stderr, even if quiet; ignores a closed stderr.
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

    /// Registers the progress bars, or removes them.
    pub(super) fn set_bars(&self, bars: Option<indicatif::MultiProgress>) {
        *self.bars.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = bars;
    }
}

fn wrap(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width >= NARROWEST) else { return text.to_owned() };
    let lines = text.lines().map(|line| wrapped(line, width - INDENT.len()).join(INDENT));
    lines.collect::<Vec<_>>().join(INDENT)
}

/// What begins the further lines of a message.
const INDENT: &str = "\n    ";

/// Returns untrusted text without control characters, except line feeds and tabs.
pub(super) fn without_controls(bytes: &[u8]) -> String {
    let keep = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    String::from_utf8_lossy(bytes).chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_messages_between_words_but_not_in_commands() {
        let text = "help: install it, then run `rocmrpm build --chroot host --until rpm` to see more words";
        assert_eq!(
            wrap(text, Some(44)),
            "help: install it, then run\n    \
             `rocmrpm build --chroot host --until rpm`\n    to see more words"
        );
        assert_eq!(wrap(text, None), text);
        assert_eq!(wrap("error: a\nb", Some(80)), "error: a\n    b");
    }

    #[test]
    fn removes_control_characters() {
        assert_eq!(without_controls(b"a\x1b[2Jb\r\n\tc\xff"), "a[2Jb\n\tc\u{fffd}");
    }
}
