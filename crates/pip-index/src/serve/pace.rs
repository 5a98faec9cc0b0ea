//! Limits the time for sending an answer: long enough for a slow network, but finite.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The minimum time for every answer, and the maximum time without progress.
const MIN_TIME: Duration = Duration::from_secs(20);

/// The slowest client that receives a whole answer, in bytes per second.
const SLOWEST: u64 = 16 * 1024;

/// The same limits while other clients wait.
const MIN_TIME_WHEN_CROWDED: Duration = Duration::from_secs(2);
const SLOWEST_WHEN_CROWDED: u64 = 256 * 1024;

/// The number of bytes to send at a time.
pub(super) const CHUNK_SIZE: usize = 64 * 1024;

/// The progress of an answer.
#[derive(Debug)]
pub(super) struct Pace {
    started: Instant,
    /// The time at which the client last accepted bytes. The system's buffers accept the first
    /// megabytes at once.
    moved: Instant,
    sent: u64,
}

impl Pace {
    pub(super) fn new(started: Instant) -> Self {
        Self { started, moved: started, sent: 0 }
    }

    /// Returns the time by which the next piece must be sent.
    fn deadline(&self) -> Instant {
        self.limit(MIN_TIME, SLOWEST)
    }

    /// Returns the time from which the client is too slow while others wait.
    pub(super) fn due(&self) -> Instant {
        self.limit(MIN_TIME_WHEN_CROWDED, SLOWEST_WHEN_CROWDED)
    }

    fn limit(&self, least: Duration, slowest: u64) -> Instant {
        let earned = Duration::from_millis(self.sent.saturating_mul(1000) / slowest);
        (self.started + least + earned).min(self.moved + least)
    }

    /// Sends bytes and calls `moved` whenever the client has accepted some.
    pub(super) fn send(
        &mut self,
        mut stream: &TcpStream,
        mut bytes: &[u8],
        moved: impl Fn(&Self),
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let left = self.deadline().saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_write_timeout(Some(left))?;
            let (piece, _) = bytes.split_at(bytes.len().min(CHUNK_SIZE));
            match stream.write(piece) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent += count as u64;
                    self.moved = Instant::now();
                    bytes = &bytes[count..];
                    moved(self);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extends_deadline_only_by_progress() {
        let started = Instant::now();
        let seconds = Duration::from_secs;
        let after = |moved: u64, sent| {
            let pace = Pace { started, moved: started + seconds(moved), sent };
            (pace.deadline() - started, pace.due() - started)
        };
        assert_eq!(after(0, 0), (seconds(20), seconds(2)));
        // An occasional byte keeps a connection no longer than none at all.
        assert_eq!(after(19, 15), (seconds(20), seconds(2)));
        // Bytes at the pace of a slow network earn time; bytes that buffers accepted at once do
        // not.
        assert_eq!(after(60, SLOWEST * 60).0, seconds(80));
        assert_eq!(after(0, SLOWEST * 60).0, seconds(20));
        assert_eq!(after(10, SLOWEST_WHEN_CROWDED * 10).1, seconds(12));
        assert_eq!(after(10, SLOWEST_WHEN_CROWDED * 100).1, seconds(12));
    }

    #[test]
    fn stops_sending_at_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut late = Pace::new(Instant::now().checked_sub(MIN_TIME).unwrap());
        assert_eq!(late.send(&stream, b"x", |_| {}).unwrap_err().kind(), io::ErrorKind::TimedOut);
        Pace::new(Instant::now()).send(&stream, b"x", |pace| assert_eq!(pace.sent, 1)).unwrap();
    }
}
