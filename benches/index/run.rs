//! Times processes alternately, and prints a table of the results.

use std::fmt;
use std::ops::Add;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The cost of a process.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    /// Seconds from its start to its end.
    pub wall: f64,
    /// CPU time in seconds, as the process itself reports at its end.
    pub cpu: f64,
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

/// Returns the CPU time of this process so far, in seconds.
pub fn process_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs a process that prints its CPU time in its last line.
pub fn cost(command: &mut Command) -> Cost {
    let start = Instant::now();
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    let wall = start.elapsed().as_secs_f64();
    assert!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8(output.stdout).unwrap();
    Cost { wall, cpu: text.lines().last().unwrap().parse().unwrap() }
}

/// Runs both this many times, alternately, so that other load affects both, after one warm-up run
/// of each.
pub fn alternately(
    runs: usize,
    mut ours: impl FnMut() -> Cost,
    mut theirs: impl FnMut() -> Cost,
) -> (Vec<Cost>, Vec<Cost>) {
    ours();
    theirs();
    (0..runs).map(|_| (ours(), theirs())).unzip()
}

/// The results.
#[derive(Default)]
pub struct Table {
    rows: Vec<[String; 8]>,
}

fn best(costs: &[Cost], part: impl Fn(&Cost) -> f64) -> f64 {
    costs.iter().map(part).fold(f64::INFINITY, f64::min)
}

fn text(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1000.0) } else { format!("{seconds:.2} s") }
}

impl Table {
    /// Adds a comparison.
    pub fn row(
        &mut self,
        what: &str,
        ours: &[Cost],
        rival: &str,
        theirs: &[Cost],
        aim: Option<f64>,
    ) {
        let [wall, cpu, their_wall, their_cpu] = [
            best(ours, |c| c.wall),
            best(ours, |c| c.cpu),
            best(theirs, |c| c.wall),
            best(theirs, |c| c.cpu),
        ];
        let ratio = their_wall / wall;
        self.rows.push([
            what.into(),
            format!("{} ({})", text(wall), text(cpu)),
            rival.into(),
            format!("{} ({})", text(their_wall), text(their_cpu)),
            format!("{ratio:.1}"),
            format!("{:.1}", their_cpu / cpu),
            aim.map(|aim| aim.to_string()).unwrap_or_default(),
            aim.map_or("", |aim| if ratio >= aim { "met" } else { "not met" }).into(),
        ]);
    }

    /// Adds a measurement without a comparison.
    pub fn single(&mut self, what: &str, ours: &[Cost]) {
        let took = format!("{} ({})", text(best(ours, |c| c.wall)), text(best(ours, |c| c.cpu)));
        let mut row = [const { String::new() }; 8];
        row[0] = what.into();
        row[1] = took;
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = std::thread::available_parallelism().map_or(0, usize::from);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default();
        writeln!(
            f,
            "{threads} threads, load {load} at the end; warm cache; best run (its CPU time)\n"
        )?;
        let head =
            ["what", "rocmrpm", "dumb-pypi", "time", "times faster", "by CPU time", "goal", ""];
        crate::aligned::write(f, head, &self.rows)
    }
}
