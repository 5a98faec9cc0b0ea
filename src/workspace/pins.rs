//! Pin sets: `pins/<name>.toml` and the lock file beside it. Reading and
//! overriding them, not resolving them.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::document::{At, File, Table};
use super::edit::is_inside;
use super::pin::{Pin, Source};
use super::range::VersionRange;
use crate::digest::Sha256;
use crate::error::Problem;
use crate::names::{ComponentName, is_version};

/// One coherent set of pins.
#[derive(Debug, Clone)]
pub struct PinSet {
    /// The set's name: the file name without `.toml`.
    pub name: String,
    /// The pins, with the place of each one's table.
    pub pins: BTreeMap<ComponentName, At<Pin>>,
    /// The file they were read from.
    pub file: File,
}

/// A version from the command line, `--pin NAME=VERSION`.
pub type Overrides = BTreeMap<String, String>;

impl PinSet {
    /// Reads a pin set. `lock` is the content of the lock file, if there is one:
    /// it supplies the digests and commits that the set itself leaves out.
    pub fn read(
        name: &str,
        file: File,
        lock: &Lock,
        overrides: &Overrides,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let pins =
            file.parse(problems, |root| root.each_table(|key, table| read_pin(key, table, lock, overrides)));
        let pins = pins.into_iter().flatten().map(|at| (at.value.component.clone(), at)).collect();
        Self { name: name.to_owned(), pins, file }
    }
}

fn read_pin(key: At<String>, table: &mut Table<'_>, lock: &Lock, overrides: &Overrides) -> Option<At<Pin>> {
    let component = ComponentName::parse(&key.value);
    if component.is_none() {
        let message = format!("`{}` is not a component name", key.value);
        table.problem(key.span.clone(), message, "expected lower-case letters, digits and `-`", None);
    }
    let written = table.required_string("version", "the upstream version");
    if let Some(At { value, span }) = &written
        && !is_version(value)
    {
        table.problem(
            span.clone(),
            format!("`{value}` cannot be the version of an RPM"),
            "expected letters, digits and . _ + ~ ^",
            None,
        );
    }
    let override_version = overrides.get(&key.value);
    let version = override_version.cloned().or(written.map(|at| at.value));
    let source = read_source(&key, table, version.as_deref().unwrap_or_default());
    let top_folder = top_folder(table);
    let python = python(table);
    let further = table.table("sources", |sources| {
        sources.each_table(|name, table| {
            let version = version.as_deref().unwrap_or_default();
            read_further(&key.value, &name, table, version).map(|pin| (name.value, pin))
        })
    });
    let (component, version, mut source) = (component?, version?, source?);
    let overridden = override_version.is_some();
    if overridden {
        // What was recorded for another version says nothing about this one.
        source.forget();
    } else {
        lock.complete(&component, &version, &mut source);
    }
    let mut pin = Pin { overridden, top_folder, python, ..Pin::new(component, version, source) };
    for (name, source) in further.unwrap_or_default().into_iter().flatten() {
        let source = source.into_pin(&pin);
        pin.sources.insert(name, source);
    }
    Some(At { value: pin, span: key.span })
}

/// What a further source is, before the main one is known.
enum Further {
    Pin(Box<Pin>),
    Crates { component: ComponentName, lock_file: String },
}

impl Further {
    fn into_pin(self, main: &Pin) -> Pin {
        match self {
            Self::Pin(pin) => *pin,
            Self::Crates { component, lock_file } => {
                let of = Box::new(Pin { sources: BTreeMap::new(), ..main.clone() });
                Pin::new(component, main.version.clone(), Source::Crates { lock_file, of })
            }
        }
    }
}

/// Reads `[<component>.sources.<name>]`; `version` is the component's.
fn read_further(component: &str, name: &At<String>, table: &mut Table<'_>, version: &str) -> Option<Further> {
    let full = ComponentName::parse(&format!("{component}-{}", name.value));
    if full.is_none() {
        let message = format!("`{}` is not a source's name", name.value);
        table.problem(name.span.clone(), message, "expected lower-case letters, digits and `-`", None);
    }
    if let Some(At { value, span }) = table.string("cargo-vendor") {
        if !is_inside(&value) {
            let label = "expected a relative path without `..`";
            table.problem(span, "the lock file lies outside of the source", label, None);
        }
        return Some(Further::Crates { component: full?, lock_file: value });
    }
    let version = table.string("version").map_or_else(|| version.to_owned(), |at| at.value);
    let source = read_source(name, table, &version);
    let top_folder = top_folder(table);
    Some(Further::Pin(Box::new(Pin { top_folder, ..Pin::new(full?, version, source?) })))
}

fn top_folder(table: &mut Table<'_>) -> Option<String> {
    let name = table.string("top-folder")?;
    table.must_be_plain(&name, "a folder's name");
    Some(name.value)
}

fn python(table: &mut Table<'_>) -> VersionRange {
    let Some(At { value, span }) = table.string("python") else { return VersionRange::default() };
    VersionRange::parse(&value).unwrap_or_else(|| {
        let message = format!("`{value}` is not a range of versions");
        table.problem(span, message, "expected such as `>=3.10, <3.15`", None);
        VersionRange::default()
    })
}

