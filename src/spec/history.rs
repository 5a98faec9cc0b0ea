//! Release and changelog of a component, derived from the git history of its pin,
//! its folder, and its source if that lies in the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::error::{Diagnose, Kind};
use crate::names::ComponentName;
use crate::process::{Command, ProcessError, quote};
use crate::sources;
use crate::stack::Stack;
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{
    CLOSURE_FILE, Component, GENERATED, GENERATED_PINS, Lock, MANIFEST, Pin, PinSet, Source, Workspace,
};

/// The most changelog entries that a spec carries; older ones stay in git.
const MAX_ENTRIES: usize = 30;

/// 1990-01-01, the earliest date that rpm takes in a changelog (build/parseChangelog.c,
/// `dateToTimet`). Stands where there is no history to take a date from.
const EARLIEST: i64 = 631_152_000;

/// Keys of rocmrpm.toml, component.toml, chroots and providers that change no package: inspection,
/// lint, audit, wheels, the index, the repository and container files read them, or whoever runs
/// the build.
const JUDGEMENTS: &[&str] = &[
    "inspect",
    "lint",
    "libraries",
    "symbol-versions",
    "search-path-tag",
    "wheel",
    "wheels",
    "index",
    "offline",
    "packages",
    "repository",
    "signing",
    "container",
    "ubuntu",
    "timeout",
    "build-space",
    "memory-per-job",
];

/// What a user's own configuration must not change.
const SETTINGS: &[&str] = &["-c", "core.quotePath=false", "-c", "log.showRoot=true"];

/// What git sets for its own hooks, and would make it look at another repository.
const GIT_VARIABLES: &[&str] =
    &["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"];

/// One commit that touched the workspace.
#[derive(Debug, Clone)]
struct Commit {
    hash: String,
    seconds: i64,
    author: String,
    email: String,
    subject: String,
    paths: Vec<String>,
}

/// The history of a workspace's pins, templates and sources, newest first.
#[derive(Debug, Clone, Default)]
pub struct History {
    commits: Vec<Commit>,
    /// The pin set as each commit that touched it left it.
    sets: BTreeMap<String, PinSet>,
    /// Files with changes that are not committed.
    uncommitted: BTreeSet<String>,
    /// The pin set's path in the workspace.
    pins_path: String,
    /// The path of its lock file.
    lock_path: String,
    /// The path of the pins of its Python closure.
    closure_path: String,
    /// Files and folders that concern every component.
    shared: Vec<String>,
    /// Something the user should know about the history.
    pub warning: Option<String>,
}

/// A component's Release and changelog, as they go into its spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The value of `Release:`, such as `2%{?dist}`, or `3~dirty%{?dist}` where
    /// something is not committed or a pin is overridden.
    pub release: String,
    /// The text below `%changelog`.
    pub changelog: String,
    /// Whether the release says `~dirty`.
    pub dirty: bool,
    /// The newest entry's date, in seconds since 1970.
    pub seconds: i64,
}

/// git cannot tell the history of a workspace that it keeps.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the git history of `{}`", root.display())]
pub struct HistoryError {
    root: PathBuf,
    source: ProcessError,
}

impl Diagnose for HistoryError {
    fn kind(&self) -> Kind {
        self.source.kind()
    }

    fn hints(&self) -> Vec<String> {
        let mut hints = self.source.hints();
        if self.source.to_string().contains("dubious ownership") {
            let root = quote(&self.root.to_string_lossy());
            hints.push(format!("if you trust its owner: git config --global --add safe.directory {root}"));
        }
        hints
    }
}

impl History {
    /// Reads the history of a workspace; an empty one if it is not in git.
    pub fn read(workspace: &Workspace) -> Result<Self, HistoryError> {
        let set = &workspace.pins.name;
        let mut history = Self {
            pins_path: format!("pins/{set}.toml"),
            lock_path: format!("pins/{set}.lock"),
            closure_path: format!("pins/{}{GENERATED_PINS}.toml", workspace.closure_stem()),
            // What every component's spec depends on.
            shared: vec![
                MANIFEST.to_owned(),
                "specs-templates/_shared".to_owned(),
                format!("mock-configs/{}.toml", workspace.chroot.name),
                format!("mock-configs/rocm/{}.toml", workspace.provider.name),
            ],
            ..Self::default()
        };
        if !workspace.chroot.is_host() {
            history.shared.push("mock-configs/mock.cfg.tera".to_owned());
        }
        if workspace.root.ancestors().any(|dir| dir.join(".git").exists()) {
            let fail = |source| HistoryError { root: workspace.root.clone(), source };
            history.load(workspace).map_err(fail)?;
        }
        Ok(history)
    }

