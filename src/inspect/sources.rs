//! From paths to subjects: telling RPMs, wheels, folders and single files apart
//! and going through what is in them. Neither judging nor extracting.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::Path;

use fs_err as fs;

use super::InspectError;
use super::facts::{Contents, DeviceCode, FileFacts, Subject, SubjectKind, Target};
use super::file::facts;
use super::image::{self, MemberError};
use super::report::Depth;
use crate::digest::Sha256;
use crate::process::check_stop;
use crate::rpms::{self, EntryKind};

// What members may decompress to together: real packages stay below a tenth.
const LEAST_CONTENT: u64 = 1 << 30;
const CONTENT_RATIO: u64 = 256;

/// Reads everything at `path`.
pub(super) fn read(path: &Path, depth: Depth) -> Result<Vec<Subject>, InspectError> {
    let Ok(metadata) = fs::metadata(path) else {
        return Err(InspectError::Missing { path: path.to_owned() });
    };
    if metadata.is_dir() {
        return folder(path, depth);
    }
    match archive_kind(path)? {
        Some(kind) => archive(path, kind, depth).map(|subject| vec![subject]),
        None => single(path, depth).map(|subject| vec![subject]),
    }
}

fn archive_kind(path: &Path) -> io::Result<Option<SubjectKind>> {
    let head = image::head(&mut fs::File::open(path)?)?;
    Ok(match head.get(..4) {
        Some(b"\xed\xab\xee\xdb") => Some(SubjectKind::Rpm),
        Some(b"PK\x03\x04" | b"PK\x05\x06") => Some(SubjectKind::Wheel),
        _ => None,
    })
}

fn archive(path: &Path, kind: SubjectKind, depth: Depth) -> Result<Subject, InspectError> {
    let subject = Subject::of_file(path, kind)?;
    let content = Content::new(path, subject.size.unwrap_or(0), depth);
    match kind {
        SubjectKind::Rpm => rpm(subject, content),
        _ => wheel(subject, content),
    }
}

fn rpm(mut subject: Subject, mut content: Content<'_>) -> Result<Subject, InspectError> {
    let header = rpms::for_each_file(content.archive, |entry, reader| {
        check_stop()?;
        if entry.kind == EntryKind::Regular {
            // What is not read must still be decompressed to be passed over.
            content.passed(&entry.path, entry.size)?;
            content.member(&entry.path, reader, &mut subject.files)?;
        }
        Ok::<(), InspectError>(())
    })?;
    subject.name = header.nevra();
    subject.debug = header.is_debug();
    Ok(subject.completed())
}

fn wheel(mut subject: Subject, mut content: Content<'_>) -> Result<Subject, InspectError> {
    let path = content.archive;
    let fail = |source| InspectError::Wheel { path: path.to_owned(), source };
    let mut archive = zip::ZipArchive::new(BufReader::new(fs::File::open(path)?)).map_err(fail)?;
    for index in 0..archive.len() {
        check_stop()?;
        let mut member = archive.by_index(index).map_err(fail)?;
        if !member.is_dir() && !member.is_symlink() {
            let name = String::from_utf8_lossy(member.name_raw()).into_owned();
            content.member(&name, &mut member, &mut subject.files)?;
        }
    }
    Ok(subject.completed())
}

fn folder(path: &Path, depth: Depth) -> Result<Vec<Subject>, InspectError> {
    let mut subject = Subject::new(path, SubjectKind::Folder);
    let mut subjects = Vec::new();
    for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
        check_stop()?;
        let entry = entry.map_err(io::Error::from)?;
        if !entry.file_type().is_file() {
            continue;
        }
        match archive_kind(entry.path())? {
            Some(SubjectKind::Rpm) => subjects.push(archive(entry.path(), SubjectKind::Rpm, depth)?),
            // Zip archives of other kinds lie in many folders.
            Some(kind) if entry.path().extension().is_some_and(|e| e == "whl") => {
                subjects.push(archive(entry.path(), kind, depth)?);
            }
            _ => {
                let inside = entry.path().strip_prefix(path).unwrap_or(entry.path());
                if let Some(bytes) = image::on_disk(entry.path())? {
                    subject.files.push(facts(
                        inside.to_string_lossy().into_owned(),
                        bytes.len() as u64,
                        &bytes,
                        depth,
                    ));
                }
            }
        }
    }
    // A folder of packages alone is no subject beside them.
    if subjects.is_empty() || !subject.files.is_empty() {
        subjects.push(subject.completed());
    }
    Ok(subjects)
}

fn single(path: &Path, depth: Depth) -> Result<Subject, InspectError> {
    let Some(bytes) = image::on_disk(path)? else {
        return Err(InspectError::Unknown { path: path.to_owned() });
    };
    let mut subject = Subject::of_file(path, SubjectKind::File)?;
    subject.files.push(facts(subject.name.clone(), bytes.len() as u64, &bytes, depth));
    Ok(subject.completed())
}

/// How much of an archive's content was gone through.
struct Content<'a> {
    depth: Depth,
    archive: &'a Path,
    limit: u64,
    passed: u64,
}

impl<'a> Content<'a> {
    fn new(archive: &'a Path, size: u64, depth: Depth) -> Self {
        Self { depth, archive, limit: size.saturating_mul(CONTENT_RATIO).max(LEAST_CONTENT), passed: 0 }
    }

