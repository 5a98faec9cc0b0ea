//! Destinations for publishing tests with their servers, and access to them that is independent of
//! rocmrpm.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rocmrpm::digest::Sha256;

use crate::support::{Ran, ran, wait_until};

/// The content of a destination by path.
pub type Files = BTreeMap<String, Vec<u8>>;

const BUCKET: &str = "a-bucket";

/// A destination: rocmrpm's arguments for it, and its actual location.
pub struct Where {
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    real: Real,
    /// Keeps the files alive that the environment refers to.
    holder: tempfile::TempDir,
}

enum Real {
    Folder(PathBuf),
    Bucket(u16),
}

fn program(path: &Path, script: &str) {
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

impl Where {
    fn new(arguments: Vec<String>, real: Real) -> Self {
        let holder = tempfile::tempdir().unwrap();
        Self { arguments, environment: Vec::new(), real, holder }
    }

    pub fn folder(root: &Path) -> Self {
        let root = root.join("a folder/index");
        Self::new(vec![root.display().to_string()], Real::Folder(root))
    }

    /// A host whose remote shell runs on this machine.
    pub fn remote_shell(root: &Path) -> Self {
        let root = root.join("new/index");
        let mut place =
            Self::new(vec![format!("far.example:{}", root.display())], Real::Folder(root));
        let shell = place.holder.path().join("shell");
        program(
            &shell,
            "#!/bin/sh\n[ \"$1\" = far.example ] || exit 9\nshift\nexec sh -c \"$*\"\n",
        );
        place.environment.push(("RSYNC_RSH", shell.display().to_string()));
        place
    }

    pub fn daemon(server: &Rsyncd) -> Self {
        let url = format!("rsync://127.0.0.1:{}/module/some/where/", server.port);
        Self::new(vec![url], Real::Folder(server.root.join("some/where")))
    }

    /// A prefix of a bucket, accessed with the distribution's `aws` even if others are installed.
    pub fn s3(server: &Moto) -> Self {
        let arguments = vec![format!("s3://{BUCKET}/index"), "--endpoint-url".into(), server.url()];
        let mut place = Self::new(arguments, Real::Bucket(server.port));
        let (bin, real) = (place.holder.path(), Path::new("/usr/bin/aws"));
        assert!(real.exists(), "aws is missing; {}", rocmrpm::process::install_help("aws"));
        std::os::unix::fs::symlink(real, bin.join("aws")).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let folders = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).unwrap().into_string().unwrap();
        place.environment = vec![("PATH", path)];
        place.environment.extend(CREDENTIALS.map(|(name, value)| (name, value.to_owned())));
        place
    }

    pub fn environment(&self) -> &[(&'static str, String)] {
        &self.environment
    }

    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(String::as_str)
    }

    /// Returns the argument of `pip --index-url`.
    pub fn url(&self, channel: &str) -> String {
        match &self.real {
            Real::Folder(root) => {
                format!(
                    "file://{}/{channel}/simple",
                    root.display().to_string().replace(' ', "%20")
                )
            }
            Real::Bucket(port) => {
                format!("http://127.0.0.1:{port}/{BUCKET}/index/{channel}/simple/")
            }
        }
    }

    /// Returns all files.
    pub fn files(&self) -> Files {
        match &self.real {
            Real::Folder(root) => walkdir::WalkDir::new(root)
                .into_iter()
                .flatten()
                .filter(|entry| entry.file_type().is_file() && entry.file_name() != ".lock")
                .map(|entry| {
                    let path =
                        entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned();
                    (path, std::fs::read(entry.path()).unwrap())
                })
                .collect(),
            Real::Bucket(port) => {
                let (status, list) = http(*port, "GET", &format!("/{BUCKET}?list-type=2"), b"");
                assert_eq!(status, 200);
                let list = String::from_utf8(list).unwrap();
                let keys =
                    list.split("<Key>").skip(1).map(|rest| rest.split("</Key>").next().unwrap());
                keys.map(|key| {
                    let (status, body) =
                        http(*port, "GET", &format!("/{BUCKET}/{}", encoded(key)), b"");
                    assert_eq!(status, 200, "{key}");
                    (key.strip_prefix("index/").unwrap().to_owned(), body)
                })
                .collect()
            }
        }
    }

    pub fn put(&self, path: &str, bytes: &[u8]) {
        match &self.real {
            Real::Folder(root) => {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
            Real::Bucket(port) => {
                let (status, _) =
                    http(*port, "PUT", &format!("/{BUCKET}/index/{}", encoded(path)), bytes);
                assert_eq!(status, 200);
            }
        }
    }

    pub fn remove(&self, path: &str) {
        match &self.real {
            Real::Folder(root) => std::fs::remove_file(root.join(path)).unwrap(),
            Real::Bucket(port) => {
                http(*port, "DELETE", &format!("/{BUCKET}/index/{}", encoded(path)), b"");
            }
        }
    }

    /// Fails unless every page is valid and only names existing files.
    pub fn assert_whole(&self) {
        let files = self.files();
        for (path, bytes) in &files {
            let channel =
                path.strip_suffix("/index.json").and_then(|p| p.strip_prefix("testing/simple/"));
            if let Some(name) = channel {
                let page: serde_json::Value = serde_json::from_slice(bytes).unwrap();
                for file in page["files"].as_array().unwrap() {
                    let package = format!("packages/{name}/{}", file["filename"].as_str().unwrap());
                    let there =
                        files.get(&package).unwrap_or_else(|| panic!("{package} is missing"));
                    let digest = Sha256::of_bytes(there).to_string();
                    assert_eq!(file["hashes"]["sha256"], digest.as_str(), "{package}");
                    assert!(files.contains_key(&format!("{package}.metadata")));
                }
            } else if path.ends_with(".html") {
                assert!(bytes.ends_with(b"</html>\n"), "{path} is incomplete");
            }
        }
    }
}

const CREDENTIALS: [(&str, &str); 4] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_DEFAULT_REGION", "us-east-1"),
    ("no_proxy", "127.0.0.1"),
];

