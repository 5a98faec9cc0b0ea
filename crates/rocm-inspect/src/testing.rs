//! Facts and files for tests. Builds files byte by byte: code objects, bundles of every format,
//! host ELF files. Compiled only with the feature `testing`, which the unit tests of other crates
//! enable.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test may panic, and names its fixtures")]

use std::io::Write as _;

pub use rocmrpm_base::testing::{flip_bytes, xorshift};

use super::facts::{Contents, DeviceCode, FileFacts, Storage, Subject, SubjectKind, Target};
use rocmrpm_base::gpu::GpuTarget;

/// Returns a subject with these files: a wheel or an RPM according to the file extension, otherwise
/// a folder.
pub fn subject(path: &str, files: Vec<FileFacts>) -> Subject {
    let kind = match path.rsplit('.').next() {
        Some("rpm") => SubjectKind::Rpm,
        Some("whl") => SubjectKind::Wheel,
        _ => SubjectKind::Folder,
    };
    let paths = files.iter().map(|file| file.path.clone()).collect();
    Subject {
        path: path.to_owned(),
        kind,
        name: path.to_owned(),
        package: path.split('-').next().map(str::to_owned),
        debug: path.contains("debuginfo"),
        sha256: None,
        size: None,
        device: files.iter().flat_map(|file| file.device.clone()).collect(),
        files,
        unread: Vec::new(),
        contents: Contents { paths, ..Contents::default() },
    }
}

/// Returns the GPU target with this name.
pub fn gpu(name: &str) -> Target {
    Target::Gpu(GpuTarget::parse(name).unwrap())
}

/// Returns one code object of 100 bytes for a target, from `.hip_fatbin`, without further details.
pub fn device_code(target: Target) -> DeviceCode {
    DeviceCode {
        target,
        storage: Storage::HipFatbin,
        compression: None,
        version: None,
        count: 1,
        bytes: 100,
        kernels: None,
        kernel_code: None,
    }
}

/// Returns a code object of `size` bytes that only has a header.
pub fn code_object(target: &str, size: usize) -> Vec<u8> {
    let target = GpuTarget::parse(target).unwrap();
    let mut bytes = vec![0; size.max(64)];
    bytes[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x04");
    bytes[16..18].copy_from_slice(&3u16.to_le_bytes());
    bytes[18..20].copy_from_slice(&224u16.to_le_bytes());
    let generic = if target.as_str().ends_with("generic") { 1 << 24 } else { 0 };
    bytes[48..52].copy_from_slice(&(u32::from(target.mach()) | generic).to_le_bytes());
    // A section header table with one entry at the end, so that the end is known.
    if size >= 128 {
        bytes[40..48].copy_from_slice(&(size as u64 - 64).to_le_bytes());
        bytes[58..62].copy_from_slice(&[64, 0, 1, 0]);
    }
    // Content that does not compress well.
    let mut random = 0x9e37_79b9_7f4a_7c15;
    bytes[64..].iter_mut().for_each(|byte| *byte = xorshift(&mut random) as u8);
    bytes
}

/// Returns an uncompressed bundle with its entries aligned to 4096 bytes.
pub fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let table: usize = 32 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    bytes.extend((entries.len() as u64).to_le_bytes());
    let mut offset = table.next_multiple_of(4096);
    let mut content = Vec::new();
    for (id, code) in entries {
        for number in [offset, code.len(), id.len()] {
            bytes.extend((number as u64).to_le_bytes());
        }
        bytes.extend(id.as_bytes());
        content.push((offset, code));
        offset = (offset + code.len()).next_multiple_of(4096);
    }
    for (offset, code) in content.into_iter().filter(|(_, code)| !code.is_empty()) {
        bytes.resize(offset, 0);
        bytes.extend(*code);
    }
    bytes
}

#[derive(Debug, Clone, Copy)]
pub enum Method {
    Zlib,
    Zstd,
}

