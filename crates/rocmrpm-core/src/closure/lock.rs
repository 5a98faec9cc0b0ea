//! The lock of a closure: a requirements file with exact versions and digests, which installers
//! accept as well. Does not decide what is in a closure.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use pep440_rs::Version;

use super::{ClosureError, Locked, LockedFile, LockedOrigin, cutoff};
use crate::digest::Sha256;
use crate::names::ComponentName;
use crate::style::count;
use crate::text::visible;
use crate::wheel::{FileName, normalized};
use crate::workspace::Workspace;

/// A locked closure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The component of the closure.
    pub component: String,
    /// The chroot of the closure.
    pub chroot: String,
    /// The chroot's Python, such as `3.14`.
    pub python: String,
    /// The chroot's architecture.
    pub arch: String,
    /// The last day, in UTC, from which files on the index were used; `None` for no limit.
    pub not_after: Option<jiff::civil::Date>,
    /// The digest of all inputs of the resolution.
    pub inputs: Sha256,
    /// The distributions, sorted by name.
    pub packages: Vec<Locked>,
}

/// Returns the versions of the distributions from an index in the lock of a workspace's pin set and
/// chroot; empty if there is no lock.
pub fn held(workspace: &Workspace) -> Result<BTreeMap<String, Version>, ClosureError> {
    let packages =
        Lock::read(&workspace.closure_lock())?.map_or_else(Vec::new, |lock| lock.packages);
    let outside =
        packages.into_iter().filter(|locked| matches!(locked.origin, LockedOrigin::Index { .. }));
    Ok(outside.map(|locked| (locked.name, locked.version)).collect())
}

/// The fields of the header, in their order.
const FIELDS: [&str; 6] = ["component", "chroot", "python", "arch", "not-after", "inputs"];

/// The prefix of the stack's own distributions.
const OWN: &str = "# of the stack: ";
/// The prefix of the name of a file.
const FILE: &str = "# file: ";
/// The prefix of the digest of the METADATA of the file on the line above.
const METADATA: &str = "# metadata: sha256:";

impl Lock {
    /// Reads a lock file; `None` if it does not exist.
    pub fn read(path: &Path) -> Result<Option<Self>, ClosureError> {
        let shown = || path.display().to_string();
        match fs_err::read(path) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes).map_err(|_| ClosureError::Lock {
                    file: shown(),
                    line: 0,
                    wrong: "it is not UTF-8 text".into(),
                })?;
                let read = Self::parse(&text);
                Ok(Some(read.map_err(|(line, wrong)| ClosureError::Lock {
                    file: shown(),
                    line,
                    wrong,
                })?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(crate::error::IoError::doing("read the lock of the closure")(error).into())
            }
        }
    }

    /// Returns the version of a distribution, given by its normalized name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        let at = self.packages.binary_search_by(|locked| locked.name.as_str().cmp(name)).ok()?;
        Some(&self.packages[at].version)
    }

    /// Returns the text of the file. The same lock always gives the same text.
    pub fn text(&self) -> String {
        self.text_with(
            "# All that a component requires at run time, exactly. Written by `rocmrpm closure --write`;\n\
             # changes are lost at its next run. It installs with `pip install --require-hashes --no-deps`.\n",
        )
    }

    /// Like [`Self::text`], with other lines of comments at its start.
    pub fn text_with(&self, head: &str) -> String {
        let mut text = head.to_owned();
        let inputs = format!("sha256:{}", self.inputs);
        let not_after = cutoff::day_text(self.not_after);
        let values = [&self.component, &self.chroot, &self.python, &self.arch, &not_after, &inputs];
        for (field, value) in FIELDS.iter().zip(values) {
            text += &format!("# {field}: {value}\n");
        }
        text.push('\n');
        for Locked { name, version, origin } in &self.packages {
            match origin {
                LockedOrigin::Stack(component) => {
                    text += &format!("{OWN}{name}=={version} from {component}\n")
                }
                LockedOrigin::Index { wheel, sdist } => {
                    let files = || [wheel, sdist].into_iter().flatten();
                    for LockedFile { name, size, metadata, .. } in files() {
                        let size = size.map(|size| format!(" {size}")).unwrap_or_default();
                        text += &format!("{FILE}{name}{size}\n");
                        text += &metadata
                            .map(|digest| format!("{METADATA}{digest}\n"))
                            .unwrap_or_default();
                    }
                    text += &format!("{name}=={version}");
                    for file in files() {
                        text += &format!(" \\\n    --hash=sha256:{}", file.sha256);
                    }
                    text.push('\n');
                }
            }
        }
        text
    }

    /// Parses the text of a lock; the error has the number of the line and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut header = BTreeMap::new();
        let mut reading = Reading::default();
        let mut lines = 0;
        for (at, line) in text.lines().enumerate() {
            lines = at + 1;
            let wrong = |wrong: String| (at + 1, wrong);
            let field = line.strip_prefix("# ").and_then(|line| line.split_once(": "));
            if let Some((field, value)) = field.filter(|(field, _)| FIELDS.contains(field)) {
                if header.insert(field, (at + 1, value)).is_some() {
                    return Err(wrong(format!("duplicate `{field}`")));
                }
                continue;
            }
            reading.line(line).map_err(wrong)?;
        }
        reading.end().map_err(|wrong| (lines, wrong))?;
        let field = |name: &str| {
            let found = header.get(name).copied();
            found.ok_or_else(|| (1, format!("its header has no line `# {name}: ...`")))
        };
        let text_of = |name: &str| field(name).map(|(_, value)| value.to_owned());
        let (line, not_after) = field("not-after")?;
        let not_after = cutoff::day_of(not_after).map_err(|wrong| (line, wrong))?;
        let (line, inputs) = field("inputs")?;
        let inputs = inputs.strip_prefix("sha256:").and_then(Sha256::parse);
        Ok(Self {
            component: text_of("component")?,
            chroot: text_of("chroot")?,
            python: text_of("python")?,
            arch: text_of("arch")?,
            not_after,
            inputs: inputs
                .ok_or_else(|| (line, "`inputs` is not a sha256 of 64 digits".to_owned()))?,
            packages: reading.packages,
        })
    }
}