fn encoded(key: &str) -> String {
    key.replace('+', "%2B")
}

/// Sends a request to a local server.
fn http(port: u16, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let (head, body) = exchange(port, method, path, body);
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

fn exchange(port: u16, method: &str, path: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // moto accepts any signature.
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
         SignedHeaders=host, Signature=0\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let body = answer.split_off(end + 4);
    (String::from_utf8(answer).unwrap(), body)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server on a free port; tries another port if it was taken in the meantime.
fn start(mut command: impl FnMut(u16) -> Command) -> (Child, u16) {
    for _ in 0..5 {
        let port = free_port();
        let mut child = command(port).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut ended = false;
        wait_until("the server listens", || {
            ended = child.try_wait().unwrap().is_some();
            ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        if !ended {
            return (child, port);
        }
    }
    panic!("cannot start the server");
}

/// An rsync daemon with a module `module`.
pub struct Rsyncd {
    child: Child,
    pub port: u16,
    pub root: PathBuf,
    _dir: tempfile::TempDir,
}

impl Rsyncd {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("module");
        std::fs::create_dir(&root).unwrap();
        let config = dir.path().join("rsyncd.conf");
        // As root, rsync would switch to a user without write access.
        let own = if rustix::process::geteuid().is_root() { "uid = 0\ngid = 0\n" } else { "" };
        let text =
            format!("use chroot = no\n{own}[module]\npath = {}\nread only = no\n", root.display());
        std::fs::write(&config, text).unwrap();
        let (child, port) = start(|port| {
            let mut command = Command::new("rsync");
            command.args(["--daemon", "--no-detach", "--address=127.0.0.1"]);
            command.arg(format!("--port={port}")).arg(format!("--config={}", config.display()));
            command.arg("--log-file=/dev/null");
            command
        });
        Self { child, port, root, _dir: dir }
    }
}

impl Drop for Rsyncd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// moto's server with a publicly readable bucket.
pub struct Moto {
    child: Child,
    pub port: u16,
}

impl Moto {
    pub fn start() -> Self {
        let program = installed();
        let (child, port) = start(|port| {
            let mut command = Command::new(&program);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stderr(Stdio::null());
            command
        });
        let server = Self { child, port };
        assert_eq!(http(port, "PUT", &format!("/{BUCKET}"), b"").0, 200);
        let policy = format!(
            "{{\"Version\":\"2012-10-17\",\"Statement\":[{{\"Effect\":\"Allow\",\"Principal\":\"*\",\
             \"Action\":[\"s3:GetObject\"],\"Resource\":[\"arn:aws:s3:::{BUCKET}/*\"]}}]}}"
        );
        let (status, _) = http(port, "PUT", &format!("/{BUCKET}?policy"), policy.as_bytes());
        assert!(status < 300, "{status}");
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the header of the response to a request for an object.
    pub fn head(&self, key: &str) -> String {
        exchange(self.port, "HEAD", &format!("/{BUCKET}/{}", encoded(key)), b"").0
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Installs moto once for all tests that run in this folder.
fn installed() -> PathBuf {
    const VERSION: &str = "5.2.1";
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(tmp).unwrap();
    let lock = std::fs::File::create(tmp.join("moto.lock")).unwrap();
    lock.lock().unwrap();
    let venv = tmp.join(format!("moto-{VERSION}"));
    let done = venv.join("installed");
    if !done.exists() {
        let _ = std::fs::remove_dir_all(&venv);
        let made =
            Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv).status().unwrap();
        assert!(made.success(), "a virtual environment needs Debian's python3-venv");
        let requirement = format!("moto[s3,server]=={VERSION}");
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &requirement];
        assert!(Command::new(venv.join("bin/python")).args(pip).status().unwrap().success());
        std::fs::write(done, "").unwrap();
    }
    venv.join("bin/moto_server")
}

/// Runs a command and kills it at the n-th call of a tool.
pub fn killed_at(command: &mut Command, tool: &str, step: usize) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let set = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let path = set.map(ToOwned::to_owned).or_else(|| std::env::var_os("PATH")).unwrap();
    let real = rocmrpm::process::find_program_in(&path, tool).unwrap();
    // Several may run in parallel: appended bytes count them reliably.
    let script = format!(
        "#!/bin/sh\nprintf x >> {0}/calls\nread -r calls < {0}/calls\n\
         [ ${{#calls}} -lt {step} ] || {{ kill -9 $PPID; exit 1; }}\nexec {1} \"$@\"\n",
        dir.path().display(),
        real.display()
    );
    let wrapper = dir.path().join(tool);
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o755)).unwrap();
    let folders = std::iter::once(dir.path().to_owned()).chain(std::env::split_paths(&path));
    ran(command.env("PATH", std::env::join_paths(folders).unwrap()))
}
