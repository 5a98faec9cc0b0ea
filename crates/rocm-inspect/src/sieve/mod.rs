//! Decides which pages of a large ELF file a quick inspection never reads, while the file is
//! streamed: machine code, and GPU code after the headers that identify it. Keeps everything if
//! anything is unusual. It does not store the pages.

mod check;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::ops::Range;

use goblin::elf::program_header::PT_LOAD;

use super::bundle::{MAX_ENTRIES, MAX_ID};
use super::ccob;
use super::code_object::EM_AMDGPU;
use super::elf_headers::{PROGRAM, SECTION};
use super::entry_id::EntryId;

/// Pages are kept or skipped as a whole.
pub(super) const PAGE: usize = 4096;

/// How many bytes from the start of a page must be available to decide about it.
pub(super) const LOOKAHEAD: usize = 256 << 10;

/// Whether a quick inspection decompresses only the table of entries of a compressed bundle. If
/// false, compressed bundles are kept.
const TABLES_ONLY: bool = true;

const MAX_PROGRAMS: u64 = 64;

/// The state for a file that has been streamed up to some offset.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    /// The declared length of the file in bytes.
    declared: u64,
    /// Whether everything is kept.
    off: bool,
    /// The skipped parts of executable segments.
    pub(super) code: Vec<Range<u64>>,
    /// The bundles that are partly skipped, in the file's order.
    pub(super) bundles: Vec<Range<u64>>,
    /// The skippable ranges of the current bundle, if any.
    inside: Option<Inside>,
}

#[derive(Debug)]
struct Inside {
    bundle: Range<u64>,
    /// Entries that are skipped if their first page shows a code object.
    entries: std::vec::IntoIter<Range<u64>>,
    hole: Range<u64>,
}

impl Sieve {
    /// Starts with a file of `declared` bytes. `head` has the first [`LOOKAHEAD`] bytes.
    pub(super) fn new(head: &[u8], declared: u64) -> Self {
        match code(head, declared) {
            Some(code) => Self { declared, code, ..Self::default() },
            None => Self { declared, off: true, ..Self::default() },
        }
    }

    /// Returns a sieve that keeps everything.
    pub(super) fn open(declared: u64) -> Self {
        Self { declared, off: true, ..Self::default() }
    }

    /// Returns whether a decision about the page that starts with `page` needs the bytes after it.
    pub(super) fn looks_ahead(&self, page: &[u8]) -> bool {
        !self.off && self.inside.is_none() && begins_bundle(page)
    }

    /// Returns whether to keep the page at `at`. `window` starts with the page, and has
    /// [`LOOKAHEAD`] bytes if [`Sieve::looks_ahead`] returns true for it.
    pub(super) fn keeps(&mut self, at: u64, window: &[u8]) -> bool {
        if self.off {
            return true;
        }
        let page = at..at + PAGE.min(window.len()) as u64;
        let holds = |hole: &Range<u64>| hole.start <= page.start && page.end <= hole.end;
        if self.code.iter().any(holds) {
            return false;
        }
        if self.inside.as_ref().is_some_and(|inside| inside.bundle.end <= page.start) {
            self.inside = None;
        }
        let Some(inside) = &mut self.inside else {
            if begins_bundle(window) {
                self.inside = bundle(at, window, self.declared);
                self.bundles.extend(self.inside.iter().map(|inside| inside.bundle.clone()));
            }
            return true;
        };
        if holds(&inside.hole) {
            return false;
        }
        while let Some(entry) = inside.entries.as_slice().first() {
            if entry.start > page.start {
                break;
            }
            if entry.start == page.start && is_code_object(window) {
                inside.hole = page.end..entry.end;
            }
            inside.entries.next();
        }
        true
    }

    /// Returns whether anything was skipped.
    pub(super) fn left_out(&self) -> bool {
        !self.code.is_empty() || !self.bundles.is_empty()
    }

    /// Returns whether the assumptions about the skipped parts hold for the complete file.
    pub(super) fn was_right(&self, file: &[u8]) -> bool {
        !self.left_out() || check::was_right(self, file).unwrap_or(false)
    }
}

fn begins_bundle(page: &[u8]) -> bool {
    page.starts_with(super::bundle::MAGIC) || page.starts_with(ccob::MAGIC)
}

/// Returns whether the bytes start with an ELF64 header of a code object for AMD GPUs.
fn is_code_object(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01") && bytes.get(18..20) == Some(&EM_AMDGPU.to_le_bytes())
}

/// Returns the skippable parts of executable segments; `None` if nothing of this file may be
/// skipped.
fn code(head: &[u8], declared: u64) -> Option<Vec<Range<u64>>> {
    let header = Header::read(head).filter(|header| header.machine != EM_AMDGPU)?;
    let sections = header.sections.1.checked_mul(SECTION)?.checked_add(header.sections.0)?;
    if header.sections.0 == 0 || header.sections.1 == 0 || sections > declared {
        // Without section headers, segments are searched completely.
        return None;
    }
    let programs = header.programs(head)?;
    let mut loads: Vec<&Program> = programs.iter().filter(|p| p.kind == PT_LOAD).collect();
    loads.sort_by_key(|load| load.file.start);
    let disorder = loads.windows(2).any(|pair| pair[0].file.end > pair[1].file.start);
    // A linker that separates code from data puts data in a separate segment.
    let separate = loads.iter().any(|load| load.flags & 7 == 4);
    if disorder || loads.iter().any(|load| load.file.end > declared) {
        return None;
    }
    let mut code = Vec::new();
    for load in loads.iter().filter(|load| separate && load.flags & 3 == 1 && load.file.start > 0) {
        let others =
            programs.iter().filter(|other| other.kind != PT_LOAD && !other.file.is_empty());
        let start = (load.file.start + PAGE as u64).next_multiple_of(PAGE as u64);
        if start < load.file.end
            && others.into_iter().all(|other| !overlap(&other.file, &load.file))
        {
            code.push(start..load.file.end);
        }
    }
    Some(code)
}

