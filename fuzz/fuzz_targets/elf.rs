//! ELF files of every kind, with the bundles and code objects in them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_inspect::{Depth, inspect_bytes};

fuzz_target!(|bytes: &[u8]| {
    inspect_bytes("fuzzed", bytes, Depth::Quick);
    inspect_bytes("fuzzed", bytes, Depth::Deep);
});
