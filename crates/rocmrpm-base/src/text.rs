//! Escapes untrusted text for terminals, HTML, URLs and shells. It does not interpret the text.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str};

pub use percent_encoding::AsciiSet;

/// Escapes control characters, and characters that have no width or change the direction of text:
/// names are untrusted, and a terminal or a browser would obey them.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_hidden(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Line separators, zero-width characters, and the controls of Unicode's annex 9 (bidirectional
/// text), section 2.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Escapes text for HTML and XML, between tags and between quotes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The bytes that are percent-encoded in one segment of a URL's path: all except the unreserved
/// characters of RFC 3986, section 2.3. Servers and signatures differ in which others they accept
/// unencoded.
pub const SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Like [`SEGMENT`], for a path of several segments.
pub const PATH: &AsciiSet = &SEGMENT.remove(b'/');

/// Percent-encodes the bytes that `set` contains, such as [`SEGMENT`] or [`PATH`].
pub fn percent_encode(bytes: impl AsRef<[u8]>, set: &'static AsciiSet) -> String {
    percent_encoding::percent_encode(bytes.as_ref(), set).to_string()
}

/// Decodes percent-encoded text. Returns `None` if a `%` is not followed by two hexadecimal digits,
/// or if the result is not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let is_code = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(is_code) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// Decodes percent-encoded text as browsers do: keeps a `%` without two hexadecimal digits, and
/// replaces invalid UTF-8 with U+FFFD.
pub fn percent_decode_lossy(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns the number of the line at an offset in bytes, from 1; the last line's if the offset is past
/// the end or inside of a character.
pub fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

/// Returns the URL of an absolute path.
pub fn file_url(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), PATH))
}

/// Returns the path of a `file://` URL, byte for byte. `None` for any other URL.
pub fn path_of_file_url(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("file://").filter(|path| path.starts_with('/'))?;
    Some(PathBuf::from(OsString::from_vec(percent_decode_str(path).collect())))
}

/// Returns whether a text matches a pattern. `*` matches any characters, including `/`; no other
/// character is special, while the syntax of a glob crate would need escaping. Searches for each
/// part between stars once, from the end of the previous part.
pub fn covers(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

/// Quotes a word for a POSIX shell if necessary.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_only_control_characters() {
        assert_eq!(visible("ü'\u{1b}[2J\n"), "ü'\\u{1b}[2J\\n");
    }

    #[test]
    fn escapes_hidden_and_bidirectional_characters() {
        assert_eq!(
            visible("a\u{202e}os.\u{2066}\u{200b}\u{feff}b"),
            "a\\u{202e}os.\\u{2066}\\u{200b}\\u{feff}b"
        );
    }

    #[test]
    fn escapes_markup() {
        assert_eq!(escaped("<a b=\"c\" d='e'>&ü"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;ü");
    }

    #[test]
    fn encodes_all_but_unreserved_characters() {
        assert_eq!(percent_encode("/a+b ü", PATH), "/a%2Bb%20%C3%BC");
        assert_eq!(percent_encode("/-._~", SEGMENT), "%2F-._~");
        assert_eq!(file_url(Path::new("/a b/$c,d")), "file:///a%20b/%24c%2Cd");
    }

    #[test]
    fn decodes_broken_codes_only_if_lossy() {
        for (text, strict, lossy) in [
            ("a%2Bb%c3%bc+", Some("a+bü+"), "a+bü+"),
            ("", Some(""), ""),
            ("a%2", None, "a%2"),
            ("%zz%", None, "%zz%"),
            ("%+4", None, "%+4"),
            ("%2ü", None, "%2ü"),
            ("%ff", None, "\u{fffd}"),
        ] {
            assert_eq!(percent_decode(text).as_deref(), strict, "{text}");
            assert_eq!(percent_decode_lossy(text), lossy, "{text}");
        }
    }

    #[test]
    fn round_trips_paths_in_file_urls() {
        let odd = Path::new("/a+b ü%/%zz");
        assert_eq!(path_of_file_url(&file_url(odd)).as_deref(), Some(odd));
        let bytes = OsString::from_vec(b"/\xff".to_vec());
        assert_eq!(path_of_file_url("file:///%ff").map(PathBuf::into_os_string), Some(bytes));
        assert_eq!(path_of_file_url("file:///%zz%+4").as_deref(), Some(Path::new("/%zz%+4")));
        assert_eq!(path_of_file_url("file://host/x"), None);
    }
}
