//! The lock file of a pin set, `pins/<set>.lock`: its format, and how it completes a pin. Does not
//! resolve sources.

use std::collections::BTreeMap;

use super::document::{At, File, Table};
use super::pin::{Evidence, LockEntry, Pin, Source};
use crate::digest::Sha256;
use crate::error::Problem;
use crate::names::{ComponentName, is_commit};

/// The content of a lock file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    /// One entry per source, by component and name of the source. The main source's name is
    /// empty.
    pub entries: BTreeMap<(ComponentName, String), LockEntry>,
    /// The digests of base images, by name.
    pub images: BTreeMap<String, Sha256>,
}

/// The table with the base images, beside those of components.
const IMAGES: &str = "base-images";

impl Lock {
    /// Reads a lock file.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        let mut images = BTreeMap::new();
        let components = file.parse(problems, |root| {
            root.each_table(|key, table| {
                if key.value == IMAGES {
                    let found = table.each_table(|name, table| {
                        table.required_string("sha256", "the digest of the image");
                        Some((name.value, digest(table, "sha256")?))
                    });
                    images.extend(found.into_iter().flatten());
                    return None;
                }
                let sources = table.table("sources", |sources| {
                    sources.each_table(|name, table| Some((name.value, LockEntry::read(table)?)))
                });
                // A folder of the workspace has no entry, but its crates may have one.
                let main = if sources.is_none() || table.has("version") {
                    LockEntry::read(table)
                } else {
                    None
                };
                let further = sources.unwrap_or_default().into_iter().flatten();
                let all = main.map(|entry| (String::new(), entry)).into_iter().chain(further);
                let component = ComponentName::parse(&key.value)?;
                Some(
                    all.map(|(name, entry)| ((component.clone(), name), entry)).collect::<Vec<_>>(),
                )
            })
        });
        Self { entries: components.into_iter().flatten().flatten().collect(), images }
    }

    /// Returns the file's text: sorted, one table per source.
    pub fn text(&self) -> String {
        let mut text =
            String::from("# Written by `rocmrpm lock`. Review its changes; do not edit it.\n");
        for ((component, source), entry) in &self.entries {
            let mut table = key(component.as_str());
            if !source.is_empty() {
                table += &format!(".sources.{}", key(source));
            }
            entry.write(&table, &mut text);
        }
        for (name, digest) in &self.images {
            text += &format!("\n[{IMAGES}.{}]\nsha256 = \"{digest}\"\n", key(name));
        }
        text
    }

    /// Returns the entry of a source if it was locked for this pin.
    pub fn entry(&self, component: &ComponentName, source: &str, pin: &Pin) -> Option<&LockEntry> {
        let entry = self.entries.get(&(component.clone(), source.to_owned()))?;
        entry.is_about(pin).then_some(entry)
    }

    /// Returns the entry of a component's main source if it was locked for a branch.
    pub fn of_branch(&self, component: &ComponentName) -> Option<&LockEntry> {
        let entry = self.entries.get(&(component.clone(), String::new()))?;
        entry.branch.is_some().then_some(entry)
    }

    /// Returns the sources that have additional keys compared to an older lock, if that is the only
    /// difference.
    pub fn learned_since(&self, older: &Self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for ((component, source), entry) in &self.entries {
            let before = older.entries.get(&(component.clone(), source.clone()))?;
            if entry.adds_to(before) {
                names.push(source_name(component.as_str(), source));
            } else if entry != before {
                return None;
            }
        }
        (older.entries.len() == self.entries.len() && !names.is_empty()).then_some(names)
    }

    /// Returns the sources with another version but the same content as in an older lock: usually
    /// the version was raised by hand and the commit or digest was not.
    pub fn unmoved_since(&self, older: &Self) -> Vec<String> {
        let unmoved = |(key, entry): &(&(ComponentName, String), &LockEntry)| {
            older.entries.get(*key).is_some_and(|before| {
                let pinned = entry.commit.is_some() || entry.sha256.is_some();
                let same = entry.commit == before.commit && entry.sha256 == before.sha256;
                before.version != entry.version && before.origin == entry.origin && pinned && same
            })
        };
        let name =
            |(component, source): &(ComponentName, String)| source_name(component.as_str(), source);
        self.entries.iter().filter(unmoved).map(|(key, _)| name(key)).collect()
    }

    /// Fills in what the pin omits, and attaches the entry as evidence.
    pub(super) fn complete(&self, component: &ComponentName, source: &str, pin: &mut Pin) {
        let Some(entry) = self.entry(component, source, pin) else { return };
        match &mut pin.source {
            Source::Url { sha256: digest @ None, .. }
            | Source::Sdist { sha256: digest @ None, .. }
            | Source::Wheel { sha256: digest @ None, .. } => {
                *digest = entry.sha256;
            }
            Source::Git { commit: commit @ None, .. } => commit.clone_from(&entry.commit),
            _ => {}
        }
        if pin.follows.is_some() {
            pin.version.clone_from(&entry.version);
        }
        pin.evidence = Evidence(Some(Box::new(entry.clone())));
    }
}

