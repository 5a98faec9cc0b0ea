//! Times two things alternately, and prints a table of the results.

use std::fmt;
use std::time::{Duration, Instant};

/// The times of several runs.
#[derive(Clone, Copy)]
pub struct Times {
    best: Duration,
    median: Duration,
}

/// Runs both this many times, interleaved so that other load affects both, after one warm-up run of
/// each. Does not measure the time for dropping the result of a run.
pub fn alternately<O, T>(
    (our_runs, mut ours): (usize, impl FnMut() -> O),
    (their_runs, mut theirs): (usize, impl FnMut() -> T),
) -> (Times, Times) {
    drop(ours());
    drop(theirs());
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for turn in 0..their_runs {
        while our_times.len() < our_runs * (turn + 1) / their_runs {
            our_times.push(time(&mut ours));
        }
        their_times.push(time(&mut theirs));
    }
    (Times::of(our_times), Times::of(their_times))
}

fn time<T>(run: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    let left = run();
    let elapsed = start.elapsed();
    drop(left);
    elapsed
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self { best: times[0], median: times[times.len() / 2] }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", text(self.best), text(self.median))
    }
}

fn text(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    match milliseconds {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.2} s", ms / 1000.0),
    }
}

/// The goal of a comparison of the best runs.
#[derive(Clone, Copy)]
pub enum Aim {
    /// At least this many times faster.
    TimesFaster(f64),
    /// At most this many times as long.
    AtMost(f64),
    /// No goal.
    None,
}

/// The results.
#[derive(Default)]
pub struct Table {
    rows: Vec<[String; 7]>,
}

/// The limit in bytes, without mapped files.
const MOST_MEMORY: u64 = 200 << 20;

impl Table {
    /// Adds a comparison of times.
    pub fn row(&mut self, what: &str, ours: Times, rival: &str, theirs: Times, aim: Aim) {
        let longer = ours.best.as_secs_f64() / theirs.best.as_secs_f64();
        let (ratio, aim, met) = match aim {
            Aim::TimesFaster(aim) => (
                format!("{:.1} times faster", 1.0 / longer),
                format!("at least {aim}"),
                Some(1.0 / longer >= aim),
            ),
            Aim::AtMost(aim) => (
                format!("{longer:.2} times as long"),
                format!("at most {aim}"),
                Some(longer <= aim),
            ),
            Aim::None => (format!("{longer:.2} times as long"), String::new(), None),
        };
        let row = [
            what.into(),
            ours.to_string(),
            rival.into(),
            theirs.to_string(),
            ratio,
            aim,
            verdict(met),
        ];
        self.rows.push(row);
    }

    /// Adds a comparison of amounts in this unit.
    pub fn amount(
        &mut self,
        what: &str,
        unit: &str,
        ours: f64,
        rival: &str,
        theirs: f64,
        aim: Aim,
    ) {
        let times = ours / theirs;
        let (aim, met) = match aim {
            Aim::AtMost(aim) => (format!("at most {aim}"), Some(times <= aim)),
            Aim::TimesFaster(_) | Aim::None => (String::new(), None),
        };
        let [ours, theirs] = [ours, theirs].map(|amount| format!("{amount:.1} {unit}"));
        let ratio = format!("{times:.2} times as much");
        self.rows.push([what.into(), ours, rival.into(), theirs, ratio, aim, verdict(met)]);
    }

    /// Adds a memory peak in bytes; `None` if it could not be measured.
    pub fn memory(&mut self, what: &str, peak: Option<u64>) {
        let text = peak.map_or("not measured".to_owned(), |peak| format!("{} MB", peak >> 20));
        let met = peak.map(|peak| peak < MOST_MEMORY);
        let aim = format!("below {} MB", MOST_MEMORY >> 20);
        let [none, also, more] = [(); 3].map(|()| String::new());
        self.rows.push([what.into(), text, none, also, more, aim, verdict(met)]);
    }
}

fn verdict(met: Option<bool>) -> String {
    met.map_or("", |met| if met { "met" } else { "not met" }).to_owned()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let value = |text: &str, key: &str| {
            let line =
                text.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
            line.split_once(':').map_or("unknown".into(), |(_, value)| value.trim().to_owned())
        };
        let threads = std::thread::available_parallelism().map_or(0, usize::from);
        let load = read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
        writeln!(
            f,
            "{}, {}, {threads} threads, memory {}, load {load} at the end",
            jiff::Timestamp::now().strftime("%Y-%m-%d"),
            value(&cpu, "model name"),
            value(&memory, "MemTotal")
        )?;
        writeln!(f, "warm page cache; best run (median); ratios of the best runs\n")?;
        let head = ["what", "rocmrpm", "compared with", "time", "ratio", "goal", ""];
        crate::aligned::write(f, head, &self.rows)
    }
}
