//! Text in HTML pages. The pages are composed elsewhere.

use crate::text::{escaped, visible};

/// The style sheet shared by all pages.
pub const PAGE_STYLE: &str = include_str!("page.css");

/// Escapes untrusted text for HTML, between tags or in a quoted attribute.
pub fn escape(text: &str) -> String {
    escaped(&visible(text))
}

/// Capitalizes the first letter of the text, unless it starts with a path, a macro, or a command.
pub fn capital(text: &str) -> String {
    let word = text.split([' ', ',']).next().unwrap_or_default();
    match text.chars().next() {
        Some(first) if word.chars().all(char::is_alphabetic) => {
            format!("{}{}", first.to_uppercase(), &text[first.len_utf8()..])
        }
        _ => text.to_owned(),
    }
}
