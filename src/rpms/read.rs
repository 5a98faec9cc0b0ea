//! Headers and payloads of RPM files, read as streams: a payload never sits in
//! memory as a whole. The only place that uses the `rpm` crate.

use std::io::Read;
use std::path::Path;

use super::RpmError;
use crate::text::visible;

/// What an RPM's header says of the package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// `Name`.
    pub name: String,
    /// `Epoch`, 0 where there is none.
    pub epoch: u32,
    /// `Version`.
    pub version: String,
    /// `Release`, dist tag included.
    pub release: String,
    /// `Arch`, such as `x86_64` or `noarch`; `src` for a source package.
    pub arch: String,
    /// `Summary`.
    pub summary: String,
    /// `License`.
    pub license: String,
    /// The names of all requirements, sorted, without versions.
    pub requires: Vec<String>,
    /// The names of all provides, sorted, without versions.
    pub provides: Vec<String>,
    /// Bytes when installed.
    pub installed_size: u64,
}

impl Header {
    /// Returns `name-version-release.arch`, with the epoch where there is one.
    pub fn nevra(&self) -> String {
        let Self { name, epoch, version, release, arch, .. } = self;
        match epoch {
            0 => format!("{name}-{version}-{release}.{arch}"),
            epoch => format!("{name}-{epoch}:{version}-{release}.{arch}"),
        }
    }

    /// Tells whether this is a package of debugging data, which carries ELF
    /// files whose code was taken out.
    pub fn is_debug(&self) -> bool {
        self.name.ends_with("-debuginfo") || self.name.ends_with("-debugsource")
    }
}

/// What kind of file a payload entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file with content.
    Regular,
    /// A regular file that is listed but not in the payload (`%ghost`).
    Ghost,
    /// A symbolic link with its target as written.
    Symlink(String),
    /// A folder.
    Directory,
    /// A device, socket or pipe.
    Special,
}

/// One file of an RPM's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The absolute path on the installed system.
    pub path: String,
    /// The permission bits.
    pub permissions: u16,
    /// The size in bytes that the header states.
    pub size: u64,
    /// What it is.
    pub kind: EntryKind,
}

/// Reads a package's header, nothing of its payload.
pub fn header(path: &Path) -> Result<Header, RpmError> {
    super::check::headers(path)?;
    let metadata = rpm::PackageMetadata::open(path).map_err(|e| unreadable(path, e))?;
    header_of(&metadata).map_err(|e| unreadable(path, e))
}

/// Calls `visit` for every file of the package in payload order, with a reader
/// of its content (empty for all but regular files). What `visit` leaves unread
/// is skipped. The first error ends the walk; `E` is the caller's own.
pub fn for_each_file<E: From<RpmError>>(
    path: &Path,
    mut visit: impl FnMut(&Entry, &mut dyn Read) -> Result<(), E>,
) -> Result<Header, E> {
    let fail = |error| E::from(unreadable(path, error));
    super::check::headers(path).map_err(E::from)?;
    let mut reader = rpm::PackageReader::open(path).map_err(fail)?;
    let header = header_of(&reader.metadata).map_err(fail)?;
    while let Some(mut file) = reader.next_file().map_err(fail)? {
        let entry = entry(&file);
        visit(&entry, &mut file)?;
        file.finish().map_err(|error| fail(rpm::Error::Io(error)))?;
    }
    Ok(header)
}

fn entry(file: &rpm::StreamingRpmFile<'_>) -> Entry {
    let metadata = &file.metadata;
    let kind = match metadata.file_type() {
        rpm::FileType::Dir => EntryKind::Directory,
        rpm::FileType::SymbolicLink => EntryKind::Symlink(metadata.linkto().unwrap_or_default().to_owned()),
        rpm::FileType::Regular if metadata.flags().contains(rpm::FileFlags::GHOST) => EntryKind::Ghost,
        rpm::FileType::Regular => EntryKind::Regular,
        _ => EntryKind::Special,
    };
    Entry {
        path: metadata.path().to_string_lossy().into_owned(),
        permissions: metadata.permissions(),
        size: metadata.size() as u64,
        kind,
    }
}

