//! Processes timed in turn, and the table of what came out. Not what they do.

use std::fmt;
use std::ops::Add;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a process took.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    /// Seconds from its start to its end.
    pub wall: f64,
    /// Seconds that it kept processors busy, as it says itself at its end.
    pub cpu: f64,
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

/// The processor time of this process so far, in seconds.
pub fn process_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs a process that prints its processor time in its last line.
pub fn cost(command: &mut Command) -> Cost {
    let start = Instant::now();
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    let wall = start.elapsed().as_secs_f64();
    assert!(output.status.success(), "{command:?} failed");
    let text = String::from_utf8(output.stdout).unwrap();
    Cost { wall, cpu: text.lines().last().unwrap().parse().unwrap() }
}

/// Runs both as often as stated, in turn, so that a machine that gets busier meanwhile is unfair
/// to neither. One run of each before is not counted.
pub fn alternately(
    runs: usize,
    mut ours: impl FnMut() -> Cost,
    mut theirs: impl FnMut() -> Cost,
) -> (Vec<Cost>, Vec<Cost>) {
    ours();
    theirs();
    (0..runs).map(|_| (ours(), theirs())).unzip()
}

/// What was measured.
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
    pub fn row(&mut self, what: &str, ours: &[Cost], rival: &str, theirs: &[Cost], aim: Option<f64>) {
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

    /// Adds what nothing is compared with.
    pub fn alone(&mut self, what: &str, ours: &[Cost]) {
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
            "{threads} threads, load {load} at the end; warm cache; best run (its processor time)\n"
        )?;
        let head =
            ["what", "rocmrpm", "beside dumb-pypi", "takes", "times faster", "by processor", "aim", ""];
        crate::aligned::write(f, head, &self.rows)
    }
}
