//! Runs transfers by curl, with limits, and interprets its exit codes. It knows neither digests nor
//! the store.

use std::path::{Path, PathBuf};

use super::url::{self, Credentials};
use super::{SourceError, limits};
use rocmrpm_base::error::IoError;
use rocmrpm_base::process::{self, Command};

/// The parameters of a transfer.
pub struct Transfer<'a> {
    /// The URL without credentials.
    pub url: &'a str,
    /// The credentials for the server, if any.
    pub credentials: Option<&'a Credentials>,
    /// The file to write.
    pub to: &'a Path,
    /// Whether to resume at the end of the existing file.
    pub resume: bool,
    /// The largest allowed size of the file, in bytes.
    pub limit: u64,
    /// The `Accept` header, if not curl's default.
    pub accept: Option<&'a str>,
}

/// The result of a successful transfer.
#[derive(Debug)]
pub struct CurlResult {
    /// The final URL after redirects, without credentials.
    pub url: String,
}

/// Why a transfer failed.
pub enum Failure {
    /// The server does not support resuming this file.
    CannotResume,
    /// Any other error.
    Error(SourceError),
}

impl<E: Into<SourceError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Downloads a file, which the caller must verify. `file:` URLs are allowed.
pub fn download_plain(url: &str, to: &Path) -> Result<(), SourceError> {
    let limit = limits::file(None)?;
    match run(&Transfer { url, credentials: None, to, resume: false, limit, accept: None }) {
        Ok(_) if to.is_file() => Ok(()),
        // curl does not create a file for an empty response.
        Ok(_) => Err(IoError::doing(format!("find the file that {} sent", url::shown(url)))(
            std::io::ErrorKind::UnexpectedEof.into(),
        )
        .into()),
        Err(Failure::Error(error)) => Err(error),
        Err(Failure::CannotResume) => unreachable!("nothing is resumed"),
    }
}

/// Returns curl with the options that every transfer needs. curl exits when a file becomes larger
/// than `limit`, whether or not the server announces a size, when it cannot connect within a
/// minute, and when it receives fewer than a thousand bytes per second for a minute. Redirects from
/// https must stay on https, because the digests on such a page are trusted.
pub fn curl(url: &str, limit: u64) -> Command {
    let redirects = if url::is_https(url) { "=https" } else { "=https,http" };
    let curl = Command::new("curl")
        .args(["--location", "--silent", "--show-error", "--globoff", "--max-redirs", "10"])
        .args(["--proto", "=https,http,file", "--proto-redir", redirects])
        .args(["--connect-timeout", "60", "--speed-limit", "1000", "--speed-time", "60"])
        .args(["--max-filesize", &limit.to_string()])
        .max_file(limit)
        .env("LC_ALL", "C");
    if limit <= limits::PAGE { curl.args(["--max-time", limits::PAGE_SECONDS]) } else { curl }
}

/// Returns curl with the options for sources and pages.
fn fetching(url: &str, limit: u64) -> Command {
    curl(url, limit)
        .args(["--fail", "--netrc-optional", "--retry", "2", "--retry-max-time", "300"])
        .args(["--config", "-"])
}

/// Runs one transfer.
pub fn run(transfer: &Transfer<'_>) -> Result<CurlResult, Failure> {
    let shown = url::shown(transfer.url);
    let mut config = format!("url = {}\n", config_value(transfer.url)?);
    if let Some(Credentials { user, password }) = transfer.credentials {
        // In the configuration instead of the arguments, which all users can see.
        config.push_str(&format!("user = {}\n", config_value(&format!("{user}:{password}"))?));
    }
    let mut curl = fetching(transfer.url, transfer.limit)
        .args(["--write-out", "%{http_code}\\n%{url_effective}\\n"])
        .arg("--output")
        .arg(transfer.to)
        .stdin(config);
    if transfer.resume {
        curl = curl.args(["--continue-at", "-"]);
    }
    if let Some(accept) = transfer.accept {
        curl = curl.arg("--header").arg(format!("Accept: {accept}"));
    }
    let finished = curl.run()?;
    let reported = String::from_utf8_lossy(&finished.stdout).into_owned();
    let mut lines = reported.lines();
    let status: u16 = lines.next().and_then(|code| code.parse().ok()).unwrap_or(0);
    if finished.success() {
        let url = lines.next().map_or(shown, url::shown);
        return Ok(CurlResult { url });
    }
    // 33: no range support; 36: the offset is beyond the end; 416: the HTTP status for the same.
    let Some(code) = finished.code else {
        if finished.signal == Some(process::TOO_LARGE) {
            return Err(SourceError::TooLarge { url: shown, limit: transfer.limit }.into());
        }
        let help = None;
        let reason = format!("curl {}", finished.how());
        return Err(SourceError::Transfer { url: shown, reason, status, help }.into());
    };
    if transfer.resume && (code == 33 || code == 36 || (code == 22 && status == 416)) {
        return Err(Failure::CannotResume);
    }
    let mut tail = process::last_lines(&finished.stderr, 1).join("");
    if let Some(credentials) = transfer.credentials.filter(|c| !c.password.is_empty()) {
        tail = tail.replace(&credentials.password, "***");
    }
    let tail = tail.strip_prefix(&format!("curl: ({code}) ")).unwrap_or(&tail).to_owned();
    Err(Failure::Error(meaning(code, status, &tail, &shown, transfer.to, transfer.limit)?))
}

