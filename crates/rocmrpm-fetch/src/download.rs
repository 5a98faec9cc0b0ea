//! Downloads a URL to a verified file in the store: resumes, verifies, and moves the file into
//! place. `curl` runs the transfer.

use std::path::Path;

use fs_err as fs;

use super::cache::{Cache, CacheState};
use super::curl::{self, Failure, Transfer};
use super::url::Credentials;
use super::{SourceError, archive, limits};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::IoError;

/// A file to download.
pub struct Request<'a> {
    /// The URL without credentials.
    pub url: &'a str,
    /// The credentials for the server, if any.
    pub credentials: Option<&'a Credentials>,
    /// The name of the file, which determines the expected format.
    pub name: &'a str,
    /// The expected digest, if known.
    pub expected: Option<Sha256>,
    /// The size in bytes, if announced.
    pub size: Option<u64>,
}

/// Downloads a file into the store and returns its digest. A file that does not match is deleted; a
/// partial download is kept.
pub fn file(cache: &Cache, request: &Request<'_>) -> Result<Sha256, SourceError> {
    let _lock = cache.lock(request.url)?;
    if let Some(expected) = request.expected
        && cache.held(&expected)? == CacheState::Whole
    {
        return Ok(expected);
    }
    let partial = cache.partial(request.url)?;
    if request.expected.is_none() {
        // Without a digest, a mixture of two different files would go unnoticed.
        remove(&partial)?;
    }
    let limit = limits::file(request.size)?;
    loop {
        let resume = fs::metadata(&partial).is_ok_and(|m| m.len() > 0);
        let Request { url, credentials, .. } = *request;
        match curl::run(&Transfer { url, credentials, to: &partial, resume, limit, accept: None }) {
            Ok(_) => {}
            Err(Failure::CannotResume) => {
                remove(&partial)?;
                continue;
            }
            Err(Failure::Error(error)) => {
                if matches!(error, SourceError::TooLarge { .. }) {
                    remove(&partial)?;
                }
                return Err(error);
            }
        }
        let (found, size) = digest_of(&partial)?;
        if request.expected.is_some_and(|expected| expected != found) && resume {
            // The part from an earlier run may belong to another file.
            remove(&partial)?;
            continue;
        }
        let verdict = verify(request, &partial, found, size);
        return match verdict {
            Ok(()) => cache.admit(&partial, &found).map(|_| found),
            Err(error) => {
                remove(&partial)?;
                Err(error)
            }
        };
    }
}

fn verify(request: &Request<'_>, file: &Path, found: Sha256, size: u64) -> Result<(), SourceError> {
    let what = format!("`{}` from {}", request.name, request.url);
    let content = archive::check(file, request.name)?;
    if let Some(expected) = request.expected.filter(|expected| *expected != found) {
        let begins = content.err().map(|not| not.begins);
        return Err(SourceError::Digest {
            what: format!("{what} ({size} bytes)"),
            expected,
            found,
            begins,
        });
    }
    match content {
        // curl reports success, with an empty file, for a folder or an empty response.
        Ok(_) if size == 0 => {
            let begins = "nothing".to_owned();
            Err(SourceError::NotAnArchive { file: what, expected: "a source", begins })
        }
        Ok(_) => Ok(()),
        Err(not) => Err(SourceError::NotAnArchive {
            file: what,
            expected: not.expected,
            begins: not.begins,
        }),
    }
}

fn digest_of(path: &Path) -> Result<(Sha256, u64), SourceError> {
    if !path.exists() {
        // curl does not create a file for an empty response.
        fs::write(path, "").map_err(IoError::doing("write to the cache"))?;
    }
    Ok(Sha256::of_file(path).map_err(IoError::doing("read a download"))?)
}

fn remove(path: &Path) -> Result<(), SourceError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(IoError::doing("remove a partial download")(error).into())
        }
        _ => Ok(()),
    }
}
