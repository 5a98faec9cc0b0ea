//! Durations as people write them in files and on the command line.

use std::time::Duration;

use jiff::SignedDuration;

/// Reads a duration such as `8 h` or `90 min`: jiff's friendly format, whole seconds, more than
/// none.
pub fn parse(text: &str) -> Option<Duration> {
    let duration: SignedDuration = text.parse().ok()?;
    let seconds = u64::try_from(duration.as_secs()).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(parse("8 h"), Some(Duration::from_secs(8 * 3600)));
        assert_eq!(parse("90 min"), Some(Duration::from_secs(90 * 60)));
        assert_eq!(parse("1h 30m"), Some(Duration::from_secs(90 * 60)));
        for bad in ["", "8", "-1 h", "0 s", "soon", "1 ms"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