/// One of many small files to fetch in parallel.
pub struct Piece<'a> {
    /// The URL without credentials.
    pub url: String,
    /// The credentials for the server, if any.
    pub credentials: Option<&'a Credentials>,
    /// The file to write.
    pub to: PathBuf,
}

/// The result of a piece's transfer.
#[derive(Debug, Clone, Default)]
pub struct Ended {
    /// The HTTP status, or 0.
    pub status: u16,
    /// The final URL after redirects, without credentials.
    pub url: String,
    /// The size of the whole file in bytes, if the server sent a requested range.
    pub whole: Option<u64>,
    code: i32,
    reported: String,
}

impl Ended {
    /// Returns whether the transfer succeeded.
    pub fn well(&self) -> bool {
        self.code == 0
    }

    /// Returns whether the server does not have the file.
    pub fn is_missing(&self) -> bool {
        matches!(self.status, 404 | 410)
    }

    /// Returns the error of a failed transfer.
    pub fn error(&self, piece: &Piece<'_>) -> Result<SourceError, SourceError> {
        let url = url::shown(&piece.url);
        meaning(self.code, self.status, &self.reported, &url, &piece.to, limits::PAGE)
    }
}

/// The number of parallel transfers, as in uv (its settings, "concurrent-downloads").
const PARALLEL_TRANSFERS: &str = "50";

/// curl's exit code if a server announces more than the limit.
const TOO_LARGE: i32 = 63;

/// Fetches many pieces in parallel with one curl, each at most as large as a page. `args` apply to
/// all of them. Returns the results, including failures, in the order of the pieces.
pub fn run_many(pieces: &[Piece<'_>], args: &[&str]) -> Result<Vec<Ended>, SourceError> {
    let mut ends = vec![Ended::default(); pieces.len()];
    let mut open: Vec<usize> = (0..pieces.len()).collect();
    // One run of curl uses the same credentials and redirect rule for all pieces.
    while let Some(first) = open.first().copied() {
        let alike = |piece: &Piece<'_>| {
            let first = &pieces[first];
            piece.credentials == first.credentials
                && url::is_https(&piece.url) == url::is_https(&first.url)
        };
        let (some, others): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|at| alike(&pieces[*at]));
        open = others;
        let mut config = String::new();
        for piece in some.iter().map(|at| &pieces[*at]) {
            let to = config_value(&piece.to.to_string_lossy())?;
            config.push_str(&format!("url = {}\noutput = {to}\n", config_value(&piece.url)?));
        }
        if let Some(Credentials { user, password }) = pieces[first].credentials {
            config.push_str(&format!("user = {}\n", config_value(&format!("{user}:{password}"))?));
        }
        let finished = fetching(&pieces[first].url, limits::PAGE)
            .args([
                "--parallel",
                "--parallel-max",
                PARALLEL_TRANSFERS,
                "--no-progress-meter",
                "--compressed",
            ])
            .args(args)
            .args(["--write-out", WRITE_OUT])
            .stdin(config)
            .run()?;
        if finished.signal == Some(process::TOO_LARGE) {
            // A piece over the limit ended all transfers; the others are fetched again.
            let (large, others): (Vec<usize>, Vec<usize>) = some.into_iter().partition(|at| {
                std::fs::metadata(&pieces[*at].to).is_ok_and(|file| file.len() >= limits::PAGE)
            });
            if large.is_empty() {
                let url = url::shown(&pieces[first].url);
                return Err(SourceError::TooLarge { url, limit: limits::PAGE });
            }
            for at in &large {
                fs_err::remove_file(&pieces[*at].to).map_err(IoError::doing("remove a page"))?;
                ends[*at] = Ended { code: TOO_LARGE, ..Ended::default() };
            }
            open.extend(others);
            continue;
        }
        let text = String::from_utf8_lossy(&finished.stdout).into_owned();
        let mut transfers = 0;
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [number, status, code, range, url, reported] = fields[..] else { continue };
            let Some(at) = number.parse().ok().and_then(|n: usize| some.get(n)) else { continue };
            transfers += 1;
            ends[*at] = Ended {
                status: status.parse().unwrap_or(0),
                url: url::shown(url),
                whole: range.rsplit_once('/').and_then(|(_, whole)| whole.parse().ok()),
                code: code.parse().unwrap_or(-1),
                reported: reported.to_owned(),
            };
        }
        if transfers < some.len() {
            let url = url::shown(&pieces[first].url);
            let reason = match process::last_lines(&finished.stderr, 1).join("") {
                line if line.is_empty() => format!("curl {}", finished.how()),
                line => line,
            };
            return Err(SourceError::Transfer { url, reason, status: 0, help: None });
        }
    }
    Ok(ends)
}

