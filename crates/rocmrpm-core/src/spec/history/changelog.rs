//! Formats changelog entries for rpm. It does not read the history.

use crate::text::visible;

/// Returns an entry. User-written text stays on one line and is not expanded.
pub(super) fn entry(seconds: i64, who: &str, version: &str, release: &str, what: &str) -> String {
    let date = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    let date = date.strftime("%a %b %d %Y");
    format!("* {date} {} - {version}-{release}\n- {}\n", escape(who), escape(what))
}

/// Doubles `%` to prevent expansion by rpm and makes control characters visible to protect
/// terminals.
fn escape(text: &str) -> String {
    visible(text).replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::super::EARLIEST;
    use super::*;
    use crate::process::Command;

    #[test]
    fn rpm_accepts_the_earliest_date() {
        let dir = tempfile::tempdir().unwrap();
        let spec = dir.path().join("demo.spec");
        let head = "Name: demo\nVersion: 1\nRelease: 1\nSummary: x\nLicense: MIT\n%description\nx\n%files\n";
        let changelog = entry(EARLIEST, "A B <a@b>", "1", "1", "x");
        fs_err::write(&spec, format!("{head}%changelog\n{changelog}")).unwrap();
        let query = Command::new("rpmspec").args(["-q", "--qf", "%{CHANGELOGTIME}"]).arg(&spec);
        let query = query.runs_code_of_tests().text().unwrap();
        // rpm uses noon of the day.
        assert_eq!(query.parse::<i64>().unwrap() / 86_400, EARLIEST / 86_400);
    }

    #[test]
    fn escapes_user_written_text() {
        let text = entry(EARLIEST, "A B <a@b>", "1.0", "2", "Use 100% of it");
        assert_eq!(text, "* Mon Jan 01 1990 A B <a@b> - 1.0-2\n- Use 100%% of it\n");
        let text = entry(EARLIEST, "A\u{1b}[2J <a@b>", "1.0", "2", "x\r\n* Mon Jan 01 1990 ü");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains('\u{1b}') && text.ends_with(" ü\n"), "{text}");
    }
}
