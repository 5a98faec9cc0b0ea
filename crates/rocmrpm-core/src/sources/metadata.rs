//! Reads the METADATA of distributions on an index, without downloading them completely if
//! possible: from the file next to a wheel (PEP 658), parts of the wheel, the whole wheel, or an
//! sdist. Results are cached by the distribution's digest if they were read from its file;
//! otherwise also by index, which may return anything. It interprets only name and version.

use std::io::Read;
use std::path::{Path, PathBuf};

use fs_err as fs;
use pep440_rs::Version;

use super::cache::Scratch;
use super::curl::{self, Ended, Piece};
use super::download::{self, Request};
use super::index::{self, ProjectFile};
use super::partial::PartialFile;
use super::url::{self, Credentials};
use super::{Fetcher, SourceError};
use crate::digest::Sha256;
use crate::error::IoError;
use crate::machine;
use crate::parallel;
use crate::wheel;

/// Number of bytes to fetch from the end of a wheel first. METADATA is near the end, followed by
/// RECORD and the central directory, as the binary distribution format recommends.
const TAIL: u64 = 64 << 10;

/// If more than this many bytes of a wheel are needed, it is downloaded completely.
const MAX_PARTS: usize = 16 << 20;

/// Maximum size of METADATA, in bytes. The largest real files have several hundred thousand.
const MAX_METADATA: u64 = 16 << 20;

/// Maximum number of complete distributions to fetch in parallel, each with its own curl.
const AT_ONCE: usize = 8;

/// A distribution file on the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// The normalized project name.
    pub project: String,
    /// The version of the distribution.
    pub version: Version,
    /// The file name.
    pub file: String,
    /// The digest of the file.
    pub sha256: Sha256,
    /// The digest of METADATA, if known. METADATA with another digest is an error; cached METADATA
    /// with this digest is used without querying an index.
    pub metadata: Option<Sha256>,
}

impl Distribution {
    fn is_wheel(&self) -> bool {
        self.file.ends_with(".whl")
    }

    /// The cache key for METADATA read from the distribution itself.
    fn recipe(&self) -> String {
        format!("metadata 2\n{}\n", self.sha256)
    }

    /// The cache key for METADATA provided by an index.
    fn recipe_of(&self, index: &str) -> String {
        format!("metadata 2\n{}\nas {} says\n", self.sha256, url::shown(index))
    }

    fn wrong(&self, wrong: impl Into<String>) -> SourceError {
        SourceError::Metadata { file: self.file.clone(), wrong: wrong.into() }
    }

    /// Checks that METADATA belongs to this distribution.
    fn check(&self, text: &str) -> Result<(), SourceError> {
        let found = Sha256::of_bytes(text);
        if let Some(expected) = self.metadata.filter(|expected| *expected != found) {
            return Err(self.wrong(format!("their sha256 is {found}, expected {expected}")));
        }
        let (name, version) = wheel::name_and_version(text).map_err(|reason| self.wrong(reason))?;
        if name == self.project && version == self.version {
            return Ok(());
        }
        let (project, wanted) = (&self.project, &self.version);
        Err(self
            .wrong(format!("they are for {name} {version}, but its name has {project} {wanted}")))
    }
}

/// METADATA, and whether it was read from a distribution with the expected digest.
#[derive(Debug, Clone)]
struct Text {
    text: String,
    proven: bool,
}

/// The index of a requested piece, the file that contains it, and how its transfer ended.
type Arrived = (usize, PathBuf, Ended);

