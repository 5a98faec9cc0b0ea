//! Helpers for the unit tests of several crates. Compiled only with the feature `testing`.

/// Calls `try_it` with `count` copies of `bytes`, each with a few bytes changed and some cut short.
/// Every run uses the same copies.
pub fn flip_bytes(bytes: &[u8], count: usize, mut try_it: impl FnMut(&[u8])) {
    let mut random = 0x2545_f491_4f6c_dd1d;
    for _ in 0..count {
        let mut copy = bytes.to_vec();
        for _ in 0..1 + xorshift(&mut random) % 6 {
            let at = xorshift(&mut random) as usize % copy.len();
            copy[at] = match xorshift(&mut random) % 4 {
                0 => 0xff,
                1 => 0,
                2 => copy[at] ^ 1 << (xorshift(&mut random) % 8),
                _ => xorshift(&mut random) as u8,
            };
        }
        if xorshift(&mut random).is_multiple_of(8) {
            copy.truncate(xorshift(&mut random) as usize % copy.len());
        }
        try_it(&copy);
    }
}

/// Returns the next pseudo-random number of a sequence (xorshift64).
pub fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
