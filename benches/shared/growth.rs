//! Growth of cost: times of three sizes, and the slope between the larger two.

use std::fmt;
use std::time::{Duration, Instant};

/// Measured runs of each size, after one warm-up run; the best counts.
const RUNS: usize = 5;
/// The largest slope that counts as linear, with a margin for sorting and noise.
const LINEAR: f64 = 1.15;

/// Returns the shortest time of several runs.
pub fn best(mut work: impl FnMut()) -> Duration {
    work();
    (0..RUNS).map(|_| time(&mut work)).min().unwrap()
}

/// Returns the shortest time of each, run alternately so that other load affects both.
#[allow(dead_code, reason = "not every benchmark compares")]
pub fn best_of_both(mut one: impl FnMut(), mut other: impl FnMut()) -> (Duration, Duration) {
    one();
    other();
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        best = (best.0.min(time(&mut one)), best.1.min(time(&mut other)));
    }
    best
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Measurements of three sizes each.
#[derive(Default)]
pub struct Growth {
    rows: Vec<[String; 5]>,
}

impl Growth {
    /// Measures each size.
    pub fn row(&mut self, what: &str, sizes: [usize; 3], measure: impl FnMut(usize) -> Duration) {
        eprintln!("{what}");
        let times = sizes.iter().copied().map(measure).collect();
        self.add(what, sizes, times);
    }

    /// Adds measured times.
    pub fn add(&mut self, what: &str, sizes: [usize; 3], times: Vec<Duration>) {
        let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        let slope = (seconds[2] / seconds[1]).ln() / (sizes[2] as f64 / sizes[1] as f64).ln();
        let cells =
            sizes.iter().zip(&seconds).map(|(size, s)| format!("{size}: {:.1} ms", s * 1000.0));
        let mut row = vec![what.to_owned()];
        row.extend(cells);
        let verdict = if slope <= LINEAR { "" } else { ", superlinear" };
        row.push(format!("{slope:.2}{verdict}"));
        self.rows.push(row.try_into().unwrap());
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        writeln!(
            f,
            "best of {RUNS} runs, load {} at the end; linear growth has the slope 1\n",
            load.split(' ').next().unwrap_or_default()
        )?;
        crate::aligned::write(f, ["what", "small", "medium", "large", "slope"], &self.rows)
    }
}
