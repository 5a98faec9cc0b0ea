//! An index in S3, reached by `rclone`. It knows no SHA-256 of an object, so all
//! that counts is read back. It cannot name an object as a folder: the service has
//! to serve `index.html` for folders, as websites in buckets do.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::error::PublishError;
use super::missing;
use super::s3::{Bucket, IMMUTABLE, SHORT, package_type};
use super::tool::{Layout, failed, io, run};
use crate::IndexError;
use crate::place::{Package, Page, Place, Stored};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::process::{Command, Finished};

/// A bucket that `rclone` reaches. Credentials and region are those of the environment and of
/// the AWS configuration files; RCLONE_S3_* overrides them.
#[derive(Debug)]
pub struct Rclone {
    bucket: Bucket,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    path: String,
    size: u64,
}

impl Rclone {
    /// Returns the place; nothing is asked yet.
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket }
    }

    /// The remote that needs no configuration. Source: rclone's documentation, "Connection
    /// strings" and "Environment Variables".
    fn target(&self, path: &str) -> String {
        format!(":s3:{}/{}", self.bucket.name, self.bucket.key(path)).trim_end_matches('/').to_owned()
    }

    fn done(&self, command: Command, action: &str) -> Result<Finished, PublishError> {
        // rclone up to 1.60 at least refuses to start where the AWS library's own setting stands.
        let mut command = command.env_remove("AWS_CA_BUNDLE");
        for (name, value) in self.settings(|name| std::env::var_os(name)) {
            command = command.env(name, value);
        }
        let finished = run(command)?;
        if finished.success() {
            return Ok(finished);
        }
        Err(failed("rclone", &finished, action, &self.bucket.url()))
    }

    /// Returns rclone's settings, as far as the environment does not have them.
    fn settings(&self, set: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, OsString)> {
        let provider = if self.bucket.endpoint.is_some() { "Other" } else { "AWS" };
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| set(name));
        let mut settings: Vec<(&'static str, OsString)> = vec![
            ("RCLONE_S3_PROVIDER", provider.into()),
            ("RCLONE_S3_ENV_AUTH", "true".into()),
            // Otherwise it tries to make the bucket before every upload.
            ("RCLONE_S3_NO_CHECK_BUCKET", "true".into()),
        ];
        settings.extend(region.map(|region| ("RCLONE_S3_REGION", region)));
        settings.extend(set("AWS_CA_BUNDLE").map(|file| ("RCLONE_CA_CERT", file)));
        settings.retain(|(name, _)| set(name).is_none());
        // The command line names it.
        settings.extend(self.bucket.endpoint.as_ref().map(|url| ("RCLONE_S3_ENDPOINT", url.into())));
        settings
    }

    /// Reads the objects of this layout that are there, and returns their digests by path.
    fn digests(&self, layout: &Layout) -> Result<BTreeMap<String, Sha256>, PublishError> {
        let command = Command::new("rclone")
            .args(["hashsum", "sha256", "--download", "--files-from-raw"])
            .arg(layout.list()?)
            .arg(self.target(""));
        let finished = self.done(command, "read back files of")?;
        let mut digests = BTreeMap::new();
        for line in String::from_utf8_lossy(&finished.stdout).lines() {
            // As sha256sum writes it: digest, two spaces, name.
            let parsed = line.split_once("  ").and_then(|(hex, path)| Some((path, Sha256::parse(hex)?)));
            let (path, digest) = parsed
                .ok_or_else(|| io("understand what `rclone hashsum` says")(std::io::Error::other(line)))?;
            digests.insert(path.to_owned(), digest);
        }
        Ok(digests)
    }

    fn stored_now<'a>(
        &self,
        paths: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Vec<Option<Stored>>, PublishError> {
        let mut layout = Layout::new()?;
        let mut any = false;
        paths.clone().for_each(|path| {
            any = true;
            layout.name(path);
        });
        if !any {
            return Ok(Vec::new());
        }
        let command = Command::new("rclone")
            .args([
                "lsjson",
                "--recursive",
                "--files-only",
                "--no-modtime",
                "--no-mimetype",
                "--files-from-raw",
            ])
            .arg(layout.list()?)
            .arg(self.target(""));
        let finished = self.done(command, "list")?;
        let listed: Vec<Listed> = serde_json::from_slice(&finished.stdout)
            .map_err(std::io::Error::from)
            .map_err(io("understand what `rclone lsjson` says"))?;
        let sizes: BTreeMap<String, u64> = listed.into_iter().map(|file| (file.path, file.size)).collect();
        let digests = if sizes.is_empty() { BTreeMap::new() } else { self.digests(&layout)? };
        Ok(paths.map(|path| Some(Stored { size: *sizes.get(path)?, sha256: *digests.get(path)? })).collect())
    }

    fn send(&self, layout: &Layout, headers: [&str; 2]) -> Result<(), PublishError> {
        let [media_type, cache] = headers;
        let mut command = Command::new("rclone")
            .args(["copy", "--copy-links", "--no-traverse", "--header-upload"])
            .arg(format!("Content-Type: {media_type}"))
            .arg("--header-upload")
            .arg(format!("Cache-Control: {cache}"))
            .arg("--files-from-raw")
            .arg(layout.list()?);
        // An object that is there and differs is an error then; a page is sent whatever its age.
        command = command.arg(if cache == IMMUTABLE { "--immutable" } else { "--ignore-times" });
        self.done(command.arg(layout.tree()).arg(self.target("")), "send files to").map(drop)
    }
}

