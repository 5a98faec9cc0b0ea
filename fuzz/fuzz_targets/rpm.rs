//! RPM packages, through a file: header, compressed payload, cpio.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use rocmrpm::inspect::{Depth, Expectations, inspect};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = tempfile::Builder::new().suffix(".rpm").tempfile() else { return };
    if file.write_all(bytes).is_ok() {
        let _ = inspect(&[file.path().to_owned()], &Expectations::default(), Depth::Deep);
    }
});
