//! Parses and formats durations as people write them in files and on the command line. It does not
//! measure time.

use std::time::Duration;

use jiff::SignedDuration;

/// Parses a duration such as `8 h` or `90 min` in jiff's friendly format. The result is a positive
/// number of whole seconds; `None` for anything else.
pub fn parse(text: &str) -> Option<Duration> {
    let duration: SignedDuration = text.parse().ok()?;
    let seconds = u64::try_from(duration.as_secs()).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Formats a duration with its two largest units, in the notation of [`parse`]: `2 h 10 min`, `45
/// s`.
pub fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let parts = match hours {
        0 => [(minutes, "min"), (seconds, "s")],
        _ => [(hours, "h"), (minutes, "min")],
    };
    let parts: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations() {
        assert_eq!(parse("8 h"), Some(Duration::from_secs(8 * 3600)));
        assert_eq!(parse("90 min"), Some(Duration::from_secs(90 * 60)));
        assert_eq!(parse("1h 30m"), Some(Duration::from_secs(90 * 60)));
        for bad in ["", "8", "-1 h", "0 s", "soon", "1 ms"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
    #[test]
    fn formats_durations_as_parsed() {
        for (seconds, text) in
            [(1, "1 s"), (90, "1 min 30 s"), (60, "1 min"), (7800, "2 h 10 min"), (28_800, "8 h")]
        {
            assert_eq!(shown(Duration::from_secs(seconds)), text);
            assert_eq!(parse(text), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(shown(Duration::from_secs(3661)), "1 h 1 min");
        assert_eq!(shown(Duration::ZERO), "0 s");
    }
}
