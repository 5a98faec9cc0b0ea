//! Calls copr-cli, and curl for what copr-cli does not print. Sorts failures into kinds of errors,
//! and retries those that may be temporary, with an event for each retry. Does not know what is asked;
//! `queries` does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::error::CoprError;
use crate::events::{Event, Events};
use crate::process::{
    Command, Finished, ProcessError, check_stop, find_program, last_lines, quote,
};
use crate::sources;

/// The frontend if copr-cli has no configuration. Source: python-copr, copr/v3/helpers.py,
/// `config_from_file`.
const DEFAULT_URL: &str = "https://copr.fedorainfracloud.org";

/// Seconds between retries.
const PAUSES: &[u64] = &[2, 4, 8, 16, 32];

/// The timeout of a call that does not upload anything large. copr-cli itself has no timeout.
const CALL: Duration = Duration::from_secs(600);

/// The maximum size of an answer from COPR, in bytes: larger than any list of builds.
pub(super) const MAX_OUTPUT: u64 = 64 << 20;

/// A client for one project on COPR.
pub struct Client<'e> {
    config: Option<PathBuf>,
    url: String,
    project: String,
    events: &'e dyn Events,
    /// Replaces COPR in tests.
    #[cfg(test)]
    pub(super) answers: Option<Answers>,
}

/// Answers a call of copr-cli, by its arguments, or of the API, by its path.
#[cfg(test)]
pub(super) type Answers = Box<dyn Fn(&str) -> Result<String, CoprError> + Send + Sync>;

impl<'e> Client<'e> {
    /// Returns a client for `owner/project` on the frontend from copr-cli's configuration. `config`
    /// is copr-cli's `--config`.
    pub fn new(
        config: Option<&Path>,
        project: &str,
        events: &'e dyn Events,
    ) -> Result<Self, CoprError> {
        if find_program("copr-cli").is_none() {
            return Err(CoprError::NotInstalled);
        }
        let usual = std::env::home_dir().map(|home| home.join(".config/copr"));
        let path = config.map(Path::to_owned).or(usual);
        let text = path.and_then(|path| fs_err::read_to_string(path).ok()).unwrap_or_default();
        let url = frontend(&text).unwrap_or_else(|| DEFAULT_URL.to_owned());
        require_https("`copr_url` of copr-cli's configuration", &url)?;
        Ok(Self {
            config: config.map(Path::to_owned),
            url,
            project: project.to_owned(),
            events,
            #[cfg(test)]
            answers: None,
        })
    }

    /// Returns a client for a frontend that does not exist.
    #[cfg(test)]
    pub(super) fn sample(project: &str, events: &'e dyn Events) -> Self {
        let (url, project) = ("https://copr.example".to_owned(), project.to_owned());
        Self { config: None, url, project, events, answers: None }
    }

    /// Returns a client for a frontend with these answers.
    #[cfg(test)]
    pub(super) fn answering(project: &str, events: &'e dyn Events, answers: Answers) -> Self {
        Self { answers: Some(answers), ..Self::sample(project, events) }
    }

    /// Returns the frontend's URL, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns `owner/project`.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// Returns the project's page. Source: copr-cli, `action_create`.
    pub fn page(&self) -> String {
        format!("{}/coprs/{}/", self.url, self.project.replace('@', "g/"))
    }

    /// Starts polling builds, with the shortest pause.
    pub fn looks(&self) -> Looks {
        // A frontend on this machine serves only its user.
        let is_local = is_loopback(&self.url.replacen("https://", "http://", 1));
        Looks(if is_local { POLL_PAUSES.0 / 10 } else { POLL_PAUSES.0 })
    }

    /// Returns the page of a build. Source: copr-cli, `build_url`.
    pub fn build_page(&self, build: u64) -> String {
        format!("{}/coprs/build/{build}", self.url)
    }

    /// Returns a copr-cli command for the user to copy.
    pub fn command(&self, args: &[&str]) -> String {
        let config = self
            .config
            .as_ref()
            .map(|path| format!("--config {} ", quote(&path.to_string_lossy())));
        let args: Vec<String> = args.iter().map(|arg| quote(arg)).collect();
        format!("copr-cli {}{}", config.unwrap_or_default(), args.join(" "))
    }

