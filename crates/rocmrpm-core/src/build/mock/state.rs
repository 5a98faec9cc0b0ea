//! Follows mock through its logs while it runs: `state.log` for its own steps, `build.log` for the
//! scripts that rpmbuild executes. Does not explain failures.

use std::path::Path;

use crate::build::tail::Tail;

/// A step of mock that is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MockStep {
    /// A step started; the text is for the terminal.
    Began(String),
    /// rpmbuild is running inside the build root.
    Building,
    /// The build root and its cache exist.
    RootReady,
}

/// Reads the logs of one run of mock as they grow.
pub(super) struct Follower {
    state: Tail,
    build: Tail,
    last: String,
}

impl Follower {
    /// Returns a follower of the logs in mock's result folder, starting at their current end.
    pub fn new(results: &Path) -> Self {
        Self {
            state: Tail::new(results.join("state.log")),
            build: Tail::new(results.join("build.log")),
            last: String::new(),
        }
    }

    /// Reads what is new, and passes each step to `report`.
    pub fn read(&mut self, mut report: impl FnMut(MockStep)) {
        let last = &mut self.last;
        let mut began = |what: String, report: &mut dyn FnMut(MockStep)| {
            if *last != what {
                last.clone_from(&what);
                report(MockStep::Began(what));
            }
        };
        self.state.lines(|line| {
            let Some(change) = change_in(line) else { return };
            match change {
                Change::Start(name) => {
                    if name.starts_with("rpmbuild") {
                        report(MockStep::Building);
                    }
                    if let Some(words) = words_of(name) {
                        began(words, &mut report);
                    }
                }
                Change::Finish("chroot init") => report(MockStep::RootReady),
                Change::Finish(_) => {}
            }
        });
        self.build.lines(|line| {
            // rpm, build/build.c: "Executing(%s): %s\n".
            let script = line.strip_prefix("Executing(").and_then(|rest| rest.split_once("): "));
            if let Some((script, _)) = script.filter(|(script, _)| script.starts_with('%')) {
                began(script.to_owned(), &mut report);
            }
        });
    }
}

enum Change<'l> {
    Start(&'l str),
    Finish(&'l str),
}

/// Reads a line such as `2026-11-21 20:01:02,345 - Start: chroot init`. Source: mock,
/// `mockbuild/state.py` and `logging.ini`. The bootstrap root's own lines are left out.
fn change_in(line: &str) -> Option<Change<'_>> {
    let (_, text) = line.split_once(" - ")?;
    let start = text.strip_prefix("Start: ").map(Change::Start);
    start.or_else(|| text.strip_prefix("Finish: ").map(Change::Finish))
}

/// Returns the description of one of mock's steps for the terminal; `None` for steps that take no
/// time. Source: `state.start` in mock's sources.
fn words_of(step: &str) -> Option<String> {
    let words = match step {
        "chroot init" => "preparing the build root",
        "unpacking root cache" => "unpacking the cached build root",
        "creating root cache" => "caching the build root",
        "Waiting for rootcache lock" | "Waiting for yumcache lock" => {
            "waiting for another mock's cache"
        }
        "rpmbuild -bs" => "rpmbuild -bs",
        step if step.starts_with("installing minimal buildroot") => "installing the build root",
        step if step.starts_with("build setup for ") => "installing BuildRequires",
        step if step.starts_with("rpmbuild ") => "rpmbuild",
        step if step.ends_with(" update") => "updating the build root",
        _ => return None,
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tail::CHUNK;

    fn append(path: &Path, text: &str) {
        use std::io::Write as _;
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn reports_steps_once_and_in_order_while_the_logs_grow() {
        let dir = tempfile::tempdir().unwrap();
        let (state, build) = (dir.path().join("state.log"), dir.path().join("build.log"));
        let mut follower = Follower::new(dir.path());
        let mut steps = Vec::new();
        follower.read(|step| steps.push(step));
        assert_eq!(steps, [], "the log does not exist yet");
        append(
            &state,
            "2026-11-21 12:02:07,109 - Start: run\n2026-11-21 12:02:07,110 - Start: chroot init\n\
             2026-11-21 12:02:07,111 - Start(bootstrap): chroot init\n2026-11-21 12:02:07,300 - Start: unpack",
        );
        follower.read(|step| steps.push(step));
        append(
            &state,
            "ing root cache\n2026-11-21 12:02:20,000 - Finish: unpacking root cache\n\
             2026-11-21 12:02:21,000 - Finish: chroot init\n\
             2026-11-21 12:02:21,001 - Start: build phase for x-1-1.src.rpm\n\
             2026-11-21 12:02:21,002 - Start: build setup for x-1-1.src.rpm\n\
             2026-11-21 12:02:22,000 - Start: rpmbuild x-1-1.src.rpm\n",
        );
        append(
            &build,
            "Executing(%prep): /bin/sh -e /var/tmp/x\nExecuting(x): y\nExecuting(%build): /bin/sh\n",
        );
        follower.read(|step| steps.push(step));
        follower.read(|step| steps.push(step));
        let began = |words: &str| MockStep::Began(words.to_owned());
        assert_eq!(
            steps,
            [
                began("preparing the build root"),
                began("unpacking the cached build root"),
                MockStep::RootReady,
                began("installing BuildRequires"),
                MockStep::Building,
                began("rpmbuild"),
                began("%prep"),
                began("%build"),
            ]
        );
    }

    #[test]
    fn skips_output_of_earlier_runs_and_cuts_long_lines() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state.log");
        append(&state, "x - Start: chroot init\n");
        let mut follower = Follower::new(dir.path());
        append(&state, &"y".repeat(3 * CHUNK));
        append(&state, "\nx - Finish: chroot init\n");
        let mut steps = Vec::new();
        follower.read(|step| steps.push(step));
        assert_eq!(steps, [MockStep::RootReady]);
    }
}
