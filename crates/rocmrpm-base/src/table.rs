//! Formats tables for a terminal: columns as wide as their widest cell, without borders.

use crate::style::Style;
use crate::text::visible;

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
        let mut text = String::new();
        let header: Vec<_> = self.header.iter().map(|h| (Some(Style::Dim), h.clone())).collect();
        for row in [&header].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (column, (style, cell)) in row.iter().enumerate() {
                let last = column + 1 == row.len();
                line.push_str(&style.map_or_else(|| cell.clone(), |style| style.paint(cell)));
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

#[cfg(test)]
mod tests {
    use super::*;

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
