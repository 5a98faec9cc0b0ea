//! Lists what a package made from an untrusted wheel depends on: modules, programs, SBOMs, and ELF
//! files with the libraries they link to. It does not decide what to put in the package.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use serde::{Deserialize, Serialize};
use zip::ZipArchive;

use super::linkage::{self, Elf};
use super::{metadata, peek, record};
use rocm_inspect as inspect;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::text::visible;

/// Upper bound on a member that is read as a whole, in bytes. The largest library in a wheel of the
/// closures has 168 MB.
const MEMBER_LIMIT: u64 = 1 << 30;
/// Upper bound on all ELF files together: a multiple of the wheel's size, but at least
/// `TOTAL_FLOOR` bytes.
const RATIO: u64 = 50;
const TOTAL_FLOOR: u64 = 64 << 20;
/// Upper bound on an SBOM, in bytes. The SBOM of 250 crates has 300 kB.
const SBOM_LIMIT: u64 = 16 << 20;
const RECORD_LIMIT: u64 = 64 << 20;
const ENTRY_POINTS_LIMIT: u64 = 1 << 20;

/// The contents of a wheel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The importable names in site-packages, without those of `.data` folders.
    pub modules: BTreeSet<String>,
    /// The packages with only type stubs in site-packages, such as `wrapt-stubs` (PEP 561).
    pub stubs: BTreeSet<String>,
    /// The names of its programs.
    pub programs: BTreeSet<String>,
    /// Whether the wheel installs anything else: data, or files beside the modules.
    pub others: bool,
    /// Whether the wheel has ELF files for the processor.
    pub compiled: bool,
    /// The shared libraries that other files may link to: SONAMEs and file names.
    pub libraries: BTreeSet<String>,
    /// File names of libraries that auditwheel or a similar tool copied into the wheel.
    pub copied: BTreeSet<String>,
    /// Whether a library has copies under other names. A wheel cannot hold links.
    pub copies: bool,
    /// Libraries that its files link to and that the wheel has.
    pub inside: BTreeSet<String>,
    /// Libraries that its files link to and that the wheel lacks, each with the first file that
    /// links to it.
    pub outside: BTreeMap<String, String>,
    /// The texts of its SBOMs by path, checked against RECORD.
    pub sboms: BTreeMap<String, String>,
}

/// Reads the wheel in `file` and passes the bytes of each ELF file to `visit`. The error describes
/// what is wrong with the wheel.
pub fn contents(
    file: impl Read + Seek,
    length: u64,
    mut visit: impl FnMut(&[u8]),
) -> Result<Contents, String> {
    let mut archive =
        ZipArchive::new(file).map_err(|error| format!("it is not a zip archive: {error}"))?;
    let names = peek::names(&archive);
    let mut contents = Contents::default();
    let mut elfs = BTreeMap::new();
    let mut libraries = BTreeSet::new();
    let mut room = length.saturating_mul(RATIO).max(TOTAL_FLOOR);
    for name in &names {
        contents.add_name(name);
        let base = name.rsplit('/').next().unwrap_or(name);
        // Extension modules, libraries, and programs, which have no suffix.
        let may_be_elf = base.contains(".so") || !base.contains('.');
        if name.ends_with('/') || !may_be_elf {
            continue;
        }
        let Some(bytes) = elf_member(&mut archive, name, &mut room)? else { continue };
        let Some((facts, sound)) = inspect::linkage_in(&bytes) else { continue };
        let Some(elf) = Elf::new(facts, sound) else { continue };
        visit(&bytes);
        contents.add_elf(name, base, &elf);
        if let Some((library, _)) = name.split_once(".so") {
            contents.copies |= !libraries.insert((library.to_owned(), Sha256::of_bytes(&bytes)));
        }
        elfs.insert(name.clone(), elf);
    }
    let loads =
        linkage::follow(&elfs).ok_or("its libraries link to each other in too many ways")?;
    for load in loads {
        for (library, outside) in load.outside {
            contents.outside.entry(library).or_insert(outside.file);
        }
    }
    let needed = elfs.values().flat_map(Elf::needed).map(str::to_owned);
    contents.inside = needed.filter(|name| !contents.outside.contains_key(name)).collect();
    contents.sboms = sboms(&mut archive, &names)?;
    let is_list = |name: &&String| {
        name.ends_with(".dist-info/entry_points.txt") && name.matches('/').count() == 1
    };
    if let Some(name) = names.iter().find(is_list) {
        let text = peek::text(&mut archive, name, ENTRY_POINTS_LIMIT)?;
        metadata::commands(&text).iter().for_each(|name| contents.add_program(name));
    }
    Ok(contents)
}

