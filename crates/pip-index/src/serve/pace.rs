//! The time that sending an answer may take: enough for a slow network, with an end.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The time that every answer has, however short it is, and that a client may take nothing of it.
const LEAST: Duration = Duration::from_secs(20);

/// The slowest client that gets a whole answer, in bytes per second.
const SLOWEST: u64 = 16 * 1024;

/// The same where other clients wait.
const LEAST_IN_A_CROWD: Duration = Duration::from_secs(2);
const SLOWEST_IN_A_CROWD: u64 = 256 * 1024;

/// How much is sent at a time.
pub(super) const PIECE: usize = 64 * 1024;

/// How far an answer has come.
#[derive(Debug)]
pub(super) struct Pace {
    started: Instant,
    /// When the client last took something. The system's buffers take the first megabytes at once.
    moved: Instant,
    sent: u64,
}

impl Pace {
    pub(super) fn new(started: Instant) -> Self {
        Self { started, moved: started, sent: 0 }
    }

    /// Returns when the next piece must be sent.
    fn deadline(&self) -> Instant {
        self.limit(LEAST, SLOWEST)
    }

    /// Returns from when on the client is too slow where others wait.
    pub(super) fn due(&self) -> Instant {
        self.limit(LEAST_IN_A_CROWD, SLOWEST_IN_A_CROWD)
    }

    fn limit(&self, least: Duration, slowest: u64) -> Instant {
        let earned = Duration::from_millis(self.sent.saturating_mul(1000) / slowest);
        (self.started + least + earned).min(self.moved + least)
    }

    /// Sends bytes; `moved` hears of every part that the client took.
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
            let (piece, _) = bytes.split_at(bytes.len().min(PIECE));
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
    fn a_slow_client_gains_no_more_time_than_it_earns() {
        let started = Instant::now();
        let seconds = Duration::from_secs;
        let after = |moved: u64, sent| {
            let pace = Pace { started, moved: started + seconds(moved), sent };
            (pace.deadline() - started, pace.due() - started)
        };
        assert_eq!(after(0, 0), (seconds(20), seconds(2)));
        // A byte now and then holds a connection no longer than nothing at all.
        assert_eq!(after(19, 15), (seconds(20), seconds(2)));
        // As much as a slow network takes earns time, and what buffers took at once does not.
        assert_eq!(after(60, SLOWEST * 60).0, seconds(80));
        assert_eq!(after(0, SLOWEST * 60).0, seconds(20));
        assert_eq!(after(10, SLOWEST_IN_A_CROWD * 10).1, seconds(12));
        assert_eq!(after(10, SLOWEST_IN_A_CROWD * 100).1, seconds(12));
    }

    #[test]
    fn an_answer_ends_at_its_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut late = Pace::new(Instant::now().checked_sub(LEAST).unwrap());
        assert_eq!(late.send(&stream, b"x", |_| {}).unwrap_err().kind(), io::ErrorKind::TimedOut);
        Pace::new(Instant::now()).send(&stream, b"x", |pace| assert_eq!(pace.sent, 1)).unwrap();
    }
}
