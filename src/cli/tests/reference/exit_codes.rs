//! `exit-codes.md`, from [`Kind`].

use super::assert_page;
use super::markdown::{check, table};
use crate::error::Kind;

const INTRO: &str = "# Exit codes

The exit code states the kind of a failure, so that scripts and CI systems can decide what to do
next. `rocm-inspect` uses the same codes.
";

#[test]
fn the_page_lists_every_exit_code() {
    let row = |code: u8, summary: &str, meaning: &str| {
        [code.to_string(), summary.to_owned(), meaning.to_owned()]
    };
    let failures =
        Kind::ALL.iter().map(|kind| row(kind.exit_code(), kind.summary(), kind.meaning()));
    let success = row(0, "success", "The command succeeded.");
    let rows = table(["code", "kind", "meaning"], std::iter::once(success).chain(failures));
    let page = format!("{INTRO}\n{rows}");
    check(&page);
    assert_page("exit-codes.md", &page);
}