impl Contents {
    fn add_name(&mut self, name: &str) {
        let (top, rest) =
            name.split_once('/').map_or((name, None), |(top, rest)| (top, Some(rest)));
        if top.ends_with(".dist-info") || name.ends_with('/') {
            return;
        }
        let script = rest.and_then(|rest| rest.strip_prefix("scripts/"));
        if let Some(script) = script.filter(|_| top.ends_with(".data")) {
            return self.add_program(script);
        }
        let stem = match rest {
            Some(_) => top,
            None => top.split('.').next().unwrap_or(top),
        };
        let suffix = [".py", ".so"].iter().any(|suffix| top.ends_with(suffix));
        let identifier = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let importable =
            !stem.is_empty() && stem.chars().all(identifier) && (rest.is_some() || suffix);
        let stubs = stem.strip_suffix("-stubs").filter(|_| rest.is_some());
        if importable {
            self.modules.insert(stem.to_owned());
        } else if stubs.is_some_and(|of| !of.is_empty() && of.chars().all(identifier)) {
            self.stubs.insert(stem.to_owned());
        } else {
            self.others = true;
        }
    }

    fn add_program(&mut self, name: &str) {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._+-".contains(&b);
        match !name.starts_with('.') && name.bytes().all(plain) {
            true => drop(self.programs.insert(name.to_owned())),
            false => self.others = true,
        }
    }

    fn add_elf(&mut self, name: &str, base: &str, elf: &Elf) {
        self.compiled = true;
        let module = base.contains(".cpython-") || base.contains(".abi3.");
        if base.contains(".so") && (elf.soname().is_some() || !module) {
            self.libraries.extend([base].into_iter().chain(elf.soname()).map(str::to_owned));
        }
        let beside = name.split_once('/').is_some_and(|(top, _)| top.ends_with(".libs"));
        if !module && (beside || has_digest(base)) {
            self.copied.insert(base.to_owned());
        }
    }
}

/// Returns whether a library's name has the hash that auditwheel adds: `libgomp-a34b3233.so.1`.
fn has_digest(base: &str) -> bool {
    let stem = &base[..base.find(".so").unwrap_or(base.len())];
    let digits = stem.rsplit_once('-').map(|(_, digits)| digits);
    digits.is_some_and(|digits| digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns a member's bytes if it starts like an ELF file, and subtracts its size from `room`.
fn elf_member<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    name: &str,
    room: &mut u64,
) -> Result<Option<Vec<u8>>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", visible(name));
    let limit = MEMBER_LIMIT.min(*room);
    let mut member = archive.by_name(name).map_err(|error| wrong(&error))?;
    let mut bytes = vec![0; 4];
    if member.read_exact(&mut bytes).is_err() || bytes != *b"\x7fELF" {
        return Ok(None);
    }
    member.take(limit).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if bytes.len() as u64 >= limit {
        return Err(wrong(&format!(
            "its ELF files are more than {RATIO} times as large as the wheel"
        )));
    }
    *room -= bytes.len() as u64;
    Ok(Some(bytes))
}

