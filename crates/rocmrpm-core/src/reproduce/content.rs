//! Compares two versions of a file: which ELF sections differ, where the first difference is, and
//! its likely cause. It does not read RPMs.

use goblin::elf::{Elf, section_header};
use serde::Serialize;

/// A likely cause of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The time of the build was written into the file.
    Timestamp,
    /// The folder of the build was written into the file.
    BuildPath,
    /// The same content in another order.
    Order,
}

impl Cause {
    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "a timestamp",
            Self::BuildPath => "the build folder",
            Self::Order => "a different order",
        }
    }

    /// Returns an explanation and help in one sentence.
    pub fn help(self) -> &'static str {
        match self {
            Self::Timestamp => {
                "the file contains the time of the build: use SOURCE_DATE_EPOCH from the environment instead"
            }
            Self::BuildPath => {
                "the file contains the build folder: let the compiler map it (-ffile-prefix-map), or write \
                 relative paths"
            }
            Self::Order => {
                "the file has the same content in a different order: sort lists (files of a folder, keys of a \
                 hash), or run that build step with one job"
            }
        }
    }
}

/// A section of an ELF file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Section {
    /// Its name.
    pub name: String,
    /// Its size in bytes in the earlier file; null if missing.
    pub old: Option<u64>,
    /// Its size in bytes in the new file; null if missing.
    pub new: Option<u64>,
}

/// Details of a difference in content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Content {
    /// The ELF sections that differ.
    pub sections: Vec<Section>,
    /// The text around the first difference, in the earlier and in the new file.
    pub example: Option<(String, String)>,
    /// Its likely causes.
    pub causes: Vec<Cause>,
}

/// The folders of the two builds, which must not occur in a file.
#[derive(Debug, Clone, Copy)]
pub struct BuildFolders<'a> {
    /// The folders of the earlier build.
    pub old: &'a [String],
    /// The folders of the new build.
    pub new: &'a [String],
}

/// Explains the difference between two contents.
pub fn compare(old: &[u8], new: &[u8], places: BuildFolders<'_>) -> Content {
    let mut content = Content::default();
    let (mut old_part, mut new_part) = (old, new);
    if let (Some(old_sections), Some(new_sections)) = (sections(old), sections(new)) {
        content.sections = differing(&old_sections, &new_sections);
        // Prefer sections that are not derived from others.
        let primary =
            |name: &str| !matches!(name, ".note.gnu.build-id" | ".gnu_debuglink" | ".symtab");
        let found =
            content.sections.iter().filter(|section| primary(&section.name)).find_map(|section| {
                let part = |all: &[(String, &[u8])]| {
                    all.iter().position(|(name, _)| *name == section.name)
                };
                Some((old_sections[part(&old_sections)?].1, new_sections[part(&new_sections)?].1))
            });
        if let Some((old, new)) = found {
            (old_part, new_part) = (old, new);
        }
    }
    content.example = example(old_part, new_part);
    let holds = |bytes: &[u8], paths: &[String]| {
        paths.iter().any(|path| memchr::memmem::find(bytes, path.as_bytes()).is_some())
    };
    let has_time =
        content.example.as_ref().is_some_and(|(old, new)| shows_time(old) && shows_time(new));
    if has_time || archive_times_differ(old, new) {
        content.causes.push(Cause::Timestamp);
    }
    if places.old != places.new && holds(old, places.old) && holds(new, places.new) {
        content.causes.push(Cause::BuildPath);
    }
    if same_bytes_in_another_order(old, new) && content.causes.is_empty() {
        content.causes.push(Cause::Order);
    }
    content
}

/// Returns the sections of an ELF file with their bytes; `None` if it is not an ELF file.
fn sections(file: &[u8]) -> Option<Vec<(String, &[u8])>> {
    if !file.starts_with(goblin::elf::header::ELFMAG) {
        return None;
    }
    let elf = Elf::parse(file).ok()?;
    let headers =
        elf.section_headers.iter().filter(|header| header.sh_type != section_header::SHT_NULL);
    let sections = headers.map(|header| {
        let name = elf.shdr_strtab.get_at(header.sh_name).unwrap_or("?").to_owned();
        let range = header.file_range().and_then(|range| file.get(range));
        (name, range.unwrap_or_default())
    });
    Some(sections.collect())
}

fn differing(old: &[(String, &[u8])], new: &[(String, &[u8])]) -> Vec<Section> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in old.iter().chain(new) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let of = |all: &[(String, &[u8])], name: &str| -> Vec<u8> {
        all.iter()
            .filter(|(other, _)| other == name)
            .flat_map(|(_, bytes)| bytes.iter().copied())
            .collect()
    };
    let has = |all: &[(String, &[u8])], name: &str| all.iter().any(|(other, _)| other == name);
    let mut differing = Vec::new();
    for name in names {
        let (before, now) = (of(old, name), of(new, name));
        let (was, is) = (has(old, name), has(new, name));
        if before != now || was != is {
            let size = |there: bool, bytes: &[u8]| there.then_some(bytes.len() as u64);
            differing.push(Section {
                name: name.clone(),
                old: size(was, &before),
                new: size(is, &now),
            });
        }
    }
    differing
}

