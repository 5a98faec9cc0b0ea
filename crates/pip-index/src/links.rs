//! The flat page of a view, for the option `--find-links` of pip and uv: one link for every file that
//! is not yanked. It is not needed to install from the index itself.

use std::collections::BTreeMap;

use super::page::Project;
use super::view::View;

const HEAD: &str = "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
                    <title>Links</title>\n</head>\n<body>\n";
const TAIL: &str = "</body>\n</html>\n";

/// The lines of a flat page by distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Links {
    view: View,
    lines: BTreeMap<String, String>,
}

impl Links {
    /// Returns the page of a view without files.
    pub fn new(view: View) -> Self {
        Self { view, lines: BTreeMap::new() }
    }

    /// Parses a page written by [`Self::html`]; `None` for any other.
    pub fn parse(view: View, bytes: &[u8]) -> Option<Self> {
        let body = std::str::from_utf8(bytes).ok()?.strip_prefix(HEAD)?.strip_suffix(TAIL)?;
        let start = format!("<a href=\"{}packages/", view.up_from_links());
        let mut links = Self::new(view);
        // The lines of a distribution follow each other: one text for all of them.
        let (mut name, mut first, mut end) = ("", 0, 0);
        for line in body.split_inclusive('\n') {
            let (distribution, _) = line.strip_prefix(&start)?.split_once('/')?;
            line.ends_with("</a><br>\n").then_some(())?;
            if distribution != name {
                links.lines.insert(name.to_owned(), body[first..end].to_owned());
                (name, first) = (distribution, end);
                if links.lines.contains_key(name) {
                    return None;
                }
            }
            end += line.len();
        }
        links.lines.insert(name.to_owned(), body[first..end].to_owned());
        links.lines.remove("");
        Some(links)
    }

    /// Replaces the links to the files of a distribution.
    pub fn set(&mut self, project: &Project) {
        let mut lines = String::new();
        for file in project.files.iter().filter(|file| file.yanked.is_none()) {
            lines += &file.link_start(self.view.up_from_links(), &project.name);
            lines += &file.link_end();
        }
        if lines.is_empty() {
            self.lines.remove(&project.name);
        } else {
            self.lines.insert(project.name.clone(), lines);
        }
    }

    /// Returns the page in HTML.
    pub fn html(&self) -> String {
        let lines: String = self.lines.values().map(String::as_str).collect();
        format!("{HEAD}{lines}{TAIL}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::File;
    use rocmrpm_base::digest::Sha256;

    fn project(name: &str, versions: &[(&str, Option<&str>)]) -> Project {
        let file = |(version, yanked): &(&str, Option<&str>)| File {
            name: format!("{name}-{version}-py3-none-any.whl"),
            sha256: Sha256::of_bytes(version),
            size: 1,
            upload_time: jiff::Timestamp::UNIX_EPOCH,
            requires_python: Some("<4".into()),
            metadata: None,
            plain_name: true,
            yanked: yanked.map(str::to_owned),
            foreign: false,
        };
        Project { files: versions.iter().map(file).collect(), ..Project::new(name) }
    }

    #[test]
    fn replaces_the_links_of_one_distribution() {
        let view = View::Channel("stable");
        let mut links = Links::new(view);
        assert_eq!(Links::parse(view, links.html().as_bytes()), Some(links.clone()));
        links.set(&project("b", &[("1+x", None), ("2", Some("broken"))]));
        links.set(&project("a", &[("1", None)]));
        let digest = Sha256::of_bytes("1+x");
        let html = links.html();
        assert!(html.contains(&format!(
            "<a href=\"../packages/b/b-1%2Bx-py3-none-any.whl#sha256={digest}\" \
             data-requires-python=\"&lt;4\">b-1+x-py3-none-any.whl</a><br>\n"
        )));
        assert!(!html.contains("b-2") && html.find("a-1") < html.find("b-1"), "{html}");
        let mut read = Links::parse(view, html.as_bytes()).unwrap();
        assert_eq!(read, links);
        read.set(&project("a", &[]));
        assert!(!read.html().contains("a-1") && read.html().contains("b-1"));
    }

    #[test]
    fn rejects_pages_of_others() {
        for page in ["", "<html></html>", &format!("{HEAD}<a href=\"x\">x</a>\n{TAIL}")] {
            assert_eq!(Links::parse(View::Local, page.as_bytes()), None, "{page}");
        }
        let line = |name: &&str| format!("<a href=\"packages/{name}/x\">x</a><br>\n");
        let page = |names: &[&str]| {
            let lines: String = names.iter().map(line).collect();
            format!("{HEAD}{lines}{TAIL}").into_bytes()
        };
        assert!(Links::parse(View::Local, &page(&["a", "a", "b"])).is_some());
        assert_eq!(Links::parse(View::Local, &page(&["a", "b", "a"])), None);
        let page = page(&[]);
        assert_eq!(Links::parse(View::Local, &page[..page.len() - 1]), None);
    }
}
