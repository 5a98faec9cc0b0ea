//! Tests the index server over real connections with valid and invalid requests, and `rocmrpm index
//! serve` from a user's perspective.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rocmrpm::index::serve::{self, Served};

/// A server for a folder on a free local port. Stopped when dropped.
pub(crate) struct Server {
    address: std::net::SocketAddr,
    served: Arc<Mutex<Vec<Served>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(root: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (served, stop) = (Arc::<Mutex<Vec<Served>>>::default(), Arc::<AtomicBool>::default());
        let (log, stops, root) = (served.clone(), stop.clone(), root.to_owned());
        let thread = std::thread::spawn(move || {
            let log = |served: &Served| log.lock().unwrap().push(served.clone());
            serve::serve(&listener, &root, &[], &log, &|| stops.load(Ordering::SeqCst)).unwrap();
        });
        Self { address, served, stop, thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Returns all responses so far as `METHOD target status media type`.
    pub(crate) fn served(&self) -> Vec<String> {
        let served = self.served.lock().unwrap();
        served
            .iter()
            .map(|s| format!("{} {} {} {}", s.method, s.target, s.status, s.media_type))
            .collect()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes and reads until the server closes the connection.
    fn talk(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(
            ended.is_some_and(|ended| ended.is_ok()) || std::thread::panicking(),
            "the server failed"
        );
    }
}

fn index() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("simple/index.html", "root"),
        ("simple/demo/index.html", "html page"),
        ("simple/demo/index.json", "json page"),
        ("packages/demo/demo-1+x.whl", "0123456789"),
    ] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

#[test]
fn keeps_connections_open_and_sends_no_body_for_head() {
    let dir = index();
    let server = Server::start(dir.path());
    let requests = [
        get("/simple/demo/", "Accept: application/vnd.pypi.simple.v1+json\r\n"),
        get("/packages/demo/demo-1%2Bx.whl", "").replace("GET", "HEAD"),
        get("/packages/demo/demo-1+x.whl", "Range: bytes=-2\r\nIf-Range: \"x\"\r\n"),
        get("/simple/DEMO", ""),
        get("/simple/none/", "Connection: close\r\n"),
        get("/simple/", ""),
    ];
    let answer = server.talk(requests.concat());
    let parts: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).collect();
    let [json, head, whole, moved, missing] = parts[..] else { panic!("{answer}") };
    assert!(json.starts_with("200 OK\r\n") && json.ends_with("\r\n\r\njson page"), "{json}");
    for field in [
        "Content-Type: application/vnd.pypi.simple.v1+json",
        "Vary: Accept",
        "Content-Length: 9",
        "ETag: \"",
    ] {
        assert!(json.contains(&format!("\r\n{field}")), "{field}: {json}");
    }
    assert!(head.contains("Content-Length: 10\r\n") && !head.contains("Accept-Ranges"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    assert!(whole.starts_with("200 OK\r\n") && whole.ends_with("\r\n\r\n0123456789"), "{whole}");
    assert!(moved.contains("Location: /simple/demo/\r\n"), "{moved}");
    assert!(missing.starts_with("404") && missing.contains("Connection: close\r\n"), "{missing}");
    assert_eq!(
        server.served(),
        [
            "GET /simple/demo/ 200 application/vnd.pypi.simple.v1+json",
            "HEAD /packages/demo/demo-1%2Bx.whl 200 application/octet-stream",
            "GET /packages/demo/demo-1+x.whl 200 application/octet-stream",
            "GET /simple/DEMO 301 text/plain; charset=utf-8",
            "GET /simple/none/ 404 text/plain; charset=utf-8",
        ]
    );
}

#[test]
fn accepts_requests_in_any_pieces() {
    let dir = index();
    let server = Server::start(dir.path());
    let request = get("/simple/demo/", "Connection: close\r\n");
    let whole = server.talk(&request);
    let without_date = |answer: &str| -> String {
        answer.lines().filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>().join("\n")
    };
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                let mut stream = server.connect();
                stream.set_nodelay(true).unwrap();
                for byte in request.as_bytes() {
                    stream.write_all(&[*byte]).unwrap();
                }
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert_eq!(without_date(&answer), without_date(&whole));
            });
        }
    });
    assert_eq!(server.served().len(), 41);
}

