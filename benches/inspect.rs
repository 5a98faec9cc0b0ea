//! Measures how fast inspection is, against other tools, with real wheels from the pip index
//! that pip is configured with on this machine, and with RPMs made from them. Prints a table;
//! slow results do not fail.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table and the progress")]
#![allow(clippy::unwrap_used, reason = "a benchmark without its tools stops")]

#[path = "shared/aligned.rs"]
mod aligned;
#[path = "../tests/real_wheels/fetch.rs"]
mod fetch;
#[path = "../tests/real_wheels/llvm.rs"]
mod llvm;
#[allow(dead_code, reason = "this benchmark uses only a part")]
#[path = "inspect/measure.rs"]
mod measure;
#[path = "inspect/memory.rs"]
mod memory;
#[allow(dead_code, reason = "this benchmark uses only a part")]
#[path = "inspect/packages.rs"]
mod packages;
#[path = "inspect/rivals.rs"]
mod rivals;

use std::hint::black_box;
use std::path::{Path, PathBuf};

use measure::{Aim, Table, alternately};
use rocmrpm::inspect::{Depth, Expectations, inspect};

const WHEELS: [&str; 5] = [
    "bitsandbytes",
    "jax-rocm7-plugin",
    "jax-rocm7-pjrt",
    "onnxruntime-migraphx",
    "onnxruntime-rocm",
];

/// Runs of work that takes seconds.
const FEW: usize = 5;
/// Runs of work that takes milliseconds.
const MANY: usize = 20;

/// Runs of the other tools, which take seconds.
const RIVALS: usize = 3;

fn main() {
    // `cargo test --benches` and the like only check that it builds.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    eprintln!("fetching and unpacking wheels, making RPMs (kept in the target folder)");
    let wheels: Vec<PathBuf> = WHEELS.iter().map(|name| fetch::wheel(name)).collect();
    let unpacked: Vec<PathBuf> =
        WHEELS.iter().zip(&wheels).map(|(n, w)| packages::unpacked(n, w)).collect();
    let plain = unpacked[4].join("onnxruntime/capi/libonnxruntime_providers_rocm.so");
    let compressed = unpacked[2].join("jax_plugins/xla_rocm7/xla_rocm_plugin.so");
    let (large_rpm, small_rpm) =
        (packages::of_wheels(&unpacked), packages::of_small_files(&unpacked[3]));

    let mut table = Table::default();
    for (what, elf) in [("95 plain bundles", &plain), ("45 compressed bundles", &compressed)] {
        one_elf(&mut table, what, elf);
    }
    all_bundles(&mut table, &compressed);
    for (name, wheel) in WHEELS.iter().zip(&wheels) {
        one_wheel(&mut table, name, wheel);
    }
    one_rpm(&mut table, "RPM of the wheels", &large_rpm, Aim::AtMost(1.2));
    // Little is decompressed here: most of the time goes into the header and the paths.
    one_rpm(&mut table, "RPM of 5,000 small files", &small_rpm, Aim::None);
    for (what, path) in [
        ("ELF, plain", &plain),
        ("ELF, compressed", &compressed),
        ("jax-rocm7-pjrt", &wheels[2]),
        ("onnxruntime-rocm", &wheels[4]),
        ("RPM of the wheels", &large_rpm),
    ] {
        for deep in [false, true] {
            eprintln!("memory: {what}");
            let what = format!("memory: {what}, {}", if deep { "deep" } else { "quick" });
            table.memory(&what, memory::peak(path, deep));
        }
    }
    println!("{table}");
}

fn inspect_file(path: &Path, depth: Depth) {
    black_box(inspect(&[path.to_owned()], &Expectations::default(), depth).unwrap());
}

fn megabytes(path: &Path) -> u64 {
    fs_err::metadata(path).unwrap().len() / 1_000_000
}

fn one_elf(table: &mut Table, what: &str, elf: &Path) {
    let what = format!("ELF of {} MB, {what}, quick", megabytes(elf));
    eprintln!("{what}");
    let rival = rivals::Objdump::new(elf);
    let (ours, theirs) =
        alternately((MANY, || inspect_file(elf, Depth::Quick)), (RIVALS, || rival.run()));
    table.row(&what, ours, &rival.name, theirs, Aim::TimesFaster(100.0));
}

fn all_bundles(table: &mut Table, elf: &Path) {
    let what = format!("ELF of {} MB, compressed bundles, deep", megabytes(elf));
    eprintln!("{what}");
    let bundles = rivals::Bundles::of(elf);
    let (ours, theirs) =
        alternately((FEW, || inspect_file(elf, Depth::Deep)), (FEW, || bundles.decompress()));
    let rival = format!("decompressing {} bundles, 2 threads", bundles.count());
    table.row(&what, ours, &rival, theirs, Aim::AtMost(1.2));
    let floor = || rivals::with_digest(elf, || bundles.decompress());
    let (ours, theirs) = alternately((FEW, || inspect_file(elf, Depth::Deep)), (FEW, floor));
    table.row(&what, ours, &format!("{rival}, and its SHA-256"), theirs, Aim::None);
}

fn one_wheel(table: &mut Table, name: &str, wheel: &Path) {
    let what = format!("wheel {name}, {} MB, quick", megabytes(wheel));
    eprintln!("{what}");
    let quick = || inspect_file(wheel, Depth::Quick);
    let auditwheel = rivals::Auditwheel::installed();
    let (ours, theirs) = alternately((FEW, quick), (RIVALS, || auditwheel.show(wheel)));
    table.row(&what, ours, "auditwheel show", theirs, Aim::TimesFaster(8.0));
    let (ours, theirs) = alternately((FEW, quick), (FEW, || rivals::inflate(wheel)));
    table.row(&what, ours, "decompressing its ELF files", theirs, Aim::AtMost(1.3));
}

fn one_rpm(table: &mut Table, what: &str, rpm: &Path, aim: Aim) {
    let what = format!("{what}, {} MB, quick", megabytes(rpm));
    eprintln!("{what}");
    let quick = || inspect_file(rpm, Depth::Quick);
    let (ours, theirs) = alternately((FEW, quick), (FEW, || rivals::payload(rpm)));
    table.row(&what, ours, "decompressing its payload", theirs, aim);
    let floor = || rivals::with_digest(rpm, || rivals::payload(rpm));
    let (ours, theirs) = alternately((FEW, quick), (FEW, floor));
    table.row(&what, ours, "decompressing its payload, and its SHA-256", theirs, Aim::None);
    let (ours, theirs) = alternately((FEW, quick), (FEW, || rivals::rpm2cpio(rpm)));
    table.row(&what, ours, "rpm2cpio to /dev/null", theirs, Aim::None);
}
