//! Reads headers and payloads of RPM files as streams: a payload is never in memory as a whole.
//! Only this module and `files` use the `rpm` crate.

use std::io::{self, BufReader, Read};
use std::path::Path;

use super::files::{EntryKind, Files, PayloadEntry};
use super::{RpmError, checked, payload};
use rocmrpm_base::process::{ProcessError, check_stop};
use rocmrpm_base::text::visible;

const BUFFER: usize = 128 << 10;
/// Upper bound on the bytes after the payload's trailer: some writers pad to whole blocks.
const MAX_REST: u64 = 64 << 10;

/// The tags of an RPM's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// `Name`.
    pub name: String,
    /// `Epoch`; 0 if missing.
    pub epoch: u32,
    /// `Version`.
    pub version: String,
    /// `Release`, including the dist tag.
    pub release: String,
    /// `Arch`, such as `x86_64` or `noarch`; `src` for a source package.
    pub arch: String,
    /// `Summary`.
    pub summary: String,
    /// `License`.
    pub license: String,
    /// The digest of the header, and thereby of the payload, whose digest is in the header. Signing
    /// the package does not change it. Empty if the package has none.
    pub content: String,
    /// The file name of the source package that it was built from; empty for a source package.
    pub source: String,
    /// The sorted names of all requirements, without versions.
    pub requires: Vec<String>,
    /// The sorted names of all provides, without versions.
    pub provides: Vec<String>,
    /// The bundled libraries, sorted: the name in `Provides: bundled(name) = version`, and the
    /// version if stated.
    pub bundled: Vec<(String, Option<String>)>,
    /// The installed size in bytes.
    pub installed_size: u64,
}

impl Header {
    /// Returns `name-version-release.arch`, with the epoch unless it is 0.
    pub fn nevra(&self) -> String {
        let Self { name, epoch, version, release, arch, .. } = self;
        match epoch {
            0 => format!("{name}-{version}-{release}.{arch}"),
            epoch => format!("{name}-{epoch}:{version}-{release}.{arch}"),
        }
    }

    /// Returns whether this is a debugging package, which has ELF files without code.
    pub fn is_debug(&self) -> bool {
        super::is_debug(&self.name)
    }
}

/// Reads a package's header, without the payload.
pub fn header(path: &Path) -> Result<Header, RpmError> {
    let (metadata, _) = open(path)?;
    header_of(&metadata).map_err(|e| unreadable(path, &e))
}

/// Reads a package's header and file list, without the payload.
pub fn files(path: &Path) -> Result<(Header, Vec<PayloadEntry>), RpmError> {
    let (metadata, _) = open(path)?;
    let read = |metadata| Ok((header_of(metadata)?, Files::of(metadata)?.into_entries()));
    read(&metadata).map_err(|e| unreadable(path, &e))
}

/// Calls `visit` for every file of the package in payload order, with a reader of its content
/// (empty except for regular files), and finally for the files that are not in the payload. Skips
/// content that `visit` does not read. The first error ends the iteration; `E` is the caller's
/// error type.
///
/// Of files that are hard links to each other ([`PayloadEntry::hard_link`]), only the last one has
/// content, whatever size the header states.
pub fn for_each_file<E: From<RpmError>>(
    path: &Path,
    mut visit: impl FnMut(&PayloadEntry, &mut dyn Read) -> Result<(), E>,
) -> Result<Header, E> {
    let (metadata, input) = open(path)?;
    let header = header_of(&metadata).map_err(|e| unreadable(path, &e))?;
    let mut files = Files::of(&metadata).map_err(|e| unreadable(path, &e))?;
    let mut stream = payload::decompressed(input).map_err(|e| cut(path, "the payload", &e))?;
    // Packages without files from tools other than rpmbuild may have no payload.
    while !files.is_empty() {
        let member = payload::next(&mut stream).map_err(|e| cut(path, "the payload", &e))?;
        let Some(member) = member else { break };
        let (entry, size) = files.take(member).map_err(|reason| refused(path, reason))?;
        let mut content = (&mut stream).take(size);
        match entry.kind {
            EntryKind::Regular => visit(entry, &mut content)?,
            _ => visit(entry, &mut io::empty())?,
        }
        let rest = content.limit() + payload::padding(size);
        skip(&mut stream, rest).map_err(|error| match error.downcast::<ProcessError>() {
            Ok(stopped) => RpmError::Process(stopped),
            Err(error) => cut(path, &visible(&entry.path), &error),
        })?;
    }
    files.missing().map_or(Ok(()), |reason| Err(refused(path, reason)))?;
    end(&mut stream).map_err(|e| cut(path, "the payload", &e))?;
    for entry in files.ghosts() {
        visit(entry, &mut io::empty())?;
    }
    Ok(header)
}

