//! The crates that a `Cargo.lock` of another source names, vendored by cargo and packed
//! with the configuration that makes cargo use them. Fetching and verifying them is
//! cargo's, with the user's own configuration.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;
use serde::Deserialize;

use super::fetcher::MTIME;
use super::{Fetcher, SourceError, file_name, identity, pack, source_dir, url};
use crate::digest::Sha256;
use crate::error::{IoError, Kind};
use crate::process::{self, Command};
use crate::workspace::pin::{Pin, Source};

/// What cargo calls the source that the vendored crates are.
const VENDORED: &str = "vendored-sources";

/// The folder that the crates lie in, beside `.cargo`.
const FOLDER: &str = "vendor";

/// What a `Cargo.lock` names that is not part of its own workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// The digest of the file.
    pub sha256: Sha256,
    /// Each crate as the folder that `cargo vendor --versioned-dirs` makes for it.
    pub folders: Vec<String>,
    /// The commit of each git repository, by its URL with the reference.
    pub git: BTreeMap<String, String>,
    /// The sources as they are written.
    sources: Vec<String>,
}

/// Source: The Cargo Book, "Cargo.toml vs Cargo.lock"; the format is cargo's own.
#[derive(Deserialize)]
struct LockFile {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
}

impl Named {
    fn read(text: &str) -> Result<Self, String> {
        let file: LockFile =
            toml::from_str(text).map_err(|error| format!("it is not a Cargo.lock: {}", error.message()))?;
        let mut named = Self {
            sha256: Sha256::of_bytes(text),
            folders: Vec::new(),
            git: BTreeMap::new(),
            sources: Vec::new(),
        };
        for Package { name, version, source } in file.package {
            let Some(source) = source else { continue };
            if let Some((url, commit)) = source.strip_prefix("git+").and_then(|git| git.split_once('#')) {
                named.git.insert(super::shown_url(url), commit.to_owned());
            }
            named.folders.push(format!("{name}-{version}"));
            named.sources.push(source);
        }
        if named.folders.is_empty() { Err("it names no crates".into()) } else { Ok(named) }
    }
}

impl Fetcher<'_> {
    /// Reads the lock file in the source `of`.
    pub(super) fn named_crates(&self, lock_file: &str, of: &Pin) -> Result<Named, SourceError> {
        let error = |reason| crates_error(of, lock_file, reason, Vec::new(), Kind::Config);
        let text = self.tree(of)?.text(lock_file)?.ok_or_else(|| error("there is no such file".into()))?;
        let named = Named::read(&text).map_err(error)?;
        // Else upstream could have any repository of ours packed.
        match named.sources.iter().find(|source| !is_elsewhere(source)) {
            Some(source) if !is_here(&of.source) => {
                Err(error(format!("it names a place on this machine, `{}`", super::shown_url(source))))
            }
            _ => Ok(named),
        }
    }

    pub(super) fn pack_crates(&self, pin: &Pin, lock_file: &str, of: &Pin) -> Result<Sha256, SourceError> {
        let prefix = source_dir(pin);
        let known = pin.evidence.0.as_ref().map(|entry| (entry.sha256, entry.crates, &entry.git));
        let of_what = identity(of, self.workspace_root())?;
        let recipe = format!("crates 1\n{lock_file} of {of_what}\n{prefix}\n{known:?}\n");
        if let Some(digest) = self.cache().packed(&recipe) {
            return Ok(digest);
        }
        let named = self.named_crates(lock_file, of)?;
        verify(pin, &named)?;
        self.needs_network(|| format!("the crates of `{lock_file}` of `{}` {}", of.component, of.version))?;
        self.phase(pin, "Fetching", format!("{} crates of {lock_file}", named.folders.len()));
        let scratch = self.cache().scratch()?;
        let tree = self.tree(of)?;
        let manifest = Path::new(lock_file).with_file_name("Cargo.toml");
        if tree.text(&manifest.to_string_lossy())?.is_none() {
            let reason = "there is no Cargo.toml beside it".to_owned();
            return Err(crates_error(of, lock_file, reason, Vec::new(), Kind::Config));
        }
        let manifest = tree.dir.join(manifest);
        let config = vendor(&manifest, scratch.path()).map_err(|failed| failed.into_error(of, lock_file))?;
        check_config(&config, &named)
            .and_then(|()| check_folders(scratch.path(), &named))
            .map_err(|reason| crates_error(of, lock_file, reason, Vec::new(), Kind::Config))?;
        let action = || IoError::doing("pack crates");
        fs::create_dir(scratch.path().join(".cargo")).map_err(action())?;
        fs::write(scratch.path().join(".cargo/config.toml"), config).map_err(action())?;
        self.phase(pin, "Packing", file_name(pin));
        let packed = self.cache().scratch()?;
        let packed = packed.path().join("tar.gz");
        pack::folder(scratch.path(), pin.component.as_str(), pack::Which::All, &prefix, MTIME, &packed)?;
        self.keep(&packed, &recipe)
    }
}