pub(super) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The offsets and counts of tables in an ELF64 little-endian header.
pub(super) struct Header {
    machine: u16,
    program: (u64, u64),
    pub(super) sections: (u64, u64),
}

pub(super) struct Program {
    pub(super) kind: u32,
    flags: u32,
    pub(super) file: Range<u64>,
    pub(super) address: u64,
}

impl Header {
    pub(super) fn read(file: &[u8]) -> Option<Self> {
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let [program, section] = [u16_at(file, 54)?, u16_at(file, 58)?].map(u64::from);
        let header = Self {
            machine: u16_at(file, 18)?,
            program: (u64_at(file, 32)?, u16_at(file, 56)?.into()),
            sections: (u64_at(file, 40)?, u16_at(file, 60)?.into()),
        };
        (program == PROGRAM && section == SECTION && header.program.1 <= MAX_PROGRAMS)
            .then_some(header)
    }

    pub(super) fn programs(&self, file: &[u8]) -> Option<Vec<Program>> {
        let (start, count) = self.program;
        let read = |index: u64| {
            let at = usize::try_from(start.checked_add(index * PROGRAM)?).ok()?;
            let (offset, size) =
                (u64_at(file, at.checked_add(8)?)?, u64_at(file, at.checked_add(32)?)?);
            Some(Program {
                kind: u32_at(file, at)?,
                flags: u32_at(file, at + 4)?,
                file: offset..offset.checked_add(size)?,
                address: u64_at(file, at + 16)?,
            })
        };
        (0..count).map(read).collect()
    }
}

/// Returns the bundle at `at` if its entries may be skipped.
fn bundle(at: u64, window: &[u8], declared: u64) -> Option<Inside> {
    let (length, entries) = match window.starts_with(ccob::MAGIC) {
        true => (compressed(window)?, Vec::new()),
        false => table(&mut &*window)?,
    };
    let bundle = at..at.checked_add(length).filter(|end| *end <= declared)?;
    let hole = match entries.is_empty() {
        true => at + LOOKAHEAD as u64..bundle.end,
        false => at..at,
    };
    let entries = entries.into_iter().map(|entry| at + entry.start..at + entry.end);
    Some(Inside { bundle, entries: entries.collect::<Vec<_>>().into_iter(), hole })
}

/// Returns the length of a compressed bundle if its first [`LOOKAHEAD`] bytes contain the table of
/// entries.
fn compressed(window: &[u8]) -> Option<u64> {
    let (version, method) = (u16_at(window, 4)?, u16_at(window, 6)?);
    let (total, header) = match version {
        2 => (u32_at(window, 8)?.into(), 24),
        3 => (u64_at(window, 8)?, 32),
        _ => return None,
    };
    if !TABLES_ONLY || total <= LOOKAHEAD as u64 || window.len() < LOOKAHEAD {
        return None;
    }
    let payload = &window[header..LOOKAHEAD];
    match method {
        0 => table(&mut flate2::bufread::ZlibDecoder::new(payload)),
        1 => table(&mut zstd::stream::read::Decoder::with_buffer(payload).ok()?),
        _ => None,
    }?;
    Some(total)
}

/// Reads a bundle's table: the end of the bundle, and its entries of GPU code, sorted and without
/// overlaps. `None` if anything is unusual.
fn table(input: &mut impl Read) -> Option<(u64, Vec<Range<u64>>)> {
    let mut magic = [0; 24];
    input.read_exact(&mut magic).ok().filter(|()| &magic == super::bundle::MAGIC)?;
    let number = |input: &mut dyn Read| {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let count = number(input).filter(|count| (1..=MAX_ENTRIES).contains(count))?;
    let mut end = 32;
    let mut entries = Vec::new();
    for _ in 0..count {
        let (offset, size) = (number(input)?, number(input)?);
        let length = number(input).filter(|length| *length <= MAX_ID)?;
        let mut id = vec![0; length as usize];
        input.read_exact(&mut id).ok()?;
        let id = String::from_utf8(id)
            .ok()
            .filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic()))?;
        end += 24 + length;
        if size > 0 {
            entries.push((
                offset..offset.checked_add(size)?,
                matches!(EntryId::parse(&id), EntryId::Amd { .. }),
            ));
        }
    }
    entries.sort_by_key(|(range, _)| range.start);
    for (range, _) in &entries {
        if range.start < end {
            return None;
        }
        end = range.end;
    }
    let ours =
        entries.into_iter().filter(|(_, ours)| *ours).map(|(range, _)| range).collect::<Vec<_>>();
    (!ours.is_empty()).then_some((end, ours))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
