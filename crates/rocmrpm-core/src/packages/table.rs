//! Reads package tables, `mock-configs/packages/<name>.tsv`, which map names to packages. It does
//! not interpret requirements.

use std::ops::Range;
use std::path::Path;

use super::PackagesError;

/// A package that provides a name in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProvidingPackage<'t> {
    /// The package.
    pub package: &'t str,
    /// The version with its epoch; empty if the table omits it.
    pub version: &'t str,
}

/// A package table. A release has about 80,000 rows, of which a command needs only a few, so rows
/// are parsed on access.
pub(super) struct Table {
    text: String,
    /// The rows, sorted by name.
    rows: Vec<Range<usize>>,
}

impl Table {
    /// Reads a table with tab-separated columns: name, version and, if it differs from the name,
    /// the package. Lines that begin with `#` are comments.
    pub(super) fn read(path: &Path, shown: &str) -> Result<Self, PackagesError> {
        let text = fs_err::read_to_string(path)
            .map_err(|source| PackagesError::Table { table: shown.to_owned(), source })?;
        Self::parse(text).map_err(|line| PackagesError::Line { table: shown.to_owned(), line })
    }

    /// Parses a table. The error is the number of a line without two or three columns.
    pub(super) fn parse(text: String) -> Result<Self, usize> {
        let mut rows = Vec::new();
        let mut start = 0;
        for (at, line) in text.split_inclusive('\n').enumerate() {
            let end = start + line.trim_end_matches(['\n', '\r']).len();
            if !line.starts_with('#') && start < end {
                if !matches!(line.bytes().filter(|byte| *byte == b'\t').count(), 1 | 2) {
                    return Err(at + 1);
                }
                rows.push(start..end);
            }
            start += line.len();
        }
        let name = |row: &Range<usize>| columns(&text[row.clone()]).0;
        if !rows.is_sorted_by_key(name) {
            rows.sort_by_key(name);
        }
        Ok(Self { text, rows })
    }

    /// Returns the packages that provide a name, in table order.
    pub(super) fn of_name(&self, name: &str) -> impl Iterator<Item = ProvidingPackage<'_>> {
        self.from(name).take_while(move |(found, _)| *found == name).map(|(_, entry)| entry)
    }

    /// Returns the names with a prefix, repeated for each package.
    pub(super) fn names(&self, prefix: &str) -> impl Iterator<Item = &str> {
        self.from(prefix).map(|(name, _)| name).take_while(move |name| name.starts_with(prefix))
    }

    /// Returns the rows from the first one whose name is not less than `name`.
    fn from(&self, name: &str) -> impl Iterator<Item = (&str, ProvidingPackage<'_>)> {
        let row = |row: &Range<usize>| columns(&self.text[row.clone()]);
        let first = self.rows.partition_point(|at| row(at).0 < name);
        self.rows[first..].iter().map(row)
    }
}

/// Splits a row into a name and an entry.
fn columns(row: &str) -> (&str, ProvidingPackage<'_>) {
    let (name, rest) = row.split_once('\t').unwrap_or((row, ""));
    let (version, package) = rest.split_once('\t').unwrap_or((rest, name));
    (name, ProvidingPackage { package, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_rows_of_a_table_in_any_order() {
        let text = "# b\t1\nb\t2\tz\r\n\na-c\t3\nb\t1\ta\na\t\nb-\t4";
        let table = Table::parse(text.to_owned()).unwrap();
        let of = |name| {
            table.of_name(name).map(|entry| (entry.package, entry.version)).collect::<Vec<_>>()
        };
        assert_eq!(of("b"), [("z", "2"), ("a", "1")], "in table order");
        assert_eq!(of("a"), [("a", "")]);
        assert_eq!((of("b-"), of("c"), of("")), (vec![("b-", "4")], vec![], vec![]));
        assert_eq!(table.names("b").collect::<Vec<_>>(), ["b", "b", "b-"]);
    }

    #[test]
    fn reports_the_line_of_an_invalid_row() {
        for text in ["a\t1\nb\n", "a\t1\nb\t1\tc\td\n"] {
            assert_eq!(Table::parse(text.to_owned()).err(), Some(2), "{text}");
        }
    }
}
