//! The scheduler: starts a task once everything that it requires is done and enough cores and
//! memory are free. Of several, it starts the one with the longest path to the end first. What a
//! task does is up to the caller.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::parallel;
use crate::process::stop_requested;

/// One task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its name, unique among the tasks.
    pub name: String,
    /// The tasks that must be done before it; names that are not tasks count as done.
    pub requires: Vec<String>,
    /// The memory that one job inside the task takes, in bytes.
    pub memory_per_job: u64,
    /// The seconds that it took the last time, if known.
    pub seconds: Option<f64>,
}

/// The maximum number of jobs for one task if there is no other limit.
const MOST_JOBS: usize = 1024;

/// The resources that all tasks share.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum number of concurrent jobs.
    pub cores: usize,
    /// The maximum memory, in bytes.
    pub memory: u64,
}

/// How a task finished.
#[derive(Debug, PartialEq, Eq)]
pub enum End<T, E> {
    /// It succeeded.
    Done(T),
    /// It failed.
    Failed(E),
    /// It was not started, for this reason.
    Skipped(String),
}

/// The tasks as a graph of their indexes in the given list.
struct Graph {
    /// The tasks that each task requires.
    requires: Vec<Vec<usize>>,
    /// The tasks that require each task.
    required_by: Vec<Vec<usize>>,
    /// The tasks, most urgent first.
    order: Vec<usize>,
    /// The position of each task in `order`.
    rank: Vec<usize>,
}

impl Graph {
    fn new(tasks: &[Task]) -> Self {
        let index: HashMap<&str, usize> =
            tasks.iter().enumerate().map(|(index, task)| (task.name.as_str(), index)).collect();
        let requires: Vec<Vec<usize>> = tasks
            .iter()
            .map(|task| {
                let known =
                    task.requires.iter().filter_map(|name| index.get(name.as_str()).copied());
                known.collect::<BTreeSet<usize>>().into_iter().collect()
            })
            .collect();
        let mut required_by = vec![Vec::new(); tasks.len()];
        for (index, required) in requires.iter().enumerate() {
            required.iter().for_each(|required| required_by[*required].push(index));
        }
        let mut graph =
            Self { requires, required_by, order: Vec::new(), rank: vec![0; tasks.len()] };
        graph.order = graph.urgency(tasks);
        for (rank, index) in graph.order.iter().enumerate() {
            graph.rank[*index] = rank;
        }
        graph
    }

    /// Returns the tasks in the order of their longest path to the end, longest first: their own
    /// time plus that of the tasks that depend on them. A task without a known time counts as much
    /// as the median of the known times. Ties keep the given order.
    fn urgency(&self, tasks: &[Task]) -> Vec<usize> {
        let mut known: Vec<f64> = tasks.iter().filter_map(|task| task.seconds).collect();
        known.sort_by(f64::total_cmp);
        let usual = known.get(known.len() / 2).copied().unwrap_or(1.0);
        let own: Vec<f64> = tasks.iter().map(|task| task.seconds.unwrap_or(usual)).collect();
        let mut path = own.clone();
        for index in self.topological().into_iter().rev() {
            let after = self.required_by[index].iter().map(|after| path[*after]);
            path[index] = own[index] + after.fold(0.0, f64::max);
        }
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by(|a, b| path[*b].total_cmp(&path[*a]));
        order
    }

    /// Returns the tasks, each after all that it requires. Leaves out tasks in a cycle.
    fn topological(&self) -> Vec<usize> {
        let mut unmet: Vec<usize> = self.requires.iter().map(Vec::len).collect();
        let mut order: Vec<usize> = (0..unmet.len()).filter(|index| unmet[*index] == 0).collect();
        let mut at = 0;
        while let Some(index) = order.get(at).copied() {
            at += 1;
            for after in &self.required_by[index] {
                unmet[*after] -= 1;
                if unmet[*after] == 0 {
                    order.push(*after);
                }
            }
        }
        order
    }
}