/// Tells whether a source of a `Cargo.lock`, such as `registry+https://...`, is on a server.
fn is_elsewhere(source: &str) -> bool {
    let schemes = ["https://", "http://", "ssh://", "git://"];
    source.split_once('+').is_some_and(|(_, url)| schemes.iter().any(|scheme| url.starts_with(scheme)))
}

/// Tells whether a source comes from this machine itself.
fn is_here(source: &Source) -> bool {
    match source {
        Source::Folder { .. } => true,
        Source::Url { url, .. } | Source::Git { url, .. } => url::is_local(url),
        Source::Sdist { .. } | Source::Wheel { .. } | Source::Crates { .. } => false,
    }
}

/// Returns cargo in a folder.
pub(super) fn cargo(dir: &Path) -> Command {
    Command::new("cargo").cwd(dir).env("CARGO_TERM_COLOR", "never").env("CARGO_TERM_PROGRESS_WHEN", "never")
}

/// Why cargo did not vendor.
pub(super) enum Failed {
    Cargo { stderr: Vec<u8>, how: String },
    Other(SourceError),
}

/// Runs cargo in the empty folder `to`, so that neither upstream's `.cargo/config.toml` nor
/// its toolchain file counts, and returns the configuration that it prints. cargo writes
/// nothing beside the manifest, whose lock file must fit.
fn vendor(manifest: &Path, to: &Path) -> Result<String, Failed> {
    let other = |error: process::ProcessError| Failed::Other(error.into());
    // Without `--respect-source-config`, cargo would pass over the user's mirrors.
    let cargo = cargo(to)
        .args(["vendor", "--locked", "--versioned-dirs", "--respect-source-config", "--manifest-path"])
        .arg(manifest)
        .arg(FOLDER);
    let finished = cargo.run().map_err(other)?;
    if !finished.success() {
        return Err(Failed::Cargo { how: finished.how(), stderr: finished.stderr });
    }
    Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
}

impl Failed {
    /// Says what cargo's messages mean. They are those of cargo 1.95.
    pub(super) fn into_error(self, of: &Pin, lock_file: &str) -> SourceError {
        let (stderr, how) = match self {
            Self::Other(error) => return error,
            Self::Cargo { stderr, how } => (stderr, how),
        };
        let text = String::from_utf8_lossy(&stderr);
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let (reason, kind) = if has(&["--locked was passed"]) {
            ("it does not fit the manifest beside it".to_owned(), Kind::Config)
        } else if has(&["failed to select a version", "no matching package"]) {
            ("the registry has none that fit both it and the manifest beside it".to_owned(), Kind::Config)
        } else if has(&["checksum for `", "failed to verify the checksum", "checksum mismatch"]) {
            ("a crate does not have the digest that it names".to_owned(), Kind::Network)
        } else if has(&["failed to load manifest", "failed to parse", "failed to read"]) {
            ("cargo cannot read the workspace".to_owned(), Kind::Config)
        } else if has(&[
            "failed to download",
            "failed to get",
            "failed to fetch",
            "network",
            "failed to query",
        ]) {
            ("they cannot be fetched".to_owned(), Kind::Network)
        } else {
            (format!("cargo {how}"), Kind::Environment)
        };
        // From the error on; before it are the crates that were fetched.
        let from = text.find("error:").unwrap_or(0);
        let lines = text[from..].lines().map(str::trim_end).filter(|line| !line.is_empty());
        crates_error(of, lock_file, reason, lines.take(20).map(str::to_owned).collect(), kind)
    }
}

pub(super) fn crates_error(
    of: &Pin,
    lock_file: &str,
    reason: String,
    said: Vec<String>,
    kind: Kind,
) -> SourceError {
    let lock_file = format!("`{lock_file}` of `{}` {}", of.component, of.version);
    SourceError::Crates { lock_file, reason, said, kind }
}

