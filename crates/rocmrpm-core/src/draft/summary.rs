//! Finds a description of a library or program whose build system states none: in files of
//! pkg-config, in meson.build, in a manual page, or in the first sentence of README.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::sources::read_inside;

/// The maximum number of folders between a source's top folder and a file with a description.
const DEPTH: usize = 3;

/// A description with fewer words says little more than the name.
const FEWEST_WORDS: usize = 3;

/// A description.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub text: String,
    /// The file that states it.
    pub file: String,
}

/// Returns the description in the text of a file, for a project with this name.
type Reader = fn(&str, &str) -> Option<String>;

/// Returns the description of a project in its source.
pub(super) fn find(root: &Path, name: &str) -> Option<Described> {
    let walk = walkdir::WalkDir::new(root).max_depth(DEPTH).sort_by_file_name();
    let files = walk.into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let mut found: Vec<(usize, Described)> = Vec::new();
    for entry in files {
        let Some(file) = entry.path().strip_prefix(root).ok().and_then(Path::to_str) else {
            continue;
        };
        let base = file.rsplit('/').next().unwrap_or(file);
        let (rank, read): (usize, Reader) = match base {
            _ if base.ends_with(".pc") || base.contains(".pc.") => (0, of_pkg_config),
            "meson.build" => (1, of_meson),
            _ if is_manual_page(base, name) => (2, of_manual_page),
            _ if base.starts_with("README") && !file.contains('/') => (3, of_readme),
            _ => continue,
        };
        let bytes = read_inside(root, file).ok().flatten().unwrap_or_default();
        if let Some(text) = read(&String::from_utf8_lossy(&bytes), name) {
            found.push((rank, Described { text, file: file.to_owned() }));
        }
    }
    let is_short = |text: &str| text.split_whitespace().count() < FEWEST_WORDS;
    found.sort_by_key(|(rank, described)| (is_short(&described.text), *rank));
    found.into_iter().next().map(|(_, described)| described)
}

/// Returns a text without variables of a build system; `None` if nothing is left.
fn plain(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && !text.contains(['@', '$', '\\'])).then(|| text.to_owned())
}

/// Source: pkg-config(1), "METADATA FILE SYNTAX".
fn of_pkg_config(text: &str, _: &str) -> Option<String> {
    text.lines().find_map(|line| plain(line.strip_prefix("Description:")?))
}

/// Source: Meson, "Pkgconfig module".
fn of_meson(text: &str, _: &str) -> Option<String> {
    static DESCRIPTION: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\bdescription\s*:\s*'([^'\n]+)'").ok());
    DESCRIPTION.as_ref()?.captures(text).and_then(|found| plain(&found[1]))
}

/// Returns whether a file is the manual page of a program or library of this name.
fn is_manual_page(file: &str, name: &str) -> bool {
    let file = file.strip_suffix(".in").unwrap_or(file);
    file.rsplit_once('.').is_some_and(|(stem, section)| {
        stem == name && section.len() == 1 && section.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Source: man-pages(7), "NAME"; mdoc(7), "Nd".
fn of_manual_page(text: &str, _: &str) -> Option<String> {
    static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"(?m)^\.SH +"?(?i:name)"?[ \t]*\n((?:[^.'\n].*\n?|\.[BI] .*\n?)+)"#).ok()
    });
    if let Some(line) = text.lines().find_map(|line| line.strip_prefix(".Nd ")) {
        return plain(line);
    }
    let found = NAME.as_ref()?.captures(text)?;
    let line = found[1].split_whitespace().collect::<Vec<_>>().join(" ");
    let line =
        ["\\fB", "\\fI", "\\fR", "\\fP"].iter().fold(line, |line, font| line.replace(font, ""));
    let line = line.replace("\\-", "-");
    plain(line.split_once(" - ")?.1)
}

/// Returns what follows `NAME is a`, or `This is NAME, a`, in the first sentence that has it.
fn of_readme(text: &str, name: &str) -> Option<String> {
    static MARKUP: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\[([^\]\n]*)\]\([^)\n]*\)|[*`_]+").ok());
    let stem = name.strip_prefix("lib").unwrap_or(name);
    let stem = regex::escape(stem);
    let sentence = format!(
        r"(?i)^(?:(?:the )?(?:lib)?{stem}(?: \([^)]*\))? is|this is (?:the )?(?:lib)?{stem},) (?:an? |the )?(.+?)(?:\.(?: |$)|:|$)"
    );
    let sentence = Regex::new(&sentence).ok()?;
    text.replace('\r', "").split("\n\n").find_map(|paragraph| {
        let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = MARKUP.as_ref()?.replace_all(&words, "$1");
        plain(&sentence.captures(&words)?[1])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<(String, String)> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        find(dir.path(), "vec").map(|Described { text, file }| (text, file))
    }

    #[test]
    fn prefers_pkg_config_unless_it_only_repeats_the_name() {
        let readme = (
            "README.md",
            "# vec\n\n![x](y)\n\n**vec** (Vectors) is a [fast](http://x) library\nfor vectors. It adds.",
        );
        let pc = ("src/vec.pc.in", "Name: vec\nDescription: Adds long vectors\n");
        let from = |text: &str, file: &str| Some((text.to_owned(), file.to_owned()));
        assert_eq!(found(&[readme, pc]), from("Adds long vectors", "src/vec.pc.in"));
        assert_eq!(found(&[readme]), from("fast library for vectors", "README.md"));
        let this = ("README", "This is vec, a set of tools\nfor vectors.\n\nOther.");
        assert_eq!(found(&[this]), from("set of tools for vectors", "README"));
        let repeats = ("vec.pc.in", "Description: @NAME@\n");
        assert_eq!(found(&[readme, repeats]), from("fast library for vectors", "README.md"));
        let short = ("vec.pc.in", "Description: vec library\n");
        assert_eq!(found(&[readme, short]), from("fast library for vectors", "README.md"));
        assert_eq!(found(&[short]), from("vec library", "vec.pc.in"));
        let meson = ("meson.build", "pkg.generate(x,\n  description : 'Adds all vectors')\n");
        assert_eq!(found(&[readme, meson]), from("Adds all vectors", "meson.build"));
    }

    #[test]
    fn reads_manual_pages() {
        let from = |text: &str, file: &str| Some((text.to_owned(), file.to_owned()));
        let page = ".TH VEC 1\n.SH NAME\n\\fBvec\\fR \\- add vectors\nof any length\n.SH SYNOPSIS\nx \\- y\n";
        assert_eq!(found(&[("doc/vec.1", page)]), from("add vectors of any length", "doc/vec.1"));
        assert_eq!(
            found(&[("vec.1.in", ".Dd x\n.Nm vec\n.Nd add vectors\n")]),
            from("add vectors", "vec.1.in")
        );
        assert_eq!(found(&[("other.1", page), ("vec.h", page)]), None);
    }
}
