//! Computes the MD5 (RFC 1321) of several contents in lockstep. Every step of MD5 depends on the
//! previous one, so a single content hashes at 0.5 GB/s, with the md-5 crate too: a third of the
//! rate at which zstd decompresses. Eight at a time in AVX2 registers reach 4 GB/s; compilers do
//! not generate such code from plain loops. This crate has only the hash that compressed bundles
//! carry. It serves no security purpose.
//!
//! It is a separate crate so that test builds optimize it too: without optimization, each intrinsic
//! is a function call, and the tests read gigabytes.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

/// The block size of MD5 in bytes.
const BLOCK: usize = 64;

/// How many streams are hashed in lockstep at most.
pub const LANES: usize = 8;

/// The four words of a stream's state.
pub type Md5State = [u32; 4];

/// The state of a stream before its first byte.
pub const START: Md5State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

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

/// Hashes the whole blocks of several streams, the same number of bytes from each. Ignores bytes
/// after the last whole block.
pub fn update(streams: &mut [(&mut Md5State, &[u8])]) {
    let length = streams.iter().map(|(_, bytes)| bytes.len()).min().unwrap_or(0) / BLOCK * BLOCK;
    for together in streams.chunks_mut(LANES) {
        // One or two streams are no slower one by one.
        if together.len() < 3 || !vectors::update(together, length) {
            for (state, bytes) in together {
                bytes[..length].chunks_exact(BLOCK).for_each(|block| compress(state, block));
            }
        }
    }
}

/// Returns the hashes of complete contents. This is fastest if they have similar lengths.
pub fn all(contents: &[&[u8]]) -> Vec<[u8; 16]> {
    let mut states = vec![START; contents.len()];
    let mut done = 0;
    loop {
        let left = states
            .iter_mut()
            .zip(contents)
            .map(|(state, content)| (state, &content[done.min(content.len())..]));
        let mut left: Vec<_> = left.filter(|(_, rest)| rest.len() >= BLOCK).collect();
        let Some(least) = left.iter().map(|(_, rest)| rest.len() / BLOCK * BLOCK).min() else {
            break;
        };
        update(&mut left);
        done += least;
    }
    let last = |content: &&'_ [u8]| content.len() / BLOCK * BLOCK;
    let ends = states.into_iter().zip(contents);
    ends.map(|(state, content)| finish(state, &content[last(content)..], content.len() as u64))
        .collect()
}

/// Hashes a stream's last bytes and returns the hash. `length` is the total length of the stream in
/// bytes.
pub fn finish(mut state: Md5State, last: &[u8], length: u64) -> [u8; 16] {
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
    hash.chunks_exact_mut(4)
        .zip(state)
        .for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    hash
}

fn compress(state: &mut Md5State, block: &[u8]) {
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
    /// Leaves the streams unchanged and returns false.
    pub(super) fn update(_: &mut [(&mut super::Md5State, &[u8])], _: usize) -> bool {
        false
    }
}

