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
pub(crate) fn about(metadata: &str) -> About {
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

/// Reads the table `[project]` of a pyproject.toml (PEP 621, PEP 639), as far as it is not dynamic.
pub(crate) fn about_project(pyproject: &str) -> About {
    let root = pyproject.parse::<toml::Table>().unwrap_or_default();
    let Some(project) = root.get("project").and_then(toml::Value::as_table) else {
        return About::default();
    };
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut metadata = String::new();
    let mut add = |key: &str, value: Option<&toml::Value>| {
        if let Some(text) = value.and_then(toml::Value::as_str) {
            metadata += &format!("{key}: {}\n", one_line(text));
        }
    };
    add("Summary", project.get("description"));
    match project.get("license") {
        Some(toml::Value::Table(license)) => add("License", license.get("text")),
        expression => add("License-Expression", expression),
    }
    let classifiers = project.get("classifiers").and_then(toml::Value::as_array);
    classifiers.into_iter().flatten().for_each(|value| add("Classifier", Some(value)));
    let urls = project.get("urls").and_then(toml::Value::as_table);
    for (label, url) in urls.into_iter().flatten() {
        let label = label.replace(',', "");
        let text = url.as_str().map(|url| toml::Value::from(format!("{label}, {url}")));
        add("Project-URL", text.as_ref());
    }
    about(&metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pyproject() {
        let text = "[project]\nname = \"x\"\ndescription = \"Does\\nit\"\nlicense = \"MIT\"\n\
                    [project.urls]\nDocs = \"https://d\"\nhomepage = \"https://h\"\n";
        let About { summary, license, home } = about_project(text);
        assert_eq!((summary.as_str(), license.as_deref()), ("Does it", Some("MIT")));
        assert_eq!(home.as_deref(), Some("https://h"));
        let text = "[project]\nlicense = { text = \"Apache 2.0\" }\n";
        assert_eq!(about_project(text).license.as_deref(), Some("Apache-2.0"));
        let text = "[project]\nclassifiers = [\"License :: OSI Approved :: MIT License\"]\n";
        assert_eq!(about_project(text).license.as_deref(), Some("MIT"));
        assert_eq!(about_project("[project"), About::default());
    }

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
