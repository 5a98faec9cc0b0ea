//! A small HTTP/1.1 server on 127.0.0.1 for tests: ranges, answers that break off,
//! wrong content. It ends when it is dropped.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// What was posted.
    pub body: Vec<u8>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What to answer.
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    cut: Option<usize>,
    ranges: bool,
    endless: bool,
}

impl Reply {
    /// A file, of which ranges can be had.
    pub fn file(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: Vec::new(), body: body.into(), cut: None, ranges: true, endless: false }
    }

    /// An answer without content.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::file("") }
    }

    /// Goes on after the body, with no length announced, for as long as the client reads. It ends
    /// after a gigabyte, so that a client without a limit ends, too.
    pub fn endless(self) -> Self {
        Self { endless: true, ..self.without_ranges() }
    }

    /// Always the whole file, whatever range was asked for.
    pub fn without_ranges(self) -> Self {
        Self { ranges: false, ..self }
    }

    /// Closes the connection after so many bytes of the body.
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
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Starts a server that answers as `answer` says.
    pub fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (seen_by_thread, stop_of_thread) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop_of_thread.load(Ordering::SeqCst) {
                    return;
                }
                // A client that hangs up is part of some tests.
                let _ = stream.and_then(|stream| serve(stream, &seen_by_thread, &answer));
            }
        });
        Self { address, seen, stop, thread: Some(thread) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits for a connection.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<Seen>>,
    answer: &(impl Fn(&Seen) -> Reply + ?Sized),
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
    let request = Seen { path, headers, body };
    let mut reply = answer(&request);
    let asked = request.header("range").and_then(|range| Some(range.strip_prefix("bytes=")?.to_owned()));
    seen.lock().unwrap().push(request);
    let whole = reply.body.len();
    if let Some((from, end)) =
        asked.and_then(|range| part(&range, whole)).filter(|_| reply.ranges && reply.status == 200)
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

/// Returns where a part of a file begins and ends: of `2-4`, `2-` or `-3`, without the unit.
fn part(range: &str, whole: usize) -> Option<(usize, usize)> {
    Some(match range.split_once('-')? {
        ("", last) => (whole.saturating_sub(last.parse().ok()?), whole),
        (from, "") => (from.parse().ok()?, whole),
        (from, last) => (from.parse().ok()?, whole.min(last.parse::<usize>().ok()? + 1)),
    })
}