    fn load(&mut self, workspace: &Workspace) -> Result<(), ProcessError> {
        let git = |args: &[&str]| {
            let git = Command::new("git").args(SETTINGS).args(args);
            let git = git.cwd(&workspace.root).env("LC_ALL", "C");
            GIT_VARIABLES.iter().fold(git, |git, name| git.env_remove(*name))
        };
        let folders: Vec<String> =
            workspace.pins.pins.values().filter_map(|at| folder(&at.value)).map(str::to_owned).collect();
        let pin_paths = [&self.pins_path, &self.lock_path, &self.closure_path].map(String::clone);
        let mut paths = [pin_paths.as_slice(), &["specs-templates".to_owned()]].concat();
        paths.extend(self.shared.iter().chain(&folders).cloned());

        let prefix = git(&["rev-parse", "--show-prefix"]).text()?;
        let status = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored", "--no-renames"];
        let status = git(&status).args(["--ignore-submodules=none", "--"]).args(&paths).output()?;
        for line in String::from_utf8_lossy(&status).split('\0') {
            let Some(path) = line.get(3..).and_then(|path| path.strip_prefix(&prefix)) else { continue };
            // What git ignores is part of a source all the same, unless we do not pack it.
            let packed =
                || folders.iter().any(|folder| below(path, folder) && sources::is_packed(path, folder));
            if !line.starts_with("!!") || packed() {
                self.uncommitted.insert(path.to_owned());
            }
        }
        // A repository without commits makes `git log` fail; it has no history.
        if !git(&["rev-parse", "--quiet", "--verify", "HEAD"]).run()?.success() {
            return Ok(());
        }
        if git(&["rev-parse", "--is-shallow-repository"]).text()? == "true" {
            let text = "the git clone is shallow, so that Release and changelog begin late; \
                        `git fetch --unshallow` completes it";
            self.warning = Some(text.into());
        }
        let format = "--format=%x01%H%x02%ct%x02%an%x02%ae%x02%s%x02";
        // One line of history: what a merge brought in counts as the merge's change, so
        // that two branches' pins never appear to alternate.
        let line = ["log", format, "--first-parent", "--diff-merges=first-parent", "--name-only"];
        let line = git(&line).args(["--no-renames", "--relative", "--ignore-submodules=none"]);
        let log = line.args(["--no-show-signature", "--"]).args(&paths).output()?;
        self.commits = String::from_utf8_lossy(&log).split('\x01').filter_map(parse_commit).collect();
        // Dates must not rise towards the past, or rpm refuses the changelog.
        let mut latest = i64::MAX;
        for commit in &mut self.commits {
            commit.seconds = commit.seconds.clamp(EARLIEST, latest.max(EARLIEST));
            latest = commit.seconds;
        }
        let texts = |wanted: String| -> Result<Vec<String>, ProcessError> {
            match wanted.is_empty() {
                true => Ok(Vec::new()),
                false => Ok(split_batch(&git(&["cat-file", "--batch"]).stdin(wanted).output()?)),
            }
        };
        self.forget_judgements(workspace, |commit, path| format!("{commit}:{prefix}{path}\n"), texts)?;
        let pins = pin_paths;
        let touching: Vec<&Commit> =
            self.commits.iter().filter(|c| c.paths.iter().any(|path| pins.contains(path))).collect();
        let wanted: String = touching
            .iter()
            .flat_map(|commit| pins.iter().map(|path| format!("{}:{prefix}{path}\n", commit.hash)))
            .collect();
        let texts = texts(wanted)?;
        for (commit, texts) in touching.iter().zip(texts.chunks(pins.len())) {
            let file =
                |at: usize| File { name: pins[at].clone(), text: texts.get(at).cloned().unwrap_or_default() };
            // Mistakes of the past are not reported: what is unreadable is no pin.
            let mut ignored = Vec::new();
            let lock = Lock::read(&file(1), &mut ignored);
            let none = Overrides::new();
            let mut set = PinSet::read("", file(0), &lock, &none, &mut ignored);
            set.add_generated(PinSet::read("", file(2), &Lock::default(), &none, &mut ignored));
            self.sets.insert(commit.hash.clone(), set);
        }
        Ok(())
    }