/// curl's output format for each transfer: the number of its URL, status, exit code, received
/// range, final URL after redirects, and error message (curl(1), "--write-out").
const WRITE_OUT: &str = "%{urlnum}\\t%{http_code}\\t%{exitcode}\\t%header{content-range}\\t%{url_effective}\\t%{errormsg}\\n";

/// Quotes a value for curl's configuration file.
fn config_value(value: &str) -> Result<String, SourceError> {
    if value.chars().any(char::is_control) {
        let reason = "it has control characters";
        return Err(SourceError::BadUrl {
            url: url::shown(value).escape_debug().to_string(),
            reason,
        });
    }
    Ok(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Returns the error for a file of the cache that could not be written while this URL was fetched.
pub fn unwritable(path: &Path, url: String) -> Result<SourceError, SourceError> {
    let folder = path.parent().unwrap_or(path);
    let stat = rustix::fs::statvfs(folder)
        .map_err(|errno| IoError::doing(format!("inspect {}", folder.display()))(errno.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    Ok(SourceError::Write { path: path.to_owned(), url, free })
}

/// Returns the error for curl's exit code (curl(1), "EXIT CODES").
fn meaning(
    code: i32,
    status: u16,
    tail: &str,
    url: &str,
    to: &Path,
    limit: u64,
) -> Result<SourceError, SourceError> {
    const TLS: &str =
        "if the server or a proxy uses its own certificate authority, set CURL_CA_BUNDLE to it";
    const LATER: &str = "run the same command again later";
    const NET: &str = super::error::NETWORK_HELP;
    const LOGIN: &str = "if the server needs credentials, add them to ~/.netrc or to the URL";
    const PIN: &str = "check the URL and the version of the pin";
    let url = url.to_owned();
    let arrived = std::fs::metadata(to).map_or(0, |m| m.len());
    let broke_off = matches!(code, 18 | 55 | 56 | 92) || (code == 28 && arrived > 0);
    if broke_off && arrived > 0 {
        return Ok(SourceError::Truncated { url, arrived, reason: tail.to_owned() });
    }
    if code == 23 {
        return unwritable(to, url);
    }
    if code == TOO_LARGE {
        return Ok(SourceError::TooLarge { url, limit });
    }
    let (reason, help) = match code {
        1 if url::is_https(&url) => {
            ("it redirects to a URL that is not https".to_owned(), Some(PIN))
        }
        1 => ("only https, http and file URLs are fetched".to_owned(), None),
        3 => ("the URL is malformed".to_owned(), Some(PIN)),
        5 => ("the proxy's name cannot be resolved".to_owned(), Some(NET)),
        6 => ("the host's name cannot be resolved".to_owned(), Some(NET)),
        7 => ("the host refuses the connection or is unreachable".to_owned(), Some(NET)),
        22 => {
            let help = match status {
                401 | 403 | 407 => LOGIN,
                404 | 410 => PIN,
                _ => LATER,
            };
            (format!("the server answered with HTTP status {status}"), Some(help))
        }
        28 => ("the transfer took too long".to_owned(), Some(LATER)),
        35 | 51 | 53 | 54 | 58 | 59 | 60 | 66 | 77 | 80 | 82 | 83 | 90 | 91 => {
            (format!("cannot establish a trusted TLS connection: {tail}"), Some(TLS))
        }
        37 => ("the file does not exist or cannot be read".to_owned(), Some(PIN)),
        47 => ("it redirects more than 10 times".to_owned(), Some(PIN)),
        52 => ("the server sent an empty response".to_owned(), Some(LATER)),
        67 => ("the server refuses the user or password".to_owned(), Some(LOGIN)),
        18 | 55 | 56 | 92 => (format!("the connection was lost: {tail}"), Some(LATER)),
        _ => (format!("curl exited with {code}: {tail}"), None),
    };
    Ok(SourceError::Transfer { url, reason, status, help })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_https_on_redirects() {
        let redirects = |url: &str| {
            let line = curl(url, 1).line();
            line.split("--proto-redir ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
        };
        assert_eq!(redirects("https://h/x"), "=https");
        assert_eq!(redirects("HTTPS://h/x"), "=https");
        assert_eq!(redirects("http://h/x"), "=https,http");
    }
}