impl Place for Rclone {
    fn name(&self) -> String {
        self.bucket.url()
    }

    fn read(&self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let mut layout = Layout::new()?;
        for path in paths {
            layout.name(path);
        }
        let command = Command::new("rclone")
            .args(["copy", "--files-from-raw"])
            .arg(layout.list()?)
            .arg(self.target(""))
            .arg(layout.tree());
        self.done(command, "read pages of")?;
        Ok(paths.iter().map(|path| layout.read(path)).collect::<Result<_, _>>()?)
    }

    fn stored(&self, paths: &[String]) -> Result<Vec<Option<Stored>>, IndexError> {
        Ok(self.stored_now(paths.iter().map(String::as_str))?)
    }

    fn put_packages(&self, packages: &[Package]) -> Result<(), IndexError> {
        let mut kinds: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
        for package in missing(self, packages)? {
            kinds.entry(package_type(&package.path)).or_default().push(package);
        }
        for (media_type, packages) in kinds {
            let mut layout = Layout::new()?;
            for package in &packages {
                layout.link(&package.path, &package.file)?;
            }
            self.send(&layout, [media_type, IMMUTABLE])?;
            let digests = self.digests(&layout)?;
            if let Some(wrong) = packages.iter().find(|p| digests.get(&p.path) != Some(&p.stored.sha256)) {
                return Err(PublishError::NotVerified { place: self.name(), path: wrong.path.clone() }.into());
            }
        }
        Ok(())
    }

    fn put_pages(&self, pages: &[Page]) -> Result<(), IndexError> {
        // One at a time: rclone has an order of its own.
        for page in pages {
            let mut layout = Layout::new()?;
            layout.write(&page.path, &page.bytes)?;
            self.send(&layout, [page.media_type, SHORT])?;
        }
        Ok(())
    }

    fn remove(&self, paths: &[String]) -> Result<(), IndexError> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut layout = Layout::new()?;
        paths.iter().for_each(|path| drop(layout.name(path)));
        let command = Command::new("rclone").args(["delete", "--files-from-raw"]);
        self.done(command.arg(layout.list()?).arg(self.target("")), "remove files of")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_named_as_users_write_it_and_as_rclone_reads_it() {
        let rclone = Rclone::new(Bucket::parse("bucket/a/", None).unwrap());
        assert_eq!((rclone.name().as_str(), rclone.target("").as_str()), ("s3://bucket/a", ":s3:bucket/a"));
        assert_eq!(rclone.target("b/c"), ":s3:bucket/a/b/c");
    }

    #[test]
    fn settings_of_the_environment_override_the_defaults() {
        let settings = |endpoint: Option<&str>, environment: &[(&str, &str)]| {
            let bucket = Bucket::parse("bucket", endpoint).unwrap();
            let set = |name: &str| {
                environment.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into())
            };
            let settings = Rclone::new(bucket).settings(set);
            let text = settings.iter().map(|(name, value)| format!("{name}={} ", value.to_string_lossy()));
            text.collect::<String>().replace("RCLONE_", "")
        };
        let fixed = "S3_ENV_AUTH=true S3_NO_CHECK_BUCKET=true ";
        assert_eq!(settings(None, &[]), format!("S3_PROVIDER=AWS {fixed}"));
        let endpoint = "http://127.0.0.1:1";
        assert_eq!(
            settings(Some(endpoint), &[("RCLONE_S3_ENDPOINT", "http://other")]),
            format!("S3_PROVIDER=Other {fixed}S3_ENDPOINT={endpoint} ")
        );
        let of_aws = [("AWS_DEFAULT_REGION", "b"), ("AWS_REGION", "a"), ("AWS_CA_BUNDLE", "ca.pem")];
        assert_eq!(settings(None, &of_aws), format!("S3_PROVIDER=AWS {fixed}S3_REGION=a CA_CERT=ca.pem "));
        let of_rclone = [("RCLONE_S3_PROVIDER", "Ceph"), ("RCLONE_S3_REGION", "b"), ("AWS_REGION", "a")];
        assert_eq!(settings(None, &of_rclone), fixed);
    }
}
