//! Parses the head of an HTTP/1.1 request from bytes that may arrive one at a time. It does not
//! create the answer.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rocmrpm_base::text::percent_decode;

/// The limit of a head in bytes. Clients send less than 1 kB.
const MAX_HEAD: usize = 16 * 1024;

/// The limit of header fields.
const MAX_FIELDS: usize = 64;

/// The time for receiving a head, from its first byte on.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// The method as sent.
    pub(super) method: String,
    /// The target as sent.
    pub(super) target: String,
    /// The decoded folders and file in the target.
    pub(super) segments: Vec<String>,
    /// Whether the target is a folder, with a trailing `/`.
    pub(super) folder: bool,
    /// The query as sent.
    pub(super) query: Option<String>,
    /// The requested host, with the port if one was sent.
    pub(super) host: Option<String>,
    /// Whether the connection can stay open and the client wants that.
    pub(super) keep_alive: bool,
    pub(super) accept: Option<String>,
    pub(super) if_none_match: Option<String>,
}

impl Request {
    /// Returns a decoded parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.as_deref()?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| percent_decode(value))
    }
}

/// A request that gets only a status and a sentence, after which the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) reason: &'static str,
}

impl Refused {
    pub(super) const fn new(status: u16, reason: &'static str) -> Self {
        Self { status, reason }
    }
}

/// The result of reading a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A valid head.
    Asked(Request),
    /// Invalid data.
    Refused(Refused),
    /// Nothing: the client disconnected or was idle for too long.
    Gone,
}

/// Reads one head after another from a connection.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    /// Received bytes that have not been parsed yet.
    bytes: Vec<u8>,
}

impl HeadReader {
    /// Reads the next head. `read` fills a buffer and waits until the given instant at most. The
    /// time for a head starts with its first byte; before that, the client may be idle until
    /// `idle_until`.
    pub(super) fn next(
        &mut self,
        idle_until: Instant,
        mut read: impl FnMut(&mut [u8], Instant) -> io::Result<usize>,
    ) -> Head {
        let mut deadline = None;
        let mut searched = 0;
        loop {
            // Empty lines before a request are ignored (RFC 9112, section 2.2).
            let empty = self.bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.bytes.drain(..empty);
            searched = usize::saturating_sub(searched, empty);
            if let Some(end) = end_of_head(&self.bytes, searched).filter(|end| *end <= MAX_HEAD) {
                let head: Vec<u8> = self.bytes.drain(..end).collect();
                return parse(&head).map_or_else(Head::Refused, Head::Asked);
            }
            if self.bytes.len() >= MAX_HEAD {
                return Head::Refused(Refused::new(431, "the head of the request is too long"));
            }
            // Continue the search at the last line feed that could precede an empty line.
            searched = self.bytes.len().saturating_sub(2);
            if !self.bytes.is_empty() {
                deadline.get_or_insert_with(|| Instant::now() + HEAD_TIME);
            }
            let until = deadline.unwrap_or(idle_until);
            if Instant::now() >= until {
                return match deadline {
                    None => Head::Gone,
                    Some(_) => {
                        Head::Refused(Refused::new(408, "the request took too long to arrive"))
                    }
                };
            }
            let mut buffer = [0; 4096];
            match read(&mut buffer, until) {
                Ok(0) => return Head::Gone,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                // The time may be over.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return Head::Gone,
            }
        }
    }
}

/// Returns the end of the head, after the first empty line.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    memchr::memchr_iter(b'\n', rest).find_map(|at| match &rest[at + 1..] {
        [b'\n', ..] => Some(from + at + 2),
        [b'\r', b'\n', ..] => Some(from + at + 3),
        _ => None,
    })
}

