//! Release and changelog of a component, derived from the git history of its pin, its folder,
//! and its source if that lies in the workspace. Which files count is decided in `scope`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::scope::{Family, Scope};
use crate::error::{Diagnose, Kind};
use crate::names::ComponentName;
use crate::process::{Command, ProcessError, quote};
use crate::sources;
use crate::stack::Stack;
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{
    CLOSURE_FILE, Component, GENERATED, Lock, MANIFEST, Pin, PinSet, Source, Workspace, compare,
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
    "end-of-life",
    "container-image",
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
    /// The pins as each commit that touched them left them.
    sets: BTreeMap<String, Pinned>,
    /// Files with changes that are not committed.
    uncommitted: BTreeSet<String>,
    scope: Scope,
    /// Something the user should know about the history.
    pub warning: Option<String>,
}

/// The pins of a set as they were once.
#[derive(Debug, Clone, Default)]
pub(super) struct Pinned {
    /// Those that packagers write.
    pub own: Option<Arc<PinSet>>,
    /// Those of its closures, by the paths of their files.
    pub closures: BTreeMap<String, Arc<PinSet>>,
}

/// A commit that concerns a component.
struct Entry<'h> {
    commit: &'h Commit,
    /// The versions that the component then had, in whatever chroot; none if it had no pin.
    versions: BTreeSet<&'h str>,
    /// The version that it had in the chosen chroot.
    here: Option<&'h str>,
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
        let mut history = Self { scope: Scope::of(workspace), ..Self::default() };
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
        let mut paths = self.scope.pathspecs();
        paths.extend(folders.iter().cloned());

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
        let object = |commit: &str, path: &str| format!("{commit}:{prefix}{path}\n");
        self.forget_judgements(workspace, object, texts)?;
        self.read_pins(object, texts)
    }

    /// Reads the pins as each commit that touched them left them.
    fn read_pins(
        &mut self,
        object: impl Fn(&str, &str) -> String,
        texts: impl Fn(String) -> Result<Vec<String>, ProcessError>,
    ) -> Result<(), ProcessError> {
        let Scope { pins, lock, .. } = &self.scope;
        // Oldest first; the lock file always behind the pins that it completes.
        let mut files: Vec<(&str, &str)> = Vec::new();
        for commit in self.commits.iter().rev() {
            let hash = commit.hash.as_str();
            if commit.paths.iter().any(|path| path == pins || path == lock) {
                files.extend([(hash, pins.as_str()), (hash, lock)]);
            }
            let closures = commit.paths.iter().filter(|path| self.scope.is_closure_pins(path));
            files.extend(closures.map(|path| (hash, path.as_str())));
        }
        let texts = texts(files.iter().map(|(hash, path)| object(hash, path)).collect())?;
        let mut files = files.into_iter().zip(texts);
        let mut now = Pinned::default();
        let none = Overrides::new();
        // Mistakes of the past are not reported: what is unreadable is no pin.
        let mut ignored = Vec::new();
        let mut sets = BTreeMap::new();
        while let Some(((hash, path), text)) = files.next() {
            let file = |name: &str, text| File { name: name.to_owned(), text };
            if path == pins {
                let text_of_lock = files.next().map(|(_, text)| text).unwrap_or_default();
                let lock = Lock::read(&file(lock, text_of_lock), &mut ignored);
                now.own = Some(Arc::new(PinSet::read("", file(path, text), &lock, &none, &mut ignored)));
            } else {
                let set = PinSet::read("", file(path, text), &Lock::default(), &none, &mut ignored);
                now.closures.insert(path.to_owned(), Arc::new(set));
            }
            sets.insert(hash.to_owned(), now.clone());
        }
        self.sets = sets;
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
        let Scope { pins, lock, closure, .. } = &self.scope;
        let pins_touched = [pins, lock, closure].iter().any(|path| self.uncommitted.contains(*path));
        pin.overridden
            || (pins_touched && self.committed_pin(component) != Some(pin))
            || self.uncommitted.iter().any(touched)
    }

    /// Returns the pin as the newest commit has it.
    fn committed_pin(&self, component: &Component) -> Option<&Pin> {
        let pinned = self.commits.iter().find_map(|commit| self.sets.get(&commit.hash))?;
        self.here(pinned, &component.name)
    }

    /// Returns a component's pin for the chosen chroot.
    fn here<'p>(&self, pinned: &'p Pinned, name: &ComponentName) -> Option<&'p Pin> {
        let own = pinned.own.as_ref().and_then(|set| find(set, name));
        own.or_else(|| pinned.closures.get(&self.scope.closure).and_then(|set| find(set, name)))
    }

    /// Returns the paths whose changes concern a component of the chosen chroot.
    fn own_paths(&self, workspace: &Workspace, component: &Component, pin: &Pin) -> Vec<String> {
        let dir = component.dir.strip_prefix(&workspace.root).unwrap_or(&component.dir);
        let mut own = vec![dir.to_string_lossy().into_owned()];
        if component.closure.is_some() {
            let stem = workspace.closure_stem();
            own.push(format!("specs-templates/{GENERATED}/{stem}/{CLOSURE_FILE}"));
        }
        own.extend(self.scope.shared.iter().cloned());
        own.extend(folder(pin).map(str::to_owned));
        own
    }

    /// Counts the commits to what every build root is made from: the manifest, the chroot's
    /// definition and the provider's.
    pub fn shared_commits(&self) -> usize {
        let shared = self.scope.shared.iter();
        let root: Vec<&String> = shared.filter(|path| path.ends_with(".toml")).collect();
        let concerns = |commit: &&Commit| commit.paths.iter().any(|path| root.contains(&path));
        self.commits.iter().filter(concerns).count()
    }

    /// Derives a component's Release: how many commits concern it, in whatever chroot, since its
    /// version last changed. A generated component that is an RPM of its own has `0.` before the
    /// number, so that a release's own package of the same version is the newer one.
    pub fn release(&self, stack: &Stack<'_>, component: &Component) -> Release {
        let workspace = stack.workspace;
        let pin = workspace.pin(component);
        let entries = self.entries(workspace, component);
        let dirty = stack.select(&[component]).iter().any(|c| self.is_dirty(workspace, c));
        let count = count(&entries, &pin.version);
        let minor = if is_member(workspace, component) { "0." } else { "" };
        let number = if dirty { count + 1 } else { count.max(1) };
        let suffix = if dirty { "~dirty" } else { "" };
        let seconds = entries.last().map_or_else(no_date, |entry| entry.commit.seconds);

        let mut changelog = Vec::new();
        if dirty || count == 0 {
            let what = if pin.overridden {
                format!("Version {} from the command line", pin.version)
            } else if dirty {
                "Changes that are not committed".to_owned()
            } else {
                format!("Version {}", pin.version)
            };
            let who = "rocmrpm <rocmrpm@localhost>";
            let release = format!("{minor}{number}{suffix}");
            changelog.push(changelog_entry(seconds, who, &pin.version, &release, &what));
        }
        for (at, Entry { commit, versions, here }) in entries.iter().enumerate().rev().take(MAX_ENTRIES) {
            let newest = || versions.iter().copied().max_by(|a, b| compare(a, b));
            let version = match at + count >= entries.len() {
                true => pin.version.as_str(),
                false => here.or_else(newest).unwrap_or(&pin.version),
            };
            let who = format!("{} <{}>", commit.author, commit.email);
            let release = format!("{minor}{}", self::count(&entries[..=at], version));
            changelog.push(changelog_entry(commit.seconds, &who, version, &release, &commit.subject));
        }
        Release {
            release: format!("{minor}{number}{suffix}%{{?dist}}"),
            changelog: changelog.join("\n"),
            dirty,
            seconds,
        }
    }

    /// Returns the commits that concern a component in some chroot, oldest first.
    fn entries<'h>(&'h self, workspace: &Workspace, component: &Component) -> Vec<Entry<'h>> {
        let family = Family::of(&self.scope, workspace, component);
        let (mut now, mut pins): (Option<&Pinned>, Vec<(&str, &Pin)>) = (None, Vec::new());
        let mut entries = Vec::new();
        for commit in self.commits.iter().rev() {
            let mut changed = false;
            if let Some(pinned) = self.sets.get(&commit.hash) {
                let pins_now = family.pins(pinned);
                changed = pins_now != pins;
                (now, pins) = (Some(pinned), pins_now);
            }
            if changed || commit.paths.iter().any(|path| family.concerns(path)) {
                entries.push((commit, now));
            }
        }
        let entry = |(commit, pinned): (&'h Commit, Option<&'h Pinned>)| {
            let versions = pinned.into_iter().flat_map(|pinned| pins_of(pinned, &component.name));
            let here = pinned.and_then(|pinned| self.here(pinned, &component.name));
            Entry {
                commit,
                versions: versions.map(|pin| pin.version.as_str()).collect(),
                here: here.map(|pin| pin.version.as_str()),
            }
        };
        entries.into_iter().map(entry).collect()
    }
}

