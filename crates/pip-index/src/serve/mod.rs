//! A small HTTP/1.1 server for the folder of an index, for testing: PEP 503, and PEP 691 with
//! content negotiation. It is not made for the open network: it has no TLS and no authentication.
//! The caller logs requests.

mod connection;
mod files;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hosts;
mod line;
mod negotiation;
mod pace;
mod request;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use files::Site;
use hosts::Hosts;
use line::Line;
use rocmrpm_base::error::{Diagnose, Diagnosis, Kind};

/// How often the server checks whether to stop.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How often it makes room while clients wait.
const CROWDED: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// An answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The address of the client.
    pub client: SocketAddr,
    /// The method as sent; empty if the request was invalid.
    pub method: String,
    /// The target as sent; empty if the request was invalid.
    pub target: String,
    /// The status of the answer (RFC 9110, section 15).
    pub status: u16,
    /// The media type of the content; empty if there is none.
    pub media_type: String,
    /// The number of bytes of content sent.
    pub bytes: u64,
    /// Whether the client received the whole answer.
    pub complete: bool,
    /// The time that sending took.
    pub took: Duration,
}

/// Why serving an index failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder is missing, or has no pages.
    #[error("{} is not an index: it has no folder `simple`, and no channel with one", dir.display())]
    NoIndex {
        /// The folder.
        dir: PathBuf,
    },
    /// The address or the port is unavailable.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address with the port.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The listener or the folder failed.
    #[error("cannot serve the index in {}", dir.display())]
    Io {
        /// The folder.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Diagnose for ServeError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoIndex { .. } => Kind::Usage.with_help(
                "run `rocmrpm build`, then `rocmrpm index` to write the workspace's index",
            ),
            Self::Listen { source, .. } => {
                let help = match source.kind() {
                    io::ErrorKind::AddrInUse => {
                        Some("another program uses this port; pass `--port 0` to use any free port")
                    }
                    io::ErrorKind::AddrNotAvailable => Some("choose an address of this machine"),
                    io::ErrorKind::PermissionDenied => {
                        Some("use a port above 1023, e.g. `--port 8000`")
                    }
                    _ => None,
                };
                Diagnosis::from(Kind::Environment).with_help_lines(help)
            }
            Self::Io { .. } => Kind::Environment.into(),
        }
    }
}

/// Opens a listener; port 0 selects a free port.
pub fn listen(address: IpAddr, port: u16) -> Result<TcpListener, ServeError> {
    let address = SocketAddr::new(address, port);
    TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })
}

/// Returns the views of an index, as paths below its folder that end in `/`: `simple/`, and
/// `<channel>/simple/` for every channel of a published index.
pub fn views(dir: &Path) -> Result<Vec<String>, ServeError> {
    let mut views = Vec::new();
    let has_pages =
        |folder: &Path| ["index.html", "index.json"].iter().any(|page| folder.join(page).is_file());
    if has_pages(&dir.join("simple")) {
        views.push("simple/".to_owned());
    }
    let mut channels = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
            && has_pages(&entry.path().join("simple"))
        {
            channels.push(format!("{name}/simple/"));
        }
    }
    channels.sort();
    views.extend(channels);
    if views.is_empty() { Err(ServeError::NoIndex { dir: dir.to_owned() }) } else { Ok(views) }
}

/// Serves the folder of an index until `stop` returns true, with a thread per connection, and then
/// closes open connections. On a loopback address, it only answers requests for a loopback name or
/// one of `names`.
pub fn serve(
    listener: &TcpListener,
    dir: &Path,
    names: &[String],
    log: &(dyn Fn(&Served) + Sync),
    stop: &dyn Fn() -> bool,
) -> Result<(), ServeError> {
    let failed = |source| ServeError::Io { dir: dir.to_owned(), source };
    let site = Site::new(dir).map_err(failed)?;
    let hosts = Hosts::new(listener.local_addr().map_err(failed)?.ip(), names);
    // A client may disconnect between poll and accept.
    listener.set_nonblocking(true).map_err(failed)?;
    let line = Line::default();
    std::thread::scope(|scope| {
        while !stop() {
            match accept(listener, if line.is_crowded() { &CROWDED } else { &POLL_INTERVAL }) {
                Ok(Some((stream, client))) => line.enter(stream, client.ip()),
                Ok(None) => {}
                // For example, too many open files: connections that end release some.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
            while let Some(place) = line.next() {
                let (site, hosts, line) = (&site, &hosts, &line);
                // Without a thread, the connection is dropped, and the client tries again.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
                    // A client that hangs up is not a failure of the server.
                    let _ = connection::serve(&place.connection, site, hosts, log, || {
                        !line.is_crowded()
                    });
                });
            }
            line.make_room();
        }
        line.close();
    });
    Ok(())
}

/// Waits for a client, for a limited time.
fn accept(listener: &TcpListener, time: &Timespec) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    let mut events = [PollFd::new(listener, PollFlags::IN)];
    match rustix::event::poll(&mut events, Some(time)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    match listener.accept() {
        Ok((stream, client)) => {
            stream.set_nonblocking(false)?;
            Ok(Some((stream, client)))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
