//! Queues connections and limits them per client, so that no client blocks the others.

use std::collections::VecDeque;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The limit of connections served in parallel.
const MAX_OPEN: usize = 128;

/// The limit per address; uv opens fifty connections for downloads.
const MAX_OPEN_OF_ADDRESS: usize = 64;

/// The limits of waiting connections, in total and per address. The server closes any others.
const MAX_WAITING: usize = 512;
const MAX_WAITING_OF_ADDRESS: usize = 256;

/// How long a client may be idle while others wait.
const IDLE_WHEN_CROWDED: Duration = Duration::from_secs(1);

/// A connection that is being served.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    address: IpAddr,
    /// The time from which it may be closed in favor of a waiting client.
    due: Mutex<Instant>,
    closed: AtomicBool,
}

impl Connection {
    fn new(stream: TcpStream, address: IpAddr) -> Self {
        let due = Mutex::new(Instant::now() + IDLE_WHEN_CROWDED);
        Self { stream, address, due, closed: AtomicBool::new(false) }
    }

    /// Sets the time from which it may be closed in favor of a waiting client.
    pub(super) fn due(&self, at: Instant) {
        *locked(&self.due) = at;
    }

    /// Records that the client is now idle.
    pub(super) fn idle(&self) {
        self.due(Instant::now() + IDLE_WHEN_CROWDED);
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        // Its thread then reads the end of the stream.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// All connections. Only the accepting thread uses `waiting`.
#[derive(Debug, Default)]
pub(super) struct Line {
    open: Mutex<Vec<Arc<Connection>>>,
    waiting: Mutex<VecDeque<(TcpStream, IpAddr)>>,
}

impl Line {
    /// Adds a client to the queue.
    pub(super) fn enter(&self, stream: TcpStream, address: IpAddr) {
        let mut waiting = locked(&self.waiting);
        let of_address = waiting.iter().filter(|(_, other)| *other == address).count();
        if waiting.len() < MAX_WAITING && of_address < MAX_WAITING_OF_ADDRESS {
            waiting.push_back((stream, address));
        }
    }

    /// Returns whether clients are waiting.
    pub(super) fn is_crowded(&self) -> bool {
        !locked(&self.waiting).is_empty()
    }

    /// Returns the next connection to serve, if the limits allow one.
    pub(super) fn next(&self) -> Option<ConnectionSlot<'_>> {
        let (mut open, mut waiting) = (locked(&self.open), locked(&self.waiting));
        if open.len() >= MAX_OPEN {
            return None;
        }
        let fits = |(_, address): &(TcpStream, IpAddr)| of(&open, *address) < MAX_OPEN_OF_ADDRESS;
        let (stream, address) = waiting.iter().position(fits).and_then(|at| waiting.remove(at))?;
        let connection = Arc::new(Connection::new(stream, address));
        open.push(connection.clone());
        Some(ConnectionSlot { connection, line: self })
    }

    /// Closes an idle or slow connection for each waiting client, starting with the most overdue.
    /// If a client's own address is at its limit, closes a connection of that address.
    pub(super) fn make_room(&self) {
        let (open, waiting) = (locked(&self.open), locked(&self.waiting));
        let now = Instant::now();
        let mut leaving =
            open.iter().filter(|connection| connection.closed.load(Ordering::Relaxed)).count();
        for (_, address) in waiting.iter() {
            if leaving > 0 {
                leaving -= 1;
                continue;
            }
            let own = of(&open, *address) >= MAX_OPEN_OF_ADDRESS;
            let slow = open.iter().filter(|connection| {
                (!own || connection.address == *address)
                    && !connection.closed.load(Ordering::Relaxed)
                    && *locked(&connection.due) <= now
            });
            match slow.min_by_key(|connection| *locked(&connection.due)) {
                Some(connection) => connection.close(),
                None => return,
            }
        }
    }

    /// Closes all connections.
    pub(super) fn close(&self) {
        locked(&self.waiting).clear();
        locked(&self.open).iter().for_each(|connection| connection.close());
    }
}

fn of(open: &[Arc<Connection>], address: IpAddr) -> usize {
    open.iter().filter(|connection| connection.address == address).count()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reserves a connection's place among those being served, until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot<'l> {
    pub(super) connection: Arc<Connection>,
    line: &'l Line,
}

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        locked(&self.line.open).retain(|other| !Arc::ptr_eq(other, &self.connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with clients at addresses that end in these numbers.
    struct Clients {
        listener: std::net::TcpListener,
        ends: Vec<TcpStream>,
        line: Line,
    }

    impl Clients {
        fn new() -> Self {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            Self { listener, ends: Vec::new(), line: Line::default() }
        }

        /// Fills the limit of the first address, and adds one more client to it and one from the
        /// second.
        fn crowded() -> Self {
            let mut clients = Self::new();
            (0..=MAX_OPEN_OF_ADDRESS).for_each(|_| clients.enter(1));
            clients.enter(2);
            clients
        }

        fn enter(&mut self, address: u8) {
            self.ends.push(TcpStream::connect(self.listener.local_addr().unwrap()).unwrap());
            let (stream, _) = self.listener.accept().unwrap();
            self.line.enter(stream, IpAddr::from([192, 0, 2, address]));
        }
    }

    #[test]
    fn one_address_does_not_block_others() {
        let clients = Clients::crowded();
        let line = &clients.line;
        let places: Vec<ConnectionSlot<'_>> = std::iter::from_fn(|| line.next()).collect();
        let number = |last: u8| {
            places
                .iter()
                .filter(|p| p.connection.address == IpAddr::from([192, 0, 2, last]))
                .count()
        };
        assert_eq!((number(1), number(2)), (MAX_OPEN_OF_ADDRESS, 1));
        assert!(line.is_crowded());
    }

    #[test]
    fn closes_slowest_connection_for_waiting_client() {
        let clients = Clients::crowded();
        let line = &clients.line;
        let places: Vec<ConnectionSlot<'_>> = std::iter::from_fn(|| line.next()).collect();
        let closed = || {
            let closed =
                |place: &ConnectionSlot<'_>| place.connection.closed.load(Ordering::Relaxed);
            places
                .iter()
                .enumerate()
                .filter(|(_, place)| closed(place))
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        let now = Instant::now();
        line.make_room();
        assert_eq!(closed(), [0; 0], "all are busy");
        // The client at the other address is the slowest, but closing it would not help.
        places[MAX_OPEN_OF_ADDRESS]
            .connection
            .due(now.checked_sub(Duration::from_secs(3)).unwrap());
        places[5].connection.due(now.checked_sub(Duration::from_secs(2)).unwrap());
        places[6].connection.due(now.checked_sub(Duration::from_secs(1)).unwrap());
        line.make_room();
        line.make_room();
        assert_eq!(closed(), [5], "one client waits, so one is closed");
    }

    #[test]
    fn limits_waiting_connections() {
        let mut clients = Clients::new();
        for _ in 0..MAX_WAITING_OF_ADDRESS + 3 {
            clients.enter(1);
        }
        clients.enter(2);
        assert_eq!(locked(&clients.line.waiting).len(), MAX_WAITING_OF_ADDRESS + 1);
    }
}