struct ScheduleState<'a, T, E> {
    tasks: &'a [Task],
    graph: &'a Graph,
    /// The ranks of the tasks that have not started.
    waiting: BTreeSet<usize>,
    /// The ranks of those among them whose requirements are all done.
    ready: BTreeSet<usize>,
    /// The number of unfinished requirements of each task.
    unmet: Vec<usize>,
    running: usize,
    free_cores: usize,
    free_memory: u64,
    /// When each task started.
    started: Vec<Option<Instant>>,
    ends: Vec<Option<End<T, E>>>,
    /// Whether a task failed in a way that stops the others.
    failed: bool,
    /// Whether a task failed or was skipped.
    lost: bool,
}

/// The resources of a running task.
struct Share {
    jobs: usize,
    memory: u64,
}

impl<'a, T, E> ScheduleState<'a, T, E> {
    fn new(tasks: &'a [Task], graph: &'a Graph, limits: Limits) -> Self {
        let unmet: Vec<usize> = graph.requires.iter().map(Vec::len).collect();
        let ready = (0..tasks.len()).filter(|rank| unmet[graph.order[*rank]] == 0).collect();
        Self {
            tasks,
            graph,
            waiting: (0..tasks.len()).collect(),
            ready,
            unmet,
            running: 0,
            free_cores: limits.cores.max(1),
            free_memory: limits.memory,
            started: vec![None; tasks.len()],
            ends: tasks.iter().map(|_| None).collect(),
            failed: false,
            lost: false,
        }
    }

    fn begin(&mut self, index: usize, jobs: usize) -> Share {
        let memory =
            (jobs as u64).saturating_mul(self.tasks[index].memory_per_job).min(self.free_memory);
        self.waiting.remove(&self.graph.rank[index]);
        self.ready.remove(&self.graph.rank[index]);
        self.started[index] = Some(Instant::now());
        self.running += 1;
        self.free_cores -= jobs;
        self.free_memory -= memory;
        Share { jobs, memory }
    }

    fn end(&mut self, index: usize, share: &Share, end: End<T, E>) {
        self.running -= 1;
        self.free_cores += share.jobs;
        self.free_memory += share.memory;
        match &end {
            End::Done(_) => {
                for after in &self.graph.required_by[index] {
                    self.unmet[*after] -= 1;
                    if self.unmet[*after] == 0 {
                        self.ready.insert(self.graph.rank[*after]);
                    }
                }
            }
            End::Failed(_) | End::Skipped(_) => self.lost = true,
        }
        self.ends[index] = Some(end);
    }

    /// Returns the next task that can start, and its number of jobs: its share of the free cores
    /// and of the free memory, at least one job if that fits. If nothing else runs, a task always
    /// starts.
    fn pick(&self) -> Option<(usize, usize)> {
        if self.free_cores == 0 {
            return None;
        }
        let sharers = self.ready.len().clamp(1, self.free_cores);
        let core_share = self.free_cores.div_ceil(sharers);
        let memory_share = self.free_memory / sharers as u64;
        self.ready.iter().map(|rank| self.graph.order[*rank]).find_map(|index| {
            let per_job = self.tasks[index].memory_per_job.max(1);
            let by_memory = usize::try_from(memory_share / per_job).unwrap_or(usize::MAX);
            let fits = self.free_memory >= per_job || self.running == 0;
            fits.then_some((index, core_share.min(by_memory).clamp(1, MOST_JOBS)))
        })
    }

    /// Estimates the seconds until all tasks are done; `None` if the time of one is unknown.
    fn left(&self, limits: Limits) -> Option<f64> {
        let unfinished = (0..self.tasks.len()).filter(|index| self.ends[*index].is_none());
        let rest: Option<Vec<Task>> = unfinished
            .map(|index| {
                let task = self.tasks[index].clone();
                let past = self.started[index].map_or(0.0, |at| at.elapsed().as_secs_f64());
                Some(Task { seconds: Some((task.seconds? - past).max(0.0)), ..task })
            })
            .collect();
        Some(estimate(&rest?, limits))
    }

