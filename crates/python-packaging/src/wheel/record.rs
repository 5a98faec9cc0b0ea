//! Writes and parses RECORD, the list of a wheel's members with their digests.
//! Format: "Recording installed projects" of the Python packaging user guide.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use rocmrpm_base::digest::Sha256;

/// Encodes bytes in URL-safe base64 without padding, as RECORD spells digests.
pub(super) fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the line of a member, including the line end.
pub(super) fn line(member: &str, digest: &Sha256, size: u64) -> String {
    format!("{},sha256={},{size}\n", quoted(member), base64(digest.as_bytes()))
}

/// Returns the line of RECORD itself, which has no digest.
pub(super) fn own_line(member: &str) -> String {
    format!("{},,\n", quoted(member))
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The member's name.
    pub member: String,
    /// `algorithm=digest`, or empty.
    pub digest: String,
    /// The size in bytes, or empty.
    pub size: String,
}

/// Parses a RECORD; the error names the line.
pub(super) fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let fields = split(line).filter(|fields| fields.len() == 3);
        let fields = fields
            .ok_or_else(|| format!("line {} does not have three fields: `{line}`", at + 1))?;
        let mut fields = fields.into_iter();
        let mut next = || fields.next().unwrap_or_default();
        lines.push(Line { member: next(), digest: next(), size: next() });
    }
    Ok(lines)
}

/// Splits a line of CSV. A member's name cannot contain a line break, so a field with one is
/// rejected as an unclosed quote.
fn split(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut inside = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let field = fields.last_mut()?;
        match c {
            '"' if inside && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' if inside || field.is_empty() => inside = !inside,
            ',' if !inside => fields.push(String::new()),
            c => field.push(c),
        }
    }
    (!inside).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_url_safe_and_unpadded() {
        assert_eq!(base64([0xfb, 0xff]), "-_8");
    }

    #[test]
    fn round_trips_commas_and_quotes() {
        let digest = Sha256::of_bytes("abc");
        for name in ["a/b.py", "a,b", "say \"x\"", "\"", "\","] {
            let lines = parse(&(line(name, &digest, 3) + &own_line("RECORD"))).unwrap();
            assert_eq!(lines[0].member, name);
            assert_eq!(lines[0].digest, "sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
            assert_eq!((lines[1].member.as_str(), lines[1].digest.as_str()), ("RECORD", ""));
        }
    }

    #[test]
    fn rejects_damaged_lines() {
        for bad in ["a", "a,b", "a,b,c,d", "\"a,b,c", ""] {
            assert!(parse(&format!("x,y,1\n{bad}\n")).unwrap_err().contains("line 2"), "{bad}");
        }
    }
}