    /// Takes changes of [`JUDGEMENTS`] out of the history: they say how packages are
    /// judged or what is made of them and change nothing in them, so that a waiver needs no
    /// new Release, and no new build.
    fn forget_judgements(
        &mut self,
        workspace: &Workspace,
        object: impl Fn(&str, &str) -> String,
        texts: impl Fn(String) -> Result<Vec<String>, ProcessError>,
    ) -> Result<(), ProcessError> {
        let is_one = |path: &&String| match path.strip_prefix("specs-templates/") {
            Some(path) => path.ends_with("/component.toml"),
            None => path.as_str() == MANIFEST || path.starts_with("mock-configs/") && path.ends_with(".toml"),
        };
        // Oldest first, each with the index of its commit.
        let changes: Vec<(usize, String)> = (0..self.commits.len())
            .rev()
            .flat_map(|at| self.commits[at].paths.iter().filter(is_one).map(move |path| (at, path.clone())))
            .collect();
        let wanted = changes.iter().map(|(at, path)| object(&self.commits[*at].hash, path)).collect();
        let mut recipes = BTreeMap::new();
        for ((at, path), text) in changes.into_iter().zip(texts(wanted)?) {
            let recipe = recipe(&text);
            if recipe.is_some() && recipes.get(&path) == Some(&recipe) {
                self.commits[at].paths.retain(|other| *other != path);
            }
            recipes.insert(path, recipe);
        }
        self.uncommitted.retain(|path| match recipes.get(path) {
            Some(Some(committed)) => {
                let now = fs_err::read_to_string(workspace.root.join(path)).ok();
                now.and_then(|text| recipe(&text)).as_ref() != Some(committed)
            }
            _ => true,
        });
        Ok(())
    }

    /// Tells whether a component's own spec or source has something that is not
    /// committed or comes from the command line.
    fn is_dirty(&self, workspace: &Workspace, component: &Component) -> bool {
        let pin = workspace.pin(component);
        let own = self.own_paths(workspace, component, pin);
        let touched = |path: &String| own.iter().any(|own| below(path, own));
        let pins_touched = [&self.pins_path, &self.lock_path, &self.closure_path]
            .iter()
            .any(|path| self.uncommitted.contains(*path));
        pin.overridden
            || (pins_touched && self.committed_pin(component) != Some(pin))
            || self.uncommitted.iter().any(touched)
    }

    /// Returns the pin as the newest commit has it.
    fn committed_pin(&self, component: &Component) -> Option<&Pin> {
        let set = self.commits.iter().find_map(|commit| self.sets.get(&commit.hash))?;
        find(set, &component.name)
    }

    /// Returns the paths whose changes concern a component.
    fn own_paths(&self, workspace: &Workspace, component: &Component, pin: &Pin) -> Vec<String> {
        let dir = component.dir.strip_prefix(&workspace.root).unwrap_or(&component.dir);
        let mut own = vec![dir.to_string_lossy().into_owned()];
        if component.closure.is_some() {
            let stem = workspace.closure_stem();
            own.push(format!("specs-templates/{GENERATED}/{stem}/{CLOSURE_FILE}"));
        }
        own.extend(self.shared.iter().cloned());
        own.extend(folder(pin).map(str::to_owned));
        own
    }

    /// Counts the commits to what every build root is made from: the manifest, the chroot's
    /// definition and the provider's.
    pub fn shared_commits(&self) -> usize {
        let root: Vec<&String> = self.shared.iter().filter(|path| path.ends_with(".toml")).collect();
        let concerns = |commit: &&Commit| commit.paths.iter().any(|path| root.contains(&path));
        self.commits.iter().filter(concerns).count()
    }

