//! Reads the history of a workspace from git. It does not derive a Release from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Commit, EARLIEST, History};
use crate::git::{Repository, RepositoryError};
use crate::names::is_commit;
use crate::sources;
use crate::spec::pinned::{Pinned, below, folders};
use crate::spec::scope::Scope;
use crate::workspace::document::File;
use crate::workspace::pins::Overrides;
use crate::workspace::{Lock, MANIFEST, PinSet, Workspace};

/// Keys in rocmrpm.toml, component.toml, chroots and providers that do not affect packages:
/// inspection, lint, audit, wheels, the index, the repository and container files use them, or they
/// control how the build runs. `memory-per-job` is not listed because templates write it into
/// specs.
const JUDGEMENTS: &[&str] = &[
    "check",
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
    "ccache",
];

impl History {
    /// Reads the history of a workspace; empty if it is not in git.
    pub fn read(workspace: &Workspace) -> Result<Self, RepositoryError> {
        let mut history = Self { scope: Scope::of(workspace), ..Self::default() };
        if let Some(repository) = Repository::find(&workspace.root)? {
            history.load(workspace, &repository)?;
        }
        Ok(history)
    }

    fn load(
        &mut self,
        workspace: &Workspace,
        repository: &Repository<'_>,
    ) -> Result<(), RepositoryError> {
        let folders: Vec<String> =
            workspace.pins.pins.values().flat_map(|at| folders(&at.value)).collect();
        let mut paths = self.scope.pathspecs();
        paths.extend(folders.iter().cloned());

        let changes = repository.changes(&paths)?;
        // Ignored files are part of a source too, if we pack them.
        let packed = |path: &String| {
            folders.iter().any(|folder| below(path, folder) && sources::is_packed(path, folder))
        };
        self.uncommitted = changes.changed;
        self.uncommitted.extend(changes.ignored.into_iter().filter(packed));
        if !repository.has_commits()? {
            return Ok(());
        }
        let shallow = repository.git(["rev-parse", "--is-shallow-repository"]).text();
        if shallow.map_err(repository.failed())? == "true" {
            let text = "the git clone is shallow, so Release and changelog are incomplete; \
                        run `git fetch --unshallow`";
            self.warning = Some(text.into());
        }
        self.commits = log(repository, &paths)?;
        self.forget_judgements(workspace, repository)?;
        self.read_pins(repository)
    }

    /// Reads the pins after each commit that changed them.
    fn read_pins(&mut self, repository: &Repository<'_>) -> Result<(), RepositoryError> {
        let Scope { pins, lock, .. } = &self.scope;
        // Oldest first. Each lock file follows the pins that it completes.
        let mut files: Vec<(&str, &str, Option<&str>)> = Vec::new();
        let mut now: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        for commit in self.commits.iter().rev() {
            let hash = commit.hash.as_str();
            let changes =
                commit.changes.iter().map(|(path, object)| (path.as_str(), object.as_deref()));
            now.extend(changes.clone());
            let object = |path: &str| now.get(path).copied().flatten();
            if [pins, lock].iter().any(|path| commit.changes.contains_key(*path)) {
                files.extend([pins, lock].map(|path| (hash, path.as_str(), object(path))));
            }
            let closures = changes.filter(|(path, _)| self.scope.is_closure_pins(path));
            files.extend(closures.map(|(path, object)| (hash, path, object)));
        }
        let texts = texts(repository, files.iter().map(|(_, _, object)| *object))?;
        let mut files = files.into_iter().zip(texts);
        let mut now = Pinned::default();
        let none = Overrides::new();
        // Errors in old commits are not reported; unreadable pins are skipped.
        let mut ignored = Vec::new();
        let mut sets = BTreeMap::new();
        while let Some(((hash, path, _), text)) = files.next() {
            let file = |name: &str, text| File { name: name.to_owned(), text };
            if path == pins {
                let text_of_lock = files.next().map(|(_, text)| text).unwrap_or_default();
                let lock = Lock::read(&file(lock, text_of_lock), &mut ignored);
                now.own =
                    Some(Arc::new(PinSet::read("", file(path, text), &lock, &none, &mut ignored)));
            } else {
                let set = PinSet::read("", file(path, text), &Lock::default(), &none, &mut ignored);
                now.closures.insert(path.to_owned(), Arc::new(set));
            }
            sets.insert(hash.to_owned(), now.clone());
        }
        self.sets = sets;
        Ok(())
    }

