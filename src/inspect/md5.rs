//! MD5 (RFC 1321) over several streams in lockstep, so that the compiler's vector
//! instructions do for many what one chain of dependent steps cannot: one stream
//! alone is hashed at half the speed at which zstd decompresses. Only the hash
//! that compressed bundles carry; nothing here is about security.

/// How many bytes are hashed at a time.
pub(super) const BLOCK: usize = 64;

/// How many streams go in lockstep at most.
pub(super) const LANES: usize = 16;

/// The four words of a stream's state.
pub(super) type State = [u32; 4];

/// The state before the first byte.
pub(super) const START: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// `floor(2^32 * abs(sin(i + 1)))`, RFC 1321, 3.4.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// Hashes whole blocks of several streams, the same number of bytes of each. What
/// goes beyond whole blocks is left out.
pub(super) fn update(streams: &mut [(&mut State, &[u8])]) {
    let length = streams.iter().map(|(_, bytes)| bytes.len()).min().unwrap_or(0) / BLOCK * BLOCK;
    for together in streams.chunks_mut(LANES) {
        // Few streams are no slower one by one.
        if together.len() < 3 || !vectors::update(together, length) {
            for (state, bytes) in together {
                bytes[..length].chunks_exact(BLOCK).for_each(|block| compress(state, block));
            }
        }
    }
}

/// Hashes a stream's last bytes and returns the hash. `length` is how many bytes
/// the stream has in all.
pub(super) fn finish(mut state: State, last: &[u8], length: u64) -> [u8; 16] {
    let whole = last.len() / BLOCK * BLOCK;
    update(&mut [(&mut state, &last[..whole])]);
    let mut end = last[whole..].to_vec();
    end.push(0x80);
    while end.len() % BLOCK != BLOCK - 8 {
        end.push(0);
    }
    end.extend(length.wrapping_mul(8).to_le_bytes());
    update(&mut [(&mut state, &end)]);
    let mut hash = [0; 16];
    hash.chunks_exact_mut(4).zip(state).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    hash
}

fn compress(state: &mut State, block: &[u8]) {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| block[at * 4 + i]));
    let words: [u32; 16] = std::array::from_fn(word);
    let [mut a, mut b, mut c, mut d] = *state;
    for at in 0..64 {
        let round = at / 16;
        let mixed = match round {
            0 => d ^ (b & (c ^ d)),
            1 => c ^ (d & (b ^ c)),
            2 => b ^ c ^ d,
            _ => c ^ (b | !d),
        };
        let place = ([1, 5, 3, 7][round] * at + [0, 1, 5, 0][round]) % 16;
        let sum = a.wrapping_add(mixed).wrapping_add(words[place]).wrapping_add(SINES[at]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(SHIFTS[round][at % 4])));
    }
    for (word, mixed) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(mixed);
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    /// Does nothing and says so.
    pub(super) fn update(_: &mut [(&mut super::State, &[u8])], _: usize) -> bool {
        false
    }
}

