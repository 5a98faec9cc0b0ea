//! Notes which keys the readers of TOML files ask for, so that `keys` can derive schemas from the
//! readers.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The type that a reader expects of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Boolean,
    Integer,
    Strings,
    StringMap,
    Table,
    Tables,
}

/// What the readers show about a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// `None` if a reader only asked whether the key exists.
    pub kind: Option<Kind>,
    pub required: bool,
}

/// The keys of a table, and whether any other key is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub named: BTreeMap<String, Key>,
    pub any: bool,
}

/// The tables of a file by their dotted paths.
pub(super) type Tables = BTreeMap<String, Keys>;

thread_local! {
    static NOTES: RefCell<Option<Tables>> = const { RefCell::new(None) };
}

fn note(table: &str, change: impl FnOnce(&mut Keys)) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            change(notes.entry(table.to_owned()).or_default());
        }
    });
}

/// Records that a reader asks for a key.
pub(super) fn note_key(table: &str, key: &str, kind: Option<Kind>, required: bool) {
    note(table, |keys| {
        let known = keys.named.entry(key.to_owned()).or_default();
        known.kind = known.kind.or(kind);
        known.required |= required;
    });
}

/// Records that a reader expects every entry of a table to be a table.
pub(super) fn note_any(table: &str) {
    note(table, |keys| keys.any = true);
}

/// Runs a reader and returns `tables` with the keys that it asked for.
pub(super) fn noted(tables: Tables, read: impl FnOnce()) -> Tables {
    NOTES.set(Some(tables));
    read();
    NOTES.take().unwrap_or_default()
}
