//! How fast inspection is, measured in one run with what else one could use, on real
//! wheels from the pip index that this machine's pip is configured with and on RPMs
//! made of them. Prints a table; nothing here fails because it is slow.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table and the progress")]
#![allow(clippy::unwrap_used, reason = "without its tools a measurement ends")]

#[path = "shared/aligned.rs"]
mod aligned;
#[path = "../tests/real_wheels/fetch.rs"]
mod fetch;
#[path = "../tests/real_wheels/llvm.rs"]
mod llvm;
#[allow(dead_code, reason = "what is measured of wheels")]
#[path = "inspect/measure.rs"]
mod measure;
#[path = "inspect/memory.rs"]
mod memory;
#[allow(dead_code, reason = "what is measured of wheels")]
#[path = "inspect/packages.rs"]
mod packages;
#[path = "inspect/rivals.rs"]
mod rivals;

use std::hint::black_box;
use std::path::{Path, PathBuf};

use measure::{Aim, Table, alternately};
use rocmrpm::inspect::{Depth, Expectations, inspect};

const WHEELS: [&str; 5] =
    ["bitsandbytes", "jax-rocm7-plugin", "jax-rocm7-pjrt", "onnxruntime-migraphx", "onnxruntime-rocm"];

/// How often what takes seconds is measured.
const FEW: usize = 5;
/// How often what takes milliseconds is measured.
const MANY: usize = 20;

/// As few as the rivals allow, which take seconds.
const RIVALS: usize = 3;

fn main() {
    // `cargo test --benches` and the like only want to know whether it is built.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    eprintln!("fetching and unpacking wheels, making RPMs (kept in the target folder)");
    let wheels: Vec<PathBuf> = WHEELS.iter().map(|name| fetch::wheel(name)).collect();
    let unpacked: Vec<PathBuf> = WHEELS.iter().zip(&wheels).map(|(n, w)| packages::unpacked(n, w)).collect();
    let plain = unpacked[4].join("onnxruntime/capi/libonnxruntime_providers_rocm.so");
    let compressed = unpacked[2].join("jax_plugins/xla_rocm7/xla_rocm_plugin.so");
    let (large_rpm, small_rpm) = (packages::of_wheels(&unpacked), packages::of_small_files(&unpacked[3]));

    let mut table = Table::default();
    for (what, elf) in [("95 plain bundles", &plain), ("45 compressed bundles", &compressed)] {
        one_elf(&mut table, what, elf);
    }
    all_bundles(&mut table, &compressed);
    for (name, wheel) in WHEELS.iter().zip(&wheels) {
        one_wheel(&mut table, name, wheel);
    }
    one_rpm(&mut table, "RPM of the wheels", &large_rpm, Aim::AtMost(1.2));
    // Little is decompressed there: the time is that of the header and of the paths.
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

fn look(path: &Path, depth: Depth) {
    black_box(inspect(&[path.to_owned()], &Expectations::default(), depth).unwrap());
}

fn megabytes(path: &Path) -> u64 {
    fs_err::metadata(path).unwrap().len() / 1_000_000
}

fn one_elf(table: &mut Table, what: &str, elf: &Path) {
    let what = format!("ELF of {} MB, {what}, quick", megabytes(elf));
    eprintln!("{what}");
    let rival = rivals::Objdump::new(elf);
    let (ours, theirs) = alternately((MANY, || look(elf, Depth::Quick)), (RIVALS, || rival.run()));
    table.row(&what, ours, &rival.name, theirs, Aim::TimesFaster(100.0));
}

fn all_bundles(table: &mut Table, elf: &Path) {
    let what = format!("ELF of {} MB, compressed bundles, deep", megabytes(elf));
    eprintln!("{what}");
    let bundles = rivals::Bundles::of(elf);
    let (ours, theirs) = alternately((FEW, || look(elf, Depth::Deep)), (FEW, || bundles.decompress()));
    let rival = format!("decompressing {} bundles, 2 threads", bundles.count());
    table.row(&what, ours, &rival, theirs, Aim::AtMost(1.2));
}

fn one_wheel(table: &mut Table, name: &str, wheel: &Path) {
    let what = format!("wheel {name}, {} MB, quick", megabytes(wheel));
    eprintln!("{what}");
    let quick = || look(wheel, Depth::Quick);
    let auditwheel = rivals::Auditwheel::installed();
    let (ours, theirs) = alternately((FEW, quick), (RIVALS, || auditwheel.show(wheel)));
    table.row(&what, ours, "auditwheel show", theirs, Aim::TimesFaster(8.0));
    let (ours, theirs) = alternately((FEW, quick), (FEW, || rivals::inflate(wheel)));
    table.row(&what, ours, "inflating its ELF files", theirs, Aim::AtMost(1.3));
}

fn one_rpm(table: &mut Table, what: &str, rpm: &Path, aim: Aim) {
    let what = format!("{what}, {} MB, quick", megabytes(rpm));
    eprintln!("{what}");
    let quick = || look(rpm, Depth::Quick);
    let (ours, theirs) = alternately((FEW, quick), (FEW, || rivals::payload(rpm)));
    table.row(&what, ours, "decompressing its payload", theirs, aim);
    let (ours, theirs) = alternately((FEW, quick), (FEW, || rivals::rpm2cpio(rpm)));
    table.row(&what, ours, "rpm2cpio to /dev/null", theirs, Aim::None);
}