/// The comment lines about a file, which precede its digest.
struct FileLines {
    name: String,
    size: Option<u64>,
    metadata: Option<Sha256>,
}

/// The state of the parser.
#[derive(Default)]
struct Reading {
    packages: Vec<Locked>,
    /// The files of the next requirement.
    files: Vec<FileLines>,
    /// The requirement whose digests follow.
    open: Option<(String, Version, Vec<Sha256>)>,
}

impl Reading {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let goes_on = line.ends_with('\\');
        let content = line.trim_end_matches('\\').trim();
        if let Some(hash) = content.strip_prefix("--hash=") {
            let hash = hash.strip_prefix("sha256:").and_then(Sha256::parse);
            let hash = hash.ok_or("expected `--hash=sha256:` with 64 digits")?;
            let (_, _, hashes) = self.open.as_mut().ok_or("this digest follows no requirement")?;
            hashes.push(hash);
        } else if self.open.is_some() {
            return Err("expected `--hash=sha256:...`, which continues the line above".into());
        } else if let Some(own) = content.strip_prefix(OWN) {
            let (pinned, component) =
                own.split_once(" from ").ok_or("expected `NAME==VERSION from COMPONENT`")?;
            let component = ComponentName::parse(component)
                .ok_or_else(|| format!("`{}` is not a component name", visible(component)))?;
            let (name, version) = pin(pinned)?;
            self.add(Locked { name, version, origin: LockedOrigin::Stack(component) })?;
        } else if let Some(file) = content.strip_prefix(FILE) {
            let (name, size) =
                file.split_once(' ').map_or((file, None), |(name, size)| (name, Some(size)));
            let size = size
                .map(|size| size.parse().map_err(|_| format!("`{}` is not a size", visible(size))));
            self.files.push(FileLines {
                name: name.to_owned(),
                size: size.transpose()?,
                metadata: None,
            });
        } else if let Some(digest) = content.strip_prefix(METADATA) {
            let file = self.files.last_mut().filter(|file| file.metadata.is_none());
            let file = file.ok_or("this METADATA digest follows no file")?;
            let digest = Sha256::parse(digest)
                .ok_or("expected a METADATA digest of 64 hexadecimal digits")?;
            file.metadata = Some(digest);
        } else if !content.is_empty() && !content.starts_with('#') {
            let (name, version) = pin(content)?;
            self.open = Some((name, version, Vec::new()));
        }
        match (goes_on, self.open.is_some()) {
            (true, false) => Err("this line cannot be continued".into()),
            (false, true) => self.close(),
            _ => Ok(()),
        }
    }

    /// Fails if something is incomplete at the end of the text.
    fn end(&self) -> Result<(), String> {
        match (&self.open, self.files.first()) {
            (Some((name, ..)), _) => Err(format!("`{name}` is not continued")),
            (None, Some(file)) => {
                Err(format!("`{}` belongs to no requirement", visible(&file.name)))
            }
            (None, None) => Ok(()),
        }
    }

    /// Adds the requirement, now that its digests are complete.
    fn close(&mut self) -> Result<(), String> {
        let files = std::mem::take(&mut self.files);
        let Some((name, version, hashes)) = self.open.take() else { return Ok(()) };
        if files.is_empty() || files.len() != hashes.len() {
            let (files, digests) = (count(files.len(), "file"), count(hashes.len(), "digest"));
            return Err(format!("`{name}` has {files} and {digests}"));
        }
        let (mut wheel, mut sdist) = (None, None);
        for (FileLines { name: file, size, metadata }, sha256) in files.into_iter().zip(hashes) {
            let slot = if file.ends_with(".whl") { &mut wheel } else { &mut sdist };
            check_file(&file, &name, &version)?;
            if slot.replace(LockedFile { name: file, sha256, size, metadata }).is_some() {
                return Err(format!("`{name}` has more than one file of the same kind"));
            }
        }
        self.add(Locked { name, version, origin: LockedOrigin::Index { wheel, sdist } })
    }

    fn add(&mut self, locked: Locked) -> Result<(), String> {
        if let Some(last) = self.packages.last().filter(|last| last.name >= locked.name) {
            return Err(format!(
                "`{}` comes after `{}`: names must be sorted and unique",
                locked.name, last.name
            ));
        }
        self.packages.push(locked);
        Ok(())
    }
}

