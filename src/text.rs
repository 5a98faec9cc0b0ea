//! Text of strangers made harmless for the place it goes to. What the text means is
//! not known here.

/// Makes control characters visible: names come from strangers, and a terminal would
/// obey them.
pub fn visible(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible_and_others_stay() {
        assert_eq!(visible("ü'\u{1b}[2J\n"), "ü'\\u{1b}[2J\\n");
    }

    #[test]
    fn what_is_not_unreserved_is_encoded() {
        assert_eq!(percent_encoded("/a+b ü".as_bytes(), b"/"), "/a%2Bb%20%C3%BC");
        assert_eq!(percent_encoded(b"/", b""), "%2F");
    }
}
