//! Reads what METADATA state about a distribution for its packagers. `python_packaging::needs`
//! reads its requirements.

use super::{About, license};
use crate::text::visible;
use crate::wheel::header_fields;

/// Labels of a `Project-URL` that name a home page, best first, in lower case without spaces
/// ("Well-known Project URLs in Metadata" of the Python packaging user guide).
const HOMES: [&str; 6] =
    ["homepage", "repository", "source", "sourcecode", "github", "documentation"];

/// Reads METADATA.
pub(super) fn about(metadata: &str) -> About {
    let mut about = About::default();
    let mut homes: Vec<(usize, String)> = Vec::new();
    let (mut expression, mut license, mut classifiers) = (None, None, Vec::new());
    for field in header_fields(metadata) {
        let value = field.one_line();
        if value.is_empty() || value == "UNKNOWN" {
            continue;
        }
        if field.is("Summary") {
            about.summary = visible(&value);
        } else if field.is("License-Expression") {
            expression = Some(visible(&value));
        } else if field.is("License") {
            // Keep its lines: it may be the full license text.
            license = Some(field.value);
        } else if field.is("Classifier") {
            classifiers.push(value);
        } else if field.is("Home-page") {
            homes.push((0, value));
        } else if field.is("Project-URL")
            && let Some((label, url)) = value.split_once(',')
        {
            let label: String = label.chars().filter(|c| c.is_alphanumeric()).collect();
            let label = label.to_ascii_lowercase();
            let rank = HOMES.iter().position(|home| *home == label).unwrap_or(HOMES.len());
            homes.push((rank, url.trim().to_owned()));
        }
    }
    let web = |url: &str| {
        let plain = |c: char| c.is_ascii_graphic() && !"\"'<>\\^`{|}%@".contains(c);
        (url.starts_with("https://") || url.starts_with("http://")) && url.chars().all(plain)
    };
    homes.retain(|(_, url)| web(url));
    homes.sort_by_key(|(rank, _)| *rank);
    let classifiers: Vec<&str> = classifiers.iter().map(String::as_str).collect();
    about.license = license::spdx(expression.as_deref(), license, &classifiers);
    about.home = homes.into_iter().next().map(|(_, url)| url);
    about
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_best_home_page() {
        let text = "Name: a\nSummary: Does\n  things\u{7}\nHome-page: UNKNOWN\nLicense-Expression: MIT\n\
                    Project-URL: Changelog, https://h/c\nProject-URL: Source Code, https://h/s\n\
                    Project-URL: Documentation, https://h/d\n\nHome-page: https://h/text\n";
        let About { summary, license, home } = about(text);
        assert!(summary.starts_with("Does things") && !summary.contains('\u{7}'), "{summary}");
        assert_eq!((license.as_deref(), home.as_deref()), (Some("MIT"), Some("https://h/s")));
        let hostile = "Home-page: https://user:secret@h/\nProject-URL: Homepage, javascript:x\n";
        assert_eq!(about(hostile).home, None);
    }
}