    /// Removes changes of [`JUDGEMENTS`] from the history. They affect how packages are checked or
    /// used, but not the packages, so that a waiver requires neither a new Release nor a rebuild.
    fn forget_judgements(
        &mut self,
        workspace: &Workspace,
        repository: &Repository<'_>,
    ) -> Result<(), RepositoryError> {
        // Oldest first, each with the index of its commit.
        let mut changes: Vec<(usize, String, Option<String>)> = Vec::new();
        for (at, commit) in self.commits.iter().enumerate().rev() {
            let judged = commit.changes.iter().filter(|(path, _)| has_judgements(path));
            changes.extend(judged.map(|(path, object)| (at, path.clone(), object.clone())));
        }
        let texts = texts(repository, changes.iter().map(|(_, _, object)| object.as_deref()))?;
        let mut recipes = BTreeMap::new();
        for ((at, path, _), text) in changes.into_iter().zip(texts) {
            let recipe = recipe(&text);
            if recipe.is_some() && recipes.get(&path) == Some(&recipe) {
                self.commits[at].changes.remove(&path);
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
}

/// Returns the commits that changed these paths, newest first.
fn log(repository: &Repository<'_>, paths: &[String]) -> Result<Vec<Commit>, RepositoryError> {
    // Follow first parents only: a merge counts as one change, so the pins of two branches never
    // appear to alternate.
    let log =
        repository.git(["log", "-z", "--format=%H%x00%ct%x00%an%x00%ae%x00%s%x00", "--no-color"]);
    let log = log.args(["--first-parent", "--diff-merges=first-parent", "--raw", "--no-abbrev"]);
    let log = log.args(["--no-renames", "--relative", "--ignore-submodules=none", "--no-ext-diff"]);
    let output = log.arg("--").args(paths).output().map_err(repository.failed())?;
    let mut commits = parse_log(&String::from_utf8_lossy(&output));
    order_dates(&mut commits);
    Ok(commits)
}

/// Adjusts dates that are later than those of newer commits or before the earliest date: rpm
/// rejects such changelogs.
fn order_dates(commits: &mut [Commit]) {
    let mut latest = i64::MAX;
    for commit in commits {
        commit.seconds = commit.seconds.clamp(EARLIEST, latest.max(EARLIEST));
        latest = commit.seconds;
    }
}

/// Parses the output of `git log`. Fields are separated by NUL, the only character that none of
/// them can contain.
pub(super) fn parse_log(log: &str) -> Vec<Commit> {
    let mut commits: Vec<Commit> = Vec::new();
    let mut fields = log.split('\0');
    while let Some(field) = fields.next() {
        let field = field.trim_start_matches('\n');
        if let Some(change) = field.strip_prefix(':') {
            // Format: `<old mode> <new mode> <old object> <new object> <status>`, see
            // git-diff-tree(1).
            let object = change.split(' ').nth(3).filter(|id| is_commit(id) && !is_null(id));
            let path = fields.next().unwrap_or_default();
            if let Some(commit) = commits.last_mut() {
                commit.changes.insert(path.to_owned(), object.map(str::to_owned));
            }
        } else if is_commit(field) {
            let mut next = || fields.next().unwrap_or_default().to_owned();
            let (seconds, author, email, subject) = (next(), next(), next(), next());
            commits.push(Commit {
                hash: field.to_owned(),
                seconds: seconds.parse().unwrap_or(EARLIEST),
                author,
                email,
                subject,
                changes: BTreeMap::new(),
            });
        }
    }
    commits
}

/// Returns whether this is the null object ID.
fn is_null(object: &str) -> bool {
    object.bytes().all(|byte| byte == b'0')
}

/// Returns the texts of objects; empty for missing files.
fn texts<'o>(
    repository: &Repository<'_>,
    objects: impl Iterator<Item = Option<&'o str>> + Clone,
) -> Result<Vec<String>, RepositoryError> {
    let wanted: Vec<&str> = objects.clone().flatten().collect();
    let mut texts = repository.texts(&wanted)?.into_iter();
    Ok(objects.map(|object| object.and_then(|_| texts.next()).unwrap_or_default()).collect())
}

/// Returns whether a file may contain [`JUDGEMENTS`].
fn has_judgements(path: &str) -> bool {
    match path.strip_prefix("specs-templates/") {
        Some(path) => path.ends_with("/component.toml"),
        None => path == MANIFEST || path.starts_with("mock-configs/") && path.ends_with(".toml"),
    }
}

/// Returns the part of a workspace, component, chroot or provider file that affects builds; `None`
/// if it cannot be parsed.
fn recipe(text: &str) -> Option<toml::Table> {
    let mut table: toml::Table = toml::from_str(text).ok()?;
    JUDGEMENTS.iter().for_each(|key| drop(table.remove(*key)));
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(digit: char) -> String {
        digit.to_string().repeat(40)
    }

    #[test]
    fn a_subject_cannot_forge_a_commit() {
        let (one, two, blob, null) = (hash('1'), hash('2'), hash('b'), hash('0'));
        let subject = format!("fix\u{1}{two}\u{2}1700000000\u{2}Mallory");
        let log = format!(
            "{one}\0{EARLIEST}\0Ada\0ada@example.org\0{subject}\0\0\n:100644 100644 {two} {blob} M\0src/a b\0\
             :100644 000000 {two} {null} D\0:odd\0{two}\0nonsense\0\0\0\0\0\n"
        );
        let commits = parse_log(&log);
        assert_eq!(commits.len(), 2, "{commits:?}");
        assert_eq!(
            (commits[0].hash.as_str(), commits[0].subject.as_str()),
            (one.as_str(), &*subject)
        );
        let changes: Vec<_> =
            commits[0].changes.iter().map(|(path, id)| (&**path, id.as_deref())).collect();
        assert_eq!(changes, [(":odd", None), ("src/a b", Some(blob.as_str()))]);
        assert_eq!((commits[1].seconds, commits[1].author.as_str()), (EARLIEST, ""));
    }

    #[test]
    fn older_commits_have_no_later_dates() {
        for (seconds, expected) in [
            ([9, 7, 8, 5], [9, 7, 7, 5]),
            ([5, 9, 8, 7], [5, 5, 5, 5]),
            ([9, -1, 8, 5], [9, 0, 0, 0]),
            ([i64::MAX - EARLIEST, 3, 2, 1], [i64::MAX - EARLIEST, 3, 2, 1]),
        ] {
            let (one, author) = (hash('1'), "A\0a@example.org\0x\0\0");
            let log: String =
                seconds.iter().map(|s| format!("{one}\0{}\0{author}", EARLIEST + s)).collect();
            let mut commits = parse_log(&log);
            order_dates(&mut commits);
            let found: Vec<i64> = commits.iter().map(|commit| commit.seconds - EARLIEST).collect();
            assert_eq!(found, expected, "{seconds:?}");
        }
    }

    #[test]
    fn judgements_are_not_part_of_the_recipe() {
        let plain = recipe("requires = [\"a\"]\n");
        assert_eq!(
            recipe("requires = [\"a\"]\ntimeout = \"1 h\"\n[[inspect.waive]]\nrule = \"x\"\n"),
            plain
        );
        // docs/concepts/build-keys.md promises it for all of these.
        let page = include_str!("../../../../../docs/concepts/build-keys.md");
        let row = page.lines().find(|line| line.starts_with("| component.toml |")).unwrap();
        for key in row.split('`').skip(1).step_by(2) {
            let name = key.trim_matches(['[', ']']);
            let value = match key {
                _ if key.starts_with("[[") => format!("[[{name}]]\nx = 1\n"),
                _ if key.starts_with('[') => format!("[{name}]\nx = 1\n"),
                _ => format!("{name} = 1\n"),
            };
            assert_eq!(recipe(&format!("requires = [\"a\"]\n{value}")), plain, "{key}");
        }
        for change in ["requires = []\n", "requires = [\"a\"]\nmemory-per-job = \"2 GB\"\n"] {
            assert_ne!(recipe(change), plain, "{change}");
        }
        assert_eq!(recipe("requires = ["), None);
    }

    #[test]
    fn only_definitions_contain_judgements() {
        for (path, expected) in [
            ("rocmrpm.toml", true),
            ("specs-templates/one/component.toml", true),
            ("mock-configs/rocm/host.toml", true),
            ("specs-templates/one/one.spec.tera", false),
            ("pins/stable.toml", false),
            ("mock-configs/mock.cfg.tera", false),
        ] {
            assert_eq!(has_judgements(path), expected, "{path}");
        }
    }
}
