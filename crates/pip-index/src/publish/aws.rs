//! Stores an index in S3 through the `aws` client (version 1 or 2). The service verifies what
//! arrives where it can; otherwise rocmrpm reads it back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;

use super::missing;
use super::s3::{Bucket, IMMUTABLE, SHORT_CACHE, common_folder, folder_path, package_type};
use super::tool::{Layout, failed, in_parallel, io, levels, run};
use crate::IndexError;
use crate::place::{IndexStorage, Package, Page, Stored};
use crate::publish_error::PublishError;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::process::{Command, Finished};

/// The largest upload in one PutObject, in bytes. Source: Amazon S3 User Guide, "Uploading
/// objects": 5 GB, which its limits give as 5 GiB.
const SINGLE_PUT: u64 = 5 << 30;

/// A bucket that `aws` reaches. The client manages credentials, region and proxies.
#[derive(Debug)]
pub struct Aws {
    bucket: Bucket,
    /// Whether the client can ask the service not to replace an existing object.
    conditional: OnceLock<bool>,
}

/// The service's description of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Object {
    content_length: Option<u64>,
    /// In base64. Ends in `-N` if it covers a list of parts instead of the object.
    #[serde(rename = "ChecksumSHA256")]
    sha256: Option<String>,
}

impl Aws {
    /// Wraps a bucket, without any request.
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket, conditional: OnceLock::new() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let endpoint = self.bucket.endpoint.iter().flat_map(|url| ["--endpoint-url", url]);
        Command::new("aws").args(endpoint).args(["--output", "json"]).args(words)
    }

    fn api(&self, operation: &str, path: &str) -> Command {
        let key = self.bucket.key(path);
        self.command(&["s3api", operation, "--bucket", &self.bucket.name, "--key", &key])
    }

    fn done(&self, command: Command, action: &str) -> Result<Finished, PublishError> {
        let finished = run(command)?;
        if finished.success() {
            Ok(finished)
        } else {
            Err(failed("aws", &finished, action, &self.bucket.url()))
        }
    }

    fn answer<T: Default + for<'de> Deserialize<'de>>(
        &self,
        finished: &Finished,
    ) -> Result<T, PublishError> {
        if finished.stdout.iter().all(u8::is_ascii_whitespace) {
            return Ok(T::default());
        }
        serde_json::from_slice::<Option<T>>(&finished.stdout)
            .map(Option::unwrap_or_default)
            .map_err(std::io::Error::from)
            .map_err(io("parse the output of `aws`"))
    }

    /// Returns the size of every object below this folder, by path, in a single call.
    fn list(&self, folder: &str) -> Result<BTreeMap<String, u64>, PublishError> {
        let prefix = self.bucket.key(folder);
        let query = "Contents[].[Key,Size]";
        let words = ["s3api", "list-objects-v2", "--bucket", &self.bucket.name, "--query", query];
        let mut command = self.command(&words);
        if !prefix.is_empty() {
            command = command.args(["--prefix", &prefix]);
        }
        let rows: Vec<(String, u64)> = self.answer(&self.done(command, "list")?)?;
        let path = |key: String| key.strip_prefix(&self.bucket.prefix).map(str::to_owned);
        Ok(rows.into_iter().filter_map(|(key, size)| Some((path(key)?, size))).collect())
    }

    /// Returns an object's size and digest: the digest that the service computed, or that of the
    /// object as read back.
    fn object(&self, path: &str) -> Result<Stored, PublishError> {
        let command = self.api("head-object", path).args(["--checksum-mode", "ENABLED"]);
        let object: Object = self.answer(&self.done(command, "inspect a file of")?)?;
        match (object.content_length, object.sha256.as_deref().and_then(from_base64)) {
            (Some(size), Some(sha256)) => Ok(Stored { size, sha256 }),
            _ => self.read_back(path),
        }
    }

    /// Downloads an object and returns its size and digest. `aws` can only write to a file, not to
    /// a pipe.
    fn read_back(&self, path: &str) -> Result<Stored, PublishError> {
        let file = tempfile::NamedTempFile::new().map_err(io("create a temporary file"))?;
        self.done(self.api("get-object", path).arg(file.path()), "read back a file of")?;
        let (sha256, size) = Sha256::of_file(file.path()).map_err(io("read a temporary file"))?;
        Ok(Stored { size, sha256 })
    }

    fn stored_now(&self, paths: &[&str]) -> Result<Vec<Option<Stored>>, PublishError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let there = self.list(common_folder(paths))?;
        in_parallel(paths, |path| there.contains_key(*path).then(|| self.object(path)).transpose())
    }

    /// Uploads one object. Returns the service's description of it.
    fn put(
        &self,
        path: &str,
        file: &Path,
        headers: [&str; 2],
        sha256: &Sha256,
    ) -> Result<Object, PublishError> {
        let [media_type, cache] = headers;
        let command = self
            .api("put-object", path)
            .arg("--body")
            .arg(file)
            .args(["--content-type", media_type, "--cache-control", cache])
            .args([
                "--checksum-algorithm",
                "SHA256",
                "--checksum-sha256",
                &BASE64_STANDARD.encode(sha256.as_bytes()),
            ]);
        // Pages may be replaced, packages never, including those that another writer added after
        // rocmrpm checked.
        if cache == IMMUTABLE && *self.conditional.get_or_init(|| self.knows_conditions()) {
            let finished = run(command.clone().args(["--if-none-match", "*"]))?;
            match Refusal::of(&String::from_utf8_lossy(&finished.stderr)) {
                _ if finished.success() => return self.answer(&finished),
                // Another writer was faster, so compare with that writer's object.
                Refusal::Exists => return Ok(Object::default()),
                Refusal::NoConditions => {}
                Refusal::Other => {
                    return Err(failed("aws", &finished, "send a file to", &self.bucket.url()));
                }
            }
        }
        self.answer(&self.done(command, "send a file to")?)
    }

    /// Returns whether the client can upload an object only if it does not exist: from 2.17.35 on
    /// (its changelog). The client answers without asking the service.
    fn knows_conditions(&self) -> bool {
        let words = ["s3api", "put-object", "--generate-cli-skeleton"];
        run(self.command(&words)).is_ok_and(|finished| {
            String::from_utf8_lossy(&finished.stdout).contains("\"IfNoneMatch\"")
        })
    }

    /// Uploads pages of one type in any order, also under the names of their folders. A single call sends
    /// several pages, because each call costs more than the pages that it sends, and has checksums of
    /// its own; it cannot send a folder's name.
    fn put_together(&self, pages: &[&Page]) -> Result<(), PublishError> {
        let mut layout = Layout::new()?;
        let mut objects = Vec::new();
        for page in pages {
            let file = layout.write(&page.path, &page.bytes)?;
            let alone = (pages.len() == 1).then_some(page.path.as_str());
            let paths = alone.into_iter().chain(folder_path(&page.path));
            objects.extend(paths.map(|path| (path, file.clone(), page)));
        }
        if let [first, _, ..] = pages {
            let target = format!("s3://{}/{}", self.bucket.name, self.bucket.prefix);
            let command = self
                .command(&["s3", "cp", "--recursive", "--only-show-errors"])
                .args(["--content-type", first.media_type, "--cache-control", SHORT_CACHE])
                .arg(layout.tree())
                .arg(target);
            self.done(command, "send pages to")?;
        }
        in_parallel(&objects, |(path, file, page)| {
            let sha256 = Sha256::of_bytes(&page.bytes);
            self.put(path, file, [page.media_type, SHORT_CACHE], &sha256)
        })?;
        Ok(())
    }

    fn put_package(&self, package: &Package) -> Result<(), PublishError> {
        let Package { path, file, stored } = package;
        let media_type = package_type(path);
        let verified = if stored.size > SINGLE_PUT {
            let target = format!("s3://{}/{}", self.bucket.name, self.bucket.key(path));
            let headers = ["--content-type", media_type, "--cache-control", IMMUTABLE];
            let words = ["s3", "cp", "--only-show-errors"];
            let command = self.command(&words).args(headers).arg(file).arg(target);
            self.done(command, "send a file to")?;
            None
        } else {
            let object = self.put(path, file, [media_type, IMMUTABLE], &stored.sha256)?;
            object.sha256.as_deref().and_then(from_base64)
        };
        if verified == Some(stored.sha256) || self.object(path)? == *stored {
            return Ok(());
        }
        Err(PublishError::NotVerified { place: self.bucket.url(), path: path.clone() })
    }
}

