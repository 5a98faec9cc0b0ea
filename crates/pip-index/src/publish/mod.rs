//! Places for an index outside this machine: which tool transfers to which place, and its errors.
//! It does not decide what to publish.

mod aws;
mod rsync;
mod s3;
mod tool;

use std::path::PathBuf;

pub use super::publish_error::PublishError;
pub use aws::Aws;
pub use rsync::Rsync;
pub use s3::Bucket;

use super::IndexError;
use super::folder::Folder;
use super::place::{IndexStorage, Package};
use super::view::View;

/// The destination for publishing an index, as users write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A folder on this machine.
    Folder(PathBuf),
    /// An rsync target: `HOST:FOLDER`, `HOST::MODULE` or `rsync://HOST/MODULE`.
    Rsync(String),
    /// An S3 bucket, or a prefix in one.
    S3(Bucket),
}

impl Destination {
    /// Parses a destination. `endpoint` is the address of an S3 service.
    pub fn parse(text: &str, endpoint: Option<&str>) -> Result<Self, PublishError> {
        let wrong = |why: &str| PublishError::Destination {
            text: without_secret(text),
            why: why.to_owned(),
        };
        let colon = text.find(':');
        let destination = match text.split_once("://") {
            Some(("s3", rest)) => {
                Self::S3(Bucket::parse(rest, endpoint).map_err(|why| wrong(&why))?)
            }
            Some(("rsync", rest)) => {
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                if host.split_once('@').is_some_and(|(user, _)| user.contains(':')) {
                    return Err(wrong(
                        "rsync accepts no password in the address; set RSYNC_PASSWORD",
                    ));
                }
                if host.is_empty() || path.trim_matches('/').is_empty() {
                    return Err(wrong(
                        "expected rsync://HOST/MODULE or rsync://HOST/MODULE/FOLDER",
                    ));
                }
                Self::Rsync(text.trim_end_matches('/').to_owned())
            }
            Some((scheme, _))
                if scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) =>
            {
                return Err(wrong("unsupported kind of address"));
            }
            _ if text.is_empty() || text.starts_with('-') => {
                return Err(wrong("it is not a destination"));
            }
            // As in rsync, a colon before the first slash ends a host name.
            _ if colon.is_some_and(|at| !text[..at].contains('/')) => {
                let (host, folder) = text.split_once(':').unwrap_or((text, ""));
                if host.is_empty() || folder.trim_start_matches(':').is_empty() {
                    return Err(wrong("expected HOST:FOLDER"));
                }
                let kept = if folder == "/" { text } else { text.trim_end_matches('/') };
                Self::Rsync(kept.to_owned())
            }
            _ => Self::Folder(PathBuf::from(text)),
        };
        match (&destination, endpoint) {
            (Self::Folder(_) | Self::Rsync(_), Some(_)) => {
                Err(wrong("--endpoint-url only applies to s3://"))
            }
            _ => Ok(destination),
        }
    }

    /// Returns whether the destination is a folder that does not exist yet.
    pub fn is_new_folder(&self) -> bool {
        matches!(self, Self::Folder(path) if !path.is_dir())
    }

    /// Opens the place. Locks an existing folder if `to_change`.
    pub fn open(&self, to_change: bool) -> Result<Box<dyn IndexStorage>, IndexError> {
        Ok(match self {
            Self::Folder(path) if path.join(View::Local.root() + ".json").exists() => {
                return Err(IndexError::Mixed { root: path.clone(), published: false });
            }
            Self::Folder(path) if to_change && path.is_dir() => Box::new(Folder::lock(path)?),
            Self::Folder(path) => Box::new(Folder::new(path)),
            Self::Rsync(target) => Box::new(Rsync::new(target)),
            Self::S3(bucket) => Box::new(Aws::new(bucket.clone())),
        })
    }
}

/// Returns the packages that the place lacks. A stored package with other bytes is an error.
fn missing<'a>(
    place: &dyn IndexStorage,
    packages: &'a [Package],
) -> Result<Vec<&'a Package>, IndexError> {
    let mut missing = Vec::new();
    for (package, there) in packages.iter().zip(place.compare(packages)?) {
        match there {
            None => missing.push(package),
            Some(there) if there.sha256 == package.stored.sha256 => {}
            Some(there) => {
                let (file, new) = (package.path.clone(), package.stored.sha256);
                return Err(IndexError::OtherDigest {
                    file,
                    place: place.name(),
                    there: there.sha256,
                    new,
                });
            }
        }
    }
    Ok(missing)
}