/// Number of characters to show on each side of the first difference.
const AROUND: usize = 40;

/// Returns the printable text around the first differing byte.
fn example(old: &[u8], new: &[u8]) -> Option<(String, String)> {
    let first = old.iter().zip(new).position(|(a, b)| a != b).unwrap_or(old.len().min(new.len()));
    let printable = |byte: &&u8| (0x20..0x7f).contains(*byte);
    let before = old[..first].iter().rev().take(AROUND).take_while(printable).count();
    let text = |bytes: &[u8]| {
        let after = bytes[first..].iter().take(AROUND).take_while(printable).count();
        String::from_utf8_lossy(&bytes[first - before..first + after]).into_owned()
    };
    let (old, new) = (text(old), text(new));
    (!(old.is_empty() && new.is_empty())).then_some((old, new))
}

/// Returns whether a text contains a time: `12:34`, `2026-11-21`, `Nov 21`, or seconds since 1970.
fn shows_time(text: &str) -> bool {
    const MONTHS: &[&str] = &[
        "Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ", "Jul ", "Aug ", "Sep ", "Oct ", "Nov ",
        "Dec ",
    ];
    let masked: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let epoch = text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        word.len() == 10
            && word
                .parse::<u64>()
                .is_ok_and(|seconds| (1_000_000_000..4_000_000_000).contains(&seconds))
    });
    let month = MONTHS.iter().any(|month| text.contains(month)) && masked.contains('0');
    epoch
        || month
        || masked.contains("00:00")
        || masked.contains("0000-00-00")
        || masked.contains("00000000T")
}

/// Returns whether two files have a format that stores a time, and their times differ.
fn archive_times_differ(old: &[u8], new: &[u8]) -> bool {
    let both = |magic: &[u8]| old.starts_with(magic) && new.starts_with(magic);
    let differ = |from: usize, to: usize| old.get(from..to) != new.get(from..to);
    // gzip: RFC 1952, MTIME. Zip: APPNOTE.TXT 4.3.7, time and date of the first member. Python
    // bytecode: PEP 552, the source's time if the flags are 0.
    let bytecode = |file: &[u8]| file.get(2..8) == Some(b"\r\n\0\0\0\0");
    both(b"\x1f\x8b") && differ(4, 8)
        || both(b"PK\x03\x04") && differ(10, 14)
        || bytecode(old) && bytecode(new) && differ(8, 12)
}

fn same_bytes_in_another_order(old: &[u8], new: &[u8]) -> bool {
    let histogram = |bytes: &[u8]| {
        let mut counts = [0u64; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        counts
    };
    old.len() == new.len() && old.len() > 8 && histogram(old) == histogram(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::testing::HostElf;

    const NONE: BuildFolders<'_> = BuildFolders { old: &[], new: &[] };

    fn causes(old: &str, new: &str) -> Vec<Cause> {
        compare(old.as_bytes(), new.as_bytes(), NONE).causes
    }

    #[test]
    fn recognizes_timestamps() {
        let timestamp = [Cause::Timestamp];
        assert_eq!(causes("built at 12:00:01\n", "built at 12:00:02\n"), timestamp);
        assert_eq!(causes("on 2026-11-21\n", "on 2026-11-22\n"), timestamp);
        assert_eq!(causes("Sat Nov 21 21:02 2026", "Sun Nov 22 21:02 2026"), timestamp);
        assert_eq!(causes("t=1795294800;", "t=1795294801;"), timestamp);
        assert_eq!(causes("version 1.2", "version 1.3"), []);
        let gzip =
            |time: u8| [b"\x1f\x8b\x08\x00".as_slice(), &[time, 0, 0, 0], b"\x00\x03xyz"].concat();
        assert_eq!(compare(&gzip(1), &gzip(2), NONE).causes, timestamp);
        let pyc = |time: u8| [b"\xf3\r\r\n\0\0\0\0".as_slice(), &[time, 0, 0, 0], b"code"].concat();
        assert_eq!(compare(&pyc(1), &pyc(2), NONE).causes, timestamp);
    }

    #[test]
    fn recognizes_build_paths_and_order() {
        let (old, new) = (["/w/old".to_owned()], ["/w/new".to_owned()]);
        let places = BuildFolders { old: &old, new: &new };
        let content = compare(b"dir=/w/old/x", b"dir=/w/new/x", places);
        assert_eq!(content.causes, [Cause::BuildPath]);
        assert_eq!(content.example, Some(("dir=/w/old/x".into(), "dir=/w/new/x".into())));
        assert_eq!(causes("alpha\nbeta\ngamma\n", "beta\nalpha\ngamma\n"), [Cause::Order]);
    }

    #[test]
    fn lists_differing_sections() {
        let one = HostElf::new().needed("libone.so.1").build();
        let two = HostElf::new().needed("libtwo.so.1").build();
        let names = |old: &[u8], new: &[u8]| {
            let sections = compare(old, new, NONE).sections;
            sections.into_iter().map(|section| section.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&one, &two), [".dynstr"]);
        // Other files and damaged ELF files have no sections.
        assert_eq!(names(&one, b"text"), Vec::<String>::new());
        assert_eq!(names(&one[..40], &two[..41]), Vec::<String>::new());
    }
}