impl IndexStorage for Aws {
    fn name(&self) -> String {
        self.bucket.url()
    }

    fn read(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        // A single call, because each call costs more than the files that it fetches. It lists the
        // folder and filters by name.
        let layout = Layout::new()?;
        let folder = common_folder(&paths);
        let source = format!("s3://{}/{}", self.bucket.name, self.bucket.key(folder));
        let names = paths.iter().flat_map(|path| ["--include", &path[folder.len()..]]);
        let command = self
            .command(&["s3", "cp", "--recursive", "--only-show-errors", "--exclude", "*"])
            .args(names)
            .arg(source)
            .arg(layout.tree().join(folder));
        self.done(command, "read pages of")?;
        Ok(paths.iter().map(|path| layout.read(path)).collect::<Result<_, _>>()?)
    }

    fn stored(&self, paths: &[String]) -> Result<Vec<Option<Stored>>, IndexError> {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        Ok(self.stored_now(&paths)?)
    }

    fn put_packages(&self, packages: &[Package]) -> Result<(), IndexError> {
        in_parallel(&missing(self, packages)?, |package| self.put_package(package))?;
        Ok(())
    }

    fn put_pages(&self, pages: &[Page]) -> Result<(), IndexError> {
        for pages in levels(pages) {
            // Of the pages of a folder, each is sent after the one before: JSON after HTML.
            let mut rounds: BTreeMap<(usize, &str), Vec<&Page>> = BTreeMap::new();
            let mut sent: BTreeMap<&str, usize> = BTreeMap::new();
            for page in pages {
                let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let round = sent.entry(folder).or_default();
                rounds.entry((*round, page.media_type)).or_default().push(page);
                *round += 1;
            }
            rounds.values().try_for_each(|pages| self.put_together(pages))?;
        }
        Ok(())
    }