    /// Skips the tasks that can never start.
    fn skip_hopeless(&mut self) {
        let stop = stop_requested();
        while stop || self.lost {
            let hopeless = self.waiting.iter().find_map(|rank| {
                let index = self.graph.order[*rank];
                let lost = self.graph.requires[index].iter().find(|required| {
                    matches!(self.ends[**required], Some(End::Failed(_) | End::Skipped(_)))
                });
                let reason = match lost {
                    Some(lost) => {
                        format!("requires `{}`, which was not built", self.tasks[*lost].name)
                    }
                    None if stop => "the run was interrupted".to_owned(),
                    None if self.failed => "another component failed".to_owned(),
                    None => return None,
                };
                Some((*rank, index, reason))
            });
            let Some((rank, index, reason)) = hopeless else { return };
            self.waiting.remove(&rank);
            self.ready.remove(&rank);
            self.ends[index] = Some(End::Skipped(reason));
            self.lost = true;
        }
    }
}

/// Estimates the seconds that all tasks take together, each as long as the last time. Tasks without
/// a known time count as zero.
pub fn estimate(tasks: &[Task], limits: Limits) -> f64 {
    let graph = Graph::new(tasks);
    let mut state = ScheduleState::<(), ()>::new(tasks, &graph, limits);
    let mut running: Vec<(f64, usize, Share)> = Vec::new();
    let mut now = 0.0;
    loop {
        while let Some((index, jobs)) = state.pick() {
            let share = state.begin(index, jobs);
            running.push((now + tasks[index].seconds.unwrap_or(0.0), index, share));
        }
        running.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some((end, index, share)) = running.pop() else { return now };
        now = end;
        state.end(index, &share, End::Done(()));
    }
}