fn parse(head: &[u8]) -> Result<Request, Refused> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => {
            return Err(Refused::new(400, "the request is incomplete"));
        }
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refused::new(431, "the request has too many header fields"));
        }
        Err(httparse::Error::Version) => {
            return Err(Refused::new(505, "only HTTP/1.1 and 1.0 are supported"));
        }
        Err(_) => return Err(Refused::new(400, "invalid HTTP request")),
    }
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Refused::new(400, "invalid HTTP request"));
    };
    // Several fields of the same name form a list of their values (RFC 9110, section 5.3).
    let field = |name: &str| {
        let of_name = parsed.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let values: Vec<_> = of_name.map(|field| String::from_utf8_lossy(field.value)).collect();
        (!values.is_empty()).then(|| values.join(", "))
    };
    let hosts =
        parsed.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host")).count();
    if hosts > 1 || (version == 1 && hosts == 0) {
        return Err(Refused::new(400, "a request must have exactly one Host field"));
    }
    let lists = |name: &str, word: &str| {
        field(name).is_some_and(|value| {
            value.split(',').any(|item| item.trim().eq_ignore_ascii_case(word))
        })
    };
    // The server has no use for a body and does not read it, so it must close the connection.
    let body = field("transfer-encoding").is_some()
        || field("content-length").is_some_and(|n| n.trim() != "0");
    let (path, query) = match path_of(target).split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (path_of(target), None),
    };
    let (segments, folder) = segments(path)?;
    Ok(Request {
        method: method.to_owned(),
        target: target.to_owned(),
        segments,
        folder,
        query,
        host: authority_of(target).map(str::to_owned).or_else(|| field("host")),
        keep_alive: version == 1 && !lists("connection", "close") && !body,
        accept: field("accept"),
        if_none_match: field("if-none-match"),
    })
}

