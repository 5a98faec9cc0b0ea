//! kpack archives: the table of contents and the kernels. The target prepends the magic and
//! the version; the first eight bytes of the input are the offset of the table.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_inspect::{Depth, inspect_bytes};

fuzz_target!(|bytes: &[u8]| {
    let bytes = [b"KPAK\x01\0\0\0", bytes].concat();
    inspect_bytes("fuzzed", &bytes, Depth::Quick);
    inspect_bytes("fuzzed", &bytes, Depth::Deep);
});