impl Fetcher<'_> {
    /// Returns the METADATA of distributions in order. Does not use the network for cached
    /// METADATA.
    pub fn metadata(&self, wanted: &[Distribution]) -> Result<Vec<String>, SourceError> {
        let mut found: Vec<Option<String>> = Vec::with_capacity(wanted.len());
        for one in wanted {
            let text = self.known(one)?;
            // A lock may contain the digest of another distribution.
            text.iter().try_for_each(|text| one.check(text))?;
            found.push(text);
        }
        let missing: Vec<usize> = (0..wanted.len()).filter(|at| found[*at].is_none()).collect();
        if let Some(first) = missing.first() {
            self.needs_network(|| format!("the METADATA of {}", wanted[*first].file))?;
            let some: Vec<&Distribution> = missing.iter().map(|at| &wanted[*at]).collect();
            let texts = self.fetch_metadata(&some)?;
            let index = self.index_url()?;
            for ((at, one), Text { text, proven }) in missing.iter().zip(&some).zip(texts) {
                one.check(&text)?;
                let recipe = if proven { one.recipe() } else { one.recipe_of(index) };
                self.remember(&recipe, &text)?;
                found[*at] = Some(text);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns the cached METADATA of a distribution. Prefers METADATA read from the distribution
    /// over METADATA provided by the index.
    fn known(&self, one: &Distribution) -> Result<Option<String>, SourceError> {
        if let Some(digest) = one.metadata.filter(|digest| self.cache().path_of(digest).is_file()) {
            return self.text_of(&digest);
        }
        if let Some(text) = self.remembered(&one.recipe())? {
            return Ok(Some(text));
        }
        if self.holds(&one.sha256)? {
            let text = self.read_held(one)?;
            one.check(&text)?;
            self.remember(&one.recipe(), &text)?;
            return Ok(Some(text));
        }
        // Without a configured index, there is nothing to look up.
        match self.index_url() {
            Ok(index) => self.remembered(&one.recipe_of(index)),
            Err(_) => Ok(None),
        }
    }

    /// Returns the cached text for a recipe.
    pub(crate) fn remembered(&self, recipe: &str) -> Result<Option<String>, SourceError> {
        self.cache().packed(recipe).map_or(Ok(None), |digest| self.text_of(&digest))
    }

    /// Returns a cached text, or `None` if it is damaged and must be downloaded again.
    fn text_of(&self, digest: &Sha256) -> Result<Option<String>, SourceError> {
        let action = || IoError::doing("read METADATA from the cache");
        let file = fs::File::open(self.cache().path_of(digest)).map_err(action())?;
        let mut bytes = Vec::new();
        // A lock from an untrusted workspace can contain the digest of a large file.
        file.take(MAX_METADATA).read_to_end(&mut bytes).map_err(action())?;
        Ok(String::from_utf8(bytes).ok().filter(|text| Sha256::of_bytes(text) == *digest))
    }

    /// Stores a text in the cache.
    pub(crate) fn remember(&self, recipe: &str, text: &str) -> Result<(), SourceError> {
        let scratch = self.cache().scratch()?;
        let file = scratch.path().join("text");
        fs::write(&file, text).map_err(IoError::doing("write METADATA to the cache"))?;
        let digest = Sha256::of_bytes(text);
        self.cache().admit(&file, &digest)?;
        self.cache().record_packed(recipe, &digest)
    }

    /// Returns the files on the index for each project, in order; empty for unknown projects.
    pub fn projects(&self, names: &[&str]) -> Result<Vec<Vec<ProjectFile>>, SourceError> {
        let (index, credentials) = url::split_credentials(self.index_url()?);
        let scratch = self.cache().scratch()?;
        let pieces: Vec<Piece<'_>> = names
            .iter()
            .enumerate()
            .map(|(at, name)| Piece {
                url: index::page_url(&index, name),
                credentials: credentials.as_ref(),
                to: scratch.path().join(at.to_string()),
            })
            .collect();
        let accept = format!("Accept: {}", index::ACCEPT);
        let ends = curl::run_many(&pieces, &["--header", &accept])?;
        let pages: Vec<(&Piece<'_>, &Ended)> = pieces.iter().zip(&ends).collect();
        parallel::try_map(&pages, machine::cores(), |(piece, end)| {
            let missing =
                end.is_missing() || (end.status == 0 && super::simple::is_missing(&piece.url));
            match (missing, end.well()) {
                (true, _) => Ok(Vec::new()),
                (false, false) => Err(end.error(piece)?),
                (false, true) => {
                    index::files(&super::simple::read_page(&piece.to, &end.url)?, &end.url)
                }
            }
        })
    }

    /// Fetches METADATA, falling back to the next method for distributions that the previous one
    /// did not find.
    fn fetch_metadata(&self, wanted: &[&Distribution]) -> Result<Vec<Text>, SourceError> {
        let names: Vec<&str> = wanted.iter().map(|one| one.project.as_str()).collect();
        let mut files = Vec::with_capacity(wanted.len());
        for (one, offered) in wanted.iter().zip(self.projects(&names)?) {
            files.push(self.file_of(one, offered)?);
        }
        let mut texts: Vec<Option<Text>> = vec![None; wanted.len()];
        self.beside(wanted, &files, &mut texts)?;
        self.read_parts(wanted, &files, &mut texts)?;
        let open: Vec<usize> = (0..wanted.len()).filter(|at| texts[*at].is_none()).collect();
        let whole =
            parallel::try_map(&open, AT_ONCE, |at| self.read_whole(wanted[*at], &files[*at]))?;
        for (at, text) in open.into_iter().zip(whole) {
            texts[at] = Some(Text { text, proven: true });
        }
        Ok(texts.into_iter().flatten().collect())
    }

    /// Finds a distribution's file among the files of its project.
    fn file_of(
        &self,
        one: &Distribution,
        offered: Vec<ProjectFile>,
    ) -> Result<ProjectFile, SourceError> {
        let index = || self.index_url().map(url::shown);
        if offered.is_empty() {
            return Err(SourceError::NoProject { index: index()?, project: one.project.clone() });
        }
        let Some(file) = offered.into_iter().find(|file| file.name == one.file) else {
            return Err(SourceError::NoFile { index: index()?, file: one.file.clone() });
        };
        match file.sha256 {
            Some(found) if found != one.sha256 => {
                let (file, expected) = (one.file.clone(), one.sha256);
                Err(SourceError::IndexDigest { file, expected, found })
            }
            _ => Ok(file),
        }
    }

    /// Fetches METADATA files next to wheels, even if the index does not announce them.
    fn beside(
        &self,
        wanted: &[&Distribution],
        files: &[ProjectFile],
        texts: &mut [Option<Text>],
    ) -> Result<(), SourceError> {
        let (_folder, ends) = self.pieces(wanted, files, texts, ".metadata", &[])?;
        for (at, path, end) in ends {
            if !end.well() {
                continue;
            }
            let bytes = fs::read(&path).map_err(IoError::doing("read METADATA"))?;
            let found = Sha256::of_bytes(&bytes);
            if let Some(expected) = files[at].metadata.filter(|expected| *expected != found) {
                let what = format!("`{}.metadata` ({} bytes)", wanted[at].file, bytes.len());
                return Err(SourceError::Digest { what, expected, found, begins: None });
            }
            // A server may return its own page instead of an error.
            let text = String::from_utf8(bytes).ok();
            let announced = files[at].metadata.is_some();
            let text = text.filter(|text| announced || wanted[at].check(text).is_ok());
            texts[at] = text.map(|text| Text { text, proven: false });
        }
        Ok(())
    }

    /// Downloads the ends of wheels, and then the other parts that contain METADATA.
    fn read_parts(
        &self,
        wanted: &[&Distribution],
        files: &[ProjectFile],
        texts: &mut [Option<Text>],
    ) -> Result<(), SourceError> {
        let range = format!("-{TAIL}");
        let (_folder, ends) = self.pieces(wanted, files, texts, "", &["--range", &range])?;
        let ends: Vec<Arrived> = ends.into_iter().filter(|(.., end)| end.well()).collect();
        let found = parallel::try_map(&ends, AT_ONCE, |(at, path, end)| match end.whole {
            Some(whole) => self.read_in_parts(&files[*at], path, whole),
            // The server sent the complete file, which can be verified.
            None => verified(path, wanted[*at]),
        })?;
        for ((at, _, end), text) in ends.iter().zip(found) {
            texts[*at] = text.map(|text| Text { text, proven: end.whole.is_none() });
        }
        Ok(())
    }

    /// Reads the METADATA of a wheel of `whole` bytes that ends with the content of `tail`, and
    /// downloads more parts as needed. Returns `None` if the server does not send them or if they
    /// are too large.
    fn read_in_parts(
        &self,
        file: &ProjectFile,
        tail: &Path,
        whole: u64,
    ) -> Result<Option<String>, SourceError> {
        let mut wheel = PartialFile::new(whole);
        let bytes = fs::read(tail).map_err(IoError::doing("read the end of a wheel"))?;
        let Some(start) = whole.checked_sub(bytes.len() as u64) else { return Ok(None) };
        wheel.insert(start, bytes);
        let (url, credentials) = self.address(file)?;
        loop {
            if let Ok(text) = wheel::metadata_in(&mut wheel) {
                return Ok(Some(text));
            }
            let Some(part) = wheel.missing().filter(|_| wheel.downloaded() < MAX_PARTS) else {
                return Ok(None);
            };
            let scratch = self.cache().scratch()?;
            let to = scratch.path().join("part");
            let piece =
                Piece { url: url.clone(), credentials: credentials.as_ref(), to: to.clone() };
            let range = format!("{}-{}", part.start, part.end - 1);
            let ends = curl::run_many(&[piece], &["--range", &range])?;
            if !ends.iter().all(|end| end.well() && end.whole == Some(whole)) {
                return Ok(None);
            }
            let bytes = fs::read(&to).map_err(IoError::doing("read a part of a wheel"))?;
            if bytes.len() as u64 != part.end - part.start {
                return Ok(None);
            }
            wheel.insert(part.start, bytes);
        }
    }

    /// Returns the URL of a file without credentials, and the credentials for the request.
    fn address(&self, file: &ProjectFile) -> Result<(String, Option<Credentials>), SourceError> {
        let (url, own) = url::split_credentials(&file.url);
        let credentials = own.or(self.credentials_for(&url)?);
        Ok((url, credentials))
    }

    /// Fetches one piece of each wheel that has no METADATA yet, for HTTP servers only.
    fn pieces(
        &self,
        wanted: &[&Distribution],
        files: &[ProjectFile],
        texts: &[Option<Text>],
        suffix: &str,
        args: &[&str],
    ) -> Result<(Scratch, Vec<Arrived>), SourceError> {
        let scratch = self.cache().scratch()?;
        let to = |at: &usize| scratch.path().join(at.to_string());
        let remote = |at: &usize| {
            let url = files[*at].url.to_ascii_lowercase();
            texts[*at].is_none() && wanted[*at].is_wheel() && url.starts_with("http")
        };
        let some: Vec<usize> = (0..wanted.len()).filter(remote).collect();
        let mut credentials: Vec<Option<Credentials>> = Vec::new();
        let mut urls = Vec::new();
        for at in &some {
            let (url, own) = self.address(&files[*at])?;
            credentials.push(own);
            urls.push(url);
        }
        let pieces: Vec<Piece<'_>> = some
            .iter()
            .zip(&urls)
            .zip(&credentials)
            .map(|((at, url), credentials)| Piece {
                url: format!("{url}{suffix}"),
                credentials: credentials.as_ref(),
                to: to(at),
            })
            .collect();
        let ends = curl::run_many(&pieces, args)?;
        let ends = some.iter().zip(ends).map(|(at, end)| (*at, to(at), end)).collect();
        Ok((scratch, ends))
    }

    /// Downloads and verifies a complete distribution and reads its METADATA.
    fn read_whole(&self, one: &Distribution, file: &ProjectFile) -> Result<String, SourceError> {
        let (url, credentials) = self.address(file)?;
        let request = Request {
            url: &url,
            credentials: credentials.as_ref(),
            name: &one.file,
            expected: Some(one.sha256),
            size: file.size,
        };
        download::file(self.cache(), &request)?;
        self.read_held(one)
    }

    /// Reads the METADATA of a cached distribution.
    fn read_held(&self, one: &Distribution) -> Result<String, SourceError> {
        let path = self.cache().path_of(&one.sha256);
        let open = || fs::File::open(&path).map_err(IoError::doing("read a distribution"));
        match one.is_wheel() {
            true => wheel::metadata_in(open()?).map_err(|reason| one.wrong(reason)),
            false => python_packaging::sdist::read(open()?, &one.file)
                .map_err(|reason| one.wrong(reason)),
        }
    }
}

/// Reads METADATA in a complete wheel if its digest matches.
fn verified(path: &Path, one: &Distribution) -> Result<Option<String>, SourceError> {
    let (found, size) = Sha256::of_file(path).map_err(IoError::doing("read a wheel"))?;
    if found != one.sha256 {
        let what = format!("`{}` ({size} bytes)", one.file);
        return Err(SourceError::Digest { what, expected: one.sha256, found, begins: None });
    }
    let file = fs::File::open(path).map_err(IoError::doing("read a wheel"))?;
    Ok(Some(wheel::metadata_in(file).map_err(|reason| one.wrong(reason))?))
}
