//! Sends requests to JSON web services with time and size limits. It does not interpret the
//! responses.

use std::path::Path;
use std::time::Duration;

use fs_err as fs;

use super::curl::{self, Piece};
use super::url;
use super::{Fetcher, SourceError};
use crate::error::IoError;

impl Fetcher<'_> {
    /// Posts a JSON document and returns the response; the timeout is `limit`.
    pub(crate) fn post_json(
        &self,
        url: &str,
        body: &str,
        limit: Duration,
    ) -> Result<Vec<u8>, SourceError> {
        let folder = self.cache().scratch()?;
        let path = folder.path().join("body");
        fs::write(&path, body).map_err(IoError::doing("write a request"))?;
        let data = format!("@{}", path.display());
        // By default, curl waits until the server accepts a large body, which some proxies never
        // forward.
        let args = [
            "--header",
            "Content-Type: application/json",
            "--header",
            "Expect:",
            "--data-binary",
            &data,
        ];
        let mut answers = self.answers(&[url.to_owned()], &args, limit)?;
        answers.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Fetches documents in parallel and returns them in the order of the URLs; `limit` is the
    /// timeout for each.
    pub(crate) fn get_all(
        &self,
        urls: &[String],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, SourceError> {
        self.answers(urls, &[], limit)?.into_iter().collect()
    }

    /// Like [`Fetcher::get_all`], with a result for each URL. Fails only if no request can be sent.
    pub(crate) fn get_each(
        &self,
        urls: &[String],
        limit: Duration,
    ) -> Result<Vec<Result<Vec<u8>, SourceError>>, SourceError> {
        self.answers(urls, &[], limit)
    }

    fn answers(
        &self,
        urls: &[String],
        args: &[&str],
        limit: Duration,
    ) -> Result<Vec<Result<Vec<u8>, SourceError>>, SourceError> {
        let Some(first) = urls.first() else { return Ok(Vec::new()) };
        self.needs_network(|| format!("the response of {}", url::shown(first)))?;
        let folder = self.cache().scratch()?;
        let split: Vec<_> = urls.iter().map(|url| url::split_credentials(url)).collect();
        let pieces: Vec<Piece<'_>> = split
            .iter()
            .enumerate()
            .map(|(at, (url, credentials))| Piece {
                url: url.clone(),
                credentials: credentials.as_ref(),
                to: folder.path().join(at.to_string()),
            })
            .collect();
        let seconds = limit.as_secs().max(1).to_string();
        let mut bounded = vec!["--max-time", &seconds, "--retry-max-time", &seconds];
        bounded.extend(args);
        let ends = curl::run_many(&pieces, &bounded)?;
        pieces
            .iter()
            .zip(&ends)
            .map(|(piece, end)| match end.well() {
                true => Ok(read(&piece.to)),
                false => Ok(Err(end.error(piece)?)),
            })
            .collect()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    // curl writes no file for an empty response.
    if path.exists() {
        bytes = fs::read(path).map_err(IoError::doing("read a response"))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::Cache;
    use super::super::testserver::{Reply, TestServer};
    use super::*;
    use crate::events::Silent;

    #[test]
    fn posts_a_body_and_gets_many_in_order() {
        let server = TestServer::start(|seen| match seen.path.as_str() {
            "/empty" => Reply::file(""),
            path => Reply::file(format!("{path} {}", String::from_utf8_lossy(&seen.body))),
        });
        let dir = tempfile::tempdir().unwrap();
        let fetcher = Fetcher::new(Cache::at(dir.path()), dir.path(), &Silent);
        let limit = Duration::from_secs(10);
        let large = "x".repeat(2 << 20);
        let answer = fetcher.post_json(&server.url("/a"), &large, limit).unwrap();
        assert_eq!(answer.len(), "/a ".len() + large.len());
        let seen = server.seen();
        assert_eq!(seen[0].header("content-type"), Some("application/json"));
        let urls: Vec<String> = ["/b", "/empty", "/c"].map(|path| server.url(path)).into();
        let answers = fetcher.get_all(&urls, limit).unwrap();
        assert_eq!(answers, [b"/b ".to_vec(), Vec::new(), b"/c ".to_vec()]);
        let error = fetcher.offline(true).get_all(&urls, limit).unwrap_err();
        assert!(matches!(error, SourceError::Offline { .. }), "{error}");
    }
}
