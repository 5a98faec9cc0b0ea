//! Measures vLLM's closure against uv, which only resolves and does not decide where each
//! distribution comes from. Both use the pip index that pip is configured with on this machine.
//! Prints a table; slow results do not fail.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table and the progress")]
#![allow(clippy::unwrap_used, reason = "a benchmark without its tools stops")]

#[path = "shared/aligned.rs"]
mod aligned;
#[allow(dead_code, reason = "this benchmark uses only a part")]
#[path = "inspect/measure.rs"]
mod measure;
#[path = "../tests/support/tools.rs"]
mod tools;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use measure::{Aim, Table, alternately};
use rocmrpm::process::Command;
use rocmrpm::sources::pip_index;

/// Measured runs of each, after one warm-up run.
const RUNS: usize = 5;

/// Requirements of vLLM that the stack builds itself.
const OWN: [&str; 4] = ["torch", "torchaudio", "torchvision", "triton"];

/// Other requirements in the stack, whose own requirements are read from their sources.
const SDISTS: [&str; 2] = ["amdsmi", "flash-attn"];

fn main() {
    // `cargo test --benches` and the like only check that it builds.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    eprintln!("fetching sources");
    let bench = Bench::new();
    let mut table = Table::default();
    eprintln!("resolving with empty caches");
    let (our_caches, their_caches) = (Caches::new(&bench), Caches::new(&bench));
    let (ours, theirs) = alternately(
        (RUNS, || bench.closure(our_caches.next(), &["--upgrade"])),
        (RUNS, || bench.uv(their_caches.next())),
    );
    table.row(
        "closure of vLLM, resolved, empty caches",
        ours,
        "uv pip compile",
        theirs,
        Aim::AtMost(1.0),
    );
    eprintln!("with full caches");
    let full = our_caches.last();
    let (ours, theirs) =
        alternately((RUNS, || bench.closure(full, &[])), (RUNS, || bench.uv(full)));
    table.row(
        "closure of vLLM, from its lock, full caches",
        ours,
        "uv pip compile",
        theirs,
        Aim::None,
    );
    println!("{table}");
}

/// The inputs of both.
struct Bench {
    dir: tempfile::TempDir,
    /// vLLM's sources as its `%prep` leaves them.
    source: PathBuf,
    index: String,
    bin: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let tools = tools::environment("python-tools", include_str!("../tests/support/tools.txt"));
        let bench = Self {
            source: PathBuf::new(),
            index: pip_index().unwrap(),
            bin: dir.path().join("bin"),
            dir,
        };
        fs_err::create_dir(&bench.bin).unwrap();
        fs_err::os::unix::fs::symlink(tools.join("bin/uv"), bench.bin.join("uv")).unwrap();
        let prep = |name| bench.rocmrpm(&bench.dir.path().join("sources"), &["prep", name]);
        let source = PathBuf::from(prep("vllm").trim());
        SDISTS.iter().for_each(|name| drop(prep(name)));
        let pins = fs_err::read_to_string(root().join("pins/stable.toml")).unwrap();
        let pins: toml::Table = pins.parse().unwrap();
        let own = OWN.map(|name| format!("{name}=={}\n", pins[name]["version"].as_str().unwrap()));
        fs_err::write(bench.dir.path().join("own.txt"), own.concat()).unwrap();
        Self { source, ..bench }
    }

    fn rocmrpm(&self, caches: &Path, args: &[&str]) -> String {
        let path = format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap());
        Command::new(env!("CARGO_BIN_EXE_rocmrpm"))
            .args(["--quiet", "-C"])
            .arg(root())
            .args(args)
            .env("PATH", path)
            .env("ROCMRPM_CACHE", caches)
            .env("ROCMRPM_TRUST", root())
            .env("UV_CACHE_DIR", caches.join("uv"))
            .text()
            .unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn closure(&self, caches: &Path, args: &[&str]) {
        self.rocmrpm(
            caches,
            &[&["closure", "vllm", "--chroot", "fedora-43", "--pins", "stable"], args].concat(),
        );
    }

    fn uv(&self, caches: &Path) {
        let [python, platform] =
            ["--python-version=3.14", "--python-platform=x86_64-manylinux_2_40"];
        Command::new(self.bin.join("uv").to_str().unwrap())
            .args([
                "--no-config",
                "--quiet",
                "pip",
                "compile",
                "--generate-hashes",
                python,
                platform,
            ])
            .args(["requirements/rocm.txt", "--override"])
            .arg(self.dir.path().join("own.txt"))
            .cwd(&self.source)
            .runs_code_of_tests()
            .env("UV_DEFAULT_INDEX", &self.index)
            .env("UV_CACHE_DIR", caches.join("uv"))
            .output()
            .unwrap_or_else(|error| panic!("{error:?}"));
    }
}

/// Cache folders for one run each, made before the measurement: each contains only the
/// sources.
struct Caches {
    folders: Vec<PathBuf>,
    next: Cell<usize>,
}

impl Caches {
    fn new(bench: &Bench) -> Self {
        let parent = tempfile::tempdir_in(bench.dir.path()).unwrap().keep();
        let copy = |at: usize| {
            let folder = parent.join(at.to_string());
            Command::new("cp")
                .args(["-al"])
                .arg(bench.dir.path().join("sources"))
                .arg(&folder)
                .output()
                .unwrap();
            folder
        };
        Self { folders: (0..=RUNS).map(copy).collect(), next: Cell::new(0) }
    }

    fn next(&self) -> &Path {
        let at = self.next.replace(self.next.get() + 1);
        &self.folders[at]
    }

    fn last(&self) -> &Path {
        &self.folders[RUNS]
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
