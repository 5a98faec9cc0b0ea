//! The HTML pages of an index: PEP 503, with the metadata hashes of PEP 714. Not
//! where the pages are written.

use crate::digest::Sha256;
use crate::text::{escaped, percent_encoded};

/// A file on a distribution's page.
#[derive(Debug, Clone)]
pub(super) struct Link<'a> {
    /// The wheel's file name.
    pub file: &'a str,
    /// The wheel's digest.
    pub sha256: Sha256,
    /// The digest of its `.metadata` file.
    pub metadata: Sha256,
    /// `Requires-Python`.
    pub requires_python: Option<&'a str>,
}

const HEAD: &str = "<!DOCTYPE html>\n<html>\n<head>\n\
    <meta charset=\"utf-8\">\n<meta name=\"pypi:repository-version\" content=\"1.0\">\n";

/// Returns the page that names all distributions, given normalized.
pub(super) fn root<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut page = format!("{HEAD}<title>Simple index</title>\n</head>\n<body>\n");
    for name in names {
        page += &format!("<a href=\"{0}/\">{0}</a><br>\n", escaped(name));
    }
    page + "</body>\n</html>\n"
}

/// Returns the page of one distribution.
pub(super) fn distribution(name: &str, links: &[Link<'_>]) -> String {
    let title = escaped(name);
    let mut page =
        format!("{HEAD}<title>Links for {title}</title>\n</head>\n<body>\n<h1>Links for {title}</h1>\n");
    for Link { file, sha256, metadata, requires_python } in links {
        let (url, shown) = (url_path(file), escaped(file));
        let python = requires_python
            .map_or(String::new(), |text| format!(" data-requires-python=\"{}\"", escaped(text)));
        // Not also under `data-dist-info-metadata`, its name in PEP 658: pip 23.0 reads that, and then
        // refuses a wheel whose METADATA spells the name otherwise than the requirement.
        page += &format!(
            "<a href=\"../../packages/{url}#sha256={sha256}\"{python} \
             data-core-metadata=\"sha256={metadata}\">{shown}</a><br>\n"
        );
    }
    page + "</body>\n</html>\n"
}

/// Encodes a file name for a URL's path, so that no server takes the `+` of a local
/// version for a space.
fn url_path(name: &str) -> String {
    percent_encoded(name.as_bytes(), b"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_markers_are_encoded() {
        let digest = Sha256::of_bytes("");
        let links = [Link {
            file: "a-1!1+rocm7.14-py3-none-any.whl",
            sha256: digest,
            metadata: digest,
            requires_python: Some(">=3.9,<4 \"'&"),
        }];
        let page = distribution("a", &links);
        assert!(
            page.contains("href=\"../../packages/a-1%211%2Brocm7.14-py3-none-any.whl#sha256=e3b0"),
            "{page}"
        );
        assert!(page.contains("data-requires-python=\"&gt;=3.9,&lt;4 &quot;&#39;&amp;\""), "{page}");
        assert!(page.contains(">a-1!1+rocm7.14-py3-none-any.whl</a>"), "{page}");
    }

    #[test]
    fn the_root_page_names_every_distribution() {
        let page = root(["a", "b-c"].into_iter());
        assert!(page.contains("<a href=\"b-c/\">b-c</a>") && page.contains("repository-version"), "{page}");
    }
}