fn header_of(metadata: &rpm::PackageMetadata) -> Result<Header, rpm::Error> {
    let names = |dependencies: Vec<rpm::Dependency>| {
        let mut names: Vec<String> = dependencies.into_iter().map(|d| d.name).collect();
        names.sort();
        names.dedup();
        names
    };
    let arch = if metadata.is_source_package() { "src" } else { metadata.get_arch()? };
    Ok(Header {
        name: metadata.get_name()?.to_owned(),
        epoch: metadata.get_epoch().unwrap_or(0),
        version: metadata.get_version()?.to_owned(),
        release: metadata.get_release()?.to_owned(),
        arch: arch.to_owned(),
        summary: metadata.get_summary().unwrap_or_default().to_owned(),
        license: metadata.get_license().unwrap_or_default().to_owned(),
        requires: names(metadata.get_requires()?),
        provides: names(metadata.get_provides()?),
        installed_size: metadata.get_installed_size().unwrap_or(0),
    })
}

fn unreadable(path: &Path, source: rpm::Error) -> RpmError {
    // The reader's errors may end with the bytes that it did not understand.
    let text = source.to_string();
    let line = text.split(" - ").next().unwrap_or(&text).lines().next().unwrap_or_default();
    RpmError::Unreadable { path: path.to_owned(), reason: visible(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(dir: &Path) -> std::path::PathBuf {
        let mut builder = rpm::PackageBuilder::new("demo", "1.0", "MIT", "x86_64", "a demo");
        builder.release("2.fc43");
        builder.requires(rpm::Dependency::any("libamdhip64.so.7()(64bit)"));
        builder.with_file_contents("hello\n", rpm::FileOptions::new("/usr/share/demo/a")).unwrap();
        builder.with_symlink(rpm::FileOptions::symlink("/usr/share/demo/b", "a")).unwrap();
        let path = dir.join("demo.rpm");
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    #[test]
    fn reads_the_header_and_every_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = package(dir.path());
        let mut seen = Vec::new();
        let header = for_each_file::<RpmError>(&path, |entry, content| {
            let mut text = String::new();
            content.read_to_string(&mut text)?;
            seen.push((entry.path.clone(), entry.kind.clone(), text));
            Ok(())
        })
        .unwrap();
        assert_eq!(header.nevra(), "demo-1.0-2.fc43.x86_64");
        assert!(header.requires.contains(&"libamdhip64.so.7()(64bit)".to_owned()));
        assert!(seen.contains(&("/usr/share/demo/a".into(), EntryKind::Regular, "hello\n".into())));
        assert!(seen.iter().any(|(path, kind, _)| {
            path == "/usr/share/demo/b" && *kind == EntryKind::Symlink("a".into())
        }));
    }

    fn content(path: &Path) -> Result<Vec<(String, Vec<u8>)>, RpmError> {
        let mut files = Vec::new();
        for_each_file::<RpmError>(path, |entry, content| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            files.push((entry.path.clone(), bytes));
            Ok(())
        })?;
        Ok(files)
    }

    #[test]
    fn a_truncated_package_is_an_error_or_has_lost_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = package(dir.path());
        let (whole, bytes) = (content(&path).unwrap(), fs_err::read(&path).unwrap());
        let cut = dir.path().join("cut.rpm");
        // Behind the last file stands only the end of the compressed stream.
        let mut harmless = 0;
        let near_the_end = bytes.len() - 100;
        for length in (0..near_the_end).step_by(11).chain(near_the_end..bytes.len()) {
            fs_err::write(&cut, &bytes[..length]).unwrap();
            if let Ok(files) = content(&cut) {
                assert_eq!(files, whole, "cut at {length} of {}", bytes.len());
                harmless += 1;
            }
        }
        assert!(harmless < 64, "{harmless} cuts were not noticed");
    }
}
