//! Reads a published index over HTTPS, as its users do. It never changes the index.

use std::path::Path;

use super::IndexError;
use super::entry::each;
use super::place::{IndexStorage, Package, Page, Stored};
use super::publish::PublishError;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::Error;
use rocmrpm_base::text::{PATH, percent_encode};
use rocmrpm_fetch::{SourceError, download_plain};

/// An index at a URL.
#[derive(Debug)]
pub struct Web(String);

impl Web {
    /// Wraps a URL, which must be `https://` or `http://`.
    pub fn at(url: &str) -> Result<Self, PublishError> {
        if !url.starts_with("https://") && !url.starts_with("http://") {
            let why = "it must start with https:// or http://".to_owned();
            return Err(PublishError::Destination { text: url.to_owned(), why });
        }
        Ok(Self(url.trim_end_matches('/').to_owned()))
    }

    /// Downloads a file; `None` if the server does not have it.
    fn fetch<T>(
        &self,
        path: &str,
        then: impl FnOnce(&Path) -> std::io::Result<T>,
    ) -> Result<Option<T>, IndexError> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("file");
        let url = format!("{}/{}", self.0, percent_encode(path, PATH));
        match download_plain(&url, &file) {
            Ok(()) => Ok(Some(then(&file)?)),
            Err(SourceError::Transfer { status: 404 | 410, .. }) => Ok(None),
            Err(error) => Err(IndexError::Download(Box::new(Error::from(error)))),
        }
    }
}

impl IndexStorage for Web {
    fn name(&self) -> String {
        self.0.clone()
    }

    fn read(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
        each(paths, |path| self.fetch(path, |file| fs_err::read(file)))
    }

    fn stored(&self, paths: &[String]) -> Result<Vec<Option<Stored>>, IndexError> {
        each(paths, |path| {
            let found = self.fetch(path, Sha256::of_file)?;
            Ok(found.map(|(sha256, size)| Stored { size, sha256 }))
        })
    }

    fn put_packages(&self, _: &[Package]) -> Result<(), IndexError> {
        Err(self.refused())
    }

    fn put_pages(&self, _: &[Page]) -> Result<(), IndexError> {
        Err(self.refused())
    }

    fn remove(&self, _: &[String]) -> Result<(), IndexError> {
        Err(self.refused())
    }
}

impl Web {
    fn refused(&self) -> IndexError {
        std::io::Error::new(std::io::ErrorKind::ReadOnlyFilesystem, self.0.clone()).into()
    }
}
