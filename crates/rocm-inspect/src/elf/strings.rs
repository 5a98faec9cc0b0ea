//! Searches read-only strings for names of libraries that may be opened by name, `/opt/rocm`, and
//! build folders. Makes one pass over constant data, and skips GPU code, tables and executable
//! code.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use goblin::elf::program_header::{PF_W, PF_X};
use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_PROGBITS};
use memchr::memmem::Finder;

use super::Sections;
use super::dynamic::Dynamic;
use super::places::{CodeRanges, apart, is_table, without};
use super::raw::Raw;
use crate::facts::{ElfFacts, Mention};
use crate::finding::Depth;

const MAX_LIBRARIES: usize = 256;
const MAX_MENTIONS: usize = 320;
const MAX_BUILDS: usize = 256;
const MAX_LIBRARY: usize = 128;
const MAX_PATH: usize = 512;

const ROCM: &[u8] = b"/opt/rocm";

/// How many mentions are examined, including repeated ones of the same path.
const MAX_REPEATED: usize = 1 << 20;

/// How many bytes are searched for one thing and then for the other, so that they are in the cache
/// the second time.
const BLOCK: usize = 128 << 10;

/// Searches the constant data.
///
/// A quick inspection does not read executable segments: for a member of an archive, they are not
/// in memory.
pub(super) fn read(
    raw: &Raw<'_>,
    sections: &Sections<'_>,
    places: &CodeRanges,
    dynamic: Option<&Dynamic<'_>>,
    depth: Depth,
    facts: &mut ElfFacts,
) {
    let mut taken = places.named();
    taken.extend(dynamic.and_then(|dynamic| dynamic.strings_at.clone()));
    if depth == Depth::Quick {
        let code = raw.loads().filter(|p| p.p_flags & PF_X != 0);
        taken.extend(code.filter_map(|p| raw.range(p.p_offset, p.p_filesz)));
    }
    let taken = apart(taken);
    let mut search = Search {
        file: raw.file,
        so: Finder::new(".so"),
        libraries: BTreeSet::new(),
        mentions: BTreeMap::new(),
        repeated: 0,
        section: String::new(),
    };
    if sections.all.is_empty() {
        let data = raw.loads().filter(|p| p.p_flags & (PF_W | PF_X) == 0);
        let data = data.filter_map(|p| raw.range(p.p_offset, p.p_filesz));
        search.section = "segment".to_owned();
        without(apart(data.collect()), &taken).into_iter().for_each(|range| search.range(range));
    } else {
        let mut data: Vec<_> = sections
            .all
            .iter()
            .filter(|(name, s)| {
                let flags = u64::from(SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR);
                s.sh_type == SHT_PROGBITS
                    && s.sh_flags & flags == u64::from(SHF_ALLOC)
                    && !is_table(name)
            })
            .filter_map(|(name, s)| Some((raw.range(s.sh_offset, s.sh_size)?, *name)))
            .collect();
        data.sort_by_key(|(range, _)| (range.start, range.end));
        let mut end = 0;
        for (range, name) in data {
            // In malicious files, sections may overlap.
            let rest = range.start.max(end)..range.end;
            if rest.is_empty() {
                continue;
            }
            end = rest.end;
            search.section = String::from_utf8_lossy(name).into_owned();
            let from = taken.partition_point(|cut| cut.end <= rest.start);
            let to = taken.partition_point(|cut| cut.start < rest.end);
            let parts = without(vec![rest], taken.get(from..to).unwrap_or(&[]));
            parts.into_iter().for_each(|range| search.range(range));
        }
    }
    let needed = |name: &String| facts.needed.iter().any(|needed| needed.as_str() == name);
    let own = facts.soname.as_ref().map(|soname| soname.as_str().to_owned());
    let libraries = search.libraries.into_iter();
    facts.mentioned_libraries =
        libraries.filter(|name| !needed(name) && Some(name) != own.as_ref()).collect();
    let mentions = search.mentions.into_iter();
    facts.mentioned_paths =
        mentions.map(|((path, section), offset)| Mention { path, section, offset }).collect();
}

