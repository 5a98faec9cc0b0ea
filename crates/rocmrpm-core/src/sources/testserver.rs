//! Runs a minimal HTTP/1.1 server on 127.0.0.1 for tests: ranges, truncated responses, wrong
//! content. It stops when dropped and does not implement TLS.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request received by the server.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    pub path: String,
    /// Header names are in lowercase.
    pub headers: BTreeMap<String, String>,
    /// The posted body.
    pub body: Vec<u8>,
}

impl SeenRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A response.
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    cut: Option<usize>,
    ranges: bool,
    endless: bool,
}

impl Reply {
    /// Returns a file with support for ranges.
    pub fn file(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
            cut: None,
            ranges: true,
            endless: false,
        }
    }

    /// Returns a response without content.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::file("") }
    }

    /// Continues after the body without a declared length while the client reads. Stops after one
    /// gigabyte so that a client without a limit terminates.
    pub fn endless(self) -> Self {
        Self { endless: true, ..self.without_ranges() }
    }

    /// Always sends the complete file and ignores ranges.
    pub fn without_ranges(self) -> Self {
        Self { ranges: false, ..self }
    }

    /// Closes the connection after this many bytes of the body.
    pub fn cut_after(self, bytes: usize) -> Self {
        Self { cut: Some(bytes), ..self }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

pub struct TestServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Starts a server that responds with `answer`.
    pub fn start(answer: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (seen_by_thread, stop_of_thread) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop_of_thread.load(Ordering::SeqCst) {
                    return;
                }
                // Some tests hang up early.
                let _ = stream.and_then(|stream| serve(stream, &seen_by_thread, &answer));
            }
        });
        Self { address, seen, stop, thread: Some(thread) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns all requests so far.
    pub fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wake the thread, which is waiting for a connection.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<SeenRequest>>,
    answer: &(impl Fn(&SeenRequest) -> Reply + ?Sized),
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut lines = reader.by_ref().lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or("/").to_owned();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request = SeenRequest { path, headers, body };
    let mut reply = answer(&request);
    let requested =
        request.header("range").and_then(|range| Some(range.strip_prefix("bytes=")?.to_owned()));
    seen.lock().unwrap().push(request);
    let whole = reply.body.len();
    if let Some((from, end)) = requested
        .and_then(|range| part(&range, whole))
        .filter(|_| reply.ranges && reply.status == 200)
    {
        if from >= whole {
            (reply.status, reply.body) = (416, Vec::new());
            reply = reply.header("Content-Range", format!("bytes */{whole}"));
        } else {
            (reply.status, reply.body) = (206, reply.body[from..end].to_vec());
            reply = reply.header("Content-Range", format!("bytes {from}-{}/{whole}", end - 1));
        }
    }
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if reply.endless {
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        stream.write_all(&reply.body)?;
        return (0..1 << 14).try_for_each(|_| stream.write_all(&[b' '; 1 << 16]));
    }
    head += &format!("Content-Length: {}\r\n\r\n", reply.body.len());
    stream.write_all(head.as_bytes())?;
    let end = reply.cut.unwrap_or(reply.body.len()).min(reply.body.len());
    stream.write_all(&reply.body[..end])
}

/// Returns the start and end for a range such as `2-4`, `2-` or `-3`, without the unit.
fn part(range: &str, whole: usize) -> Option<(usize, usize)> {
    Some(match range.split_once('-')? {
        ("", last) => (whole.saturating_sub(last.parse().ok()?), whole),
        (from, "") => (from.parse().ok()?, whole),
        (from, last) => (from.parse().ok()?, whole.min(last.parse::<usize>().ok()? + 1)),
    })
}
