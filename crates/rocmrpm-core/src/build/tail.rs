//! Reads logs while a builder writes them, and shows them if the user wants to see builds.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Job;
use crate::events::Event;
use crate::parallel;

/// The number of bytes read from a log at a time, and the maximum length of a line.
pub(super) const CHUNK: usize = 64 * 1024;

/// How often logs are read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a step of a build, and sends each line that it adds to these logs.
pub(super) fn shown<T>(job: &Job<'_>, logs: &[&str], step: impl FnOnce() -> T) -> T {
    let mut tails: Vec<Tail> = logs.iter().map(|log| Tail::new(job.logs.join(log))).collect();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = || loop {
            // Asked first: what the step writes before it ends is then read below.
            let last = ended.load(Ordering::SeqCst);
            for tail in &mut tails {
                tail.lines(|line| {
                    let component = job.component.name.clone();
                    job.events.event(Event::Output { component, line: line.to_owned() });
                });
            }
            if last {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        // Without this thread, only the output is missing, which the log has.
        let _ = parallel::builder().spawn_scoped(scope, watch);
        // The thread must end even if the step panics.
        let _ending = Ending(&ended);
        step()
    })
}

/// Ends the thread that reads logs when it is dropped.
struct Ending<'e>(&'e AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A growing file, read line by line.
pub(super) struct Tail {
    path: PathBuf,
    offset: u64,
    partial: Vec<u8>,
}

impl Tail {
    /// Starts at the current end of the file, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        let offset = fs_err::metadata(&path).map_or(0, |metadata| metadata.len());
        Self { path, offset, partial: Vec::new() }
    }

    /// Passes on every complete line, cutting long ones.
    pub fn lines(&mut self, mut line: impl FnMut(&str)) {
        // The file may not exist yet.
        let Ok(mut file) = std::fs::File::open(&self.path) else { return };
        if file.seek(SeekFrom::Start(self.offset)).is_err() {
            return;
        }
        let mut chunk = vec![0; CHUNK];
        while let Ok(n @ 1..) = file.read(&mut chunk) {
            self.offset += n as u64;
            for piece in chunk[..n].split_inclusive(|byte| *byte == b'\n') {
                let room = CHUNK.saturating_sub(self.partial.len());
                self.partial.extend_from_slice(&piece[..piece.len().min(room)]);
                if piece.ends_with(b"\n") {
                    line(String::from_utf8_lossy(&self.partial).trim_end());
                    self.partial.clear();
                }
            }
        }
    }
}
