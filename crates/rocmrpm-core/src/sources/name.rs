//! Derives the file name of a source from its pin so that specs render without network access. It
//! does not read the file.

use std::str::FromStr;

use super::url;
use crate::names::normalized;
use crate::workspace::pin::{Pin, Source};

/// Archive suffixes; longer ones precede their own suffixes.
const SUFFIXES: &[&str] = &[
    ".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2", ".tgz", ".txz", ".tbz2", ".tbz", ".tar", ".zip",
    ".gz", ".xz", ".zst", ".bz2", ".crate",
];

/// Returns the name of a source's file next to the spec:
/// - URL: the last path segment, percent-decoded
/// - git and folder: `<component>-<version>.tar.gz`, packed by rocmrpm
/// - sdist: `<project>-<version>.tar.gz` as specified by PEP 625, regardless of the index
/// - wheel: its own name, which contains its tags
///
/// Replaces characters that are special in rpm or a shell with `_`.
pub fn file_name(pin: &Pin) -> String {
    match &pin.source {
        Source::Url { url, .. } => match url::last_segment(url) {
            name if name.is_empty() => archive_stem(pin),
            name => safe(&name),
        },
        Source::Wheel { file, .. } => safe(file),
        Source::Git { .. }
        | Source::Folder { .. }
        | Source::Crates { .. }
        | Source::Sdist { .. } => {
            format!("{}.tar.gz", archive_stem(pin))
        }
    }
}

/// Returns the conventional top folder of the unpacked source: the file name without the archive
/// suffix. This is exact for git and folder sources, which rocmrpm packs. For sdists and URLs,
/// upstream may differ: an old sdist may have `PyYAML-5.3` instead of `pyyaml-5.3`, and a forge's
/// `v1.2.tar.gz` has `<repository>-1.2`. [`super::Fetched::top_folder`] contains the actual folder.
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

/// Returns the name without an archive suffix.
fn stem(name: &str) -> &str {
    SUFFIXES
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .filter(|s| !s.is_empty())
        .unwrap_or(name)
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
        let folder = Source::Folder { path: "x".into(), paths: vec![] };
        for (version, source, file, dir) in [
            ("1", url("https://h/p/demo-1.tar.xz?x=/y.zip#f"), "demo-1.tar.xz", "demo-1"),
            ("1", url("https://h/demo%2B1.zip"), "demo+1.zip", "demo+1"),
            ("1", url("https://h/demo-1.crate"), "demo-1.crate", "demo-1"),
            ("1", url("https://h/a/%2e%2e%2f%25x"), "_.__x", "_.__x"),
            ("1", url("https://h/a/"), "demo-1", "demo-1"),
            ("1", url("https://h/a/demo.bin"), "demo.bin", "demo.bin"),
            ("1.0/x", git, "demo-1.0_x.tar.gz", "demo-1.0_x"),
            ("2", folder, "demo-2.tar.gz", "demo-2"),
            (
                "2.0.0-RC1",
                sdist("Foo.Bar--baz"),
                "foo_bar_baz-2.0.0rc1.tar.gz",
                "foo_bar_baz-2.0.0rc1",
            ),
            ("7.0.2", sdist("amdsmi"), "amdsmi-7.0.2.tar.gz", "amdsmi-7.0.2"),
            ("1", wheel("a-1-py3-none-any.whl"), "a-1-py3-none-any.whl", "a-1-py3-none-any"),
        ] {
            assert_eq!(names(version, source.clone()), (file.into(), dir.into()), "{source:?}");
        }
    }
}
