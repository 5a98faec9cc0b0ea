//! Runs a COPR per test, with a configured copr-cli. The server is tests/copr/server.py or, if
//! `ROCMRPM_COPR` names a checkout of COPR, its own frontend (`make copr-test`).

use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Ran, ran};
use crate::tools;

/// The token of alice, who owns the tests' projects (tests/copr/state.py).
pub const TOKEN: &str = "alice-token-of-30-characters";

/// The server and its user's home folder. Stopped when dropped.
pub struct Copr {
    holder: tempfile::TempDir,
    server: Child,
    pub url: String,
}

impl Copr {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with additional arguments.
    pub fn with(args: &[&str]) -> Self {
        let holder = tempfile::Builder::new().prefix("rocmrpm-copr-").tempdir().unwrap();
        for name in ["server", "home/.config", "trust"] {
            std::fs::create_dir_all(holder.path().join(name)).unwrap();
        }
        let folder = holder.path().join("server");
        let program =
            |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/copr").join(name);
        let mut command = match std::env::var_os("ROCMRPM_COPR") {
            None => {
                let mut command = Command::new(tools::PYTHON);
                command.arg("-B").arg(program("server.py")).arg(folder).args(args);
                command
            }
            Some(checkout) => {
                let python = tools::environment("copr-frontend", include_str!("frontend.txt"));
                let mut command = Command::new(python.join("bin/python"));
                command.arg("-B").arg(program("frontend.py")).arg(folder).arg(checkout);
                command.stderr(std::fs::File::create(holder.path().join("stderr")).unwrap());
                command
            }
        };
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            let stderr = std::fs::read_to_string(holder.path().join("stderr")).unwrap_or_default();
            panic!("cannot start the server (is openssl installed?): {error}: {line}{stderr}")
        });
        let site = Self { holder, server, url: started["url"].as_str().unwrap().to_owned() };
        site.log_in("alice", TOKEN);
        // Session.send, which python-copr's pagination.py uses for further pages, ignores
        // REQUESTS_CA_BUNDLE, so replace certifi's list.
        let trust = format!(
            "try:\n    import certifi\n    certifi.where = lambda: {:?}\nexcept ImportError:\n    pass\n",
            site.ca()
        );
        std::fs::write(site.path("trust/sitecustomize.py"), trust).unwrap();
        // rocmrpm does not pass the user's PYTHONPATH to tools.
        let cli = tools::environment("copr-cli", include_str!("tools.txt")).join("bin/copr-cli");
        let wrapper = format!(
            "#!/bin/sh\nPYTHONPATH='{}' exec '{}' \"$@\"\n",
            site.path("trust").display(),
            cli.display()
        );
        std::fs::write(site.path("trust/copr-cli"), wrapper).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(site.path("trust/copr-cli"), mode).unwrap();
        std::fs::write(site.path("wgetrc"), format!("ca_certificate = {}\n", site.ca().display()))
            .unwrap();
        site
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.holder.path().join(path)
    }

    pub fn ca(&self) -> PathBuf {
        self.path("server/ca.pem")
    }

    /// Writes copr-cli's configuration in the format of COPR's page /api.
    pub fn log_in(&self, user: &str, token: &str) {
        let config = format!(
            "[copr-cli]\nlogin = {user}-login\nusername = {user}\ntoken = {token}\ncopr_url = {}\n\
             # expiration date: 2027-05-20\n",
            self.url
        );
        let path = self.path("home/.config/copr");
        std::fs::write(&path, config).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Sets the faults from now on; see the header of server.py.
    pub fn control(&self, faults: &Value) {
        let part = self.path("server/control.part");
        std::fs::write(&part, faults.to_string()).unwrap();
        std::fs::rename(part, self.path("server/control.json")).unwrap();
    }

    /// Returns the server's state.
    pub fn state(&self) -> Value {
        let text = std::fs::read_to_string(self.path("server/state.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Returns all builds, oldest first.
    pub fn builds(&self) -> Vec<Value> {
        self.state()["builds"].as_array().cloned().unwrap_or_default()
    }

    /// Returns `package state` of all builds, oldest first.
    pub fn states(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        self.builds()
            .iter()
            .map(|b| format!("{} {}", text(&b["package"]), text(&b["state"])))
            .collect()
    }

    /// Returns the answered requests as `METHOD /path status`.
    pub fn requests(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("server/requests.jsonl")).unwrap_or_default();
        let line = |line: &str| {
            let value: Value = serde_json::from_str(line).unwrap();
            format!("{} {}", value["request"].as_str().unwrap(), value["status"])
        };
        text.lines().map(line).collect()
    }

    /// Returns the number of accepted source packages.
    pub fn uploads(&self) -> usize {
        self.requests().iter().filter(|r| *r == "POST /api_3/build/create/upload 200").count()
    }

    /// Configures a command with copr-cli, its user's home folder, and trust in this server.
    pub fn settle(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{path}", self.path("trust").display()))
            .env("HOME", self.path("home"))
            .env("WGETRC", self.path("wgetrc"))
            .env("NO_PROXY", "127.0.0.1")
            .env("COLUMNS", "500")
            .env_remove("XDG_CONFIG_HOME");
        for name in ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"] {
            command.env(name, self.ca());
        }
    }

    /// Creates a source package that does not belong to the workspace.
    pub fn srpm(&self, name: &str) -> PathBuf {
        let spec = self.path(&format!("{name}.spec"));
        let text = format!(
            "Name: {name}\nVersion: 1.0\nRelease: 1\nSummary: A package\nLicense: MIT\nBuildArch: noarch\n\
             %description\nA package.\n%files\n"
        );
        std::fs::write(&spec, text).unwrap();
        let top = format!("_topdir {}", self.path("rpmbuild").display());
        ran(Command::new("rpmbuild").args(["-bs", "--define", &top]).arg(spec)).exits(0);
        self.path(&format!("rpmbuild/SRPMS/{name}-1.0-1.src.rpm"))
    }

    pub fn cli(&self, args: &[&str]) -> Ran {
        let mut command = Command::new("copr-cli");
        command.args(args).current_dir(self.path("home")).stdin(Stdio::null());
        self.settle(&mut command);
        ran(&mut command)
    }

    /// Reads a document of API v3.
    pub fn api(&self, path: &str) -> Value {
        let file = self.path("answer.json");
        self.fetch(&format!("{}/api_3/{path}", self.url), &file).exits(0);
        serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
    }

    /// Downloads a URL from the server.
    pub fn fetch(&self, url: &str, to: &Path) -> Ran {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--output"]).arg(to).arg(url);
        self.settle(&mut command);
        ran(&mut command)
    }
}

impl Drop for Copr {
    fn drop(&mut self) {
        // The server stops its children and exits when its stdin is closed.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}