/// Runs all tasks and returns how each finished, in the given order. `work` gets the task and the
/// number of jobs that it may run. After an interrupt, or after a failure that `stops` the others, no
/// new task starts; otherwise, tasks that do not depend on a failed one still do. `stops` gets the
/// error, and whether another task requires the failed one. `left` gets the estimate of the remaining
/// seconds whenever a task starts or ends.
pub fn run_tasks<T: Send, E: Send>(
    tasks: &[Task],
    limits: Limits,
    stops: impl Fn(&E, bool) -> bool + Sync,
    left: impl Fn(Option<f64>) + Sync,
    work: impl Fn(&Task, usize) -> Result<T, E> + Sync,
) -> Vec<End<T, E>> {
    let graph = Graph::new(tasks);
    let state = Mutex::new(ScheduleState::new(tasks, &graph, limits));
    let changed = Condvar::new();
    let worker = || {
        let mut guard = lock(&state);
        loop {
            guard.skip_hopeless();
            if guard.waiting.is_empty() {
                break;
            }
            let Some((index, jobs)) = guard.pick() else {
                guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let share = guard.begin(index, jobs);
            left(guard.left(limits));
            drop(guard);
            let result = catch_unwind(AssertUnwindSafe(|| work(&tasks[index], jobs)));
            guard = lock(&state);
            let (end, panic) = match result {
                Ok(result) => (result.map_or_else(End::Failed, End::Done), None),
                // The other tasks must not wait for this one.
                Err(panic) => (End::Skipped("rocmrpm failed".to_owned()), Some(panic)),
            };
            if let End::Failed(error) = &end {
                guard.failed |= stops(error, !graph.required_by[index].is_empty());
            }
            guard.end(index, &share, end);
            guard.skip_hopeless();
            left(guard.left(limits));
            changed.notify_all();
            if let Some(panic) = panic {
                drop(guard);
                resume_unwind(panic);
            }
        }
        changed.notify_all();
    };
    std::thread::scope(|scope| {
        parallel::helpers(scope, limits.cores.min(tasks.len()).saturating_sub(1), worker);
        worker();
    });
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.ends.into_iter().flatten().collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn task(name: &str, requires: &[&str], memory_per_job: u64) -> Task {
        let requires = requires.iter().map(|r| (*r).to_owned()).collect();
        Task { name: name.into(), requires, memory_per_job, seconds: None }
    }

    fn lasting(name: &str, requires: &[&str], seconds: impl Into<Option<f64>>) -> Task {
        Task { seconds: seconds.into(), ..task(name, requires, 1) }
    }

    /// Runs tasks on separate threads and fails if they do not finish: a task that never starts
    /// would hang the whole test suite.
    fn run<T: Send + 'static, E: Send + 'static>(
        tasks: &[Task],
        limits: Limits,
        keep_going: bool,
        work: impl Fn(&Task, usize) -> Result<T, E> + Send + Sync + 'static,
    ) -> Vec<End<T, E>> {
        let tasks = tasks.to_vec();
        let stops = move |_: &E, required| required && !keep_going;
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let ends =
                catch_unwind(AssertUnwindSafe(|| run_tasks(&tasks, limits, stops, |_| (), work)));
            sender.send(ends)
        });
        let ends =
            receiver.recv_timeout(Duration::from_secs(60)).expect("the tasks did not finish");
        ends.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Returns the names of tasks in the order in which they start.
    fn order_on(cores: usize, tasks: &[Task]) -> Vec<String> {
        let (sender, order) = std::sync::mpsc::channel();
        run::<_, ()>(tasks, Limits { cores, memory: 100 }, false, move |task, _| {
            sender.send(task.name.clone()).unwrap();
            Ok(())
        });
        order.into_iter().collect()
    }

    fn order_of(tasks: &[Task]) -> Vec<String> {
        order_on(1, tasks)
    }

    fn peak_of(tasks: &[Task], limits: Limits) -> (usize, Vec<End<usize, ()>>) {
        let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let of_tasks = counts.clone();
        let ends = run(tasks, limits, false, move |_, jobs| {
            let (now, peak) = &*of_tasks;
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(30));
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(jobs)
        });
        (counts.1.load(Ordering::SeqCst), ends)
    }

    #[test]
    fn runs_independent_tasks_concurrently_within_memory() {
        let tasks = [task("a", &[], 4), task("b", &[], 4), task("c", &[], 4)];
        assert_eq!(peak_of(&tasks, Limits { cores: 4, memory: 100 }).0, 3);
        assert_eq!(peak_of(&tasks, Limits { cores: 4, memory: 8 }).0, 2);
        let (peak, ends) = peak_of(&tasks, Limits { cores: 4, memory: 1 });
        assert_eq!((peak, ends), (1, vec![End::Done(1), End::Done(1), End::Done(1)]));
    }

    #[test]
    fn gives_a_single_task_all_cores_that_memory_allows() {
        let (_, ends) = peak_of(&[task("a", &[], 2)], Limits { cores: 8, memory: 10 });
        assert_eq!(ends, [End::Done(5)]);
    }

    #[test]
    fn starts_tasks_after_their_requirements() {
        let tasks = [task("c", &["b"], 1), task("b", &["a"], 1), task("a", &["not a task"], 1)];
        assert_eq!(order_on(3, &tasks), ["a", "b", "c"]);
    }

    #[test]
    fn starts_the_longest_path_first() {
        // `a` itself is short, but the tasks that wait for it are not.
        let tasks = [
            lasting("long", &[], 50.0),
            lasting("a", &[], 1.0),
            lasting("b", &["a"], 30.0),
            lasting("c", &["b"], 30.0),
            lasting("aside", &["a"], 2.0),
        ];
        assert_eq!(order_of(&tasks), ["a", "b", "long", "c", "aside"]);
    }

    #[test]
    fn keeps_order_of_ties_and_uses_the_median_for_unknown_times() {
        let equal = ["x", "b", "y", "a"].map(|name| lasting(name, &[], 5.0));
        assert_eq!(order_of(&equal), ["x", "b", "y", "a"]);
        let unknown = ["x", "b", "a"].map(|name| lasting(name, &[], None));
        assert_eq!(order_of(&unknown), ["x", "b", "a"]);
        let chain = [lasting("x", &[], None), lasting("a", &[], None), lasting("b", &["a"], None)];
        assert_eq!(order_of(&chain), ["a", "x", "b"]);
        let mixed = [
            lasting("short", &[], 1.0),
            lasting("new", &[], None),
            lasting("long", &[], 90.0),
            lasting("middle", &[], 10.0),
        ];
        assert_eq!(order_of(&mixed), ["long", "new", "middle", "short"]);
        // Of an even number, the longer of the two in the middle.
        let even = [
            ("new", None),
            ("20", Some(20.0)),
            ("5", Some(5.0)),
            ("1", Some(1.0)),
            ("90", Some(90.0)),
        ];
        assert_eq!(
            order_of(&even.map(|(name, s)| lasting(name, &[], s))),
            ["90", "new", "20", "5", "1"]
        );
    }

    #[test]
    fn estimates_total_time_from_earlier_runs() {
        let tasks = [
            lasting("a", &[], 10.0),
            lasting("b", &["a"], 60.0),
            lasting("c", &["a"], 30.0),
            lasting("d", &[], 20.0),
            lasting("e", &["b", "c"], 5.0),
        ];
        let on = |cores, memory| estimate(&tasks, Limits { cores, memory });
        assert_eq!(on(1, 100), 125.0);
        assert_eq!(on(2, 100), 75.0);
        // Only one job fits into memory.
        assert_eq!(on(2, 1), 125.0);
        assert_eq!(estimate(&[], Limits { cores: 2, memory: 1 }), 0.0);
    }

    #[test]
    fn shows_the_time_left_unless_a_time_is_unknown() {
        let reported = |tasks: &[Task]| {
            let reports = Mutex::new(Vec::new());
            let left = |seconds: Option<f64>| lock(&reports).push(seconds.map(f64::round));
            let limits = Limits { cores: 1, memory: 100 };
            let work = |task: &Task, _| if task.name == "bad" { Err(()) } else { Ok(()) };
            run_tasks(tasks, limits, |_, _| false, left, work);
            reports.into_inner().unwrap()
        };
        let tasks = [lasting("a", &[], 60.0), lasting("b", &["a"], 30.0)];
        assert_eq!(reported(&tasks), [90.0, 30.0, 30.0, 0.0].map(Some));
        // What requires a failed task is not built.
        let tasks = [lasting("bad", &[], 60.0), lasting("b", &["bad"], 30.0)];
        assert_eq!(reported(&tasks), [90.0, 0.0].map(Some));
        let tasks = [lasting("new", &[], None), lasting("b", &["new"], 30.0)];
        assert_eq!(reported(&tasks), [None, Some(30.0), Some(30.0), Some(0.0)]);
    }

    #[test]
    fn propagates_a_panic_without_deadlock() {
        let tasks = [task("a", &[], 1), task("b", &["a"], 1), task("c", &["b"], 1)];
        let run = || {
            run::<(), ()>(&tasks, Limits { cores: 3, memory: 9 }, true, |_, _| {
                std::panic::panic_any("x")
            })
        };
        // On this thread it is the panic itself, on another one the message of their scope.
        let panic = catch_unwind(run).unwrap_err();
        let text = panic.downcast_ref::<&str>().copied();
        assert!(matches!(text, Some("x" | "a scoped thread panicked")), "{text:?}");
    }

    #[test]
    fn failure_that_nothing_requires_stops_others_only_on_request() {
        let tasks = [task("a", &[], 1), task("b", &[], 1)];
        let limits = Limits { cores: 1, memory: 100 };
        let work = |task: &Task, _| if task.name == "a" { Err(7) } else { Ok(()) };
        assert_eq!(run(&tasks, limits, false, work), [End::Failed(7), End::Done(())]);
        let skipped = End::Skipped("another component failed".to_owned());
        let fatal = |error: &i32, _| *error == 7;
        assert_eq!(run_tasks(&tasks, limits, fatal, |_| (), work), [End::Failed(7), skipped]);
    }

    #[test]
    fn failure_skips_dependents_or_everything() {
        let tasks = [task("a", &[], 1), task("b", &["a"], 1), task("c", &[], 1)];
        let limits = Limits { cores: 1, memory: 100 };
        let run = |keep_going| {
            run(
                &tasks,
                limits,
                keep_going,
                |task, _| if task.name == "a" { Err(()) } else { Ok(()) },
            )
        };
        let skipped = |reason: &str| End::Skipped(reason.to_owned());
        assert_eq!(
            run(true),
            [End::Failed(()), skipped("requires `a`, which was not built"), End::Done(())]
        );
        assert_eq!(
            run(false),
            [
                End::Failed(()),
                skipped("requires `a`, which was not built"),
                skipped("another component failed")
            ]
        );
    }
}
