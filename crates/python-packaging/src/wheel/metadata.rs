//! Reads the text files of a dist-info folder: METADATA, WHEEL and entry_points.txt. It changes
//! only the version in METADATA, and does not know where the texts come from.

use std::collections::BTreeSet;
use std::ops::Range;
use std::str::FromStr;

use pep440_rs::Version;

use super::header;

/// The fields of METADATA that go into a wheel's name and into an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// `Name`, in its original spelling.
    pub name: String,
    /// `Name`, normalized for an index.
    pub normalized: String,
    /// `Version`.
    pub version: Version,
    /// `Requires-Python`, in its original spelling.
    pub requires_python: Option<String>,
    /// The position of the version in the text.
    span: Range<usize>,
}

impl Metadata {
    /// Parses the header fields; the error describes what is wrong with them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let [name, version, python] = fields(text, ["Name", "Version", "Requires-Python"])?;
        let name = text[name.ok_or("it has no Name")?].to_owned();
        let normalized = super::name::normalized(&name)
            .ok_or_else(|| format!("`{name}` is not a valid name of a distribution"))?;
        let span = version.ok_or("it has no Version")?;
        let version = Version::from_str(&text[span.clone()])
            .map_err(|_| format!("`{}` is not a version", &text[span.clone()]))?;
        let requires_python = python.map(|span| text[span].to_owned());
        Ok(Self { name, normalized, version, requires_python, span })
    }

    /// Returns `text`, from which `self` was parsed, with another version and otherwise unchanged.
    pub fn with_version(&self, text: &str, change: impl FnOnce(&str) -> String) -> String {
        let (before, after) = (&text[..self.span.start], &text[self.span.end..]);
        format!("{before}{}{after}", change(&text[self.span.clone()]))
    }
}

/// Returns the positions of the values of these header fields. A field that occurs twice or spans
/// several lines is an error, because it is ambiguous.
fn fields<const N: usize>(
    text: &str,
    names: [&str; N],
) -> Result<[Option<Range<usize>>; N], String> {
    let mut found = [const { None }; N];
    for field in header::fields(text) {
        let Some(at) = names.iter().position(|name| field.is(name)) else { continue };
        if text[field.lines].trim_end().contains(['\r', '\n']) {
            return Err(format!("its {} spans several lines", names[at]));
        }
        if found[at].replace(field.at).is_some() {
            return Err(format!("it has {} twice", names[at]));
        }
    }
    Ok(found)
}

/// Returns the tags of a WHEEL file, in their original spelling.
pub(crate) fn wheel_tags(text: &str) -> BTreeSet<String> {
    let tag = |line: &str| Some(line.trim().strip_prefix("Tag:")?.trim().to_owned());
    text.lines().filter_map(tag).collect()
}

/// Returns the text of a WHEEL file with these tags.
pub(crate) fn wheel_file(pure: bool, tags: &BTreeSet<String>) -> String {
    let mut text = format!(
        "Wheel-Version: 1.0\nGenerator: rocmrpm ({})\nRoot-Is-Purelib: {pure}\n",
        env!("CARGO_PKG_VERSION")
    );
    for tag in tags {
        text += &format!("Tag: {tag}\n");
    }
    text
}

/// Returns the names of the commands that installers generate from entry_points.txt.
pub fn commands(text: &str) -> BTreeSet<String> {
    let mut commands = BTreeSet::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            inside = matches!(section.trim(), "console_scripts" | "gui_scripts");
        } else if let Some((name, _)) = line.split_once('=')
            && inside
            && !line.starts_with(['#', ';'])
        {
            commands.insert(name.trim().to_owned());
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Metadata-Version: 2.1\r\nName: Flash_Attn\r\nversion:  1.0rc1 \r\n\
        Requires-Python: >=3.9,<4\r\nLicense: a\r\n b\r\n\r\nVersion: 9 in the text\r\n";

    #[test]
    fn changes_only_the_version() {
        let metadata = Metadata::parse(TEXT).unwrap();
        assert_eq!(metadata.name, "Flash_Attn");
        assert_eq!(metadata.normalized, "flash-attn");
        assert_eq!(metadata.requires_python.as_deref(), Some(">=3.9,<4"));
        let changed = metadata.with_version(TEXT, |version| format!("{version}+x"));
        assert_eq!(changed, TEXT.replace("1.0rc1", "1.0rc1+x"));
    }

    #[test]
    fn rejects_ambiguous_headers() {
        for (text, expected) in [
            ("Name: a\n", "no Version"),
            ("Version: 1\n", "no Name"),
            ("Name: a\nVersion: 1\nVersion: 2\n", "Version twice"),
            ("Name: a\nVersion: 1\n 2\n", "several lines"),
            ("Name: a\nVersion: x\n", "`x` is not a version"),
            ("Name: ../a\nVersion: 1\n", "not a valid name"),
            ("\nName: a\nVersion: 1\n", "no Name"),
            // The header ends here for installers.
            ("Name: a\nno field\nVersion: 1\n", "no Version"),
            ("Name: a\nSummary: b\rVersion: 1\rVersion: 2\n", "Version twice"),
        ] {
            let error = Metadata::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn commands_come_from_both_groups() {
        let text = "[console_scripts]\nfoo = a:b\n# no = x\n\n[other]\nbar = c:d\n[gui_scripts]\nbaz=e:f\n";
        assert_eq!(commands(text).into_iter().collect::<Vec<_>>(), ["baz", "foo"]);
    }
}
