//! Fuzzing entry points; see `src/fuzzing.rs` of the program.

use std::time::{Duration, Instant};

use super::negotiation;
use super::request::{Head, HeadReader};

/// Reads requests that arrive over a connection in pieces.
pub fn request(bytes: &[u8]) -> bool {
    let mut pieces = bytes.chunks(64);
    let mut heads = HeadReader::default();
    let until = Instant::now() + Duration::from_secs(60);
    let mut accepted = 0;
    loop {
        let head = heads.next(until, |buffer, _| {
            let piece = pieces.next().unwrap_or_default();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        });
        let Head::Asked(request) = head else { return accepted > 0 };
        let leaves =
            |name: &String| matches!(name.as_str(), "" | "." | "..") || name.contains(['/', '\0']);
        assert!(!request.segments.iter().any(leaves), "{:?}", request.segments);
        request.parameter("channel");
        negotiation::choose(request.accept.as_deref(), |_| true);
        accepted += 1;
    }
}