    fn passed(&mut self, member: &str, size: u64) -> Result<(), InspectError> {
        self.passed = self.passed.saturating_add(size);
        match self.passed > self.limit {
            true => Err(self.too_large(member)),
            false => Ok(()),
        }
    }

    fn too_large(&self, member: &str) -> InspectError {
        InspectError::TooLarge {
            archive: self.archive.to_owned(),
            member: member.to_owned(),
            limit: self.limit,
        }
    }

    fn member(
        &mut self,
        name: &str,
        reader: &mut dyn Read,
        files: &mut Vec<FileFacts>,
    ) -> Result<(), InspectError> {
        match image::of_member(reader, self.limit) {
            Ok(None) => Ok(()),
            Ok(Some(bytes)) => {
                files.push(facts(name.to_owned(), bytes.len() as u64, &bytes, self.depth));
                Ok(())
            }
            Err(MemberError::TooLarge) => Err(self.too_large(name)),
            Err(MemberError::Unreadable(source)) => Err(InspectError::Member {
                archive: self.archive.to_owned(),
                member: name.to_owned(),
                source,
            }),
        }
    }
}

impl Subject {
    fn new(path: &Path, kind: SubjectKind) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let path = path.display().to_string();
        Self {
            path,
            kind,
            name,
            package: None,
            debug: false,
            sha256: None,
            size: None,
            files: Vec::new(),
            device: Vec::new(),
            contents: Contents::default(),
        }
    }

    fn of_file(path: &Path, kind: SubjectKind) -> io::Result<Self> {
        let (sha256, size) = Sha256::of_file(path)?;
        Ok(Self { sha256: Some(sha256), size: Some(size), ..Self::new(path, kind) })
    }

    /// Sorts the files and sums up their GPU code.
    fn completed(mut self) -> Self {
        self.files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for code in self.files.iter().flat_map(|file| &file.device) {
            let key: (&Target, _, _) = (&code.target, code.storage, code.compression);
            let sum = sums.entry(key).or_default();
            sum.0 += code.count;
            sum.1 = sum.1.saturating_add(code.bytes);
        }
        let device = sums.into_iter().map(|((target, storage, compression), (count, bytes))| DeviceCode {
            target: target.clone(),
            storage,
            compression,
            version: None,
            count,
            bytes,
            kernels: None,
        });
        self.device = device.collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuTarget;
    use crate::inspect::testing::{HostElf, bundle, code_object};
    use crate::inspect::{Expectations, inspect};

    fn found(bytes: &[u8]) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let wanted = GpuTarget::parse("gfx1151").unwrap();
        let expectations =
            Expectations { gpu_targets: vec![wanted], device_code: Some(true), ..Default::default() };
        let report = inspect(&[file.path().to_owned()], &expectations, Depth::Deep).unwrap();
        assert!(report.findings.iter().all(|f| !f.remedy.is_empty() && !f.expected.is_empty()));
        report.findings.iter().map(|f| format!("{} {}: {}", f.severity, f.id, f.found)).collect()
    }

    fn fatbin() -> Vec<u8> {
        bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx1151", &code_object("gfx1151", 300))])
    }

    #[test]
    fn a_whole_library_has_no_findings() {
        assert_eq!(found(&HostElf::new().fatbin(&fatbin()).build()), [""; 0]);
    }

    #[test]
    fn code_moved_to_kpack_archives_is_not_called_absent() {
        let found = found(&HostElf::new().fatbin(&fatbin()).empty(".hip_fatbin").kpack().build());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("error kpack-reference-unresolved: "));
    }

    #[test]
    fn damage_is_found_with_its_place_in_the_file() {
        let library = HostElf::new().fatbin(&fatbin()).build();
        let at = library.windows(24).position(|w| w == crate::inspect::bundle::MAGIC).unwrap();
        let mut broken = library.clone();
        broken[at + 24..at + 32].fill(0xff);
        let text = format!("error bundle-damaged: what stands at byte {} states", at + 24);
        assert!(found(&broken).iter().any(|f| f.starts_with(&text)), "{:?}", found(&broken));

        let mut other = library.clone();
        other[at + 4096 + 48] = 0x41;
        let mismatch = found(&other);
        assert!(mismatch[1].starts_with("error bundle-id-mismatch: code for gfx1100 under"), "{mismatch:?}");

        let headless = found(&library[..20]);
        assert!(headless.iter().any(|f| f.starts_with("error elf-damaged: ")), "{headless:?}");
        let cut = found(&code_object("gfx1151", 300)[..200]);
        assert!(cut.iter().any(|f| f.contains("bundle-damaged") && f.contains("cut short")), "{cut:?}");
    }

    #[test]
    fn an_archive_that_never_ends_is_refused() {
        let mut content =
            Content { depth: Depth::Quick, archive: Path::new("bomb.whl"), limit: 1000, passed: 0 };
        let mut bomb = (&b"\x7fELF"[..]).chain(io::repeat(0));
        let error = content.member("libk.so", &mut bomb, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("bomb.whl: `libk.so`"), "{error}");
        assert!(content.passed("a", 600).is_ok());
        assert!(matches!(content.passed("b", 600), Err(InspectError::TooLarge { .. })));
        assert!(content.passed("c", u64::MAX).is_err());
    }
}