/// Counts the newest commits since a component last had another version in all chroots. Those
/// from before it had a pin count.
fn count(entries: &[Entry<'_>], version: &str) -> usize {
    let has = |entry: &&Entry<'_>| entry.versions.is_empty() || entry.versions.contains(version);
    entries.iter().rev().take_while(has).count()
}

/// Returns a component's pins in all chroots.
fn pins_of<'p>(pinned: &'p Pinned, name: &ComponentName) -> impl Iterator<Item = &'p Pin> {
    let own = pinned.own.as_ref().and_then(|set| find(set, name));
    let closures = pinned.closures.values().filter_map(|set| find(set, name));
    own.into_iter().chain(closures.filter(move |_| own.is_none()))
}

/// Tells whether a component is a member of a Python closure that became an RPM of its own.
fn is_member(workspace: &Workspace, component: &Component) -> bool {
    let runtime = || workspace.with_closure().map(Component::runtime_name);
    component.generated.is_some() && runtime().as_deref() != Some(component.name.as_str())
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
pub(super) fn folder(pin: &Pin) -> Option<&str> {
    match &pin.source {
        Source::Folder { path } => path.to_str(),
        _ => None,
    }
}

/// Tells whether a path is this file or folder, or inside it. git reports a submodule
/// by the folder's own name.
pub(super) fn below(path: &str, folder: &str) -> bool {
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

fn changelog_entry(seconds: i64, who: &str, version: &str, release: &str, what: &str) -> String {
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
        let changelog = changelog_entry(EARLIEST, "A B <a@b>", "1", "1", "x");
        fs_err::write(&spec, format!("{head}%changelog\n{changelog}")).unwrap();
        let query =
            Command::new("rpmspec").args(["-q", "--qf", "%{CHANGELOGTIME}"]).arg(&spec).text().unwrap();
        // rpm takes noon of the day.
        assert_eq!(query.parse::<i64>().unwrap() / 86_400, EARLIEST / 86_400);
    }

    #[test]
    fn entries_are_in_rpms_form() {
        let text = changelog_entry(EARLIEST, "A B <a@b>", "1.0", "2", "Use 100% of it");
        assert_eq!(text, "* Mon Jan 01 1990 A B <a@b> - 1.0-2\n- Use 100%% of it\n");
    }
}
