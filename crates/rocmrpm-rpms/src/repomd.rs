//! Parses `repomd.xml` and checks the metadata files that it lists. It does not create metadata.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use fs_err as fs;

use super::RpmError;
use rocmrpm_base::digest::Sha256;

/// The path in a repository.
pub const REPOMD: &str = "repodata/repomd.xml";

/// The metadata that every repository has. Source: createrepo_c(8).
const KINDS: [&str; 3] = ["primary", "filelists", "other"];

/// The files that a `repomd.xml` lists.
#[derive(Debug, PartialEq, Eq)]
pub struct Repomd(Vec<MetadataFile>);

/// A metadata file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataFile {
    /// The path below the root of the repository.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// The digest of the file.
    pub sha256: Sha256,
}

impl Repomd {
    /// Parses a `repomd.xml`, which must list all metadata of a repository.
    pub fn parse(text: &str) -> Result<Self, String> {
        let body =
            text.trim_end().strip_suffix("</repomd>").ok_or("it does not end with </repomd>")?;
        let files = body.split("<data ").skip(1).map(MetadataFile::parse);
        let repomd = Self(files.collect::<Result<_, _>>()?);
        match KINDS.iter().find(|kind| repomd.file(kind).is_none()) {
            None => Ok(repomd),
            Some(kind) => Err(format!("it lists no {kind} metadata")),
        }
    }

    /// Reads the `repomd.xml` of a repository and checks every file that it lists.
    ///
    /// createrepo_c 0.17 exits with 0 even if the disk is full when it writes this file, so its
    /// exit code is not enough.
    pub fn verified(repository: &Path) -> Result<Self, RpmError> {
        let path = repository.join(REPOMD);
        let damaged = |reason: String| RpmError::Metadata { path: path.clone(), reason };
        let text = fs::read(&path)?;
        let repomd = Self::parse(&String::from_utf8_lossy(&text)).map_err(damaged)?;
        for file in &repomd.0 {
            let (sha256, size) = match Sha256::of_file(&repository.join(&file.path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(damaged(format!("it lists {}, which is missing", file.path)));
                }
                read => read?,
            };
            if (sha256, size) != (file.sha256, file.size) {
                let MetadataFile { path, sha256: wanted, size: bytes } = file;
                return Err(damaged(format!(
                    "{path} has {size} bytes and the SHA-256 {sha256}, but it lists {bytes} and {wanted}"
                )));
            }
        }
        Ok(repomd)
    }

    /// Returns the sorted paths of the files.
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = self.0.iter().map(|file| file.path.as_str()).collect();
        paths.sort_unstable();
        paths
    }

    /// Returns a `repomd.xml` that makes `createrepo_c --update` find these files.
    pub fn naming(files: &[MetadataFile]) -> String {
        let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                        <repomd xmlns=\"http://linux.duke.edu/metadata/repo\">\n"
            .to_owned();
        for file in files {
            let MetadataFile { path, size, sha256 } = file;
            let kind = KINDS.iter().find(|kind| file.is(kind)).unwrap_or(&"unknown");
            let _ = writeln!(
                text,
                "<data type=\"{kind}\"><checksum type=\"sha256\">{sha256}</checksum>\
                 <location href=\"{path}\"/><size>{size}</size></data>"
            );
        }
        text + "</repomd>\n"
    }

    fn file(&self, kind: &str) -> Option<&MetadataFile> {
        self.0.iter().find(|file| file.is(kind))
    }
}

impl MetadataFile {
    /// Parses the text after `<data `.
    fn parse(data: &str) -> Result<Self, String> {
        let (data, _) = data.split_once("</data>").ok_or("a <data> element is not closed")?;
        let path = between(data, "<location href=\"", "\"")?;
        let name = path.strip_prefix("repodata/").unwrap_or_default();
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err(format!(
                "it lists the invalid path `{}`",
                rocmrpm_base::text::visible(path)
            ));
        }
        let sha256 = between(data, "<checksum type=\"sha256\">", "<")?;
        let size = between(data, "<size>", "<")?;
        Ok(Self {
            path: path.to_owned(),
            size: size.parse().map_err(|_| format!("{path} has no size"))?,
            sha256: Sha256::parse(sha256).ok_or_else(|| format!("{path} has no SHA-256"))?,
        })
    }

    /// Returns whether this is metadata of this kind. createrepo_c puts a digest before it.
    fn is(&self, kind: &str) -> bool {
        self.path.contains(&format!("-{kind}.xml"))
    }
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Result<&'t str, String> {
    let found = text.split_once(start).and_then(|(_, rest)| rest.split_once(end));
    found.map(|(found, _)| found).ok_or_else(|| format!("a <data> has no {start}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Vec<MetadataFile> {
        let file = |kind: &&str| {
            let (path, sha256) = (format!("repodata/0-{kind}.xml.gz"), Sha256::of_bytes(kind));
            rocmrpm_base::files::write_atomically(&dir.join(&path), kind).unwrap();
            MetadataFile { path, size: kind.len() as u64, sha256 }
        };
        KINDS.iter().map(file).collect()
    }

    #[test]
    fn reads_what_it_writes() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        assert_eq!(Repomd::parse(&Repomd::naming(&files)), Ok(Repomd(files)));
    }

    #[test]
    fn rejects_a_truncated_repomd_at_any_length() {
        let dir = tempfile::tempdir().unwrap();
        let text = Repomd::naming(&files(dir.path()));
        for length in 0..text.trim_end().len() {
            assert!(Repomd::parse(&text[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn rejects_missing_metadata_and_paths_outside() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        assert_eq!(
            Repomd::parse(&Repomd::naming(&files[..2])).unwrap_err(),
            "it lists no other metadata"
        );
        let text = Repomd::naming(&files).replace("repodata/0-other", "repodata/../0-other");
        assert!(Repomd::parse(&text).unwrap_err().contains("`repodata/../0-other.xml.gz`"));
    }

    #[test]
    fn finds_files_that_are_missing_or_differ() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        fs::write(dir.path().join(REPOMD), Repomd::naming(&files)).unwrap();
        Repomd::verified(dir.path()).unwrap();
        let path = dir.path().join(&files[1].path);
        fs::write(&path, "filelistz").unwrap();
        let error = Repomd::verified(dir.path()).unwrap_err().to_string();
        assert!(error.contains("0-filelists.xml.gz has 9 bytes"), "{error}");
        fs::remove_file(path).unwrap();
        let error = Repomd::verified(dir.path()).unwrap_err().to_string();
        assert!(error.contains("0-filelists.xml.gz, which is missing"), "{error}");
    }
}