#[test]
fn rejects_bad_requests_and_keeps_serving() {
    let dir = index();
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("packages/passwd")).unwrap();
    let server = Server::start(dir.path());
    let long = "x".repeat(100_000);
    for (request, status) in [
        ("GET /\r\n\r\n".to_owned(), "400"),
        (get("/%zz", ""), "400"),
        (get("/simple/%2e%2e/%2e%2e/etc/passwd", ""), "400"),
        (get("/../../etc/passwd", ""), "400"),
        (get("/packages/passwd", ""), "404"),
        (get("//etc/passwd", ""), "400"),
        (get("/%2fetc/passwd", ""), "400"),
        (get(&format!("/{long}"), ""), "431"),
        (get("/", &format!("X: {long}\r\n")), "431"),
        (get("/simple/demo/", "").replace("GET", "POST"), "405"),
        (get("/simple/demo/", "").replace("/1.1", "/3.0"), "505"),
        (get("/simple/demo/", "Accept: image/png\r\n"), "406"),
    ] {
        let answer = server.talk(&request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{status}: {request:.60}: {answer}"
        );
        assert!(!answer.contains("root:"), "{answer}");
    }
    let request = get("/packages/demo/demo-1+x.whl", "");
    for end in 0..request.len() {
        assert_eq!(server.talk(&request[..end]), "", "half a request was answered");
    }
    assert!(server.talk(request).ends_with("\r\n\r\n0123456789"));
}

#[test]
fn hanging_clients_do_not_block_others_or_shutdown() {
    let dir = index();
    let large = std::fs::File::create(dir.path().join("packages/large.whl")).unwrap();
    large.set_len(1 << 30).unwrap();
    let server = Server::start(dir.path());
    // Some send nothing, some half of a request, and some do not read the response.
    let mut hanging: Vec<TcpStream> = (0..30).map(|_| server.connect()).collect();
    for (at, stream) in hanging.iter_mut().enumerate() {
        let request = get("/packages/large.whl", "");
        let sent = [0, 20, request.len()][at % 3];
        stream.write_all(&request.as_bytes()[..sent]).unwrap();
    }
    assert!(server.talk(get("/simple/demo/", "")).ends_with("html page"));
    let started = Instant::now();
    drop(server);
    assert!(started.elapsed() < Duration::from_secs(5), "the end took {:?}", started.elapsed());
    let mut rest = Vec::new();
    let taken = hanging[2].read_to_end(&mut rest);
    assert!(taken.is_err() || rest.len() < 1 << 30);
}

#[test]
fn closes_idle_and_slow_clients_for_new_requests() {
    let dir = index();
    let large = std::fs::File::create(dir.path().join("packages/large.whl")).unwrap();
    large.set_len(1 << 30).unwrap();
    let server = Server::start(dir.path());
    // More than the server handles at once; every second one does not read the response.
    let mut hanging: Vec<TcpStream> = (0..150).map(|_| server.connect()).collect();
    for stream in hanging.iter_mut().step_by(2) {
        stream.write_all(get("/packages/large.whl", "").as_bytes()).unwrap();
    }
    let started = Instant::now();
    assert!(server.talk(get("/simple/demo/", "")).ends_with("html page"));
    assert!(started.elapsed() < Duration::from_secs(15), "the answer took {:?}", started.elapsed());
}

