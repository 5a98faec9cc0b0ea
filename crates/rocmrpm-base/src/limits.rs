//! Amounts of bytes, and how much an archive from outside may unpack to. Not what is done with more.

/// From this size on, an archive may unpack to at most [`BOMB_RATIO`] times its own size: the limits
/// of PyPI for what is uploaded.
pub const BOMB_SIZE: u64 = 64 << 20;
/// How many times its own size an archive may unpack to.
pub const BOMB_RATIO: u64 = 50;

/// Reads an amount such as `4 GB` or `512MB`: decimal units, as on memory's label.
pub fn parse_size(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let unit = match text[number.len()..].trim() {
        "GB" => 1_000_000_000,
        "MB" => 1_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok().filter(|n| *n > 0)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_unit() {
        assert_eq!(parse_size("4 GB"), Some(4_000_000_000));
        assert_eq!(parse_size("512MB"), Some(512_000_000));
        for bad in ["4", "GB", "-1 GB", "0 GB", "4 GiB", "99999999999999 GB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }
}