/// Sixteen streams in two times eight lanes of AVX2: two, so that one is computed
/// while the other waits for the step before.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use super::{BLOCK, LANES, SINES, State};

    /// Hashes `length` bytes of each stream, or returns false where the processor
    /// lacks AVX2.
    #[expect(unsafe_code, reason = "calling code for a processor feature; see the comment inside")]
    pub(super) fn update(streams: &mut [(&mut State, &[u8])], length: usize) -> bool {
        let able = std::arch::is_x86_feature_detected!("avx2");
        if able {
            // SAFETY: the processor was found to have AVX2 just now, which is all
            // that this otherwise safe function asks for.
            unsafe { hash(streams, length) }
        }
        able
    }

    #[target_feature(enable = "avx2")]
    fn hash(streams: &mut [(&mut State, &[u8])], length: usize) {
        // Lanes without a stream of their own follow the first one for nothing.
        let inputs: [&[u8]; LANES] = std::array::from_fn(|lane| {
            streams.get(lane).or(streams.first()).map_or(&[][..], |stream| stream.1)
        });
        let mut states = [[0; LANES]; 4];
        for (lane, (state, _)) in streams.iter().enumerate() {
            (0..4).for_each(|word| states[word][lane] = state[word]);
        }
        let mut vectors = [vector(&states[0]), vector(&states[1]), vector(&states[2]), vector(&states[3])];
        for at in (0..length).step_by(BLOCK) {
            let mut words = [[0; LANES]; 16];
            for (lane, input) in inputs.iter().enumerate() {
                let block: &[u8; BLOCK] = match input[at..].first_chunk() {
                    Some(block) => block,
                    None => return,
                };
                for word in 0..16 {
                    let bytes = std::array::from_fn(|i| block[word * 4 + i]);
                    words[word][lane] = u32::from_le_bytes(bytes);
                }
            }
            compress(&mut vectors, &words);
        }
        for (word, pair) in vectors.into_iter().enumerate() {
            for (half, vector) in pair.into_iter().enumerate() {
                let parts: [i64; 4] = [
                    _mm256_extract_epi64::<0>(vector),
                    _mm256_extract_epi64::<1>(vector),
                    _mm256_extract_epi64::<2>(vector),
                    _mm256_extract_epi64::<3>(vector),
                ];
                for lane in 0..8 {
                    states[word][half * 8 + lane] = (parts[lane / 2] as u64 >> (lane % 2 * 32)) as u32;
                }
            }
        }
        for (lane, (state, _)) in streams.iter_mut().enumerate() {
            (0..4).for_each(|word| state[word] = states[word][lane]);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn vector(w: &[u32; LANES]) -> [__m256i; 2] {
        let w: [i32; LANES] = w.map(|word| word as i32);
        [
            _mm256_setr_epi32(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]),
            _mm256_setr_epi32(w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15]),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    #[rustfmt::skip]
    fn compress(state: &mut [[__m256i; 2]; 4], words: &[[u32; LANES]; 16]) {
        let ones = _mm256_set1_epi32(-1);
        let [mut a, mut b, mut c, mut d] = *state;
        // The functions F, G, H and I of RFC 1321, 3.4.
        macro_rules! mix {
            (f, $x:expr, $y:expr, $z:expr) => { _mm256_xor_si256($z, _mm256_and_si256($x, _mm256_xor_si256($y, $z))) };
            (g, $x:expr, $y:expr, $z:expr) => { _mm256_xor_si256($y, _mm256_and_si256($z, _mm256_xor_si256($x, $y))) };
            (h, $x:expr, $y:expr, $z:expr) => { _mm256_xor_si256($x, _mm256_xor_si256($y, $z)) };
            (i, $x:expr, $y:expr, $z:expr) => { _mm256_xor_si256($y, _mm256_or_si256($x, _mm256_xor_si256($z, ones))) };
        }
        macro_rules! step {
            ($mix:ident, $a:ident $b:ident $c:ident $d:ident, $place:literal, $left:literal, $right:literal, $at:literal) => {
                let input = vector(&words[$place]);
                let sine = _mm256_set1_epi32(SINES[$at] as i32);
                for half in 0..2 {
                    let mixed = mix!($mix, $b[half], $c[half], $d[half]);
                    let sum = _mm256_add_epi32(_mm256_add_epi32($a[half], _mm256_add_epi32(input[half], sine)), mixed);
                    let turned = _mm256_or_si256(_mm256_slli_epi32::<$left>(sum), _mm256_srli_epi32::<$right>(sum));
                    $a[half] = _mm256_add_epi32($b[half], turned);
                }
            };
        }
        step!(f, a b c d, 0, 7, 25, 0);
        step!(f, d a b c, 1, 12, 20, 1);
        step!(f, c d a b, 2, 17, 15, 2);
        step!(f, b c d a, 3, 22, 10, 3);
        step!(f, a b c d, 4, 7, 25, 4);
        step!(f, d a b c, 5, 12, 20, 5);
        step!(f, c d a b, 6, 17, 15, 6);
        step!(f, b c d a, 7, 22, 10, 7);
        step!(f, a b c d, 8, 7, 25, 8);
        step!(f, d a b c, 9, 12, 20, 9);
        step!(f, c d a b, 10, 17, 15, 10);
        step!(f, b c d a, 11, 22, 10, 11);
        step!(f, a b c d, 12, 7, 25, 12);
        step!(f, d a b c, 13, 12, 20, 13);
        step!(f, c d a b, 14, 17, 15, 14);
        step!(f, b c d a, 15, 22, 10, 15);
        step!(g, a b c d, 1, 5, 27, 16);
        step!(g, d a b c, 6, 9, 23, 17);
        step!(g, c d a b, 11, 14, 18, 18);
        step!(g, b c d a, 0, 20, 12, 19);
        step!(g, a b c d, 5, 5, 27, 20);
        step!(g, d a b c, 10, 9, 23, 21);
        step!(g, c d a b, 15, 14, 18, 22);
        step!(g, b c d a, 4, 20, 12, 23);
        step!(g, a b c d, 9, 5, 27, 24);
        step!(g, d a b c, 14, 9, 23, 25);
        step!(g, c d a b, 3, 14, 18, 26);
        step!(g, b c d a, 8, 20, 12, 27);
        step!(g, a b c d, 13, 5, 27, 28);
        step!(g, d a b c, 2, 9, 23, 29);
        step!(g, c d a b, 7, 14, 18, 30);
        step!(g, b c d a, 12, 20, 12, 31);
        step!(h, a b c d, 5, 4, 28, 32);
        step!(h, d a b c, 8, 11, 21, 33);
        step!(h, c d a b, 11, 16, 16, 34);
        step!(h, b c d a, 14, 23, 9, 35);
        step!(h, a b c d, 1, 4, 28, 36);
        step!(h, d a b c, 4, 11, 21, 37);
        step!(h, c d a b, 7, 16, 16, 38);
        step!(h, b c d a, 10, 23, 9, 39);
        step!(h, a b c d, 13, 4, 28, 40);
        step!(h, d a b c, 0, 11, 21, 41);
        step!(h, c d a b, 3, 16, 16, 42);
        step!(h, b c d a, 6, 23, 9, 43);
        step!(h, a b c d, 9, 4, 28, 44);
        step!(h, d a b c, 12, 11, 21, 45);
        step!(h, c d a b, 15, 16, 16, 46);
        step!(h, b c d a, 2, 23, 9, 47);
        step!(i, a b c d, 0, 6, 26, 48);
        step!(i, d a b c, 7, 10, 22, 49);
        step!(i, c d a b, 14, 15, 17, 50);
        step!(i, b c d a, 5, 21, 11, 51);
        step!(i, a b c d, 12, 6, 26, 52);
        step!(i, d a b c, 3, 10, 22, 53);
        step!(i, c d a b, 10, 15, 17, 54);
        step!(i, b c d a, 1, 21, 11, 55);
        step!(i, a b c d, 8, 6, 26, 56);
        step!(i, d a b c, 15, 10, 22, 57);
        step!(i, c d a b, 6, 15, 17, 58);
        step!(i, b c d a, 13, 21, 11, 59);
        step!(i, a b c d, 4, 6, 26, 60);
        step!(i, d a b c, 11, 10, 22, 61);
        step!(i, c d a b, 2, 15, 17, 62);
        step!(i, b c d a, 9, 21, 11, 63);
        for (word, mixed) in state.iter_mut().zip([a, b, c, d]) {
            *word = [_mm256_add_epi32(word[0], mixed[0]), _mm256_add_epi32(word[1], mixed[1])];
        }
    }
}

#[cfg(test)]
mod tests {
    use ::md5::{Digest as _, Md5};

    use super::*;

    fn hex(hash: [u8; 16]) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_test_suite_of_the_rfc() {
        for (text, hash) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (&"1234567890".repeat(8), "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(hex(finish(START, text.as_bytes(), text.len() as u64)), hash);
        }
    }

    #[test]
    fn any_number_of_streams_is_hashed_as_one_by_one() {
        for count in 1..=40 {
            let contents: Vec<Vec<u8>> =
                (0..count).map(|i| (0..256 + i).map(|k: usize| (k * 7 + i * 13) as u8).collect()).collect();
            let mut states = vec![START; count];
            let mut streams: Vec<_> =
                states.iter_mut().zip(&contents).map(|(state, bytes)| (state, &bytes[..256])).collect();
            update(&mut streams);
            for (state, bytes) in states.into_iter().zip(&contents) {
                let hash = finish(state, &bytes[256..], bytes.len() as u64);
                assert_eq!(hash.as_slice(), Md5::digest(bytes).as_slice(), "{count}");
            }
        }
    }
}