fn pin(text: &str) -> Result<(String, Version), String> {
    let (name, version) = text
        .split_once("==")
        .ok_or_else(|| format!("`{}` is not `name==version`", visible(text)))?;
    if normalized(name).as_deref() != Some(name) {
        return Err(format!("`{}` is not the normalized name of a distribution", visible(name)));
    }
    let version = Version::from_str(version)
        .map_err(|_| format!("`{}` is not a version", visible(version)))?;
    Ok((name.to_owned(), version))
}

/// Checks the untrusted name of a file: it must be a plain file name that belongs to this
/// distribution.
pub(super) fn check_file(file: &str, name: &str, version: &Version) -> Result<(), String> {
    let shown = visible(file);
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.+!".contains(&b);
    if file.is_empty() || file.starts_with('.') || !file.bytes().all(plain) {
        return Err(format!("`{shown}` is not a file name"));
    }
    let of = match file.ends_with(".whl") {
        true => FileName::parse(file)
            .ok()
            .map(|file| (file.distribution == name).then_some(file.version)),
        false => Some(crate::sources::version_of_sdist(file, name)),
    };
    match of.flatten() {
        Some(found) if found == *version => Ok(()),
        _ => Err(format!("`{shown}` is not a file of {name} {version}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, size: Option<u64>) -> LockedFile {
        let metadata = name.starts_with("a_b").then(|| Sha256::of_bytes("METADATA"));
        LockedFile { name: name.into(), sha256: Sha256::of_bytes(name), size, metadata }
    }

    fn lock() -> Lock {
        let locked = |name: &str, version: &str, origin| Locked {
            name: name.into(),
            version: Version::from_str(version).unwrap(),
            origin,
        };
        let wheel = Some(file("a_b-1.0-py3-none-any.whl", Some(3)));
        Lock {
            component: "vllm".into(),
            chroot: "fedora-43".into(),
            python: "3.14".into(),
            arch: "x86_64".into(),
            not_after: Some("2026-05-10".parse().unwrap()),
            inputs: Sha256::of_bytes("x"),
            packages: vec![
                locked(
                    "a-b",
                    "1.0",
                    LockedOrigin::Index { wheel, sdist: Some(file("a-b-1.0.tar.gz", None)) },
                ),
                locked(
                    "c",
                    "1!2.0",
                    LockedOrigin::Index {
                        wheel: None,
                        sdist: Some(file("c-1!2.0.tar.gz", Some(9))),
                    },
                ),
                locked(
                    "torch",
                    "2.11.0",
                    LockedOrigin::Stack(ComponentName::parse("torch").unwrap()),
                ),
                locked(
                    "z",
                    "1",
                    LockedOrigin::Index {
                        wheel: Some(file("z-1-py3-none-any.whl", None)),
                        sdist: None,
                    },
                ),
            ],
        }
    }

    #[test]
    fn lock_round_trips() {
        let text = lock().text();
        assert_eq!(Lock::parse(&text).unwrap(), lock());
        assert!(text.contains("\na-b==1.0 \\\n    --hash=sha256:"), "{text}");
        assert_eq!(lock().version("c").map(ToString::to_string).as_deref(), Some("1!2.0"));
        assert_eq!(lock().version("b"), None);
    }

    #[test]
    fn reports_damage_with_its_line() {
        let text = lock().text();
        let line_of = |part: &str| text.lines().position(|line| line.contains(part)).unwrap() + 1;
        for (from, to, at, wrong) in [
            ("a-b==1.0 \\", "a-b==1.0", "a-b==1.0 ", "2 files and 0 digests"),
            ("a-b==1.0 \\", "a-b=1.0 \\", "a-b==1.0 ", "is not `name==version`"),
            ("a-b==1.0", "A_b==1.0", "a-b==1.0 ", "not the normalized name"),
            ("# file: a-b-1.0.tar.gz\n", "", "a-b==1.0 ", "1 file and 2 digests"),
            ("# file: a_b-1.0-py3-none-any.whl 3\n", "", "# metadata", "follows no file"),
            (
                "# metadata: sha256:",
                "# metadata: sha256:0",
                "# metadata",
                "expected a METADATA digest",
            ),
            ("py3-none-any.whl 3", "py3-none-any.whl x", "whl 3", "`x` is not a size"),
            ("# file: a_b-1.0-py3", "# file: ../a_b-1.0-py3", "a-b==1.0 ", "not a file name"),
            ("# file: a_b-1.0-py3", "# file: a_b-1.1-py3", "a-b==1.0 ", "not a file of a-b 1.0"),
            ("torch==2.11.0 from torch", "torch==2.11.0", "of the stack", "from COMPONENT"),
            ("torch==2.11.0 from torch", "torch==x from torch", "of the stack", "not a version"),
            ("c==1!2.0", "a-b==1!2.0", "c==1!2.0", "not a file of a-b"),
            ("# inputs: sha256:", "# inputs: sha256:0", "# inputs", "not a sha256"),
            ("# python: 3.14\n", "", "# All", "no line `# python"),
            ("# not-after: 2026-05-10", "# not-after: 2026-5", "# not-after", "neither a day"),
            ("# python: 3.14\n", "# python: 3.14\n# python: 3\n", "# arch", "duplicate `python`"),
        ] {
            let damaged = text.replacen(from, to, 1);
            assert_ne!(damaged, text, "{from}");
            let (line, error) = Lock::parse(&damaged).unwrap_err();
            assert!(error.contains(wrong), "{from} -> {to}: {error}");
            let expected = line_of(at);
            assert!(line.abs_diff(expected) <= 2, "{from}: line {line}, expected about {expected}");
        }
        let swapped = text.replace("# of the stack: torch", "# of the stack: a");
        assert!(Lock::parse(&swapped).unwrap_err().1.contains("sorted"));
    }

    #[test]
    fn rejects_truncated_locks() {
        let text = lock().text();
        for end in 0..text.len() {
            if let Ok(cut) = Lock::parse(&text[..end]) {
                assert!(
                    lock()
                        .packages
                        .starts_with(&cut.packages[..cut.packages.len().saturating_sub(1)]),
                    "{end}"
                );
            }
        }
    }
}