/// Returns a compressed bundle of the given version.
pub fn ccob(plain: &[u8], version: u16, method: Method) -> Vec<u8> {
    let content = plain;
    let payload = match method {
        Method::Zlib => {
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Method::Zstd => zstd::stream::encode_all(plain, 3).unwrap(),
    };
    let header = [20, 24, 32][usize::from(version) - 1];
    let (total, plain) = ((header + payload.len()) as u64, plain.len() as u64);
    let mut bytes = b"CCOB".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((method as u16).to_le_bytes());
    match version {
        1 => bytes.extend((plain as u32).to_le_bytes()),
        2 => bytes.extend([(total as u32).to_le_bytes(), (plain as u32).to_le_bytes()].concat()),
        _ => bytes.extend([total.to_le_bytes(), plain.to_le_bytes()].concat()),
    }
    bytes.extend(&md5_lanes::all(&[content])[0][..8]);
    bytes.extend(payload);
    bytes
}

/// Returns a code object with a metadata note that lists `count` kernels.
pub fn kernels_object(target: &str, count: u32) -> Vec<u8> {
    let mut metadata = b"\x82\xaeamdhsa.kernels\xdd".to_vec();
    metadata.extend(count.to_be_bytes());
    metadata.resize(metadata.len() + count as usize, 0x80);
    metadata.extend(b"\xaeamdhsa.version\x92\x01\x02");
    let mut note = [7, metadata.len() as u32, 32].map(u32::to_le_bytes).concat();
    note.extend(b"AMDGPU\0\0");
    note.extend(metadata);
    let mut bytes = code_object(target, 64);
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[54..58].copy_from_slice(&[56, 0, 1, 0]);
    bytes.extend([4u32, 4].map(u32::to_le_bytes).concat());
    let size = note.len() as u64;
    bytes.extend([120, 120, 120, size, size, 4].map(u64::to_le_bytes).concat());
    bytes.extend(note);
    bytes
}

/// Returns a static archive of these members, with names as written in the headers.
pub fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        bytes.extend(
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, content.len())
                .bytes(),
        );
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

/// Returns an offload binary with these images: processor, `ImageKind`, content.
pub fn offload_binary(images: &[(&str, u16, &[u8])], version: u32) -> Vec<u8> {
    let width = if version == 1 { 16 } else { 24 };
    let table = 32 + images.len() * (40 + 2 * width);
    let mut strings = b"triple\0amdgcn-amd-amdhsa\0arch\0".to_vec();
    let (mut entries, mut places, mut content) = (Vec::new(), Vec::new(), Vec::<u8>::new());
    let names: usize = images.iter().map(|(arch, ..)| arch.len() + 1).sum();
    let start = (table + strings.len() + names).next_multiple_of(8);
    for (index, (arch, kind, image)) in images.iter().enumerate() {
        entries.extend([kind.to_le_bytes(), 4u16.to_le_bytes()].concat());
        entries.extend([0; 4]);
        let own = 32 + images.len() * 40 + index * 2 * width;
        for number in [own, 2, start + content.len(), image.len()] {
            entries.extend((number as u64).to_le_bytes());
        }
        for (key, value, size) in [(0, 7, 17), (25, strings.len(), arch.len())] {
            let numbers = [table + key, table + value, size];
            numbers[..width / 8].iter().for_each(|n| places.extend((*n as u64).to_le_bytes()));
        }
        strings.extend(arch.bytes());
        strings.push(0);
        content.extend(*image);
    }
    let end = (start + content.len()).next_multiple_of(8);
    let mut bytes = b"\x10\xff\x10\xad".to_vec();
    bytes.extend(version.to_le_bytes());
    let count = if version == 1 { 40 } else { images.len() };
    [end, 32, count].iter().for_each(|n| bytes.extend((*n as u64).to_le_bytes()));
    bytes.extend([entries, places, strings].concat());
    bytes.resize(start, 0);
    bytes.extend(content);
    bytes.resize(end, 0);
    bytes
}

/// Concatenates the pieces, each aligned to 4096 bytes.
pub fn aligned(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes.extend(piece);
    }
    bytes
}

/// A shared library for x86_64 with a dynamic section and `.hip_fatbin`.
#[derive(Default)]
pub struct HostElf {
    dynamic: Vec<(u64, String)>,
    fatbin: Vec<u8>,
    fatbin_size: Option<u64>,
    empty: Vec<String>,
    tables: bool,
    kpack: Option<(Vec<u8>, u32)>,
}

