//! Compressed and plain offload bundles. The target prepends the magic, so that no time is
//! lost on inputs without one: the first byte selects it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rocm_inspect::{Depth, inspect_bytes};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let magic: &[u8] = if choice % 2 == 0 { b"CCOB" } else { b"__CLANG_OFFLOAD_BUNDLE__" };
    let bytes = [magic, rest].concat();
    inspect_bytes("fuzzed", &bytes, Depth::Quick);
    inspect_bytes("fuzzed", &bytes, Depth::Deep);
});
