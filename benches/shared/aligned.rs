//! Prints rows in aligned columns, for all benchmarks.

use std::fmt;

/// Writes a header and rows, with each column as wide as its widest cell.
pub fn write<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    head: [&str; N],
    rows: &[[String; N]],
) -> fmt::Result {
    let head = head.map(str::to_owned);
    let lines = || std::iter::once(&head).chain(rows);
    let widths: Vec<_> =
        (0..N).map(|i| lines().map(|row| row[i].len()).max().unwrap_or(0)).collect();
    for row in lines() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