/// Returns the path and query of a target, without the scheme and host that clients of proxies send
/// (RFC 9112, section 3.2.2).
fn path_of(target: &str) -> &str {
    let Some(rest) = absolute(target) else { return target };
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// Returns the host in a target, which overrides the header field.
fn authority_of(target: &str) -> Option<&str> {
    let authority = absolute(target)?.split(['/', '?']).next()?;
    Some(authority.rsplit('@').next().unwrap_or(authority))
}

fn absolute(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_once("://")?;
    scheme.eq_ignore_ascii_case("http").then_some(rest)
}

/// Splits a path and decodes its parts. No part can refer to another folder: `.`, `..`, empty
/// parts, `/` within a part, and NUL are refused.
fn segments(path: &str) -> Result<(Vec<String>, bool), Refused> {
    const BAD: Refused = Refused::new(400, "invalid path");
    let rest = path.strip_prefix('/').ok_or(BAD)?;
    let (rest, folder) = match rest.strip_suffix('/') {
        Some(rest) => (rest, true),
        None => (rest, rest.is_empty()),
    };
    if rest.is_empty() {
        return if path == "/" { Ok((Vec::new(), folder)) } else { Err(BAD) };
    }
    let mut segments = Vec::new();
    for part in rest.split('/') {
        let part = percent_decode(part).ok_or(BAD)?;
        if matches!(part.as_str(), "" | "." | "..") || part.contains(['/', '\0']) {
            return Err(BAD);
        }
        segments.push(part);
    }
    Ok((segments, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses heads from bytes that arrive in pieces of this size.
    fn heads(bytes: &[u8], piece: usize) -> Vec<Head> {
        let (mut rest, mut heads, mut all) = (bytes, HeadReader::default(), Vec::new());
        loop {
            let head = heads.next(Instant::now() + Duration::from_secs(5), |buffer, _| {
                let count = piece.min(rest.len()).min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                rest = &rest[count..];
                Ok(count)
            });
            let last = !matches!(head, Head::Asked(_));
            all.push(head);
            if last {
                return all;
            }
        }
    }

    fn asked(text: &str) -> Request {
        match heads(text.as_bytes(), usize::MAX).swap_remove(0) {
            Head::Asked(request) => request,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn refused(text: impl AsRef<[u8]>) -> u16 {
        match heads(text.as_ref(), usize::MAX).swap_remove(0) {
            Head::Refused(refused) => refused.status,
            other => panic!("{other:?}"),
        }
    }

    const TWO: &str = "\r\nGET /simple/?format=a%2Bb&x HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\nACCEPT: */*;q=0.1\r\n\
                       Range: bytes=0-1\r\n\r\n\r\nHEAD http://other:1/packages/a-1%2bx.whl HTTP/1.1\nHost: h\n\
                       Connection: Keep-Alive, Close\nIf-None-Match: *\n\n";

    #[test]
    fn parses_heads_in_any_pieces() {
        let whole = heads(TWO.as_bytes(), usize::MAX);
        for piece in [1, 2, 3, 7, 100] {
            assert_eq!(heads(TWO.as_bytes(), piece), whole, "{piece}");
        }
        let [Head::Asked(first), Head::Asked(second), Head::Gone] = &whole[..] else {
            panic!("{whole:?}")
        };
        assert_eq!(
            (&first.segments[..], first.folder, first.keep_alive),
            (&["simple".to_owned()][..], true, true)
        );
        assert_eq!(first.parameter("format").unwrap(), "a+b");
        assert_eq!(first.parameter("x"), None);
        assert_eq!(first.accept.as_deref(), Some("text/html, */*;q=0.1"));
        assert_eq!(second.segments, ["packages", "a-1+x.whl"]);
        assert_eq!((first.host.as_deref(), second.host.as_deref()), (Some("h"), Some("other:1")));
        assert_eq!(
            (second.method.as_str(), second.folder, second.keep_alive),
            ("HEAD", false, false)
        );
    }

    #[test]
    fn ignores_incomplete_head() {
        for end in 0..TWO.len() {
            let heads = heads(&TWO.as_bytes()[..end], 5);
            assert!(matches!(heads.last(), Some(Head::Gone)), "{end}: {heads:?}");
            assert!(heads.len() <= 2);
        }
    }

    #[test]
    fn parses_or_rejects_damaged_heads() {
        for at in 0..TWO.len() {
            for byte in [0, b'\r', b'\n', b' ', b'%', b'/', b'.', 0x7f, 0xff] {
                let mut bytes = TWO.as_bytes().to_vec();
                bytes[at] = byte;
                for head in heads(&bytes, 11) {
                    if let Head::Asked(request) = head {
                        assert!(
                            request.segments.iter().all(|s| !matches!(s.as_str(), "" | "." | ".."))
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn rejects_invalid_requests() {
        let host = " HTTP/1.1\r\nHost: h\r\n\r\n";
        for path in [
            "/%",
            "/%4",
            "/%zz",
            "/%ff",
            "/a%00",
            "/a%2fb",
            "/..",
            "/a/../b",
            "/%2e%2e/x",
            "/./a",
            "//",
            "//a",
            "/a//b",
            "*",
            "a",
        ] {
            assert_eq!(refused(format!("GET {path}{host}")), 400, "{path}");
        }
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
        assert_eq!(refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
        assert_eq!(refused("\x16\x03\x01\x02\0\n\n"), 400);
        assert_eq!(refused("hello\r\n\r\n"), 400);
        let many: String = (0..=MAX_FIELDS).map(|n| format!("X-{n}: 1\r\n")).collect();
        assert_eq!(refused(format!("GET / HTTP/1.1\r\n{many}\r\n")), 431);
    }

    #[test]
    fn limits_head_size() {
        for filler in ["GET /aaaaaaaaaaaaaaaa", "X: y\r\n", "\0"] {
            assert_eq!(refused(filler.repeat(MAX_HEAD)), 431, "{filler}");
        }
        // Within the limit, except that the buffer is full before the end arrives.
        let long = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "y".repeat(MAX_HEAD - 30));
        assert_eq!(refused(long), 431);
        assert!(matches!(heads(&b"\r\n".repeat(100_000), usize::MAX)[..], [Head::Gone]));
    }

    #[test]
    fn limits_time_for_a_head() {
        let mut bytes = b"\nG".iter();
        let long = Instant::now() + Duration::from_secs(60);
        let head = HeadReader::default().next(long, |buffer, until| match bytes.next() {
            Some(byte) => {
                assert_eq!(until, long, "a client may be idle before the first byte");
                buffer[0] = *byte;
                Ok(1)
            }
            None => {
                assert!(until <= Instant::now() + HEAD_TIME, "a started head has less time");
                Err(ErrorKind::TimedOut.into())
            }
        });
        assert_eq!(head, Head::Gone);
        let soon = Instant::now() + Duration::from_millis(20);
        let head = HeadReader::default().next(soon, |buffer, _| {
            buffer[0] = b'\n';
            Ok(1)
        });
        assert_eq!(head, Head::Gone, "empty lines do not extend the time");
    }

    #[test]
    fn closes_connections_that_cannot_continue() {
        for (fields, keeps) in [
            ("", true),
            ("Connection: keep-alive\r\n", true),
            ("Content-Length: 0\r\n", true),
            ("Connection: close\r\n", false),
            ("Content-Length: 5\r\n", false),
            ("Transfer-Encoding: chunked\r\n", false),
        ] {
            assert_eq!(
                asked(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).keep_alive,
                keeps,
                "{fields}"
            );
        }
        assert!(!asked("GET / HTTP/1.0\r\n\r\n").keep_alive);
    }
}
