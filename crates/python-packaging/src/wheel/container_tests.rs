//! Tests that Python and the `zip` crate read the archives.

use std::io::Read as _;
use std::path::Path;

use super::super::deflate::compress;
use super::super::deflate::tests::{compressed, lines};
use super::*;
use rocmrpm_base::process::Command;

const TIME: (u16, u8, u8, u8, u8, u8) = (2023, 11, 14, 22, 13, 20);

/// Writes an archive that starts at this offset of its file.
fn archive(path: &Path, start: u64, members: &[(&str, bool, Vec<u8>)]) {
    let (year, month, day, hour, minute, second) = TIME;
    let time = DateTime::from_date_and_time(year, month, day, hour, minute, second).unwrap();
    let file = File::create(path).unwrap();
    let mut container = Container { at: start, ..Container::new(&file, time) };
    let contents: Vec<Vec<u8>> = members.iter().map(|(.., content)| content.clone()).collect();
    compress(&contents, 2, |at, block| {
        let (name, executable, content) = &members[at];
        Ok(container.block(MemberName { name, executable: *executable }, content, block)?)
    })
    .unwrap();
    container.finish().unwrap();
}

/// Incompressible data longer than a block.
fn noise() -> Vec<u8> {
    (0..40_000u64)
        .flat_map(|at| *rocmrpm_base::digest::Sha256::of_bytes(at.to_le_bytes()).as_bytes())
        .collect()
}

fn python(script: &str, path: &Path) -> String {
    Command::new("/usr/bin/python3").args(["-c", script]).arg(path).text().unwrap()
}

#[test]
fn python_reads_members_of_every_length_and_their_attributes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zip");
    let members = [
        ("empty", false, Vec::new()),
        ("one block", true, lines(BLOCK)),
        ("blocks/äö", false, lines(3 * BLOCK + 5)),
        ("noise", false, noise()),
        ("short", false, b"x".to_vec()),
    ];
    archive(&path, 0, &members);
    let output = python(
        "import sys, zipfile, zlib\n\
         z = zipfile.ZipFile(sys.argv[1])\n\
         assert z.testzip() is None\n\
         for i in z.infolist():\n    print(i.filename, i.file_size, zlib.crc32(z.read(i)), i.compress_type, \
         oct(i.external_attr >> 16), i.flag_bits, i.create_system, i.extract_version, i.extra, i.date_time)",
        &path,
    );
    let expected = members.iter().map(|(name, executable, content)| {
        let mut crc = Crc::new();
        crc.update(content);
        // Data that deflate would not shrink is stored.
        let method = if content.len() > 1 && *name != "noise" { 8 } else { 0 };
        let mode = if *executable { "0o100755" } else { "0o100644" };
        let flags = if name.is_ascii() { 0 } else { 2048 };
        let (length, crc) = (content.len(), crc.sum());
        format!("{name} {length} {crc} {method} {mode} {flags} 3 20 b'' {TIME:?}")
    });
    similar_asserts::assert_eq!(output, expected.collect::<Vec<_>>().join("\n"));
}

#[test]
fn writes_zip64_for_many_members_and_large_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let time = DateTime::default();
    let empty = compressed(b"").remove(0).bytes;
    for count in [65_534, 65_535, 65_536] {
        let path = dir.path().join("many.zip");
        let file = File::create(&path).unwrap();
        let mut container = Container::new(&file, time);
        for number in 0..count {
            let block = Block { bytes: empty.clone(), crc: Crc::new(), last: true };
            let entry = MemberName { name: &format!("m{number}"), executable: false };
            container.block(entry, &Vec::new(), block).unwrap();
        }
        container.finish().unwrap();
        let output = python(
            "import sys, zipfile; print(len(zipfile.ZipFile(sys.argv[1]).namelist()))",
            &path,
        );
        assert_eq!(output, count.to_string());
    }
    // The start of the file is a hole, as in a self-extracting program.
    let path = dir.path().join("far.zip");
    for start in [LIMIT - 100, LIMIT, 5 << 30] {
        archive(&path, start, &[("a", false, lines(100_000)), ("b", true, lines(7))]);
        let output = python(
            "import sys, zipfile\n\
             z = zipfile.ZipFile(sys.argv[1])\n\
             print(z.testzip(), [(i.filename, i.file_size, i.header_offset) for i in z.infolist()][0])",
            &path,
        );
        assert_eq!(output, format!("None ('a', 100000, {start})"));
    }
}

#[test]
fn writes_64_bit_sizes_for_large_members() {
    struct Zeros;
    impl Content for Zeros {
        fn size(&self) -> u64 {
            (4 << 30) + BLOCK
        }
        fn read_exact_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            unreachable!("it gets much smaller")
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.zip");
    let file = File::create(&path).unwrap();
    let mut container = Container::new(&file, DateTime::default());
    let entry = MemberName { name: "large", executable: false };
    // A block without references to earlier data can be repeated.
    let block = |last: bool| {
        let mut blocks = compressed(&vec![0; BLOCK as usize + usize::from(!last)]);
        blocks.remove(0)
    };
    let (usual, count) = (block(false), Zeros.size() / BLOCK);
    for _ in 1..count {
        let mut crc = Crc::new();
        crc.combine(&usual.crc);
        container
            .block(entry, &Zeros, Block { bytes: usual.bytes.clone(), crc, last: false })
            .unwrap();
    }
    container.block(entry, &Zeros, block(true)).unwrap();
    container
        .block(MemberName { name: "b", ..entry }, &b"b".to_vec(), compressed(b"b").remove(0))
        .unwrap();
    container.finish().unwrap();

    let mut archive = zip::ZipArchive::new(File::open(&path).unwrap()).unwrap();
    let mut member = archive.by_index(0).unwrap();
    assert_eq!(member.size(), Zeros.size());
    // Reading to the end compares the checksum.
    let (mut buffer, mut length) = (vec![0; 1 << 20], 0);
    loop {
        match member.read(&mut buffer).unwrap() {
            0 => break,
            read => length += read as u64,
        }
    }
    assert_eq!(length, Zeros.size());
    let output = python(
        "import sys, zipfile\n\
         z = zipfile.ZipFile(sys.argv[1])\n\
         print([(i.filename, i.file_size, i.extract_version) for i in z.infolist()], z.read('b'))\n\
         f = open(sys.argv[1], 'rb'); print(f.read(10)[4:6], f.seek(30 + 5), f.read(4))",
        &path,
    );
    let size = Zeros.size();
    // The local header has version 4.5 as well, and 16 bytes of sizes in the extra field.
    assert_eq!(
        output,
        format!("[('large', {size}, 45), ('b', 1, 20)] b'b'\nb'-\\x00' 35 b'\\x01\\x00\\x10\\x00'")
    );
}

#[test]
fn truncates_after_storing_shorter_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zip");
    let noise = noise();
    let compressed: usize = compressed(&noise).iter().map(|block| block.bytes.len()).sum();
    assert!(compressed > noise.len() + 47 + 22, "the test checks nothing");
    archive(&path, 0, &[("a", false, noise.clone())]);
    // A local header of 31 bytes, a directory entry of 47 and an end record of 22.
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 31 + noise.len() as u64 + 47 + 22);
}

#[test]
fn rejects_overlong_names() {
    let file = tempfile::tempfile().unwrap();
    let mut container = Container::new(&file, DateTime::default());
    let name = "n".repeat(65_536);
    let entry = MemberName { name: &name, executable: false };
    assert!(container.block(entry, &Vec::new(), compressed(b"").remove(0)).is_err());
}