struct Search<'a> {
    file: &'a [u8],
    so: Finder<'static>,
    libraries: BTreeSet<String>,
    /// The first offset for each path and section.
    mentions: BTreeMap<(String, String), u64>,
    repeated: usize,
    section: String,
}

impl Search<'_> {
    fn range(&mut self, range: Range<usize>) {
        let bytes = &self.file[range.clone()];
        // The end of the last path, which may extend into the next block.
        let mut done = 0;
        for start in (0..bytes.len()).step_by(BLOCK) {
            let end = bytes.len().min(start + BLOCK);
            if self.libraries.len() < MAX_LIBRARIES {
                for found in self.so.find_iter(&bytes[start..bytes.len().min(end + 2)]) {
                    if let Some(name) = library(bytes, start + found)
                        && self.libraries.len() < MAX_LIBRARIES
                    {
                        self.libraries.insert(name.to_owned());
                    }
                }
            }
            if self.mentions.len() < MAX_MENTIONS && self.repeated < MAX_REPEATED {
                for slash in memchr::memchr_iter(b'/', &bytes[start..end]) {
                    let slash = start + slash;
                    if slash < done {
                        continue;
                    }
                    if let Some(path) = path(bytes, slash, done) {
                        done = path.end;
                        self.mention(path, bytes, range.start);
                    }
                }
            }
        }
    }

    fn mention(&mut self, path: Range<usize>, bytes: &[u8], base: usize) {
        self.repeated += 1;
        // Hundreds of build files must not hide the paths to ROCm.
        let limit = if bytes[path.clone()].starts_with(ROCM) { MAX_MENTIONS } else { MAX_BUILDS };
        if self.mentions.len() < limit {
            let offset = (base + path.start) as u64;
            let path = String::from_utf8_lossy(&bytes[path]).into_owned();
            self.mentions.entry((path, self.section.clone())).or_insert(offset);
        }
    }
}

/// Returns the whole string around the `.so` at `at` if it is the file name of a library: `lib*.so`
/// or `lib*.so.1.2`, delimited by NULs.
fn library(bytes: &[u8], at: usize) -> Option<&str> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+.-".contains(byte);
    let rest = &bytes[at + 3..bytes.len().min(at + 3 + MAX_LIBRARY)];
    let version = &rest[..memchr::memchr(0, rest)?];
    let parts = version.split(|byte| *byte == b'.').skip(1);
    let numbers = parts.clone().all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    if version.first().is_some_and(|dot| *dot != b'.' || !numbers) {
        return None;
    }
    let from = at.saturating_sub(MAX_LIBRARY);
    let start = bytes[from..at].iter().rposition(|byte| !is_name(byte)).map(|before| from + before);
    let start = match start {
        Some(before) if bytes[before] == 0 => before + 1,
        None if from == 0 => 0,
        _ => return None,
    };
    let name = &bytes[start..at + 3 + version.len()];
    (at - start > 3 && name.starts_with(b"lib")).then(|| str::from_utf8(name).ok()).flatten()
}

/// Returns the path around the slash at `at` if it belongs to a ROCm installation or a build. The
/// path starts at `least` or later.
fn path(bytes: &[u8], at: usize, least: usize) -> Option<Range<usize>> {
    const BUILDS: [&[u8]; 5] = [b"/builddir/", b"/home/", b"/root/", b"/tmp/", b"/project/build"];
    // The next byte is enough to reject most slashes.
    let rest = &bytes[at..];
    let before = &bytes[least.min(at)..at];
    let start = match rest.get(1)? {
        b'o' if rest.starts_with(ROCM) => at,
        b'b' | b'h' | b'r' | b't' | b'p'
            if BUILDS.iter().any(|p| rest.starts_with(p)) && begins(before) =>
        {
            at
        }
        // The build folder of rpmbuild: the path starts somewhere before it.
        _ if before.ends_with(b"/BUILD") => {
            let from = at.saturating_sub(MAX_PATH).max(least);
            bytes[from..at]
                .iter()
                .rposition(|byte| !is_path(*byte))
                .map_or(from, |before| from + before + 1)
        }
        _ => return None,
    };
    let limit = bytes.len().min(start + MAX_PATH).max(at + 1);
    let end =
        bytes[at..limit].iter().position(|byte| !is_path(*byte)).map_or(limit, |end| at + end);
    Some(start..end)
}