    /// Runs copr-cli once and returns its output. `what` describes the action, as in "cannot
    /// {what}".
    pub fn once(&self, what: &str, args: &[String]) -> Result<String, CoprError> {
        self.call(what, args, None)
    }

    pub(super) fn call(
        &self,
        what: &str,
        args: &[String],
        allowed: Option<Duration>,
    ) -> Result<String, CoprError> {
        #[cfg(test)]
        if let Some(answers) = &self.answers {
            return answers(&args.join(" "));
        }
        let mut command = Command::new("copr-cli").arg("--no-color");
        if let Some(config) = &self.config {
            command = command.arg("--config").arg(config);
        }
        let command =
            command.args(args).env("LC_ALL", "C.UTF-8").env("COLUMNS", "1000").timeout(allowed);
        let done = command.run().map_err(|error| match error {
            ProcessError::TimedOut { .. } => CoprError::Server {
                what: what.to_owned(),
                url: self.url.clone(),
                reported: error.to_string(),
            },
            other => other.into(),
        })?;
        if done.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        Err(self.explain(what, &done))
    }

    /// Runs copr-cli, and retries if the failure may be temporary. Only for calls that are safe to
    /// repeat.
    pub fn cli(&self, what: &str, args: &[String]) -> Result<String, CoprError> {
        self.retried(|| self.call(what, args, Some(CALL)))
    }

    /// Runs `work`, and retries it after growing pauses while the failure may be temporary.
    pub fn retried<T>(&self, work: impl FnMut() -> Result<T, CoprError>) -> Result<T, CoprError> {
        self.retried_after(PAUSES, work)
    }

    pub(super) fn retried_after<T>(
        &self,
        pauses: &[u64],
        mut work: impl FnMut() -> Result<T, CoprError>,
    ) -> Result<T, CoprError> {
        let mut pauses = pauses.iter();
        loop {
            match work() {
                Err(error) if error.passes() => {
                    let Some(pause) = pauses.next() else { return Err(error) };
                    let text = format!("{error}; retrying in {pause} s");
                    self.events.event(Event::Warning(text));
                    wait(Duration::from_secs(*pause), check_stop)?;
                }
                other => return other,
            }
        }
    }

