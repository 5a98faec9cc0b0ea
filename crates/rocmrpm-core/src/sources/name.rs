//! What a source's file is called, known from the pin alone, so that specs render
//! without a network. Not what is inside the file.

use std::str::FromStr;

use super::url;
use crate::names::normalized;
use crate::workspace::pin::{Pin, Source};

/// The suffixes of archives, longest first where one ends with another.
const SUFFIXES: &[&str] = &[
    ".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2", ".tgz", ".txz", ".tbz2", ".tbz", ".tar", ".zip", ".gz",
    ".xz", ".zst", ".bz2",
];

/// Returns the name of the file that a pin's source becomes beside the spec:
/// - URL: the last segment of its path, percent-decoded
/// - git and folder: `<component>-<version>.tar.gz`, packed by us
/// - sdist: `<project>-<version>.tar.gz` as PEP 625 spells it, however the index
///   spells it
/// - wheel: its own name, which says what it is for
///
/// Characters that have a meaning to rpm or a shell become `_`.
pub fn file_name(pin: &Pin) -> String {
    match &pin.source {
        Source::Url { url, .. } => match url::last_segment(url) {
            name if name.is_empty() => archive_stem(pin),
            name => safe(&name),
        },
        Source::Wheel { file, .. } => safe(file),
        Source::Git { .. } | Source::Folder { .. } | Source::Crates { .. } | Source::Sdist { .. } => {
            format!("{}.tar.gz", archive_stem(pin))
        }
    }
}

/// Returns the folder that the source unpacks to by convention: the file name
/// without the archive's suffix. For git and folder sources it is exactly that,
/// because we pack them. For sdists and URLs upstream decides: an old sdist may
/// have `PyYAML-5.3` where the convention says `pyyaml-5.3`, and a forge's
/// `v1.2.tar.gz` has `<repository>-1.2`. [`super::Fetched::top_folder`] says what
/// the file really has.
pub fn source_dir(pin: &Pin) -> String {
    pin.top_folder.clone().unwrap_or_else(|| archive_stem(pin))
}

/// Returns the name of the source's archive without its suffix.
fn archive_stem(pin: &Pin) -> String {
    match &pin.source {
        Source::Url { url, .. } => match url::last_segment(url) {
            name if name.is_empty() => safe(&format!("{}-{}", pin.component, pin.version)),
            name => safe(stem(&name)),
        },
        Source::Git { .. } | Source::Folder { .. } | Source::Crates { .. } => {
            safe(&format!("{}-{}", pin.component, pin.version))
        }
        Source::Wheel { file, .. } => safe(file.strip_suffix(".whl").unwrap_or(file)),
        Source::Sdist { project, .. } => {
            let version = pep440_rs::Version::from_str(&pin.version)
                .map_or_else(|_| pin.version.clone(), |version| version.to_string());
            safe(&format!("{}-{version}", normalized(project).replace('-', "_")))
        }
    }
}

/// Returns the name without the suffix of an archive.
fn stem(name: &str) -> &str {
    SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).filter(|s| !s.is_empty()).unwrap_or(name)
}

fn safe(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+~^".contains(c);
    let mut safe: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if safe.starts_with(['.', '-', '~']) {
        safe.replace_range(..1, "_");
    }
    safe
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::names::ComponentName;

    /// Returns a pin of component `demo`.
    pub fn pin(version: &str, source: Source) -> Pin {
        let component = ComponentName::parse("demo").unwrap();
        Pin::new(component, version, source)
    }

    fn names(version: &str, source: Source) -> (String, String) {
        let pin = pin(version, source);
        (file_name(&pin), source_dir(&pin))
    }

    #[test]
    fn names_follow_from_the_pin() {
        let url = |u: &str| Source::Url { url: u.into(), sha256: None };
        let sdist = |p: &str| Source::Sdist { project: p.into(), sha256: None };
        let wheel = |f: &str| Source::Wheel { file: f.into(), sha256: None };
        let git = Source::Git { url: "x".into(), commit: None, submodules: false, paths: vec![] };
        let folder = Source::Folder { path: "x".into() };
        for (version, source, file, dir) in [
            ("1", url("https://h/p/demo-1.tar.xz?x=/y.zip#f"), "demo-1.tar.xz", "demo-1"),
            ("1", url("https://h/demo%2B1.zip"), "demo+1.zip", "demo+1"),
            ("1", url("https://h/a/%2e%2e%2f%25x"), "_.__x", "_.__x"),
            ("1", url("https://h/a/"), "demo-1", "demo-1"),
            ("1", url("https://h/a/demo.bin"), "demo.bin", "demo.bin"),
            ("1.0/x", git, "demo-1.0_x.tar.gz", "demo-1.0_x"),
            ("2", folder, "demo-2.tar.gz", "demo-2"),
            ("2.0.0-RC1", sdist("Foo.Bar--baz"), "foo_bar_baz-2.0.0rc1.tar.gz", "foo_bar_baz-2.0.0rc1"),
            ("7.0.2", sdist("amdsmi"), "amdsmi-7.0.2.tar.gz", "amdsmi-7.0.2"),
            ("1", wheel("a-1-py3-none-any.whl"), "a-1-py3-none-any.whl", "a-1-py3-none-any"),
        ] {
            assert_eq!(names(version, source.clone()), (file.into(), dir.into()), "{source:?}");
        }
    }
}