/// Returns whether a path can start after these bytes, instead of being part of another one.
fn begins(before: &[u8]) -> bool {
    let continues = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-+~}/".contains(byte);
    !before.last().is_some_and(continues) || before.ends_with(b"-I") || before.ends_with(b"-L")
}

fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/_.+-~@%#".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(bytes: &[u8]) -> (Vec<String>, Vec<(String, u64)>) {
        let mut search = Search {
            file: bytes,
            so: Finder::new(".so"),
            libraries: BTreeSet::new(),
            mentions: BTreeMap::new(),
            repeated: 0,
            section: ".rodata".to_owned(),
        };
        search.range(0..bytes.len());
        let mentions = search.mentions.into_iter().map(|((path, _), offset)| (path, offset));
        (search.libraries.into_iter().collect(), mentions.collect())
    }

    #[test]
    fn finds_library_names_only_in_whole_strings() {
        let (libraries, _) = search(
            b"libamdhip64.so\0librocblas.so.5\0x libno.so\0/usr/lib/libno.so\0libno.so.x\0libno.so is\0lib.so\0libno.so.1.\0foo.so\0libstdc++.so.6.0.30\0libends.so",
        );
        assert_eq!(libraries, ["libamdhip64.so", "librocblas.so.5", "libstdc++.so.6.0.30"]);
    }

    #[test]
    fn finds_build_folders_and_rocm_paths() {
        let (_, mentions) = search(
            b"-L/opt/rocm-7.1/lib:/opt/rocm\0/usr/home/x\0 /home/me/a.cc:3\0/builddir/build/BUILD/k-1/k.c\0/x/rpmbuild/BUILD/k.c\0-I/tmp/x y\0/tmpfs/\0${D}/tmp/\0/opt/rock\0/project/build/a",
        );
        let paths: Vec<_> = mentions.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/builddir/build/BUILD/k-1/k.c",
                "/home/me/a.cc",
                "/opt/rocm",
                "/opt/rocm-7.1/lib",
                "/project/build/a",
                "/tmp/x",
                "/x/rpmbuild/BUILD/k.c",
            ]
        );
        assert_eq!(mentions.iter().find(|(path, _)| path == "/opt/rocm-7.1/lib").unwrap().1, 2);
    }

    #[test]
    fn finds_strings_across_blocks_once() {
        for shift in 0..24 {
            let mut bytes = vec![0; BLOCK - shift];
            bytes.extend(b"libedge.so.1\0/opt/rocm/lib/x\0");
            bytes.extend([b'a'; 300]);
            let (libraries, mentions) = search(&bytes);
            assert_eq!((libraries.len(), mentions.len()), (1, 1), "{shift}");
            assert_eq!(mentions[0].0, "/opt/rocm/lib/x");
        }
    }

    #[test]
    fn limits_results_and_lengths() {
        let many: Vec<u8> =
            (0..5000).flat_map(|i| format!("lib{i}.so\0/opt/rocm/{i}\0").into_bytes()).collect();
        let (libraries, mentions) = search(&many);
        assert_eq!((libraries.len(), mentions.len()), (MAX_LIBRARIES, MAX_MENTIONS));
        let builds: Vec<u8> =
            (0..5000).flat_map(|i| format!("/builddir/{i}\0").into_bytes()).collect();
        let (_, mentions) = search(&[&builds, b"/opt/rocm\0".as_slice()].concat());
        assert_eq!(mentions.len(), MAX_BUILDS + 1);
        let long = [b"/opt/rocm".as_slice(), &[b'/'; 100_000]].concat();
        let (_, mentions) = search(&long);
        assert_eq!(mentions.len(), 1);
        assert_eq!(mentions[0].0.len(), MAX_PATH);
        let builds = b"BUILD/".repeat(50_000);
        assert!(search(&builds).1.iter().all(|(path, _)| path.len() <= MAX_PATH));
        for length in 0..many.len().min(300) {
            search(&many[..length]);
        }
    }
}
