//! Reads the header and the table of contents of a kpack archive. `archive` checks whether they
//! match the file.

use super::msgpack::Reader;
use crate::bundle::Broken;
use crate::entry_id::known_target;
use crate::facts::{KpackArchive, Target};
use rocmrpm_base::text::visible;

/// `KPAK`, `u32` version, `u64` offset of the table.
pub(super) const HEADER: usize = 16;

const VERSION: u32 = 1;

// Limits far beyond real archives, so that malicious ones cannot exhaust memory: rocBLAS, hipBLASLt
// or torch have some thousand pieces of code per target.
const MAX_ENTRIES: usize = 1 << 17;
const MAX_ARCH: usize = 256;

/// One piece of code for one target, as the table states it.
pub(super) struct KpackEntry {
    /// The offset of its entry in the file.
    pub(super) at: u64,
    pub(super) arch: String,
    pub(super) ordinal: u64,
    /// Its decompressed size in bytes; `None` if the table does not state it.
    pub(super) size: Option<u64>,
    /// Whether it is a code object.
    pub(super) hsaco: bool,
}

#[derive(Default)]
pub(super) struct Contents {
    pub(super) archive: KpackArchive,
    pub(super) entries: Vec<KpackEntry>,
    /// The offset and size of each piece of code, by ordinal, for the scheme `none`.
    pub(super) blobs: Vec<(u64, u64)>,
    pub(super) zstd_offset: u64,
    pub(super) zstd_size: u64,
}

/// Reads the header and the table, and returns the table's offset with the contents.
pub(super) fn open(bytes: &[u8]) -> Result<(usize, Contents), Broken> {
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Err(Broken::new(
            0,
            format!("is a kpack archive cut short after {} bytes", bytes.len()),
        ));
    };
    let version = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    if version != VERSION {
        return Err(Broken::new(
            4,
            format!("is a kpack archive of unsupported version {version}; supported: {VERSION}"),
        ));
    }
    let stated = u64::from_le_bytes(std::array::from_fn(|index| header[8 + index]));
    let start = usize::try_from(stated).ok().filter(|start| (HEADER..bytes.len()).contains(start));
    let Some(start) = start else {
        let what = format!("states a table of contents at byte {stated} of {}", bytes.len());
        return Err(Broken::new(8, what));
    };
    let mut reader = Table { reader: Reader::new(&bytes[start..]), start: start as u64 };
    let contents = reader.contents();
    contents.map(|contents| (start, contents)).map_err(|Broken { at, what, .. }| {
        Broken::new(start as u64 + at, format!("{what}, in the kpack archive's table of contents"))
    })
}

struct Table<'a> {
    reader: Reader<'a>,
    start: u64,
}

impl Table<'_> {
    fn contents(&mut self) -> Result<Contents, Broken> {
        let mut contents = Contents::default();
        let mut table = false;
        // As in the loader, the default is no compression.
        contents.archive.compression = "none".to_owned();
        for _ in 0..self.reader.map("the table")? {
            match self.reader.text("a key")? {
                "group_name" => contents.archive.group = visible(self.reader.text("`group_name`")?),
                "gfx_arches" => {
                    for index in 0..self.reader.array("`gfx_arches`")? {
                        self.limit(index as usize)?;
                        let arch = self.arch()?;
                        contents.archive.targets.push(target(&arch));
                    }
                }
                "compression_scheme" => {
                    contents.archive.compression =
                        self.reader.text("`compression_scheme`")?.to_owned();
                }
                "blobs" => self.blobs(&mut contents)?,
                "zstd_offset" => contents.zstd_offset = self.reader.number("`zstd_offset`")?,
                "zstd_size" => contents.zstd_size = self.reader.number("`zstd_size`")?,
                "toc" => {
                    table = true;
                    self.pieces(&mut contents)?;
                }
                _ => self.reader.skip()?,
            }
        }
        if !table {
            return Err(Broken::new(0, "has no `toc`"));
        }
        if self.reader.left() > 0 {
            let what = format!("has {} bytes after its end", self.reader.left());
            return Err(Broken::new(self.reader.at(), what));
        }
        contents.archive.targets.sort();
        contents.archive.targets.dedup();
        contents.archive.entries = contents.entries.len() as u64;
        Ok(contents)
    }

    fn limit(&self, count: usize) -> Result<(), Broken> {
        match count < MAX_ENTRIES {
            true => Ok(()),
            false => {
                Err(Broken::new(self.reader.at(), format!("has more than {MAX_ENTRIES} entries")))
            }
        }
    }

    fn arch(&mut self) -> Result<String, Broken> {
        let at = self.reader.at();
        let arch = self.reader.text("a target")?;
        match arch.len() <= MAX_ARCH
            && !arch.is_empty()
            && arch.bytes().all(|b| b.is_ascii_graphic())
        {
            true => Ok(arch.to_owned()),
            false => Err(Broken::new(at, "has a target with unprintable characters")),
        }
    }

    fn blobs(&mut self, contents: &mut Contents) -> Result<(), Broken> {
        for index in 0..self.reader.array("`blobs`")? {
            self.limit(index as usize)?;
            let mut blob = (0, 0);
            for _ in 0..self.reader.map("a blob")? {
                match self.reader.text("a key")? {
                    "offset" => blob.0 = self.reader.number("`offset`")?,
                    "size" => blob.1 = self.reader.number("`size`")?,
                    _ => self.reader.skip()?,
                }
            }
            contents.blobs.push(blob);
        }
        Ok(())
    }

    fn pieces(&mut self, contents: &mut Contents) -> Result<(), Broken> {
        for index in 0..self.reader.map("`toc`")? {
            self.limit(index as usize)?;
            let name = self.reader.text("a kernel's name")?.to_owned();
            let targets = contents.archive.table.entry(name).or_default();
            for _ in 0..self.reader.map("a kernel's targets")? {
                self.limit(contents.entries.len())?;
                let at = self.start + self.reader.at();
                let arch = self.arch()?;
                targets.insert(target(&arch));
                let (mut ordinal, mut size, mut hsaco) = (None, None, true);
                for _ in 0..self.reader.map("a kernel's entry")? {
                    match self.reader.text("a key")? {
                        "ordinal" => ordinal = Some(self.reader.number("`ordinal`")?),
                        "original_size" => size = Some(self.reader.number("`original_size`")?),
                        "type" => hsaco = self.reader.text("`type`")? == "hsaco",
                        _ => self.reader.skip()?,
                    }
                }
                let Some(ordinal) = ordinal else {
                    return Err(Broken::new(self.reader.at(), "has an entry without `ordinal`"));
                };
                contents.entries.push(KpackEntry { at, arch, ordinal, size, hsaco });
            }
        }
        Ok(())
    }
}

pub(super) fn target(arch: &str) -> Target {
    match known_target(arch) {
        Some(target) => Target::Gpu(target),
        None if arch == "amdgcnspirv" => Target::Spirv,
        None => Target::Unknown(arch.to_owned()),
    }
}