impl HostElf {
    pub fn new() -> Self {
        Self::default()
    }

    fn entry(mut self, tag: u64, text: &str) -> Self {
        self.dynamic.push((tag, text.to_owned()));
        self
    }

    pub fn needed(self, text: &str) -> Self {
        self.entry(1, text)
    }

    pub fn soname(self, text: &str) -> Self {
        self.entry(14, text)
    }

    pub fn rpath(self, text: &str) -> Self {
        self.entry(15, text)
    }

    pub fn runpath(self, text: &str) -> Self {
        self.entry(29, text)
    }

    pub fn fatbin(mut self, bytes: &[u8]) -> Self {
        self.fatbin = bytes.to_vec();
        self
    }

    /// States a size of `.hip_fatbin` that differs from its actual size.
    pub fn fatbin_size(mut self, size: u64) -> Self {
        self.fatbin_size = Some(size);
        self
    }

    /// Changes the type of a section to NOBITS.
    pub fn empty(mut self, section: &str) -> Self {
        self.empty.push(section.to_owned());
        self
    }

    /// Adds a reference to one archive per target next to the library, with one wrapper.
    pub fn kpack(self) -> Self {
        self.kpack_of("lib/libk.so", &[".kpack/k_lib_@GFXARCH@.kpack"], 1)
    }

    /// Adds a reference to kpack archives, with this many wrappers.
    pub fn kpack_of(mut self, kernel_name: &str, search_paths: &[&str], wrappers: u32) -> Self {
        self.kpack = Some((kpack_reference(kernel_name, search_paths), wrappers));
        self
    }

    /// Adds dynamic symbols (`leaves` undefined, `maybe` weak and undefined, `gives` defined) with
    /// a hash table, needed versions (`libc.so.6`, `GLIBC_2.4`) and provided ones (`V_1`), and
    /// read-only strings.
    pub fn tables(mut self) -> Self {
        self.tables = true;
        self
    }

    /// Returns sections with the tag of the dynamic section that points to each; appends their
    /// names to `strings`.
    fn table_parts(strings: &mut Vec<u8>) -> Vec<(&'static str, u32, Vec<u8>, u64)> {
        let mut name = |text: &str| {
            strings.extend(text.as_bytes());
            strings.push(0);
            (strings.len() - text.len() - 1) as u32
        };
        let words = |words: &[u32]| words.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let symbol =
            |name: u32, bind: u32, index: u32| words(&[name, bind << 4 | index << 16, 0, 0, 0, 0]);
        let symbols =
            [(0, 0, 0), (name("leaves"), 1, 0), (name("maybe"), 2, 0), (name("gives"), 1, 1)];
        let symbols = symbols.into_iter().flat_map(|(name, bind, index)| symbol(name, bind, index));
        let needed = [1 | 1 << 16, name("libc.so.6"), 16, 0, 0, 2 << 16, name("GLIBC_2.4"), 0];
        let (base, version) = (name("libk.so"), name("V_1"));
        let provided =
            [1 | 1 << 16, 1 | 1 << 16, 0, 20, 28, base, 0, 1, 2 | 1 << 16, 0, 20, 0, version, 0];
        vec![
            (".dynsym", 11, symbols.collect(), 6),
            (".hash", 5, words(&[1, 4, 3, 0, 0, 0, 0]), 4),
            (".gnu.version_r", 0x6fff_fffe, words(&needed), 0x6fff_fffe),
            (".gnu.version_d", 0x6fff_fffd, words(&provided), 0x6fff_fffc),
            (".rodata", 1, b"libopened.so.3\0/opt/rocm/lib\0".to_vec(), 0),
        ]
    }

