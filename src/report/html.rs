//! Text in HTML pages, as all of them have it. What a page is made of is its own business.

use crate::text::{escaped, visible};

/// Writes text of strangers as HTML, between tags or in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    escaped(&visible(text))
}

/// A text with a capital letter, unless it begins with a path, a macro or a command.
pub(super) fn capital(text: &str) -> String {
    let word = text.split([' ', ',']).next().unwrap_or_default();
    match text.chars().next() {
        Some(first) if word.chars().all(char::is_alphabetic) => {
            format!("{}{}", first.to_uppercase(), &text[first.len_utf8()..])
        }
        _ => text.to_owned(),
    }
}
