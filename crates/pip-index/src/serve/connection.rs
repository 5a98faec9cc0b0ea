//! Handles one connection of a client: requests and answers, one after the other. It does not
//! create the answers.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::Served;
use super::files::{Body, FileResponse, Site};
use super::hosts::Hosts;
use super::line::Connection;
use super::pace::{CHUNK_SIZE, Pace};
use super::request::{Head, HeadReader, Refused};

/// How long a client may be idle between requests.
const IDLE: Duration = Duration::from_secs(30);

/// The answer to a request for another host name (RFC 9110, section 15.5.20).
const MISDIRECTED: Refused =
    Refused::new(421, "unknown host name; allow it with `rocmrpm index serve --allow-host NAME`");

/// How many bytes to read from a client after refusing its request, and for how long, so that it
/// receives the reason: closing a connection with unread bytes discards the answer.
const LEFTOVERS: (usize, Duration) = (256 * 1024, Duration::from_secs(1));

/// Answers a client until either side closes the connection. `may_stay` returns whether there is
/// room for idle clients.
pub(super) fn serve(
    connection: &Connection,
    site: &Site,
    hosts: &Hosts,
    log: &(dyn Fn(&Served) + Sync),
    may_stay: impl Fn() -> bool,
) -> io::Result<()> {
    let stream = &connection.stream;
    stream.set_nodelay(true)?;
    let client = stream.peer_addr()?;
    let mut heads = HeadReader::default();
    loop {
        connection.idle();
        let head = heads.next(Instant::now() + IDLE, |buffer, until| read(stream, buffer, until));
        let (asked, answer, stays) = match head {
            Head::Gone => return Ok(()),
            Head::Refused(refused) => (None, FileResponse::from(refused), false),
            Head::Asked(request) => {
                let admitted = hosts.admits(request.host.as_deref());
                let answer = if admitted { site.answer(&request) } else { MISDIRECTED.into() };
                let stays = request.keep_alive && may_stay();
                (Some(request), answer, stays)
            }
        };
        let (method, target) =
            asked.map_or_else(Default::default, |asked| (asked.method, asked.target));
        let media_type = answer.fields.iter().find(|(name, _)| *name == "Content-Type");
        let media_type = media_type.map(|(_, value)| value.clone()).unwrap_or_default();
        let started = Instant::now();
        let status = answer.status;
        let sent = send(connection, answer, method == "HEAD", stays);
        let complete = sent.is_ok();
        let bytes = *sent.as_ref().unwrap_or(&0);
        log(&Served {
            client,
            method,
            target,
            status,
            media_type,
            bytes,
            complete,
            took: started.elapsed(),
        });
        sent?;
        if !stays {
            return leave(stream);
        }
    }
}

/// Reads the available bytes, and waits for them until an instant at most.
fn read(mut stream: &TcpStream, buffer: &mut [u8], until: Instant) -> io::Result<usize> {
    // A timeout of zero would be an error.
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    stream.read(buffer)
}

/// Sends an answer and returns the number of bytes of its content.
fn send(
    connection: &Connection,
    answer: FileResponse,
    head_only: bool,
    stays: bool,
) -> io::Result<u64> {
    let mut pace = Pace::new(Instant::now());
    connection.due(pace.due());
    let mut send =
        |bytes: &[u8]| pace.send(&connection.stream, bytes, |pace| connection.due(pace.due()));
    let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
    let now = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
    head += &format!("Date: {now}\r\nServer: rocmrpm/{}\r\n", env!("CARGO_PKG_VERSION"));
    // An index under test changes: clients may cache pages and packages, but must revalidate them.
    head += "Cache-Control: no-cache\r\n";
    if !stays {
        head += "Connection: close\r\n";
    }
    for (name, value) in &answer.fields {
        head += &format!("{name}: {value}\r\n");
    }
    let length = match &answer.body {
        Body::Text(text) => Some(text.len() as u64),
        Body::File(_, length) => Some(*length),
        Body::Nothing => None,
    };
    if let Some(length) = length {
        head += &format!("Content-Length: {length}\r\n");
    }
    head += "\r\n";
    match answer.body {
        Body::Text(text) if !head_only => head += &text,
        Body::File(file, length) if !head_only => {
            send(head.as_bytes())?;
            let mut sent = 0;
            let (mut content, mut piece) = (file.take(length), vec![0; CHUNK_SIZE]);
            while sent < length {
                match content.read(&mut piece)? {
                    0 => return Err(io::Error::other("the file was truncated")),
                    count => send(&piece[..count])?,
                }
                sent = length - content.limit();
            }
            return Ok(sent);
        }
        _ => {}
    }
    send(head.as_bytes())?;
    Ok(if head_only { 0 } else { length.unwrap_or(0) })
}

/// Closes a connection after the client has received everything.
fn leave(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let (mut left, until) = (LEFTOVERS.0, Instant::now() + LEFTOVERS.1);
    let mut buffer = [0; 4096];
    while left > 0 && Instant::now() < until {
        match read(stream, &mut buffer, until) {
            Ok(0) | Err(_) => break,
            Ok(count) => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}
