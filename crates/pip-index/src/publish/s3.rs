//! An index in a bucket: the names of objects, and the headers that they are served with. It does
//! not run the tools that access the bucket.

/// A bucket, or a prefix in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// The name of the bucket.
    pub(super) name: String,
    /// The prefix of all keys: empty, or ending in `/`.
    pub(super) prefix: String,
    /// The address of an S3 service other than Amazon's.
    pub(super) endpoint: Option<String>,
}

/// For files that never change. Source: RFC 8246, section 2.
pub(super) const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// For pages: a new wheel becomes visible after a minute.
pub(super) const SHORT_CACHE: &str = "public, max-age=60";

impl Bucket {
    /// Parses `BUCKET/PREFIX`.
    pub(super) fn parse(text: &str, endpoint: Option<&str>) -> Result<Self, String> {
        let (name, prefix) = text.split_once('/').unwrap_or((text, ""));
        // Source: Amazon S3 User Guide, "General purpose bucket naming rules".
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
        if !(3..=63).contains(&name.len()) || !name.chars().all(plain) {
            return Err(
                "a bucket name has 3 to 63 lower-case letters, digits, dots and hyphens".into()
            );
        }
        let prefix = prefix.trim_matches('/');
        let odd = |part: &str| {
            part.is_empty() || part == "." || part == ".." || part.chars().any(char::is_control)
        };
        if !prefix.is_empty() && prefix.split('/').any(odd) {
            return Err("the prefix must consist of plain names between slashes".into());
        }
        if let Some(endpoint) = endpoint {
            let host =
                endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
            match host {
                Some(host) if host.contains('@') => {
                    return Err("the --endpoint-url must not contain a user or password".into());
                }
                Some(host) if !host.is_empty() => {}
                _ => return Err("the --endpoint-url must begin with https:// or http://".into()),
            }
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { name: name.to_owned(), prefix, endpoint: endpoint.map(str::to_owned) })
    }

    /// Returns the object key for a path.
    pub(super) fn key(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// Returns the destination as users write it.
    pub(super) fn url(&self) -> String {
        format!("s3://{}/{}", self.name, self.prefix).trim_end_matches('/').to_owned()
    }
}

/// Returns the media type of a package.
pub(super) fn package_type(path: &str) -> &'static str {
    let types = [
        (".whl", "application/zip"),
        (".rpm", "application/x-rpm"),
        (".gz", "application/gzip"),
        (".zst", "application/zstd"),
    ];
    let known = types.iter().find(|(ending, _)| path.ends_with(ending));
    known.map_or("application/octet-stream", |(_, media_type)| media_type)
}

/// Returns the path of a page as clients request it, the name of a folder. S3 does not serve
/// `index.html` for a folder, but it serves an object with the name of the folder.
pub(super) fn folder_path(path: &str) -> Option<&str> {
    path.strip_suffix("index.html").filter(|folder| folder.ends_with('/'))
}

/// Returns the common folder of all paths, with a trailing slash; empty for the root.
pub(super) fn common_folder<'a>(paths: &[&'a str]) -> &'a str {
    let Some(first) = paths.first() else { return "" };
    let mut length = first.rfind('/').map_or(0, |at| at + 1);
    for path in paths {
        while !path.starts_with(&first[..length]) {
            length = first[..length - 1].rfind('/').map_or(0, |at| at + 1);
        }
    }
    &first[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_folder_ends_with_a_slash() {
        assert_eq!(common_folder(&[]), "");
        assert_eq!(common_folder(&["a/b/c"]), "a/b/");
        assert_eq!(common_folder(&["a/b/c", "a/bc/d"]), "a/");
        assert_eq!(common_folder(&["a/b", "c/d"]), "");
        assert_eq!(common_folder(&["ab", "ac"]), "");
    }

    #[test]
    fn only_an_index_page_has_a_folder() {
        assert_eq!(folder_path("t/simple/a/index.html"), Some("t/simple/a/"));
        assert_eq!(folder_path("t/simple/a/index.json"), None);
        assert_eq!(folder_path("t/xindex.html"), None);
        assert_eq!(folder_path("index.html"), None);
    }

    #[test]
    fn checks_bucket_names() {
        for (length, valid) in [(2, false), (3, true), (63, true), (64, false)] {
            assert_eq!(Bucket::parse(&"a".repeat(length), None).is_ok(), valid, "{length}");
        }
        for (name, valid) in [("my-bucket.1", true), ("my_bucket", false), ("My-bucket", false)] {
            assert_eq!(Bucket::parse(name, None).is_ok(), valid, "{name}");
        }
    }

    #[test]
    fn prepends_prefix_to_keys() {
        let bucket = Bucket::parse("bucket//a/b/", None).unwrap();
        assert_eq!((bucket.key("x/y"), bucket.url()), ("a/b/x/y".into(), "s3://bucket/a/b".into()));
        let bucket = Bucket::parse("bucket", None).unwrap();
        assert_eq!((bucket.key("x"), bucket.url()), ("x".into(), "s3://bucket".into()));
    }
}
