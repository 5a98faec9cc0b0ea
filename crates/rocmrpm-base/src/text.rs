//! Text of strangers made harmless for the place it goes to. What the text means is
//! not known here.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Makes control characters visible, and those that have no width or turn the
/// direction of writing: names come from strangers, and a terminal or a browser would
/// obey them.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_hidden(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Separators of lines, marks of no width, and the controls of Unicode's annex 9
/// (bidirectional text), section 2.
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

/// Encodes bytes for a URL's path: all but the unreserved characters of RFC 3986,
/// section 2.3, and those in `plain`.
pub fn percent_encoded(bytes: &[u8], plain: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(*byte))
            }
            byte if plain.contains(byte) => out.push(char::from(*byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Undoes percent-encoding; what is not valid UTF-8 becomes U+FFFD.
pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|b| (*b as char).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Returns the URL of a path, which is to be absolute.
pub fn file_url(path: &Path) -> String {
    format!("file://{}", percent_encoded(path.as_os_str().as_bytes(), b"/"))
}

/// Returns the path of a `file://` URL of this machine.
pub fn path_of_file_url(url: &str) -> Option<PathBuf> {
    let text = url.strip_prefix("file://").filter(|path| path.starts_with('/'))?;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let encoded =
            after.get(..2).filter(|_| byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match encoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => (bytes.push(decoded), rest = &after[2..]),
            None => (bytes.push(byte), rest = after),
        };
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// Returns whether a text is as the pattern says, `*` standing for any characters. Each
/// part between stars is looked for once, from where the part before it ended.
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

/// The digits of base64 (RFC 4648, section 4).
pub const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Those that are safe in URLs and file names (RFC 4648, section 5).
pub const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns bytes in base64 with these digits, without padding.
pub fn base64(bytes: &[u8], digits: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte));
        let group = group << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            text.push(digits[(group >> (18 - 6 * at)) as usize & 63] as char);
        }
    }
    text
}

/// Quotes a word for a POSIX shell where it needs it.
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
    fn control_characters_become_visible_and_others_stay() {
        assert_eq!(visible("ü'\u{1b}[2J\n"), "ü'\\u{1b}[2J\\n");
    }

    #[test]
    fn what_turns_or_hides_text_becomes_visible() {
        assert_eq!(
            visible("a\u{202e}os.\u{2066}\u{200b}\u{feff}b"),
            "a\\u{202e}os.\\u{2066}\\u{200b}\\u{feff}b"
        );
    }

    #[test]
    fn markup_becomes_text() {
        assert_eq!(escaped("<a b=\"c\" d='e'>&ü"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;ü");
    }

    #[test]
    fn what_is_not_unreserved_is_encoded() {
        assert_eq!(percent_encoded("/a+b ü".as_bytes(), b"/"), "/a%2Bb%20%C3%BC");
        assert_eq!(percent_encoded(b"/", b""), "%2F");
        let odd = Path::new("/a+b ü%/%zz");
        assert_eq!(path_of_file_url(&file_url(odd)).as_deref(), Some(odd));
        assert_eq!(path_of_file_url("file://host/x"), None);
        assert_eq!(path_of_file_url("file:///%zz%4").as_deref(), Some(Path::new("/%zz%4")));
        assert_eq!(file_url(Path::new("/a b/$c,d")), "file:///a%20b/%24c%2Cd");
    }
}