impl LockEntry {
    /// Returns whether this entry contains all of an older one, and more.
    fn adds_to(&self, older: &Self) -> bool {
        let mut same = self.clone();
        same.sha256 = same.sha256.filter(|_| older.sha256.is_some());
        same.size = same.size.filter(|_| older.size.is_some());
        same.tree = same.tree.filter(|_| older.tree.is_some());
        same.submodules = same.submodules.filter(|_| older.submodules.is_some());
        same.archive = same.archive.filter(|_| older.archive.is_some());
        same.crates = same.crates.filter(|_| older.crates.is_some());
        if older.git.is_empty() {
            same.git.clear();
        }
        same == *older && self != older
    }

    fn read(table: &mut Table<'_>) -> Option<Self> {
        let version = table.required_string("version", "the locked version");
        let branch = table.string("branch").map(|at| at.value);
        let origin = table.required_string("origin", "where it came from");
        let number =
            |table: &mut Table<'_>, key| table.integer(key).and_then(|n| u64::try_from(n).ok());
        let map = |found: BTreeMap<String, At<String>>| {
            found.into_iter().map(|(key, at)| (key, at.value)).collect::<BTreeMap<_, _>>()
        };
        Some(Self {
            paths: table.strings("paths").into_iter().map(|at| at.value).collect(),
            sha256: digest(table, "sha256"),
            archive: digest(table, "archive"),
            size: number(table, "size"),
            branch,
            commit: commit(table),
            tree: table.string("tree").map(|at| at.value),
            submodules: table.has("submodules").then(|| map(table.string_map("submodules"))),
            crates: number(table, "crates"),
            git: map(table.string_map("git")),
            version: version?.value,
            origin: origin?.value,
        })
    }

    fn write(&self, table: &str, text: &mut String) {
        *text += &format!("\n[{table}]\n");
        let mut line = |key: &str, value: Option<String>| {
            *text += &value.map(|value| format!("{key} = {value}\n")).unwrap_or_default();
        };
        line("version", Some(quoted(&self.version)));
        line("origin", Some(quoted(&self.origin)));
        let paths: Vec<_> = self.paths.iter().map(|path| quoted(path)).collect();
        line("paths", (!paths.is_empty()).then(|| format!("[{}]", paths.join(", "))));
        line("sha256", self.sha256.map(|digest| quoted(&digest.to_string())));
        line("size", self.size.map(|size| size.to_string()));
        line("branch", self.branch.as_deref().map(quoted));
        line("commit", self.commit.as_deref().map(quoted));
        line("tree", self.tree.as_deref().map(quoted));
        line("archive", self.archive.map(|digest| quoted(&digest.to_string())));
        line("crates", self.crates.map(|count| count.to_string()));
        let git = (!self.git.is_empty()).then_some(&self.git);
        for (name, map) in [("submodules", self.submodules.as_ref()), ("git", git)] {
            let Some(map) = map else { continue };
            *text += &format!("\n[{table}.{name}]\n");
            for (name, value) in map {
                *text += &format!("{} = {}\n", key(name), quoted(value));
            }
        }
    }

    /// Returns whether this entry was locked for this pin.
    fn is_about(&self, pin: &Pin) -> bool {
        let same = match &pin.source {
            Source::Url { url: origin, sha256 }
            | Source::Sdist { project: origin, sha256 }
            | Source::Wheel { file: origin, sha256 } => {
                self.origin == *origin && (sha256.is_none() || *sha256 == self.sha256)
            }
            Source::Git { url, commit, paths, .. } => {
                self.origin == *url
                    && self.paths == *paths
                    && (commit.is_none() || *commit == self.commit)
            }
            // The lock file only changes with the source that contains it.
            Source::Crates { lock_file, of } => {
                self.origin == *lock_file && of.evidence.0.is_some()
            }
            Source::Folder { .. } => false,
        };
        let branch = pin.follows.as_ref().map(|follows| &follows.branch);
        // The version of a pin that follows a branch is that of the entry.
        same && self.branch.as_ref() == branch && (branch.is_some() || self.version == pin.version)
    }
}