/// Hashes eight streams, one in each lane of AVX2. More would need twice the buffers for a gain of
/// a fourth.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use super::{BLOCK, LANES, Md5State, SINES};

    /// Hashes `length` bytes of each stream. Returns false if the processor lacks AVX2.
    #[expect(unsafe_code, reason = "calling code for a processor feature; see the comment inside")]
    pub(super) fn update(streams: &mut [(&mut Md5State, &[u8])], length: usize) -> bool {
        let able = std::arch::is_x86_feature_detected!("avx2");
        if able {
            // SAFETY: the check above found AVX2, which is the only requirement of this otherwise
            // safe function.
            unsafe { hash(streams, length) }
        }
        able
    }

    #[target_feature(enable = "avx2")]
    fn hash(streams: &mut [(&mut Md5State, &[u8])], length: usize) {
        // Lanes without a stream repeat the first one; their results are discarded.
        let inputs: [&[u8]; LANES] = std::array::from_fn(|lane| {
            streams.get(lane).or(streams.first()).map_or(&[][..], |stream| stream.1)
        });
        let mut states = [[0; LANES]; 4];
        for (lane, (state, _)) in streams.iter().enumerate() {
            (0..4).for_each(|word| states[word][lane] = state[word]);
        }
        let mut vectors = states.map(|words| vector(words));
        for at in (0..length).step_by(BLOCK) {
            let mut halves = [[_mm256_setzero_si256(); LANES]; 2];
            for (lane, input) in inputs.iter().enumerate() {
                let Some(block) = input[at..].first_chunk::<BLOCK>() else { return };
                for (half, rows) in halves.iter_mut().enumerate() {
                    rows[lane] = vector(std::array::from_fn(|word| {
                        let word = half * 32 + word * 4;
                        u32::from_le_bytes([
                            block[word],
                            block[word + 1],
                            block[word + 2],
                            block[word + 3],
                        ])
                    }));
                }
            }
            compress(&mut vectors, &halves.map(|rows| transposed(rows)));
        }
        let states = vectors.map(|vector| words(vector));
        for (lane, (state, _)) in streams.iter_mut().enumerate() {
            (0..4).for_each(|word| state[word] = states[word][lane]);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn vector(words: [u32; LANES]) -> __m256i {
        let w = words.map(|word| word as i32);
        _mm256_setr_epi32(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn words(vector: __m256i) -> [u32; LANES] {
        let pairs = [
            _mm256_extract_epi64::<0>(vector),
            _mm256_extract_epi64::<1>(vector),
            _mm256_extract_epi64::<2>(vector),
            _mm256_extract_epi64::<3>(vector),
        ];
        std::array::from_fn(|word| (pairs[word / 2] as u64 >> (word % 2 * 32)) as u32)
    }

    /// Turns one vector per lane into one vector per word, which holds that word of every lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transposed(rows: [__m256i; LANES]) -> [__m256i; LANES] {
        // Words n and n + 4 of four lanes.
        let four = |r: &[__m256i]| {
            let (low, high) =
                (_mm256_unpacklo_epi32(r[0], r[1]), _mm256_unpackhi_epi32(r[0], r[1]));
            let (low_too, high_too) =
                (_mm256_unpacklo_epi32(r[2], r[3]), _mm256_unpackhi_epi32(r[2], r[3]));
            [
                _mm256_unpacklo_epi64(low, low_too),
                _mm256_unpackhi_epi64(low, low_too),
                _mm256_unpacklo_epi64(high, high_too),
                _mm256_unpackhi_epi64(high, high_too),
            ]
        };
        let (first, last) = (four(&rows[..4]), four(&rows[4..]));
        std::array::from_fn(|word| match word {
            0..4 => _mm256_permute2x128_si256::<0x20>(first[word], last[word]),
            _ => _mm256_permute2x128_si256::<0x31>(first[word - 4], last[word - 4]),
        })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    #[rustfmt::skip]
    fn compress(state: &mut [__m256i; 4], words: &[[__m256i; LANES]; 2]) {
        let ones = _mm256_set1_epi32(-1);
        let [mut a, mut b, mut c, mut d] = *state;
        // The functions F, G, H and I of RFC 1321, 3.4.
        macro_rules! mix {
            (f, $x:expr, $y:expr, $z:expr) => { _mm256_xor_si256($z, _mm256_and_si256($x, _mm256_xor_si256($y, $z))) };
            (g, $x:expr, $y:expr, $z:expr) => { _mm256_or_si256(_mm256_and_si256($x, $z), _mm256_andnot_si256($z, $y)) };
            (h, $x:expr, $y:expr, $z:expr) => { _mm256_xor_si256($x, _mm256_xor_si256($y, $z)) };
            (i, $x:expr, $y:expr, $z:expr) => { _mm256_xor_si256($y, _mm256_or_si256($x, _mm256_xor_si256($z, ones))) };
        }
        macro_rules! step {
            ($mix:ident, $a:ident $b:ident $c:ident $d:ident, $place:literal, $left:literal, $right:literal, $at:literal) => {
                let input = words[$place / LANES][$place % LANES];
                let known = _mm256_add_epi32($a, _mm256_add_epi32(input, _mm256_set1_epi32(SINES[$at] as i32)));
                let sum = _mm256_add_epi32(known, mix!($mix, $b, $c, $d));
                let turned = _mm256_or_si256(_mm256_slli_epi32::<$left>(sum), _mm256_srli_epi32::<$right>(sum));
                $a = _mm256_add_epi32($b, turned);
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
            *word = _mm256_add_epi32(*word, mixed);
        }
    }
}

#[cfg(test)]
mod tests {
    use md5::{Digest as _, Md5};

    use super::*;

    fn hex(hash: [u8; 16]) -> String {
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn passes_the_test_suite_of_the_rfc() {
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
    fn hashes_any_number_of_streams_like_single_ones() {
        for count in 1..=40 {
            let contents: Vec<Vec<u8>> = (0..count)
                .map(|i| (0..256 + i).map(|k: usize| (k * 7 + i * 13) as u8).collect())
                .collect();
            let mut states = vec![START; count];
            let mut streams: Vec<_> = states
                .iter_mut()
                .zip(&contents)
                .map(|(state, bytes)| (state, &bytes[..256]))
                .collect();
            update(&mut streams);
            for (state, bytes) in states.into_iter().zip(&contents) {
                let hash = finish(state, &bytes[256..], bytes.len() as u64);
                assert_eq!(hash.as_slice(), Md5::digest(bytes).as_slice(), "{count}");
            }
        }
    }

    #[test]
    fn hashes_contents_of_any_lengths_together() {
        let bytes: Vec<u8> = (0..5000u32).map(|k| ((k * 31) >> 3) as u8).collect();
        for lengths in
            [&[][..], &[0], &[63, 64, 65], &[4000, 55, 56, 4999, 0, 128, 127, 3000], &[700; 20]]
        {
            let contents: Vec<&[u8]> =
                lengths.iter().map(|length| &bytes[bytes.len() - length..]).collect();
            let wanted: Vec<[u8; 16]> =
                contents.iter().map(|content| Md5::digest(content).into()).collect();
            assert_eq!(all(&contents), wanted);
        }
    }
}
