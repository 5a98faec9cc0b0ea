//! Tests the pages in `docs/reference/` that follow from the command line, the schemas, and the
//! tables. `UPDATE_GOLDEN=1 cargo test --lib reference` writes them.

mod commands;
mod documents;
mod exit_codes;
mod files;
mod markdown;

use super::documents_tests::in_docs;

/// Compares a page with its expected text; writes it if `UPDATE_GOLDEN` is set.
fn assert_page(name: &str, wanted: &str) {
    let path = in_docs("reference").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs_err::create_dir_all(in_docs("reference")).unwrap();
        fs_err::write(&path, wanted).unwrap();
    }
    let text = fs_err::read_to_string(&path).unwrap_or_default();
    similar_asserts::assert_eq!(
        text,
        wanted,
        "docs/reference/{name} is stale: UPDATE_GOLDEN=1 cargo test --lib reference"
    );
}