/// Returns the name of a component's source in messages: its table in the lock.
pub fn source_name(component: &str, source: &str) -> String {
    if source.is_empty() { component.to_owned() } else { format!("{component}.sources.{source}") }
}

fn quoted(value: &str) -> String {
    toml_edit::Value::from(value).to_string()
}

fn key(name: &str) -> String {
    toml_edit::Key::new(name).to_string()
}

/// Reads the key `commit`.
pub(super) fn commit(table: &mut Table<'_>) -> Option<String> {
    let At { value, span } = table.string("commit")?;
    let full = is_commit(&value);
    if !full {
        let help = "a branch, a tag or a short commit can move or become ambiguous".to_owned();
        table.problem(
            span,
            "this is not a full commit",
            "expected 40 hexadecimal digits",
            Some(help),
        );
    }
    full.then(|| value.to_lowercase())
}

/// Reads the key `sha256`.
pub(super) fn sha256(table: &mut Table<'_>) -> Option<Sha256> {
    digest(table, "sha256")
}

fn digest(table: &mut Table<'_>, key: &str) -> Option<Sha256> {
    let At { value, span } = table.string(key)?;
    let digest = Sha256::parse(&value);
    if digest.is_none() {
        table.problem(span, "this is not a SHA-256 digest", "expected 64 hexadecimal digits", None);
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ComponentName {
        ComponentName::parse(name).unwrap()
    }

    fn sample() -> Lock {
        let file = LockEntry {
            version: "1".into(),
            origin: "a".into(),
            sha256: Some(Sha256::of_bytes("x")),
            size: Some(7),
            ..LockEntry::default()
        };
        let commit = "a".repeat(40);
        let git = LockEntry {
            version: "2".into(),
            origin: "https://h/b.git".into(),
            paths: vec!["x/y".into(), "z".into()],
            branch: Some("main".into()),
            commit: Some(commit.clone()),
            tree: Some("b".repeat(40)),
            submodules: Some([("third_party/q \"1\"".into(), commit.clone())].into()),
            ..LockEntry::default()
        };
        let crates = LockEntry {
            version: "1".into(),
            origin: "Cargo.lock".into(),
            sha256: Some(Sha256::of_bytes("y")),
            archive: Some(Sha256::of_bytes("z")),
            crates: Some(12),
            git: [("https://h/c?rev=1".into(), commit)].into(),
            ..LockEntry::default()
        };
        let none = LockEntry { submodules: Some(BTreeMap::new()), ..git.clone() };
        let entries =
            [("a", "", file), ("a", "crates", crates.clone()), ("b", "", git), ("b", "x", none)];
        let mut lock = Lock::default();
        for (component, source, entry) in entries {
            lock.entries.insert((name(component), source.into()), entry);
        }
        lock.entries.insert((name("c"), "crates".into()), crates);
        lock
    }

    #[test]
    fn round_trips() {
        let lock = sample();
        let file = File { name: "x.lock".into(), text: lock.text() };
        let mut problems = Vec::new();
        assert_eq!(Lock::read(&file, &mut problems), lock, "{}", lock.text());
        assert_eq!(problems, []);
        assert!(
            lock.text()
                .contains("\n[a.sources.crates]\nversion = \"1\"\norigin = \"Cargo.lock\"\n")
        );
    }

    #[test]
    fn finds_new_versions_with_old_content() {
        let (older, mut lock) = (sample(), sample());
        assert_eq!(lock.unmoved_since(&older), [""; 0]);
        lock.entries.get_mut(&(name("b"), String::new())).unwrap().version = "3".into();
        assert_eq!(lock.unmoved_since(&older), ["b"]);
        lock.entries.get_mut(&(name("b"), String::new())).unwrap().commit = Some("c".repeat(40));
        assert_eq!(lock.unmoved_since(&older), [""; 0]);
    }

    #[test]
    fn reads_the_first_format() {
        let text = "[a]\nversion = \"1\"\norigin = \"https://h/a\"\ncommit = \"COMMIT\"\n";
        let text = text.replace("COMMIT", &"a".repeat(40));
        let lock = Lock::read(&File { name: "x".into(), text }, &mut Vec::new());
        assert_eq!(lock.entries[&(name("a"), String::new())].commit, Some("a".repeat(40)));
    }

    #[test]
    fn rejects_entries_without_version_or_with_short_commit() {
        for text in
            ["[a]\norigin = \"x\"\n", "[a]\nversion = \"1\"\norigin = \"x\"\ncommit = \"abc\"\n"]
        {
            let mut problems = Vec::new();
            Lock::read(&File { name: "x".into(), text: text.into() }, &mut problems);
            assert_eq!(problems.len(), 1, "{problems:?}");
        }
    }
}