/// Removes the part between `://` and `@`, which may be a password, from an address for messages.
fn without_secret(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) =
                rest.split_once('/').map_or((rest, String::new()), |(h, p)| (h, format!("/{p}")));
            let host =
                host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("...@{host}"));
            format!("{scheme}://{host}{path}")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{Page, Stored};
    use rocmrpm_base::digest::Sha256;
    use rocmrpm_base::error::Diagnose;

    #[test]
    fn parses_destinations() {
        let parse = |text| Destination::parse(text, None).unwrap();
        assert_eq!(parse("a/b:c"), Destination::Folder("a/b:c".into()));
        assert_eq!(parse("./host:c"), Destination::Folder("./host:c".into()));
        assert_eq!(parse("./a://b"), Destination::Folder("./a://b".into()));
        assert_eq!(parse("me@host:srv/index/"), Destination::Rsync("me@host:srv/index".into()));
        assert_eq!(parse("host:/"), Destination::Rsync("host:/".into()));
        assert_eq!(parse("host::module/x"), Destination::Rsync("host::module/x".into()));
        assert_eq!(parse("rsync://h:8873/m/"), Destination::Rsync("rsync://h:8873/m".into()));
        assert!(matches!(parse("s3://bucket/a/b/"), Destination::S3(_)));
    }

    #[test]
    fn treats_only_a_missing_folder_as_new() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Destination::Folder(dir.path().join("x")).is_new_folder());
        assert!(!Destination::Folder(dir.path().into()).is_new_folder());
        assert!(!Destination::Rsync("host:x".into()).is_new_folder());
    }

    /// A place with files that no page refers to.
    struct Filled(Vec<Option<Stored>>);

    impl IndexStorage for Filled {
        fn name(&self) -> String {
            "there".into()
        }

        fn read(&self, _: &[String]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
            Ok(Vec::new())
        }

        fn stored(&self, _: &[String]) -> Result<Vec<Option<Stored>>, IndexError> {
            Ok(self.0.clone())
        }

        fn put_packages(&self, _: &[Package]) -> Result<(), IndexError> {
            Ok(())
        }

        fn put_pages(&self, _: &[Page]) -> Result<(), IndexError> {
            Ok(())
        }

        fn remove(&self, _: &[String]) -> Result<(), IndexError> {
            Ok(())
        }
    }

    #[test]
    fn sends_missing_packages_and_refuses_other_bytes_under_their_names() {
        let stored = |bytes: &str| Stored { size: 1, sha256: Sha256::of_bytes(bytes) };
        let package =
            |path: &str| Package { path: path.into(), file: path.into(), stored: stored(path) };
        let packages = [package("a"), package("b")];
        let place = Filled(vec![Some(stored("a")), None]);
        assert_eq!(missing(&place, &packages).unwrap(), [&packages[1]]);
        let error = missing(&Filled(vec![None, Some(stored("a"))]), &packages).unwrap_err();
        assert!(
            matches!(error, IndexError::OtherDigest { ref file, .. } if file == "b"),
            "{error}"
        );
    }

    #[test]
    fn rejects_invalid_destinations_without_secrets() {
        for text in [
            "",
            "-e",
            "host:",
            ":x",
            "ssh://h/x",
            "https://h/x",
            "rsync://h",
            "rsync://h/",
            "s3://",
            "s3:///x",
            "s3://Bucket_/x",
            "s3://bucket/a/../b",
            "s3://bucket/a//b",
            "s3://bucket/a\tb/c",
            "s3://bucket/./b",
            "rsync://me:secret@h/m",
            "s3://k:secret@b",
        ] {
            let error = Destination::parse(text, None).unwrap_err();
            assert_eq!(error.kind(), rocmrpm_base::error::Kind::Usage, "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(Destination::parse("s3://bucket", Some("http://127.0.0.1:1")).is_ok());
        for (text, endpoint) in
            [("folder", "http://h"), ("s3://bucket", "h:1"), ("s3://bucket", "http://k:secret@h")]
        {
            let error = Destination::parse(text, Some(endpoint)).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn rejects_build_index_as_destination() {
        let dir = tempfile::tempdir().unwrap();
        let destination = Destination::Folder(dir.path().into());
        assert!(destination.open(false).is_ok());
        let page = dir.path().join("simple/index.json");
        rocmrpm_base::files::write_atomically(&page, "{}").unwrap();
        assert!(matches!(destination.open(false), Err(IndexError::Mixed { published: false, .. })));
    }

    #[test]
    fn rejects_incomplete_destinations() {
        for text in ["host:", "host::", ":srv", "rsync://host", "rsync:///m", "rsync://host//"] {
            assert!(Destination::parse(text, None).is_err(), "{text}");
        }
    }
}
