//! Package tables: `mock-configs/packages/<name>.tsv`, as names with the packages that have them.
//! What a requirement means is not known here.

use std::path::Path;

use super::PackagesError;

/// What a name in a table stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The package.
    pub package: String,
    /// The version with its epoch; empty where the table does not know it.
    pub version: String,
}

/// Reads a table: tabs between name, version and, for a name that a package has beside
/// its own, that package; lines that begin with `#` are comments.
pub(super) fn read(path: &Path, shown: &str) -> Result<Vec<(String, Entry)>, PackagesError> {
    let text = fs_err::read_to_string(path)
        .map_err(|source| PackagesError::Table { table: shown.to_owned(), source })?;
    let mut entries = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let (name, version, package) = match fields.as_slice() {
            [name, version] => (*name, *version, *name),
            [name, version, package] => (*name, *version, *package),
            _ => return Err(PackagesError::Line { table: shown.to_owned(), line: at + 1 }),
        };
        let entry = Entry { package: package.to_owned(), version: version.to_owned() };
        entries.push((name.to_owned(), entry));
    }
    Ok(entries)
}