fn read_source(key: &At<String>, table: &mut Table<'_>, version: &str) -> Option<Source> {
    let url = table.string("url");
    let git = table.string("git");
    let sdist = table.string("sdist");
    let path = table.string("path");
    let sha256 = sha256(table);
    let commit = table.string("commit").and_then(|At { value, span }| {
        let full = matches!(value.len(), 40 | 64) && value.bytes().all(|b| b.is_ascii_hexdigit());
        if !full {
            let help = "a branch, a tag or a short commit can move or become ambiguous".to_owned();
            table.problem(span, "this is not a full commit", "expected 40 hexadecimal digits", Some(help));
        }
        full.then(|| value.to_lowercase())
    });
    let submodules = table.boolean("submodules");
    let paths = table.strings("paths");
    for At { value, span } in paths.iter().filter(|at| !is_inside(&at.value)) {
        let message = format!("`{value}` leads out of the source");
        table.problem(span.clone(), message, "expected a relative path without `..`", None);
    }
    let given: Vec<_> = [("url", &url), ("git", &git), ("sdist", &sdist), ("path", &path)]
        .into_iter()
        .filter_map(|(name, value)| value.as_ref().map(|at| (name, at.span.clone())))
        .collect();
    match given.as_slice() {
        [_] => {}
        [] => {
            let span = key.span.clone();
            table.problem(
                span,
                format!("`{}` has no source", key.value),
                "expected one of `url`, `git`, `sdist`, `path`",
                None,
            );
            return None;
        }
        [.., (name, span)] => {
            let message = format!("`{}` has more than one source", key.value);
            table.problem(
                span.clone(),
                message,
                format!("`{name}` cannot stand beside `{}`", given[0].0),
                None,
            );
            return None;
        }
    }
    for (field, present, allowed) in [
        ("sha256", sha256.is_some(), url.is_some() || sdist.is_some()),
        ("commit", commit.is_some(), git.is_some()),
        ("submodules", submodules.is_some(), git.is_some()),
        ("paths", !paths.is_empty(), git.is_some()),
    ] {
        if present && !allowed {
            let message = format!("`{field}` says nothing about a `{}` source", given[0].0);
            table.problem(key.span.clone(), message, "remove it", None);
        }
    }
    if let Some(url) = url {
        let schemes = ["https://", "http://", "file://"];
        if !schemes.iter().any(|s| url.value.starts_with(s)) {
            table.problem(
                url.span,
                "this is not a URL that can be fetched",
                "expected https://, http:// or file://",
                None,
            );
            return None;
        }
        return Some(Source::Url { url: url.value.replace("{version}", version), sha256 });
    }
    if let Some(git) = git {
        let paths = paths.into_iter().map(|at| at.value).collect();
        return Some(Source::Git { url: git.value, commit, submodules: submodules.unwrap_or(false), paths });
    }
    if let Some(sdist) = sdist {
        return Some(Source::Sdist { project: sdist.value, sha256 });
    }
    let At { value, span } = path?;
    // One spelling of it: the history compares paths as git writes them.
    let path: PathBuf = Path::new(&value).components().filter(|part| *part != Component::CurDir).collect();
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !inside || path.as_os_str().is_empty() {
        table.problem(
            span,
            "the path leads out of the workspace",
            "expected a relative path without `..`",
            None,
        );
        return None;
    }
    Some(Source::Folder { path })
}

fn sha256(table: &mut Table<'_>) -> Option<Sha256> {
    let At { value, span } = table.string("sha256")?;
    let digest = Sha256::parse(&value);
    if digest.is_none() {
        table.problem(span, "this is not a SHA-256 digest", "expected 64 hexadecimal digits", None);
    }
    digest
}

impl Source {
    /// Drops digest and commit.
    fn forget(&mut self) {
        match self {
            Self::Url { sha256, .. } | Self::Sdist { sha256, .. } => *sha256 = None,
            Self::Git { commit, .. } => *commit = None,
            Self::Folder { .. } | Self::Crates { .. } => {}
        }
    }
}

/// The content of `pins/<name>.lock`: what `rocmrpm lock` found each source to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    /// One entry per component.
    pub entries: BTreeMap<ComponentName, LockEntry>,
}

/// What a source was found to be when it was locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockEntry {
    /// The version it was locked for.
    pub version: String,
    /// The URL, git URL, or project, as the pin has it with the version filled in.
    pub origin: String,
    /// The file's digest, for a URL or sdist.
    pub sha256: Option<Sha256>,
    /// The commit, for git.
    pub commit: Option<String>,
    /// The file's size in bytes, where known.
    pub size: Option<u64>,
}

impl Lock {
    /// Reads a lock file.
    pub fn read(file: &File, problems: &mut Vec<Problem>) -> Self {
        let entries = file.parse(problems, |root| {
            root.each_table(|key, table| {
                let version = table.required_string("version", "the locked version");
                let origin = table.required_string("origin", "where it came from");
                let sha256 = sha256(table);
                let commit = table.string("commit").map(|at| at.value);
                let size = table.integer("size").and_then(|size| u64::try_from(size).ok());
                let (version, origin) = (version?.value, origin?.value);
                let entry = LockEntry { version, origin, sha256, commit, size };
                Some((ComponentName::parse(&key.value)?, entry))
            })
        });
        Self { entries: entries.into_iter().flatten().collect() }
    }