    /// Derives a component's Release: how many commits concern it since its version
    /// last changed.
    pub fn release(&self, stack: &Stack<'_>, component: &Component) -> Release {
        let workspace = stack.workspace;
        let pin = workspace.pin(component);
        // What is built on something new is itself something new.
        let family = stack.select(&[component]);
        let own: Vec<String> =
            family.iter().flat_map(|c| self.own_paths(workspace, c, workspace.pin(c))).collect();
        let concerns = |path: &String| own.iter().any(|own| below(path, own));
        let family_pins = |set| family.iter().map(|c| find(set, &c.name)).collect::<Vec<_>>();
        let mut family_before = vec![None; family.len()];
        // Oldest first, with the version that each commit left pinned.
        let mut entries: Vec<(&Commit, String)> = Vec::new();
        let mut before: Option<&Pin> = None;
        for commit in self.commits.iter().rev() {
            let now = match self.sets.get(&commit.hash) {
                Some(set) => find(set, &component.name),
                None => before,
            };
            let family_now = self.sets.get(&commit.hash).map_or_else(|| family_before.clone(), family_pins);
            if family_now != family_before || commit.paths.iter().any(concerns) {
                let version = now.map_or_else(|| pin.version.clone(), |p| p.version.clone());
                entries.push((commit, version));
            }
            (before, family_before) = (now, family_now);
        }
        let committed = before.is_some_and(|before| before.version == pin.version);
        let dirty = family.iter().any(|c| self.is_dirty(workspace, c));

        let mut numbered: Vec<(&Commit, &str, usize)> = Vec::new();
        for (commit, version) in &entries {
            let number = match numbered.last() {
                Some((_, last, number)) if last == version => number + 1,
                _ => 1,
            };
            numbered.push((commit, version, number));
        }
        let last = numbered.last().filter(|(_, version, _)| committed && *version == pin.version);
        let number = last.map_or(1, |(_, _, number)| if dirty { number + 1 } else { *number });
        let suffix = if dirty { "~dirty" } else { "" };
        let seconds = numbered.last().map_or_else(no_date, |(commit, ..)| commit.seconds);

        let mut changelog = Vec::new();
        if dirty || last.is_none() {
            let what = if pin.overridden {
                format!("Version {} from the command line", pin.version)
            } else if dirty {
                "Changes that are not committed".to_owned()
            } else {
                format!("Version {}", pin.version)
            };
            let who = "rocmrpm <rocmrpm@localhost>";
            changelog.push(entry(seconds, who, &pin.version, &format!("{number}{suffix}"), &what));
        }
        for (commit, version, number) in numbered.iter().rev().take(MAX_ENTRIES) {
            let who = format!("{} <{}>", commit.author, commit.email);
            changelog.push(entry(commit.seconds, &who, version, &number.to_string(), &commit.subject));
        }
        Release {
            release: format!("{number}{suffix}%{{?dist}}"),
            changelog: changelog.join("\n"),
            dirty,
            seconds,
        }
    }
}

/// How often files of a workspace changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commits {
    /// How many commits changed one of them.
    pub number: usize,
    /// Whether one has changes that are not committed.
    pub dirty: bool,
    /// The newest commit's date, in seconds since 1970.
    pub seconds: i64,
}

/// Counts the commits that changed these files of a workspace, as Release counts them: only
/// first parents.
pub fn commits_of(workspace: &Workspace, paths: &[String]) -> Result<Commits, HistoryError> {
    let none = Commits { number: 0, dirty: false, seconds: no_date() };
    if !workspace.root.ancestors().any(|dir| dir.join(".git").exists()) {
        return Ok(none);
    }
    let git = |args: &[&str]| {
        let git = Command::new("git").args(SETTINGS).args(args).arg("--").args(paths);
        let git = git.cwd(&workspace.root).env("LC_ALL", "C");
        GIT_VARIABLES.iter().fold(git, |git, name| git.env_remove(*name))
    };
    let fail = |source| HistoryError { root: workspace.root.clone(), source };
    let status = ["status", "--porcelain=v1", "--untracked-files=all", "--no-renames"];
    let dirty = !git(&status).output().map_err(fail)?.is_empty();
    let log = git(&["log", "--format=%ct", "--first-parent", "--no-show-signature"]).run().map_err(fail)?;
    // A repository without commits makes `git log` fail; it has no history.
    let log = if log.success() { String::from_utf8_lossy(&log.stdout).into_owned() } else { String::new() };
    let times: Vec<i64> = log.lines().filter_map(|line| line.parse().ok()).collect();
    let seconds = times.iter().max().map_or(none.seconds, |newest| (*newest).max(EARLIEST));
    Ok(Commits { number: times.len(), dirty, seconds })
}