    pub fn build(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let mut dynamic = Vec::new();
        for (tag, text) in &self.dynamic {
            dynamic.extend([*tag, strings.len() as u64]);
            strings.extend(text.as_bytes());
            strings.push(0);
        }
        let start = 64 + 2 * 56;
        let tables = if self.tables { Self::table_parts(&mut strings) } else { Vec::new() };
        dynamic.extend([5, start, 10, strings.len() as u64]);
        let mut at = start + strings.len().next_multiple_of(8) as u64;
        for (_, _, content, tag) in tables.iter().filter(|table| table.3 > 0) {
            dynamic.extend([*tag, at]);
            at += content.len().next_multiple_of(8) as u64;
        }
        if self.tables {
            dynamic.extend([0x6fff_ffff, 1, 0x6fff_fffd, 2]);
        }
        dynamic.extend([0, 0]);
        let dynamic: Vec<u8> = dynamic.iter().flat_map(|n: &u64| n.to_le_bytes()).collect();
        let mut parts = vec![(".dynstr", 3u32, strings)];
        parts.extend(tables.into_iter().map(|(name, kind, content, _)| (name, kind, content)));
        let dynamic_at = parts.len();
        parts.extend([(".dynamic", 6, dynamic), (".hip_fatbin", 1, self.fatbin.clone())]);
        if let Some((reference, wrappers)) = &self.kpack {
            let wrapper =
                |index: u32| [*b"HIPK", [1, 0, 0, 0], [0; 4], [0; 4], index.to_le_bytes(), [0; 4]];
            parts.push((
                ".hipFatBinSegment",
                1,
                (0..*wrappers).flat_map(wrapper).flatten().collect(),
            ));
            parts.push((".rocm_kpack_ref", 1, reference.clone()));
        }
        let names: String = parts.iter().map(|(name, ..)| format!("\0{name}")).collect();
        parts.push((".shstrtab", 3, format!("{names}\0.shstrtab\0").into_bytes()));

        let mut body = Vec::new();
        let mut headers = vec![0; 64];
        let mut name = 1u32;
        let mut places = Vec::new();
        for (section, kind, content) in &parts {
            let offset = start + body.len() as u64;
            let size = self
                .fatbin_size
                .filter(|_| *section == ".hip_fatbin")
                .unwrap_or(content.len() as u64);
            let kind = if self.empty.iter().any(|empty| empty == section) { 8 } else { *kind };
            headers.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
            headers.extend(
                [2, offset, offset, size, 0, 1, 0].iter().flat_map(|n: &u64| n.to_le_bytes()),
            );
            body.extend(content);
            body.resize(body.len().next_multiple_of(8), 0);
            name += section.len() as u32 + 1;
            places.push((offset, content.len() as u64));
        }
        let shoff = start + body.len() as u64;
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
        bytes.extend([0, 64, shoff].iter().flat_map(|n: &u64| n.to_le_bytes()));
        bytes.extend([0; 4]);
        let count = parts.len() as u16;
        bytes.extend([64, 56, 2, 64, count + 1, count].iter().flat_map(|n: &u16| n.to_le_bytes()));
        let (at, size) = places[dynamic_at];
        for (kind, offset, size, align) in [(1u32, 0, shoff, 4096), (2, at, size, 8)] {
            bytes.extend([kind.to_le_bytes(), 4u32.to_le_bytes()].concat());
            bytes.extend(
                [offset, offset, offset, size, size, align]
                    .iter()
                    .flat_map(|n: &u64| n.to_le_bytes()),
            );
        }
        bytes.extend(body);
        bytes.extend(headers);
        bytes
    }
}

/// Returns the content of `.rocm_kpack_ref`.
pub fn kpack_reference(kernel_name: &str, search_paths: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmp::encode::write_map_len(&mut bytes, 2).unwrap();
    text(&mut bytes, "kpack_search_paths");
    rmp::encode::write_array_len(&mut bytes, search_paths.len() as u32).unwrap();
    search_paths.iter().for_each(|path| text(&mut bytes, path));
    text(&mut bytes, "kernel_name");
    text(&mut bytes, kernel_name);
    bytes
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    rmp::encode::write_str(bytes, text).unwrap();
}

/// Builds a kpack archive.
#[derive(Debug, Clone, Default)]
pub struct Kpack {
    group: String,
    arches: Vec<String>,
    kernels: Vec<(String, String, Vec<u8>)>,
    compressed: bool,
    ordinal: Option<u64>,
    place: Option<u64>,
    stated: Option<u64>,
}

impl Kpack {
    pub fn new(group: &str, arches: &[&str]) -> Self {
        let arches = arches.iter().map(ToString::to_string).collect();
        Self { group: group.to_owned(), arches, ..Self::default() }
    }