    /// Returns the file's text: sorted, one table per component.
    pub fn text(&self) -> String {
        let mut text = String::from("# Written by `rocmrpm lock`. Review its changes; do not edit it.\n");
        for (name, entry) in &self.entries {
            let quote = |value: &str| toml_edit::Value::from(value).to_string();
            text += &format!("\n[{}]\n", toml_edit::Key::new(name.as_str()));
            text += &format!("version = {}\norigin = {}\n", quote(&entry.version), quote(&entry.origin));
            if let Some(sha256) = entry.sha256 {
                text += &format!("sha256 = \"{sha256}\"\n");
            }
            if let Some(commit) = &entry.commit {
                text += &format!("commit = {}\n", quote(commit));
            }
            if let Some(size) = entry.size {
                text += &format!("size = {size}\n");
            }
        }
        text
    }

    /// Fills in what the pin leaves out, if the lock is about the same source.
    fn complete(&self, component: &ComponentName, version: &str, source: &mut Source) {
        let Some(entry) = self.entries.get(component).filter(|e| e.version == version) else { return };
        match source {
            Source::Url { url: origin, sha256 } | Source::Sdist { project: origin, sha256 } => {
                if entry.origin == *origin && sha256.is_none() {
                    *sha256 = entry.sha256;
                }
            }
            Source::Git { url, commit, .. } => {
                if entry.origin == *url && commit.is_none() {
                    commit.clone_from(&entry.commit);
                }
            }
            Source::Folder { .. } | Source::Crates { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, lock: &Lock, overrides: &[(&str, &str)]) -> (PinSet, Vec<String>) {
        let file = File { name: "pins/x.toml".into(), text: text.into() };
        let overrides = overrides.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let mut problems = Vec::new();
        let set = PinSet::read("x", file, lock, &overrides, &mut problems);
        (set, problems.into_iter().map(|p| p.message).collect())
    }

    fn pin(set: &PinSet, name: &str) -> Pin {
        set.pins[&ComponentName::parse(name).unwrap()].value.clone()
    }

    #[test]
    fn the_version_goes_into_the_url_and_an_override_forgets_the_digest() {
        let digest = Sha256::of_bytes("x");
        let text = format!(
            "[a]\nversion = \"1\"\nurl = \"https://h/a-{{version}}.tar.gz\"\nsha256 = \"{digest}\"\n"
        );
        let url = |v: &str| format!("https://h/a-{v}.tar.gz");
        let (set, problems) = read(&text, &Lock::default(), &[]);
        assert_eq!(
            (pin(&set, "a").source, problems),
            (Source::Url { url: url("1"), sha256: Some(digest) }, vec![])
        );
        let (set, _) = read(&text, &Lock::default(), &[("a", "2")]);
        assert_eq!(pin(&set, "a").source, Source::Url { url: url("2"), sha256: None });
        assert!(pin(&set, "a").overridden);
    }

    #[test]
    fn mistakes_are_found() {
        let text = "[a]\nversion = \"1-2\"\nurl = \"ftp://x\"\n[b]\nversion = \"1\"\n\
                    [c]\nversion = \"1\"\ngit = \"x\"\nsdist = \"c\"\n[d]\nversion = \"1\"\ngit = \"u\"\ncommit = \"main\"\n\
                    [e]\nversion = \"1\"\npath = \"../x\"\n[f]\nversion = \"1\"\nsdist = \"f\"\nsha256 = \"12\"\n";
        let (_, problems) = read(text, &Lock::default(), &[]);
        assert_eq!(
            problems,
            [
                "`1-2` cannot be the version of an RPM",
                "this is not a URL that can be fetched",
                "`b` has no source",
                "`c` has more than one source",
                "this is not a full commit",
                "the path leads out of the workspace",
                "this is not a SHA-256 digest",
            ]
        );
    }

    #[test]
    fn a_lock_completes_the_same_source_only_and_survives_a_round_trip() {
        let entry = LockEntry {
            version: "1".into(),
            origin: "a".into(),
            sha256: Some(Sha256::of_bytes("x")),
            commit: None,
            size: Some(7),
        };
        let lock = Lock { entries: [(ComponentName::parse("a").unwrap(), entry)].into() };
        let (set, _) = read("[a]\nversion = \"1\"\nsdist = \"a\"\n", &lock, &[]);
        assert!(matches!(pin(&set, "a").source, Source::Sdist { sha256: Some(_), .. }));
        let (set, _) = read("[a]\nversion = \"2\"\nsdist = \"a\"\n", &lock, &[]);
        assert!(matches!(pin(&set, "a").source, Source::Sdist { sha256: None, .. }));
        let file = File { name: "x.lock".into(), text: lock.text() };
        assert_eq!(Lock::read(&file, &mut Vec::new()), lock);
    }
}
