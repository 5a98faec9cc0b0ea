//! Measures the time and memory for converting an RPM to a wheel, against doing it without
//! rocmrpm: unpack the RPM and pack the files with Python's `wheel`. The payload is that of a
//! real wheel. Prints a table; slow results do not fail.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table and the progress")]
#![allow(clippy::unwrap_used, reason = "a benchmark without its tools stops")]

#[path = "shared/aligned.rs"]
mod aligned;
#[path = "../tests/real_wheels/fetch.rs"]
mod fetch;
#[allow(dead_code, reason = "this benchmark uses only a part")]
#[path = "inspect/measure.rs"]
mod measure;
#[allow(dead_code, reason = "this benchmark uses only a part")]
#[path = "inspect/packages.rs"]
mod packages;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use measure::{Aim, Table, alternately};
use rocmrpm::events::Silent;
use rocmrpm::gpu::GpuTarget;
use rocmrpm::wheel::{self, LocalLabel, Pins, Request, Rocm};

/// This wheel contains a shared library of 490 MB.
const WHEEL: &str = "onnxruntime-rocm";
const PACKED: &str = "usr/lib64/python3.12/site-packages";
const RIVAL: &str = "rpm2cpio | cpio, wheel pack";
/// With this argument, the program only makes a wheel.
const CHILD: &str = "--make-a-wheel";

const OURS: usize = 6;
const THEIRS: usize = 3;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [child, rpm, out_dir] = args.as_slice()
        && child == CHILD
    {
        return make(rpm.into(), Path::new(out_dir));
    }
    // `cargo test --benches` and the like only check that it builds.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    eprintln!("fetching and unpacking a wheel, making an RPM (kept in the target folder)");
    let unpacked = packages::unpacked(WHEEL, &fetch::wheel(WHEEL));
    let rpm = packages::of_distribution(&unpacked);
    let (mine, others) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let (ours, theirs) = alternately(
        (OURS, || {
            eprintln!("ours");
            let dir = tempfile::tempdir_in(fetch::store("bench")).unwrap();
            let mut program = Command::new(std::env::current_exe().unwrap());
            let used = Used::by([program.arg(CHILD).arg(&rpm).arg(dir.path())]);
            mine.borrow_mut().push(used.of_wheel_in(dir.path()));
            dir
        }),
        (THEIRS, || {
            eprintln!("{RIVAL}");
            let dir = tempfile::tempdir_in(fetch::store("bench")).unwrap();
            let mut unpack = Command::new("sh");
            unpack.args(["-c", "rpm2cpio \"$1\" | cpio -idm --quiet", "sh"]).arg(&rpm);
            let mut pack = Command::new("/usr/bin/python3");
            pack.args(["-m", "wheel", "pack", PACKED]);
            let used = Used::by([unpack.current_dir(dir.path()), pack.current_dir(dir.path())]);
            others.borrow_mut().push(used.of_wheel_in(dir.path()));
            dir
        }),
    );
    let payload = packages::size(&unpacked) / 1_000_000;
    let what = |what: &str| format!("wheel of {payload} MB from an RPM: {what}");
    let mut table = Table::default();
    table.row(&what("time"), ours, RIVAL, theirs, Aim::TimesFaster(5.0));
    let (mine, others) = (Used::least(&mine.borrow()), Used::least(&others.borrow()));
    for (name, unit, scale, aim, get) in [
        (
            "CPU time",
            "s",
            1e3,
            Aim::None,
            (|used: &Used| used.cpu.as_millis() as f64) as fn(&Used) -> f64,
        ),
        ("memory of the largest process", "MiB", f64::from(1 << 20), Aim::AtMost(0.2), |used| {
            used.memory as f64
        }),
        ("the wheel", "MB", 1e6, Aim::None, |used| used.wheel as f64),
    ] {
        table.amount(&what(name), unit, get(&mine) / scale, RIVAL, get(&others) / scale, aim);
    }
    println!("{table}");
}

fn make(rpm: PathBuf, out_dir: &Path) {
    let label = LocalLabel::new("7.14", &[GpuTarget::parse("gfx1151").unwrap()]).unwrap();
    let wheels = wheel::build(Request {
        rpms: &[rpm],
        label: &label,
        source_date_epoch: 1_700_000_000,
        out_dir,
        python: None,
        pins: &Pins::new(),
        rocm: &Rocm::System,
        leave_out: &[],
        not_required: &[],
        origin: None,
        events: &Silent,
    });
    assert_eq!(wheels.unwrap().len(), 1);
}

/// The resources for making the wheel, and the wheel's size.
#[derive(Clone, Copy)]
struct Used {
    cpu: Duration,
    memory: u64,
    wheel: u64,
}

impl Used {
    /// Runs the programs one after another.
    fn by<const N: usize>(programs: [&mut Command; N]) -> Self {
        let before = children_cpu();
        let mut memory = 0;
        for program in programs {
            let child = program.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
            let mut child = child.unwrap_or_else(|error| panic!("{program:?}: {error}"));
            let status = format!("/proc/{}/status", child.id());
            let exit = loop {
                if let Some(exit) = child.try_wait().unwrap() {
                    break exit;
                }
                // The peak so far (proc_pid_status(5)), so that no sample can miss an earlier one.
                let text = std::fs::read_to_string(&status).unwrap_or_default();
                let line =
                    text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
                memory = memory.max(line.trim().trim_end_matches(" kB").parse().unwrap_or(0) << 10);
                std::thread::sleep(Duration::from_millis(5));
            };
            assert!(exit.success(), "{program:?}: {exit}");
        }
        Self { cpu: children_cpu() - before, memory, wheel: 0 }
    }

    fn of_wheel_in(self, dir: &Path) -> Self {
        let mut files = fs_err::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let wheel =
            files.find(|file| file.file_name().to_string_lossy().ends_with(".whl")).unwrap();
        Self { wheel: wheel.metadata().unwrap().len(), ..self }
    }

    fn least(all: &[Self]) -> Self {
        let cpu = all.iter().map(|used| used.cpu).min().unwrap();
        // The most memory that a run took.
        let memory = all.iter().map(|used| used.memory).max().unwrap();
        Self { cpu, memory, wheel: all[0].wheel }
    }
}

/// Returns the CPU time of all children that were waited for, and of their children.
fn children_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // proc_pid_stat(5): fields 16 and 17, in ticks of 10 ms; the second may have spaces.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