    pub fn compressed(mut self) -> Self {
        self.compressed = true;
        self
    }

    pub fn kernel(mut self, name: &str, arch: &str, code: &[u8]) -> Self {
        self.kernels.push((name.to_owned(), arch.to_owned(), code.to_owned()));
        self
    }

    /// States a wrong ordinal for every kernel.
    pub fn ordinal(mut self, ordinal: u64) -> Self {
        self.ordinal = Some(ordinal);
        self
    }

    /// States a wrong offset of the code.
    pub fn place(mut self, place: u64) -> Self {
        self.place = Some(place);
        self
    }

    /// States a wrong size of every kernel.
    pub fn stated(mut self, size: u64) -> Self {
        self.stated = Some(size);
        self
    }

    /// Returns the archive as `shared/kpack` of ROCm/rocm-systems writes it.
    pub fn build(&self) -> Vec<u8> {
        self.write(64, 64)
    }

    /// Returns the archive as the packing scripts of composable_kernel's examples write it.
    pub fn plain(&self) -> Vec<u8> {
        self.write(16, 1)
    }

    fn write(&self, start: usize, alignment: usize) -> Vec<u8> {
        use rmp::encode::{write_array_len, write_map_len, write_uint};

        let mut code = vec![0; start];
        let mut blobs = Vec::new();
        if self.compressed {
            code.extend((self.kernels.len() as u32).to_le_bytes());
        }
        for (.., kernel) in &self.kernels {
            if self.compressed {
                let frame = zstd::stream::encode_all(&kernel[..], 3).unwrap();
                code.extend((frame.len() as u32).to_le_bytes());
                code.extend(frame);
            } else {
                code.resize(code.len().next_multiple_of(alignment), 0);
                blobs.push((code.len() as u64, kernel.len() as u64));
                code.extend(kernel);
            }
        }
        let mut toc = Vec::new();
        let number = |toc: &mut Vec<u8>, key: &str, value: u64| {
            text(toc, key);
            write_uint(toc, value).unwrap();
        };
        write_map_len(&mut toc, if self.compressed { 7 } else { 6 }).unwrap();
        number(&mut toc, "format_version", 1);
        text(&mut toc, "group_name");
        text(&mut toc, &self.group);
        text(&mut toc, "gfx_arches");
        write_array_len(&mut toc, self.arches.len() as u32).unwrap();
        self.arches.iter().for_each(|arch| text(&mut toc, arch));
        text(&mut toc, "compression_scheme");
        if self.compressed {
            text(&mut toc, "zstd-per-kernel");
            number(&mut toc, "zstd_offset", self.place.unwrap_or(start as u64));
            number(&mut toc, "zstd_size", (code.len() - start) as u64);
        } else {
            text(&mut toc, "none");
            text(&mut toc, "blobs");
            write_array_len(&mut toc, blobs.len() as u32).unwrap();
            for (offset, size) in blobs {
                write_map_len(&mut toc, 2).unwrap();
                number(&mut toc, "offset", self.place.unwrap_or(offset));
                number(&mut toc, "size", size);
            }
        }
        let names: std::collections::BTreeSet<_> =
            self.kernels.iter().map(|(name, ..)| name).collect();
        text(&mut toc, "toc");
        write_map_len(&mut toc, names.len() as u32).unwrap();
        for name in names {
            text(&mut toc, name);
            let kernels = self.kernels.iter().enumerate().filter(|(_, (other, ..))| other == name);
            write_map_len(&mut toc, kernels.clone().count() as u32).unwrap();
            for (index, (_, arch, code)) in kernels {
                text(&mut toc, arch);
                write_map_len(&mut toc, 3).unwrap();
                text(&mut toc, "type");
                text(&mut toc, "hsaco");
                number(&mut toc, "ordinal", self.ordinal.unwrap_or(index as u64));
                number(&mut toc, "original_size", self.stated.unwrap_or(code.len() as u64));
            }
        }
        let header = [&b"KPAK\x01\0\0\0"[..], &(code.len() as u64).to_le_bytes()].concat();
        code[..16].copy_from_slice(&header);
        code.extend(toc);
        code
    }
}