/// Returns the SBOMs in `<name>.dist-info/sboms/` (PEP 770). RECORD must list each with its digest.
fn sboms<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    names: &[String],
) -> Result<BTreeMap<String, String>, String> {
    let in_dist_info = |name: &&String| {
        let rest = name.split_once('/').filter(|(top, _)| top.ends_with(".dist-info"));
        rest.is_some_and(|(_, rest)| rest.starts_with("sboms/") && !rest.ends_with('/'))
    };
    let record = names
        .iter()
        .find(|name| name.ends_with(".dist-info/RECORD") && name.matches('/').count() == 1);
    let record = record.ok_or("it has no dist-info folder with a RECORD")?;
    let lines = record::parse(&peek::text(archive, record, RECORD_LIMIT)?)
        .map_err(|reason| format!("{}: {reason}", visible(record)))?;
    let listed: BTreeMap<&str, &str> =
        lines.iter().map(|line| (line.member.as_str(), line.digest.as_str())).collect();
    let mut sboms = BTreeMap::new();
    for name in names.iter().filter(in_dist_info) {
        let text = peek::text(archive, name, SBOM_LIMIT)?;
        let digest = format!("sha256={}", record::base64(Sha256::of_bytes(&text).as_bytes()));
        match listed.get(name.as_str()) {
            None => return Err(format!("the SBOM {} is not listed in its RECORD", visible(name))),
            Some(stated) if *stated == digest => {}
            // Digests other than SHA-256 are rare, and the wheel's own digest is known.
            Some(stated) if !stated.starts_with("sha256=") && !stated.is_empty() => {}
            Some(stated) => {
                let name = visible(name);
                return Err(format!(
                    "the SBOM {name} has the digest {digest}, but its RECORD has `{}`",
                    visible(stated)
                ));
            }
        }
        sboms.insert(name.clone(), text);
    }
    let missing = listed
        .keys()
        .map(|name| (*name).to_owned())
        .find(|name| in_dist_info(&name) && !sboms.contains_key(name));
    match missing {
        Some(name) => {
            Err(format!("its RECORD lists the SBOM {}, which is not in the wheel", visible(&name)))
        }
        None => Ok(sboms),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;
    use rocm_inspect::testing::HostElf;

    fn wheel(members: &[(&str, impl AsRef<[u8]>)]) -> Vec<u8> {
        let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in members {
            out.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            out.write_all(bytes.as_ref()).unwrap();
        }
        out.finish().unwrap().into_inner()
    }

    fn read(members: &[(&str, impl AsRef<[u8]>)]) -> Result<Contents, String> {
        let bytes = wheel(members);
        contents(Cursor::new(&bytes), bytes.len() as u64, |_| {})
    }

    #[test]
    fn lists_what_can_be_imported() {
        let found = read(&[
            ("one/__init__.py", ""),
            ("two.py", ""),
            ("three.cpython-314-x86_64-linux-gnu.so", "not ELF"),
            ("one-stubs/__init__.pyi", ""),
            ("a-1.dist-info/RECORD", ""),
        ])
        .unwrap();
        assert_eq!(found.modules.into_iter().collect::<Vec<_>>(), ["one", "three", "two"]);
        assert_eq!(found.stubs.into_iter().collect::<Vec<_>>(), ["one-stubs"]);
        assert!(!found.others && !found.compiled);
        for other in ["a.pth", "a.libs/b.so", "a-1.data/data/a", "-stubs/a.pyi"] {
            assert!(read(&[(other, ""), ("a-1.dist-info/RECORD", "")]).unwrap().others, "{other}");
        }
    }

    #[test]
    fn lists_programs() {
        let list = |commands: &str| {
            let found = read(&[
                ("a-1.data/scripts/one", ""),
                ("a-1.dist-info/entry_points.txt", commands),
                ("a-1.dist-info/RECORD", ""),
            ]);
            let found = found.unwrap();
            (Vec::from_iter(found.programs).join(" "), found.others)
        };
        assert_eq!(
            list("[console_scripts]\ntwo = a:b\n[x]\nthree = a:b"),
            ("one two".into(), false)
        );
        assert_eq!(list("[gui_scripts]\n%{x} = a:b"), ("one".into(), true));
    }

    #[test]
    fn rejects_sboms_that_record_does_not_have() {
        let sbom = "a-1.dist-info/sboms/a.cdx.json";
        let digest = record::base64(Sha256::of_bytes("{}").as_bytes());
        let of = |record: &str| read(&[(sbom, "{}"), ("a-1.dist-info/RECORD", record)]);
        assert_eq!(of(&format!("{sbom},sha256={digest},2\n")).unwrap().sboms[sbom], "{}");
        assert_eq!(of("").unwrap_err(), format!("the SBOM {sbom} is not listed in its RECORD"));
        let wrong = of(&format!("{sbom},sha256=AAAA,2\n")).unwrap_err();
        assert_eq!(
            wrong,
            format!(
                "the SBOM {sbom} has the digest sha256={digest}, but its RECORD has `sha256=AAAA`"
            )
        );
        let lost =
            read(&[("a-1.dist-info/RECORD", &format!("{sbom},sha256={digest},2\n"))]).unwrap_err();
        assert_eq!(lost, format!("its RECORD lists the SBOM {sbom}, which is not in the wheel"));
        assert!(of("x").unwrap_err().contains("line 1"));
        assert!(read(&[("a.py", "")]).unwrap_err().contains("no dist-info folder"));
        assert!(contents(Cursor::new(b"PK"), 2, |_| {}).unwrap_err().contains("not a zip archive"));
    }

    #[test]
    fn finds_libraries_with_copies_under_other_names() {
        let library = |soname: &str| HostElf::new().soname(soname).build();
        let copies = |one: &str, other: &str| {
            let members = [(one, library("libk.so.1")), (other, library("libk.so.1"))];
            read(&[&members[..], &[("k-1.dist-info/RECORD", Vec::new())]].concat()).unwrap().copies
        };
        assert!(copies("k/libk.so", "k/libk.so.1"));
        assert!(copies("k/libk.so.1", "k/libk.so.1.0.0"));
        assert!(!copies("k/libk.so.1", "other/libk.so.1"));
        assert!(!copies("k/libk.so.1", "k/libother.so.1"));
    }

    #[test]
    fn distinguishes_libraries_from_modules() {
        let elf = |soname: Option<&str>| {
            soname.map_or(HostElf::new(), |soname| HostElf::new().soname(soname))
        };
        let read = |name: &str, soname: Option<&str>| {
            read(&[
                (name, elf(soname).needed("libc.so.6").build()),
                ("k-1.dist-info/RECORD", Vec::new()),
            ])
            .unwrap()
        };
        for (name, soname, libraries, copied) in [
            ("k/libk.so", None, &["libk.so"][..], false),
            ("k/libk.so.1", Some("libk.so.1"), &["libk.so.1"], false),
            ("k/libk.so.1.0", Some("libk.so.1"), &["libk.so.1", "libk.so.1.0"], false),
            ("k/_C.cpython-314-x86_64-linux-gnu.so", None, &[], false),
            ("k/_C.abi3.so", None, &[], false),
            ("k/_C.abi3.so", Some("libC.so"), &["_C.abi3.so", "libC.so"], false),
            ("k.libs/libz.so.1", None, &["libz.so.1"], true),
            ("k/libz-12345678.so.1", None, &["libz-12345678.so.1"], true),
            ("k.libs/_C.abi3.so", None, &[], false),
            ("k/bin/program", None, &[], false),
        ] {
            let found = read(name, soname);
            assert_eq!(Vec::from_iter(&found.libraries), libraries, "{name} {soname:?}");
            assert_eq!((found.compiled, !found.copied.is_empty()), (true, copied), "{name}");
            assert_eq!(found.outside["libc.so.6"], name);
        }
        assert!(!read("k/data.bin", None).compiled, "not the name of an ELF file");
    }

    #[test]
    fn recognizes_copied_libraries() {
        for (name, copied) in [
            ("libgomp-a34b3233.so.1.0.0", true),
            ("libz-ng.so.2", false),
            ("libarrow.so.2600", false),
        ] {
            assert_eq!(has_digest(name), copied, "{name}");
        }
    }
}
