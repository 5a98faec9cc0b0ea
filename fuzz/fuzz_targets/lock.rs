//! See `TARGETS` in `src/fuzzing.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    rocmrpm::fuzzing::run("lock", input);
});