    fn remove(&self, paths: &[String]) -> Result<(), IndexError> {
        // The service does not report an error for a missing key.
        let remove = |path: &String| {
            self.done(self.api("delete-object", path), "remove a file of").map(drop)
        };
        in_parallel(paths, remove)?;
        Ok(())
    }
}

/// Why a service refused a conditional upload.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// The object exists, or another client is writing it now.
    Exists,
    /// The service does not support conditions.
    NoConditions,
    Other,
}

impl Refusal {
    /// Parses the error output of `aws`. Source: Amazon S3 API Reference, "Error responses".
    fn of(stderr: &str) -> Self {
        match stderr {
            _ if stderr.contains("PreconditionFailed") => Self::Exists,
            _ if stderr.contains("ConditionalRequestConflict") => Self::Exists,
            _ if stderr.contains("NotImplemented") => Self::NoConditions,
            _ => Self::Other,
        }
    }
}

/// Decodes S3's base64 digest (RFC 4648, section 4); `None` for the digest of a list of parts,
/// which ends in `-N` and is not a digest of the object.
fn from_base64(text: &str) -> Option<Sha256> {
    let bytes: [u8; 32] = BASE64_STANDARD.decode(text).ok()?.try_into().ok()?;
    Some(Sha256::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_refusals_of_the_service() {
        for (code, expected) in [
            ("PreconditionFailed", Refusal::Exists),
            ("ConditionalRequestConflict", Refusal::Exists),
            ("NotImplemented", Refusal::NoConditions),
            ("AccessDenied", Refusal::Other),
        ] {
            let words =
                format!("An error occurred ({code}) when calling the PutObject operation: x");
            assert_eq!(Refusal::of(&words), expected, "{code}");
        }
    }

    #[test]
    fn digests_round_trip_through_base64() {
        let digest = Sha256::of_bytes("x");
        let text = BASE64_STANDARD.encode(digest.as_bytes());
        assert_eq!(from_base64(&text), Some(digest));
        for wrong in
            [format!("{text}-2"), text[1..].to_owned(), text.replace('=', "A"), String::new()]
        {
            assert_eq!(from_base64(&wrong), None, "{wrong}");
        }
    }
}