#[test]
fn rejects_requests_for_another_host() {
    let dir = with_index();
    let ask = |program: &Program, host: &str, target: &str| {
        let address = program.url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let program = Program::start(dir.path(), &["--port", "0", "--allow-host", "builder.example"]);
    for host in ["localhost:1", "127.0.0.1", "builder.example"] {
        assert!(ask(&program, host, "/simple/demo/").ends_with("html page"), "{host}");
    }
    for (host, target) in
        [("evil.example", "/simple/demo/"), ("localhost", "http://evil.example/simple/demo/")]
    {
        let answer = ask(&program, host, target);
        assert!(answer.starts_with("HTTP/1.1 421 Misdirected Request\r\n"), "{answer}");
        assert!(answer.contains("--allow-host NAME") && !answer.contains("html page"), "{answer}");
    }
    let open = Program::start(dir.path(), &["--port", "0", "--address", "0.0.0.0"]);
    assert!(ask(&open, "any.example", "/simple/demo/").ends_with("html page"));
}

#[test]
fn stops_answering_disconnected_clients() {
    let dir = index();
    std::fs::File::create(dir.path().join("packages/large.whl")).unwrap().set_len(1 << 30).unwrap();
    let server = Server::start(dir.path());
    let mut stream = server.connect();
    stream.write_all(get("/packages/large.whl", "").as_bytes()).unwrap();
    let mut some = [0; 1000];
    stream.read_exact(&mut some).unwrap();
    drop(stream);
    let started = Instant::now();
    while server.served().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20), "the server keeps sending");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!server.served.lock().unwrap()[0].complete);
}

/// A running `rocmrpm index serve`. Stopped when dropped.
struct Program {
    child: std::process::Child,
    url: String,
    stderr: PathBuf,
}

impl Program {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let stderr = dir.join("stderr.txt");
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"))
            .args(["index", "serve", dir.join("index").to_str().unwrap()])
            .args(args)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim_end().to_owned(), stderr }
    }

    fn get(&self, path: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(get(path, "Connection: close\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends SIGINT like Ctrl-C and returns the exit code and stderr.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, std::fs::read_to_string(&self.stderr).unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_index() -> tempfile::TempDir {
    let (dir, index) = (tempfile::tempdir().unwrap(), index());
    std::fs::rename(index.keep(), dir.path().join("index")).unwrap();
    dir
}

#[test]
fn serve_prints_usage_and_exits_cleanly() {
    let dir = with_index();
    let program = Program::start(dir.path(), &["--port", "0"]);
    let url = program.url.clone();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/simple/"), "{url}");
    assert!(program.get("/simple/demo/").ends_with("html page"));
    assert!(program.get("/simple/none/").starts_with("HTTP/1.1 404"));
    let (code, stderr) = program.interrupt();
    assert_eq!(code, Some(0), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    let [serving, pip, uv, page, missing, stopped] = lines[..] else { panic!("{stderr}") };
    assert!(serving.contains("Serving") && serving.contains("index"), "{stderr}");
    assert_eq!(pip, format!("  pip install --index-url {url} demo"));
    assert_eq!(uv, format!("  uv pip install --default-index {url} demo"));
    assert_eq!(page, "         200 GET /simple/demo/ (9 B, text/html; charset=utf-8)");
    assert!(missing.starts_with("         404 GET /simple/none/ ("), "{stderr}");
    assert!(stopped.contains("Stopped"), "{stderr}");
}

#[test]
fn quiet_serve_prints_only_warnings() {
    let dir = with_index();
    let program = Program::start(dir.path(), &["--port", "0", "--quiet"]);
    program.get("/simple/demo/");
    assert_eq!(program.interrupt(), (Some(0), String::new()));

    let program = Program::start(dir.path(), &["--port", "0", "--quiet", "--address", "0.0.0.0"]);
    assert!(program.url.starts_with("http://127.0.0.1:"), "{}", program.url);
    program.get("/simple/demo/");
    let (code, stderr) = program.interrupt();
    assert_eq!(code, Some(0));
    assert!(stderr.starts_with("warning: listening on all addresses"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn rejects_folders_and_ports_that_cannot_be_served() {
    let dir = with_index();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (args, code, parts) in [
        (vec!["empty"], 2, ["empty is not an index", "help: run `rocmrpm build`"]),
        (vec!["none"], 2, ["none is not an index", "help: "]),
        (
            vec!["index", "--port", &port],
            20,
            ["cannot listen on 127.0.0.1:", "help: another program uses this port"],
        ),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_rocmrpm"))
            .current_dir(dir.path())
            .args(["index", "serve"])
            .args(&args)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}