/// Returns what the workspace's, a component's, chroot's or provider's file says of how
/// packages are built; `None` if it cannot be read.
fn recipe(text: &str) -> Option<toml::Table> {
    let mut table: toml::Table = toml::from_str(text).ok()?;
    JUDGEMENTS.iter().for_each(|key| drop(table.remove(*key)));
    Some(table)
}

fn find<'s>(set: &'s PinSet, name: &ComponentName) -> Option<&'s Pin> {
    set.pins.get(name).map(|at| &at.value)
}

/// Returns the folder that a pin's source is, if it is one.
fn folder(pin: &Pin) -> Option<&str> {
    match &pin.source {
        Source::Folder { path } => path.to_str(),
        _ => None,
    }
}

/// Tells whether a path is this file or folder, or inside it. git reports a submodule
/// by the folder's own name.
fn below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the date of what has no history: `SOURCE_DATE_EPOCH`, or the earliest.
/// Source: <https://reproducible-builds.org/specs/source-date-epoch/>.
fn no_date() -> i64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.trim().parse().ok());
    given.unwrap_or(EARLIEST).max(EARLIEST)
}

fn parse_commit(record: &str) -> Option<Commit> {
    let mut fields = record.split('\x02');
    let mut next = || fields.next().map(str::to_owned);
    Some(Commit {
        hash: next()?,
        seconds: next()?.parse().ok()?,
        author: next()?,
        email: next()?,
        subject: next()?,
        paths: next()?.lines().filter(|l| !l.is_empty()).map(str::to_owned).collect(),
    })
}

/// Splits the output of `git cat-file --batch`: `<oid> <type> <size>`, a line feed,
/// the content, a line feed; `<name> missing` for what is not there.
fn split_batch(mut bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        bytes = &bytes[end + 1..];
        let size = head.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
        let text = match size.and_then(|size| bytes.get(..size).map(|text| (size, text))) {
            Some((size, text)) => {
                bytes = bytes.get(size + 1..).unwrap_or_default();
                String::from_utf8_lossy(text).into_owned()
            }
            None => String::new(),
        };
        texts.push(text);
    }
    texts
}

fn entry(seconds: i64, who: &str, version: &str, release: &str, what: &str) -> String {
    let date = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    let date = date.strftime("%a %b %d %Y");
    format!("* {date} {} - {version}-{release}\n- {}\n", escape(who), escape(what))
}

/// Doubles `%`, so that rpm does not expand what people wrote.
fn escape(text: &str) -> String {
    text.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_split() {
        let bytes = b"aa blob 3\nx\ny\nbb missing\ncc blob 0\n\n";
        assert_eq!(split_batch(bytes), ["x\ny", "", ""]);
    }

    #[test]
    fn rpm_takes_the_date_that_stands_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let spec = dir.path().join("demo.spec");
        let head = "Name: demo\nVersion: 1\nRelease: 1\nSummary: x\nLicense: MIT\n%description\nx\n%files\n";
        let changelog = entry(EARLIEST, "A B <a@b>", "1", "1", "x");
        fs_err::write(&spec, format!("{head}%changelog\n{changelog}")).unwrap();
        let query =
            Command::new("rpmspec").args(["-q", "--qf", "%{CHANGELOGTIME}"]).arg(&spec).text().unwrap();
        // rpm takes noon of the day.
        assert_eq!(query.parse::<i64>().unwrap() / 86_400, EARLIEST / 86_400);
    }

    #[test]
    fn entries_are_in_rpms_form() {
        let text = entry(EARLIEST, "A B <a@b>", "1.0", "2", "Use 100% of it");
        assert_eq!(text, "* Mon Jan 01 1990 A B <a@b> - 1.0-2\n- Use 100%% of it\n");
    }
}
