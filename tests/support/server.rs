//! A small HTTP server on 127.0.0.1 with one file. The first answer breaks off in the
//! middle; later ones are whole and honour ranges. It ends when it is dropped.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Server {
    address: SocketAddr,
    offsets: Arc<Mutex<Vec<usize>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves these bytes under every path. The first answer ends after `first` bytes.
    pub fn breaking_off(body: Vec<u8>, first: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (offsets, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (seen, stopped) = (offsets.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                // A client that hangs up is none of our business.
                let _ = stream.and_then(|stream| answer(stream, &body, first, &seen));
            }
        });
        Self { address, offsets, stop, thread: Some(thread) }
    }

    pub fn url(&self, file: &str) -> String {
        format!("http://{}/{file}", self.address)
    }

    /// The offset that each request asked for.
    pub fn offsets(&self) -> Vec<usize> {
        self.offsets.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits for a connection.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(mut stream: TcpStream, body: &[u8], first: usize, seen: &Mutex<Vec<usize>>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut from = 0;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse().unwrap_or(0);
        }
    }
    seen.lock().unwrap().push(from);
    let (whole, rest) = (body.len(), &body[from.min(body.len())..]);
    let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
    let range = format!("Content-Range: bytes {from}-{}/{whole}\r\n", whole - 1);
    let range = if from > 0 { range } else { String::new() };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nConnection: close\r\n{range}Content-Length: {}\r\n\r\n",
        rest.len()
    )?;
    let broken = seen.lock().unwrap().len() == 1;
    stream.write_all(if broken { &rest[..first] } else { rest })
}