fn open(path: &Path) -> Result<(rpm::PackageMetadata, BufReader<std::fs::File>), RpmError> {
    let file = std::fs::File::open(path).map_err(|e| cut(path, "the file", &e))?;
    let mut input = BufReader::with_capacity(BUFFER, file);
    let headers = checked::headers(&mut input).map_err(|e| refused(path, e.to_string()))?;
    let metadata =
        rpm::PackageMetadata::parse(&mut &headers[..]).map_err(|e| unreadable(path, &e))?;
    Ok((metadata, input))
}

fn skip(stream: &mut dyn Read, mut count: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    while count > 0 {
        check_stop().map_err(io::Error::other)?;
        let length = usize::try_from(count).map_or(BUFFER, |count| count.min(BUFFER));
        stream.read_exact(&mut buffer[..length])?;
        count -= length as u64;
    }
    Ok(())
}

/// Reads to the end of the stream, where compressed formats have a checksum.
fn end(stream: &mut dyn Read) -> io::Result<()> {
    let rest = io::copy(&mut stream.take(MAX_REST + 1), &mut io::sink())?;
    match rest > MAX_REST {
        true => Err(io::Error::other(format!("more than {MAX_REST} bytes follow its trailer"))),
        false => Ok(()),
    }
}

fn header_of(metadata: &rpm::PackageMetadata) -> Result<Header, rpm::Error> {
    let names = |dependencies: Vec<rpm::Dependency>| {
        let mut names: Vec<String> = dependencies.into_iter().map(|d| d.name).collect();
        names.sort();
        names.dedup();
        names
    };
    let mut bundled: Vec<_> = metadata.get_provides()?.into_iter().filter_map(bundled).collect();
    bundled.sort();
    bundled.dedup();
    let arch = if metadata.is_source_package() { "src" } else { metadata.get_arch()? };
    Ok(Header {
        name: metadata.get_name()?.to_owned(),
        epoch: metadata.get_epoch().unwrap_or(0),
        version: metadata.get_version()?.to_owned(),
        release: metadata.get_release()?.to_owned(),
        arch: arch.to_owned(),
        summary: metadata.get_summary().unwrap_or_default().to_owned(),
        license: metadata.get_license().unwrap_or_default().to_owned(),
        content: metadata
            .signature
            .get_entry_data_as_string(rpm::IndexSignatureTag::RPMSIGTAG_SHA256)
            .unwrap_or_default()
            .to_owned(),
        source: metadata.get_source_rpm().unwrap_or_default().to_owned(),
        requires: names(metadata.get_requires()?),
        provides: names(metadata.get_provides()?),
        bundled,
        installed_size: metadata.get_installed_size().unwrap_or(0),
    })
}

fn bundled(provide: rpm::Dependency) -> Option<(String, Option<String>)> {
    let name = provide.name.strip_prefix("bundled(")?.strip_suffix(')')?;
    Some((name.to_owned(), (!provide.version.is_empty()).then_some(provide.version)))
}

fn unreadable(path: &Path, source: &rpm::Error) -> RpmError {
    // The reader's errors may end with the bytes that it could not parse.
    let text = source.to_string();
    let line = text.split(" - ").next().unwrap_or(&text).lines().next().unwrap_or_default();
    refused(path, visible(line))
}

fn cut(path: &Path, what: &str, error: &io::Error) -> RpmError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => refused(path, format!("{what} is truncated")),
        _ => refused(path, format!("cannot read {what}: {}", visible(&error.to_string()))),
    }
}

fn refused(path: &Path, reason: String) -> RpmError {
    RpmError::Unreadable { path: path.to_owned(), reason }
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
        // Reading the list does not read the payload.
        let (listed, entries) = files(&path).unwrap();
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(
            (listed, paths),
            (header.clone(), vec!["/usr/share/demo/a", "/usr/share/demo/b"])
        );
        let whole = std::fs::read(&path).unwrap();
        let cut = dir.path().join("cut.rpm");
        std::fs::write(&cut, &whole[..whole.len() - 20]).unwrap();
        assert_eq!(files(&cut).unwrap().1, entries);
        assert!(for_each_file::<RpmError>(&cut, |_, _| Ok(())).is_err());
        assert!(header.requires.contains(&"libamdhip64.so.7()(64bit)".to_owned()));
        assert!(seen.contains(&("/usr/share/demo/a".into(), EntryKind::Regular, "hello\n".into())));
        assert!(seen.iter().any(|(path, kind, _)| {
            path == "/usr/share/demo/b" && *kind == EntryKind::Symlink("a".into())
        }));
    }
}
