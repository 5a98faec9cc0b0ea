//! Reads the metadata of a source distribution: PKG-INFO and, if that lacks requirements, the
//! `requires.txt` written by setuptools. It does not run any code from the sdist.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::limits::Bounded;
use rocmrpm_base::text::visible;

use crate::wheel::{FileName, Metadata, header_fields};

/// Maximum size of a text, in bytes.
const LIMIT: u64 = 16 << 20;
/// Maximum number of bytes to read from an archive.
const STREAM: u64 = 8 << 30;
/// Maximum number of archive members to read.
const MEMBERS: usize = 200_000;

/// A source distribution on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdist {
    /// The normalized name of the distribution.
    pub distribution: String,
    /// `Requires-Python`, as in PKG-INFO.
    pub requires_python: Option<String>,
    /// The text of PKG-INFO, with setuptools' requirements if it has none.
    pub metadata: String,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The size of the file in bytes.
    pub size: u64,
    /// The time of the newest member, in seconds since 1970.
    pub newest: u64,
}

/// Why a file is not a valid sdist.
#[derive(Debug, thiserror::Error)]
pub enum SdistError {
    /// The file is unreadable.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The file is not an sdist, or its parts contradict each other.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl Diagnose for SdistError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Io(error) => error.diagnosis(),
            Self::Invalid { .. } => {
                Kind::Usage.with_help("make it again with the project's build backend")
            }
        }
    }
}

/// Reads an sdist and checks that its file name and PKG-INFO agree on the name and version.
pub fn open(path: &Path) -> Result<Sdist, SdistError> {
    let invalid =
        |reason: String| SdistError::Invalid { path: path.to_owned(), reason: visible(&reason) };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let named = FileName::of_sdist(name).map_err(invalid)?;
    let unreadable = |error| IoError::doing(format!("read `{}`", path.display()))(error);
    let (sha256, size) = Sha256::of_file(path).map_err(unreadable)?;
    let file = fs_err::File::open(path).map_err(unreadable)?;
    let (metadata, newest) = read_dated(file).map_err(invalid)?;
    let Metadata { normalized, version, requires_python, .. } =
        Metadata::parse(&metadata).map_err(|reason| invalid(format!("PKG-INFO: {reason}")))?;
    if normalized != named.distribution || version != named.version {
        return Err(invalid(format!(
            "its file name has {} {}, but its PKG-INFO has {normalized} {version}",
            named.distribution, named.version
        )));
    }
    Ok(Sdist { distribution: normalized, requires_python, metadata, sha256, size, newest })
}

/// Reads the METADATA of the sdist in `file`; `name` determines the archive format. The error
/// describes the problem.
pub fn read(file: impl Read, name: &str) -> Result<String, String> {
    if !name.ends_with(".tar.gz") {
        return Err("only `.tar.gz` source distributions are supported".into());
    }
    Ok(read_dated(file)?.0)
}

/// Like [`read`], and also returns the time of the newest member, in seconds since 1970.
fn read_dated(file: impl Read) -> Result<(String, u64), String> {
    let broken = |error: std::io::Error| format!("the archive is damaged: {error}");
    let mut archive = tar::Archive::new(Bounded::new(MultiGzDecoder::new(file), STREAM));
    let (mut info, mut requires, mut newest) = (None, None, 0);
    for entry in archive.entries().map_err(broken)?.take(MEMBERS) {
        let entry = entry.map_err(broken)?;
        newest = newest.max(entry.header().mtime().unwrap_or_default());
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
        let slot = match parts.as_slice() {
            [_, "PKG-INFO"] => &mut info,
            [.., folder, "requires.txt"] if folder.ends_with(".egg-info") => &mut requires,
            _ => continue,
        };
        let mut bytes = Vec::new();
        entry.take(LIMIT).read_to_end(&mut bytes).map_err(broken)?;
        *slot = Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    let info = info.ok_or("it has no PKG-INFO")?;
    let text = match requires {
        Some(requires) => with_requires(&info, &requires),
        None => info,
    };
    Ok((text, newest))
}

/// Returns PKG-INFO, with the requirements in `requires.txt` if it lacks its own, which metadata
/// versions before 2.2 permit.
pub fn with_requires(info: &str, requires: &str) -> String {
    if header_fields(info).any(|field| field.is("Requires-Dist")) {
        return info.to_owned();
    }
    // Insert before upstream's fields, which may end with a description.
    format!("{}{info}", requires_txt(requires))
}

/// Converts `requires.txt` to METADATA: sections such as `[extra]`, `[:marker]` and
/// `[extra:marker]`, followed by requirements without markers (setuptools, `command/egg_info.py`,
/// `write_requirements`).
fn requires_txt(text: &str) -> String {
    let (mut written, mut condition) = (String::new(), String::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let (extra, marker) = section.split_once(':').unwrap_or((section, ""));
            let parts = [
                (!marker.is_empty()).then(|| format!("({marker})")),
                (!extra.is_empty()).then(|| format!("extra == '{extra}'")),
            ];
            condition = parts.into_iter().flatten().collect::<Vec<_>>().join(" and ");
            if !extra.is_empty() {
                written.push_str(&format!("Provides-Extra: {extra}\n"));
            }
        } else if condition.is_empty() {
            written.push_str(&format!("Requires-Dist: {line}\n"));
        } else {
            written.push_str(&format!("Requires-Dist: {line} ; {condition}\n"));
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sdist(files: &[(&str, &str)]) -> Vec<u8> {
        let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(gzip);
        for (path, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn reads_requirements_from_either_file() {
        let info = "Metadata-Version: 2.1\nName: a\nVersion: 1\n";
        let requires =
            "b>=1\n\n[x]\nc\n\n[:python_version < \"3\"]\nd\n\n[x:os_name == \"nt\"]\ne\n";
        let text = read(
            &sdist(&[("a-1/PKG-INFO", info), ("a-1/a.egg-info/requires.txt", requires)])[..],
            "a-1.tar.gz",
        );
        let text = text.unwrap();
        for line in [
            "Requires-Dist: b>=1\n",
            "Provides-Extra: x\nRequires-Dist: c ; extra == 'x'\n",
            "Requires-Dist: d ; (python_version < \"3\")\n",
            "Requires-Dist: e ; (os_name == \"nt\") and extra == 'x'\n",
            "Name: a\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let own = format!("{info}Requires-Dist: z\n");
        let files = [("a-1/PKG-INFO", own.as_str()), ("a-1/src/a.egg-info/requires.txt", requires)];
        assert_eq!(read(&sdist(&files)[..], "a-1.tar.gz").unwrap(), own);
    }

    #[test]
    fn rejects_files_that_are_not_sdists() {
        for (bytes, name, wrong) in [
            (sdist(&[("a-1/setup.py", "")]), "a-1.tar.gz", "no PKG-INFO"),
            (b"no archive".to_vec(), "a-1.tar.gz", "damaged"),
            (sdist(&[]), "a-1.zip", ".tar.gz"),
        ] {
            let error = read(&bytes[..], name).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
        let whole = sdist(&[("a-1/PKG-INFO", "Name: a\n")]);
        for end in 0..whole.len() - 30 {
            assert!(read(&whole[..end], "a-1.tar.gz").is_err(), "{end}");
        }
    }
}