    /// Reads a document of API v3 that copr-cli does not print; `None` if it does not exist.
    pub fn api(
        &self,
        what: &str,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Option<Value>, CoprError> {
        self.retried(|| self.api_once(what, path, query))
    }

    /// Reads a document like [`Self::api`], without retries.
    pub(super) fn api_once(
        &self,
        what: &str,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Option<Value>, CoprError> {
        #[cfg(test)]
        if let Some(answers) = &self.answers {
            return answers(path).map(|text| serde_json::from_str(&text).ok());
        }
        let url = format!("{}/api_3/{path}", self.url);
        let mut command = curl(&url, MAX_OUTPUT).args(["--get", "--write-out", "\\n%{http_code}"]);
        for (name, value) in query {
            command = command.arg("--data-urlencode").arg(format!("{name}={value}"));
        }
        let done = command.run()?;
        let server = |reported: String| CoprError::Server {
            what: what.to_owned(),
            url: self.url.clone(),
            reported,
        };
        if !done.success() {
            return Err(server(last_lines(&done.stderr, 1).concat()));
        }
        let text = String::from_utf8_lossy(&done.stdout);
        let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
        let answer: Option<Value> = serde_json::from_str(body).ok();
        let reported =
            answer.as_ref().and_then(|answer| answer.get("error")).and_then(Value::as_str);
        match (status, reported, answer.as_ref()) {
            ("200", None, Some(_)) => Ok(answer),
            ("404", Some(_), _) => Ok(None),
            (status, Some(reported), _) if status.starts_with('4') => {
                Err(CoprError::Refused { what: what.to_owned(), reported: reported.to_owned() })
            }
            (status, reported, _) => {
                Err(server(reported.map_or_else(|| format!("HTTP status {status}"), str::to_owned)))
            }
        }
    }

    /// Turns copr-cli's exit code and messages into an error. Source: copr-cli, main.py, `main`.
    fn explain(&self, what: &str, done: &Finished) -> CoprError {
        let reported = error_message(&String::from_utf8_lossy(&done.stderr));
        let url = self.url.clone();
        let has = |words: &[&str]| words.iter().any(|word| reported.contains(word));
        let what = what.to_owned();
        if has(&["Login invalid/expired", "HTTP 401"]) {
            CoprError::Expired { url }
        } else if done.code == Some(6) {
            CoprError::Config { reported, url }
        } else if has(&["requests_gssapi", "GSSAPI", "login:token"]) {
            CoprError::NoToken { url }
        } else if done.code == Some(7)
            || has(&["not allowed", "may update", "Only owners", "permission"])
        {
            CoprError::Forbidden { reported, page: self.page() }
        } else if reported.starts_with("Project ") && reported.contains("does not exist") {
            CoprError::NoProject { project: self.project.clone(), url }
        } else if has(&[
            "there is probably a bug",
            "Unable to connect",
            "Connection",
            "not in JSON format",
            "Gateway",
            "Timeout",
            "timed out",
            "Traceback",
        ]) {
            CoprError::Server { what, url, reported }
        } else {
            CoprError::Refused { what, reported }
        }
    }
}

/// Extracts copr-cli's error message from its stderr.
fn error_message(stderr: &str) -> String {
    let from = stderr.rfind("Error: ").map_or(0, |at| at + "Error: ".len());
    let lines: Vec<&str> =
        stderr[from..].lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = match stderr.contains("Traceback") {
        true => format!("Traceback: {}", lines.last().unwrap_or(&"")),
        false => lines.join(" "),
    };
    crate::text::visible(&text)
}

/// Rejects a URL that is not https, unless it points to this machine.
pub(super) fn require_https(what: &'static str, url: &str) -> Result<(), CoprError> {
    match url.starts_with("https://") || is_loopback(url) {
        true => Ok(()),
        false => Err(CoprError::NotEncrypted { what, url: crate::text::visible(url) }),
    }
}

fn is_loopback(url: &str) -> bool {
    url.starts_with("http://") && !sources::is_unprotected(url)
}

/// Returns the curl command for COPR: it follows redirects only to https, and uses none of the
/// user's credentials. An answer has at most `most` bytes.
pub(super) fn curl(url: &str, most: u64) -> Command {
    let protocols = if is_loopback(url) { "=https,http" } else { "=https" };
    sources::curl(url, most).args(["--proto", protocols, "--proto-redir", "=https"]).arg(url)
}

/// Waits for `time`, or until `check_stop` fails.
fn wait(time: Duration, check_stop: fn() -> Result<(), ProcessError>) -> Result<(), CoprError> {
    let until = std::time::Instant::now() + time;
    loop {
        check_stop()?;
        let now = std::time::Instant::now();
        let Some(rest) = until.checked_duration_since(now) else { return Ok(()) };
        std::thread::sleep(rest.min(Duration::from_millis(100)));
    }
}

/// The first and the longest pause between polls of a build. copr-cli itself polls every 30
/// seconds.
const POLL_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Polls builds, with growing pauses.
#[derive(Debug)]
pub struct Looks(Duration);

impl Looks {
    /// Waits until the next poll. Fails on an interrupt.
    pub fn wait(&mut self) -> Result<(), CoprError> {
        wait(self.0, check_stop)?;
        self.0 = (self.0 * 3 / 2).min(POLL_PAUSES.1);
        Ok(())
    }
}

/// Reads only the frontend's URL from copr-cli's configuration, an INI file as Python's
/// configparser reads it.
fn frontend(config: &str) -> Option<String> {
    let mut inside = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[copr-cli]";
        }
        let Some((key, value)) = line.split_once(['=', ':']).filter(|_| inside) else { continue };
        if key.trim().eq_ignore_ascii_case("copr_url") {
            let url = value.trim().trim_end_matches('/');
            return (!url.is_empty()).then(|| url.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Diagnose, Kind};
    use crate::events::Silent;

    fn client() -> Client<'static> {
        Client::sample("@g/p", &Silent)
    }

    fn failed(code: i32, stderr: &str) -> CoprError {
        let stderr = stderr.as_bytes().to_owned();
        let (stdout, elapsed) = (Vec::new(), Duration::ZERO);
        let done = Finished { code: Some(code), signal: None, stdout, stderr, elapsed };
        client().explain("do it", &done)
    }

    #[test]
    fn interrupt_ends_waiting() {
        wait(Duration::ZERO, || Ok(())).unwrap();
        let error = wait(Duration::from_secs(5), || Err(ProcessError::Stopped)).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
    }

    #[test]
    fn reads_only_the_frontend_from_the_configuration() {
        let text = "[other]\ncopr_url = x\n[copr-cli]\ntoken = t\ncopr_url : https://a.example/\n";
        assert_eq!(frontend(text).as_deref(), Some("https://a.example"));
        assert_eq!(frontend("[copr-cli]\ntoken = t\n"), None);
    }

    #[test]
    fn requires_https_except_for_this_machine() {
        for url in
            ["https://copr.example", "http://127.0.0.1:80/x", "http://localhost", "http://[::1]:5/"]
        {
            require_https("x", url).unwrap();
        }
        for url in [
            "http://copr.example",
            "http://127.0.0.1.example/",
            "http://localhost@copr.example/",
            "http://127.0.0.1:80@copr.example/",
            "ftp://x",
            "",
        ] {
            let error = require_https("x", url).unwrap_err();
            assert_eq!(error.kind(), Kind::Config, "{url}");
        }
    }

    #[test]
    fn rejects_an_answer_larger_than_allowed() {
        use std::io::{Read as _, Write as _};
        let fetched = |most| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/x", listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n";
                let _ = stream.write_all(format!("{head}hello world").as_bytes());
            });
            let done = curl(&url, most).env("NO_PROXY", "*").run().unwrap();
            server.join().unwrap();
            done.success()
        };
        assert!(fetched(11));
        assert!(!fetched(10));
    }

    #[test]
    fn distinguishes_failures_of_copr_cli() {
        let wrong = "\nSomething went wrong:\nError: ";
        let kind = |code, text: &str| failed(code, &format!("{wrong}{text}\n")).kind();
        let expired = "Login invalid/expired. Please visit https://copr.example/api to get or renew your API token.";
        assert!(matches!(failed(1, &format!("{wrong}{expired}\n")), CoprError::Expired { .. }));
        assert_eq!(kind(1, "Project @g/p does not exist."), Kind::Config);
        assert_eq!(kind(1, "Build 7 does not exist."), Kind::Network);
        assert!(
            failed(
                1,
                &format!(
                    "{wrong}Request wasn't successful, there is probably a bug in the Copr code.\n"
                )
            )
            .passes()
        );
        assert!(
            failed(1, &format!("{wrong}Unable to connect to https://copr.example/api_3.\n"))
                .passes()
        );
        assert!(!failed(1, &format!("{wrong}Unexpected chroot: x\n")).passes());
        let auth = "\nError: Operation requires API authentication. See the 'AUTHENTICATION' section in man copr-cli(1).\n\n";
        let no_token =
            failed(7, &format!("{auth}Error: The 'requests_gssapi' package is not installed.\n"));
        assert!(matches!(no_token, CoprError::NoToken { .. }));
        let forbidden =
            failed(7, &format!("{auth}Error: User x is not allowed to build in the copr: @g/p\n"));
        assert_eq!(
            forbidden.to_string(),
            "COPR denies permission: User x is not allowed to build in the copr: @g/p"
        );
        assert!(matches!(
            failed(6, "\nError: Copr configuration error. x\n"),
            CoprError::Config { .. }
        ));
    }

    #[test]
    fn builds_urls_of_pages_and_commands() {
        assert_eq!(client().page(), "https://copr.example/coprs/g/g/p/");
        assert_eq!(client().command(&["delete-build", "7"]), "copr-cli delete-build 7");
    }
}