/// Makes sure that the configuration only replaces sources that the lock file names by the
/// vendored ones: nothing of this machine, such as a mirror, may get into the archive.
fn check_config(config: &str, named: &Named) -> Result<(), String> {
    let unexpected = |what: &str| format!("cargo wants a configuration that is not expected: `{what}`");
    let table: toml::Table = toml::from_str(config).map_err(|error| unexpected(error.message()))?;
    for (key, sources) in &table {
        let sources = sources.as_table().filter(|_| key == "source").ok_or_else(|| unexpected(key))?;
        for (source, values) in sources {
            let values = values.as_table().ok_or_else(|| unexpected(source))?;
            for (key, value) in values {
                let value = value.as_str().unwrap_or_default();
                let in_lock = || named.sources.iter().any(|source| source.contains(value));
                let fine = match key.as_str() {
                    "directory" => source == VENDORED && value == FOLDER,
                    "replace-with" => source != VENDORED && value == VENDORED,
                    "git" | "registry" | "branch" | "tag" | "rev" => source != VENDORED && in_lock(),
                    _ => false,
                };
                if !fine {
                    return Err(unexpected(&format!("{key} = {value}")));
                }
            }
        }
    }
    Ok(())
}

/// Makes sure that each crate of the lock file is there: cargo takes the lock file of the
/// workspace that the manifest belongs to, which could be another one.
fn check_folders(scratch: &Path, named: &Named) -> Result<(), String> {
    match named.folders.iter().find(|folder| !scratch.join(FOLDER).join(folder).is_dir()) {
        None => Ok(()),
        Some(missing) => Err(format!(
            "cargo did not vendor {missing}; is it the lock file of the workspace that the manifest \
             beside it belongs to?"
        )),
    }
}

/// Compares a lock file with what was recorded of it.
fn verify(pin: &Pin, named: &Named) -> Result<(), SourceError> {
    let Some(entry) = &pin.evidence.0 else { return Ok(()) };
    let differs = |what: &str, locked: String, found: String| SourceError::LockDiffers {
        component: pin.component.to_string(),
        what: what.to_owned(),
        locked,
        found,
    };
    if let Some(locked) = entry.sha256.filter(|locked| *locked != named.sha256) {
        let what = format!("the digest of `{}`", entry.origin);
        return Err(differs(&what, locked.to_string(), named.sha256.to_string()));
    }
    // These follow from the file, so that an entry without its digest has none of them.
    let count = named.folders.len();
    match entry.crates.filter(|locked| usize::try_from(*locked) != Ok(count)) {
        Some(locked) => Err(differs("the number of crates", locked.to_string(), count.to_string())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
version = 4
[[package]]
name = "own"
version = "0.1.0"
[[package]]
name = "a"
version = "1.0.0+x"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "00"
[[package]]
name = "b"
version = "2.0.0"
source = "git+https://h/b?rev=abc#0123456789012345678901234567890123456789"
"#;

    #[test]
    fn a_lock_file_is_read() {
        let named = Named::read(LOCK).unwrap();
        assert_eq!(named.folders, ["a-1.0.0+x", "b-2.0.0"]);
        let commit = "0123456789012345678901234567890123456789".to_owned();
        assert_eq!(named.git, [("https://h/b?rev=abc".to_owned(), commit)].into());
        for bad in ["", "version = 4", "[[package]]\nname = 1", "\0"] {
            assert!(Named::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_sources_of_the_lock_file_are_replaced() {
        let named = Named::read(LOCK).unwrap();
        let end = "[source.vendored-sources]\ndirectory = \"vendor\"\n";
        let replaced = "replace-with = \"vendored-sources\"\n";
        let config = |more: &str| format!("[source.crates-io]\n{replaced}{more}\n{end}");
        let git =
            format!("[source.\"git+https://h/b?rev=abc\"]\ngit = \"https://h/b\"\nrev = \"abc\"\n{replaced}");
        assert_eq!(check_config(&config(&git), &named), Ok(()));
        for bad in [
            config("registry = \"https://mirror.example/index\""),
            config("[source.x]\ngit = \"https://elsewhere\""),
            config("[http]\nproxy = \"h\""),
            config("").replace("\"vendor\"", "\"/home/me/vendor\""),
            config("").replace("with = \"vendored-sources", "with = \"mirror"),
            "source = 1".to_owned(),
            "[".to_owned(),
        ] {
            assert!(check_config(&bad, &named).is_err(), "{bad}");
        }
    }
}
