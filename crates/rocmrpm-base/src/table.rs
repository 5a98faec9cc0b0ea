//! Formats tables for a terminal: columns as wide as their widest cell, without borders. The last
//! column is wrapped between words if the terminal is narrower.

use std::sync::OnceLock;

use crate::style::Style;
use crate::text::visible;

/// The narrowest last column beside the others; with less room, it is below them.
const NARROWEST: usize = 20;

/// The indentation of a last column below the others.
const INDENT: usize = 4;

/// The width of the terminal.
static WIDTH: OnceLock<usize> = OnceLock::new();

/// Wraps tables and texts to the width of the terminal, if stdout is one that knows its width.
/// Otherwise, tables are as wide as they need to be, as programs that read them expect.
pub fn limit_to_terminal() {
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout())
        && size.ws_col > 0
    {
        WIDTH.get_or_init(|| size.ws_col.into());
    }
}

/// Returns the width at which text is wrapped that is at most this wide: that of the terminal, if it is
/// narrower.
pub fn width_up_to(widest: usize) -> usize {
    WIDTH.get().map_or(widest, |width| widest.min(*width))
}

/// Returns a text that begins at this column, wrapped as the last column of a table is; the further
/// lines begin there, too.
pub fn hanging(text: &str, column: usize) -> String {
    hanging_within(text, column, WIDTH.get().copied())
}

fn hanging_within(text: &str, column: usize, limit: Option<usize>) -> String {
    let Some(limit) = limit else { return text.to_owned() };
    let room = limit.saturating_sub(column).max(NARROWEST);
    wrapped(text, room).join(&format!("\n{}", " ".repeat(column)))
}

/// Rows of cells with a header.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<(Option<Style>, String)>>,
}

impl Table {
    /// Returns an empty table with these column names.
    pub fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|h| h.to_uppercase()).collect(), rows: Vec::new() }
    }

    /// Adds a row of plain cells.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(|cell| (None, visible(&cell.into()))).collect());
    }

    /// Adds a row whose cells may be styled.
    pub fn styled_row(&mut self, cells: Vec<(Option<Style>, String)>) {
        self.rows.push(cells.into_iter().map(|(style, cell)| (style, visible(&cell))).collect());
    }

    /// Returns the table as text; every line ends with a line feed.
    pub fn text(&self) -> String {
        self.within(WIDTH.get().copied())
    }

    /// Returns the table as text of at most this width, if the columns before the last one fit.
    pub fn text_within(&self, width: usize) -> String {
        self.within(Some(width))
    }

    fn within(&self, limit: Option<usize>) -> String {
        let columns = self.header.len();
        let width = |column: usize| {
            let cells = self
                .rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|(_, cell)| cell.chars().count());
            cells.chain([self.header[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let before: usize = widths.iter().take(columns.saturating_sub(1)).map(|w| w + 2).sum();
        let whole = before + widths.last().copied().unwrap_or(0);
        let layout = limit.filter(|limit| whole > *limit && columns > 1).map(|limit| {
            match limit.checked_sub(before).filter(|room| *room >= NARROWEST) {
                Some(room) => LastColumn { below: false, indent: before, room },
                None => {
                    let room = limit.saturating_sub(INDENT).max(NARROWEST);
                    LastColumn { below: true, indent: INDENT, room }
                }
            }
        });
        let mut text = String::new();
        let header: Vec<_> = self.header.iter().map(|h| (Some(Style::Dim), h.clone())).collect();
        for row in [&header].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, (style, cell)) in row.iter().enumerate() {
                let last = column + 1 == row.len();
                let paint = |part: &str| style.map_or_else(|| part.to_owned(), |s| s.paint(part));
                if let Some(column) = layout.as_ref().filter(|_| column + 1 == columns) {
                    let lines = wrapped(cell, column.room);
                    let lines: Vec<String> = lines.iter().map(|part| paint(part)).collect();
                    let indent = format!("\n{}", " ".repeat(column.indent));
                    if column.below && !cell.is_empty() {
                        line.truncate(line.trim_end().len());
                        line.push_str(&indent);
                    }
                    line.push_str(&lines.join(&indent));
                } else {
                    line.push_str(&paint(cell));
                }
                if !last {
                    line.push_str(&" ".repeat(widths[column] - cell.chars().count() + 2));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Where the last column of a table goes that is wider than the terminal.
struct LastColumn {
    /// Whether it is below the other columns.
    below: bool,
    indent: usize,
    room: usize,
}

/// Breaks a text into lines of at most `width` characters, between words. Longer words, such as
/// paths, have a line of their own, and so have commands in backquotes, which users copy.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_quoted = false;
    for word in text.split(' ') {
        match words.last_mut() {
            Some(command) if is_quoted => *command = format!("{command} {word}"),
            _ => words.push(word.to_owned()),
        }
        is_quoted ^= word.matches('`').count() % 2 == 1;
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_the_last_column_between_words() {
        let mut table = Table::new(&["name", "what"]);
        table.row(["a", "one two three four five six seven"]);
        table.row(["bbbb", "/a/path/without/any/blank/in/it and more"]);
        let plain = |width| crate::style::uncolored(&table.within(width));
        assert_eq!(
            plain(Some(28)),
            "NAME  WHAT\na     one two three four\n      five six seven\n\
             bbbb  /a/path/without/any/blank/in/it\n      and more\n"
        );
        assert_eq!(
            plain(Some(24)),
            "NAME\n    WHAT\na\n    one two three four\n    five six seven\n\
             bbbb\n    /a/path/without/any/blank/in/it\n    and more\n"
        );
        assert_eq!(plain(Some(100)), plain(None));
        assert_eq!(plain(None).lines().count(), 3);
    }

    #[test]
    fn indents_the_further_lines_of_a_text() {
        assert_eq!(hanging_within("one two three four", 4, None), "one two three four");
        assert_eq!(
            hanging_within("one two `three four` five six", 4, Some(24)),
            "one two `three four`\n    five six"
        );
    }

    #[test]
    fn aligns_columns() {
        let mut table = Table::new(&["name", "what"]);
        table.row(["a", "x"]);
        table.row(["longer", ""]);
        table.row(["b\u{1b}[2J", "y"]);
        let plain = crate::style::uncolored(&table.text());
        assert_eq!(plain, "NAME        WHAT\na           x\nlonger\nb\\u{1b}[2J  y\n");
    }
}
