//! ELF files, whose search path `rocmrpm sdk` sets in place.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    rocm_sdk::fuzzing::search_path(bytes);
});
