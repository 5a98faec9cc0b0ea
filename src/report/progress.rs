//! Shows the progress of a run: rows that update in place on a terminal; elsewhere a line per
//! event, and a heartbeat.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::errors::show_failure;
use super::shell::without_controls;
use super::{Shell, Style, human_time};
use crate::duration;
use crate::error::Error;
use crate::events::{Event, Events, Outcome, StageState, Step, WorkPhase};
use crate::names::ComponentName;

/// The interval of the heartbeat of a run without a terminal.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Shows events. Dropping it ends its thread.
pub struct Progress<'s> {
    shell: &'s Shell,
    state: Arc<Mutex<ProgressState>>,
    end: ExpectedEnd,
    live: Option<MultiProgress>,
    stop: Option<(Sender<()>, std::thread::JoinHandle<()>)>,
}

#[derive(Default)]
struct ProgressState {
    total: usize,
    done: usize,
    numbered_at_end: bool,
    running: BTreeMap<ComponentName, ProgressRow>,
    total_bar: Option<ProgressBar>,
}

/// When the work on all components will be done, if that can be estimated. It has its own lock,
/// because a bar that is drawn while the state is locked reads it.
type ExpectedEnd = Arc<Mutex<Option<Instant>>>;

struct ProgressRow {
    phase: &'static str,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl<'s> Progress<'s> {
    /// Creates a reporter that writes to `shell`.
    pub fn new(shell: &'s Shell) -> Self {
        let state = Arc::new(Mutex::new(ProgressState::default()));
        let end = ExpectedEnd::default();
        let live = shell.is_live().then(MultiProgress::new);
        shell.set_bars(live.clone());
        let stop =
            (live.is_none() && !shell.is_quiet()).then(|| heartbeat(state.clone(), end.clone()));
        Self { shell, state, end, live, stop: stop.flatten() }
    }

    fn phase(&self, component: ComponentName, phase: &'static str, detail: &str) {
        let mut state = lock(&self.state);
        if state.done >= state.total {
            // Phases after the last component are not part of its total.
            (state.total, state.done, state.numbered_at_end) = (0, 0, false);
        }
        let counter = match state.numbered_at_end {
            true => String::new(),
            false => format!("({}/{}) ", state.done + 1, state.total.max(1)),
        };
        let known = state.running.remove(&component);
        let (since, bar) = match known {
            Some(row) => (row.since, row.bar),
            None => (Instant::now(), self.live.as_ref().map(|bars| row_bar(bars, &component))),
        };
        match &bar {
            Some(bar) => {
                bar.set_prefix(Style::Good.paint(format!("{phase:>12}")));
                bar.set_message(format!("{component} {}", Style::Dim.paint(detail)));
            }
            None => {
                let text = format!("{component} {detail}");
                self.shell.status(Style::Good, phase, format!("{counter}{}", text.trim_end()));
            }
        }
        state.running.insert(component, ProgressRow { phase, since, bar });
    }

    /// Removes the row of a finished item.
    fn ended(&self, name: &ComponentName) {
        if let Some(bar) = lock(&self.state).running.remove(name).and_then(|row| row.bar) {
            bar.finish_and_clear();
        }
    }

    fn finished(&self, component: &ComponentName, outcome: Outcome, seconds: f64, detail: &str) {
        self.ended(component);
        let mut state = lock(&self.state);
        state.done += 1;
        if let Some(bar) = &state.total_bar {
            bar.set_position(state.done as u64);
        }
        let counter = match state.numbered_at_end {
            true => format!("({}/{}) ", state.done, state.total),
            false => String::new(),
        };
        drop(state);
        let (style, word) = match outcome {
            Outcome::Built => (Style::Good, "Built"),
            Outcome::Resolved => (Style::Good, "Resolved"),
            Outcome::Recorded => (Style::Warning, "Recorded"),
            Outcome::Failed => (Style::Bad, "Failed"),
            Outcome::Stopped => (Style::Warning, "Stopped"),
        };
        let how_long = if outcome == Outcome::Stopped { "after" } else { "in" };
        let text = format!("{component} {detail}");
        self.shell.status(
            style,
            word,
            format!("{counter}{} {how_long} {}", text.trim_end(), human_time(seconds)),
        );
    }
}

