//! Sizes in bytes, and limits on how much an untrusted archive may unpack to. Callers decide what
//! happens when a limit is exceeded.

/// Archives of this size or more may unpack to at most [`BOMB_RATIO`] times their own size. PyPI
/// applies these limits to uploads.
pub const BOMB_SIZE: u64 = 64 << 20;
/// The maximum ratio of an archive's unpacked size to its own size.
pub const BOMB_RATIO: u64 = 50;

/// Parses a size such as `4 GB` or `512MB`, in decimal units.
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
    fn parses_sizes_with_units() {
        assert_eq!(parse_size("4 GB"), Some(4_000_000_000));
        assert_eq!(parse_size("512MB"), Some(512_000_000));
        for bad in ["4", "GB", "-1 GB", "0 GB", "4 GiB", "99999999999999 GB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }
}
