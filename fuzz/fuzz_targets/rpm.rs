//! RPM packages: header, compressed payload, cpio.

#![no_main]

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// One file for all inputs: creating one takes as long as reading it.
static FILE: LazyLock<(File, PathBuf)> = LazyLock::new(|| {
    let file = tempfile::tempfile().expect("TMPDIR is writable");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    (file, path)
});

fuzz_target!(|bytes: &[u8]| {
    let (file, path) = &*FILE;
    file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).expect("TMPDIR has space");
    rocm_inspect::fuzzing::archive(path);
});