impl Events for Progress<'_> {
    fn event(&self, event: Event) {
        match event {
            Event::Planned { total, numbered_at_end } => {
                let mut state = lock(&self.state);
                // The components of another chroot are counted from one again.
                (state.total, state.done, state.numbered_at_end) = (total, 0, numbered_at_end);
                state.total_bar = self.live.as_ref().map(|bars| total_bar(bars, total, &self.end));
            }
            Event::Phase { component, phase, detail } => {
                self.phase(component, phase_word(phase), &detail);
            }
            Event::Output { component, line } => {
                // Several components can be built at the same time.
                let several = lock(&self.state).total > 1;
                let prefix = if several { format!("{component}: ") } else { String::new() };
                let line = without_controls(line.as_bytes());
                self.shell.talk(format!("{}{line}", Style::Dim.paint(prefix)));
            }
            Event::TimeLeft { seconds } => {
                let seconds = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
                *lock(&self.end) = seconds.and_then(|left| Instant::now().checked_add(left));
            }
            Event::Left { name } => self.ended(&name),
            Event::Finished { component, outcome, seconds, detail } => {
                self.finished(&component, outcome, seconds, &detail);
            }
            Event::Stage { stage, chroot, state } => {
                let chroot = chroot.map(|of| format!(" for {of}")).unwrap_or_default();
                let name = format!("{stage}{chroot}");
                match state {
                    StageState::Started => self.shell.status(Style::Note, "Stage", name),
                    StageState::Unchanged => self.shell.status(Style::Dim, "Unchanged", name),
                    StageState::Passed(what) => {
                        self.shell.status(Style::Good, "Passed", format!("{name}: {what}"));
                    }
                    StageState::Question(_) => self.shell.status(Style::Warning, "Stopped", name),
                }
            }
            Event::Warning(text) => self.shell.warning(text),
            Event::Step { step, detail } => self.shell.status(Style::Good, step_word(step), detail),
            Event::Unchanged { detail } => self.shell.status(Style::Dim, "Unchanged", detail),
        }
    }

    fn failure(&self, error: &Error) {
        self.shell.line("");
        show_failure(self.shell, error);
        self.shell.line("");
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.stop.take() {
            drop(stop);
            // A panic in the heartbeat thread does not matter.
            let _ = thread.join();
        }
        if let Some(bar) = lock(&self.state).total_bar.take() {
            bar.finish_and_clear();
        }
        self.shell.set_bars(None);
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the time until the expected end, as text; `None` if it is unknown or has passed.
fn time_left(end: &ExpectedEnd) -> Option<String> {
    let left = (*lock(end))?.checked_duration_since(Instant::now())?;
    (left.as_secs() > 0).then(|| format!("about {} left", duration::shown(left)))
}

fn row_bar(bars: &MultiProgress, component: &ComponentName) -> ProgressBar {
    let bar = bars.insert_from_back(1, ProgressBar::new_spinner());
    // The template is a constant; if it were wrong, the default style would be used.
    if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(component.to_string());
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

fn total_bar(bars: &MultiProgress, total: usize, end: &ExpectedEnd) -> ProgressBar {
    let bar = bars.add(ProgressBar::new(total as u64));
    let template =
        format!("{} [{{bar:30}}] {{pos}}/{{len}} {{left}}", Style::Note.paint("       Total"));
    if let Ok(style) = ProgressStyle::with_template(&template) {
        let end = end.clone();
        let left = move |_: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = out.write_str(&time_left(&end).unwrap_or_default());
        };
        bar.set_style(style.progress_chars("=> ").with_key("left", left));
    }
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// Starts the thread that prints the heartbeat; if that fails, only the heartbeat is missing.
fn heartbeat(
    state: Arc<Mutex<ProgressState>>,
    end: ExpectedEnd,
) -> Option<(Sender<()>, std::thread::JoinHandle<()>)> {
    let (stop, stopped) = channel::<()>();
    let thread = std::thread::Builder::new().spawn(move || {
        let shell = Shell::new(false);
        while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
            for (component, row) in &lock(&state).running {
                let time = human_time(row.since.elapsed().as_secs_f64());
                shell.status(Style::Dim, row.phase, format!("{component}, {time} so far"));
            }
            if let Some(left) = time_left(&end) {
                shell.status(Style::Dim, "Total", left);
            }
        }
    });
    Some((stop, thread.ok()?))
}

fn phase_word(phase: WorkPhase) -> &'static str {
    match phase {
        WorkPhase::Building => "Building",
        WorkPhase::Comparing => "Comparing",
        WorkPhase::Fetching => "Fetching",
        WorkPhase::Inspecting => "Inspecting",
        WorkPhase::Packing => "Packing",
        WorkPhase::Preparing => "Preparing",
        WorkPhase::Sending => "Sending",
    }
}

fn step_word(step: Step) -> &'static str {
    match step {
        Step::Building => "Building",
        Step::Holding => "Holding",
        Step::Indexed => "Indexed",
        Step::Inspecting => "Inspecting",
        Step::Locked => "Locked",
        Step::Omitting => "Omitting",
        Step::Packing => "Packing",
        Step::Reading => "Reading",
        Step::Rendered => "Rendered",
        Step::Resolving => "Resolving",
        Step::Waived => "Waived",
        Step::Wheel => "Wheel",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_items_that_are_left_or_finished() {
        let shell = Shell::new(true);
        let progress = Progress::new(&shell);
        let name = |name: &str| ComponentName::parse(name).unwrap();
        for part in ["demo", "demo-crates"] {
            progress.event(Event::Phase {
                component: name(part),
                phase: WorkPhase::Fetching,
                detail: String::new(),
            });
        }
        let running = || lock(&progress.state).running.keys().cloned().collect::<Vec<_>>();
        progress.event(Event::Left { name: name("demo-crates") });
        assert_eq!(running(), [name("demo")]);
        let outcome = Outcome::Built;
        progress.event(Event::Finished {
            component: name("demo"),
            outcome,
            seconds: 1.0,
            detail: String::new(),
        });
        assert_eq!(running(), []);
    }
}
