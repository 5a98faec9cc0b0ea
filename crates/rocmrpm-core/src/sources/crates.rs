//! Vendors the crates in a source's `Cargo.lock` with cargo and packs them with the configuration
//! that makes cargo use them. It does not fetch or verify crates itself; cargo does, with the
//! user's configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Deserialize;

use super::fetcher::MTIME;
use super::{Fetcher, SourceError, Tree, file_name, identity, pack, source_dir, url};
use crate::digest::Sha256;
use crate::error::{IoError, Kind};
use crate::events::WorkPhase;
use crate::process::{self, Command};
use crate::workspace::pin::{LockEntry, Pin, Source};

/// cargo's name for the source of vendored crates.
const VENDORED: &str = "vendored-sources";

/// The folder of the crates, next to `.cargo`.
const FOLDER: &str = "vendor";

/// The external sources in a `Cargo.lock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// The digest of the lock file.
    pub sha256: Sha256,
    /// The commit of each git repository, by URL with the reference.
    pub git: BTreeMap<String, String>,
    /// The source of each crate, verbatim.
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
    source: Option<String>,
}

impl Named {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let file: LockFile = toml::from_str(text)
            .map_err(|error| format!("it is not a Cargo.lock: {}", error.message()))?;
        let mut named =
            Self { sha256: Sha256::of_bytes(text), git: BTreeMap::new(), sources: Vec::new() };
        for source in file.package.into_iter().filter_map(|package| package.source) {
            if let Some((url, commit)) =
                source.strip_prefix("git+").and_then(|git| git.split_once('#'))
            {
                named.git.insert(super::shown_url(url), commit.to_owned());
            }
            named.sources.push(source);
        }
        if named.sources.is_empty() { Err("it lists no crates".into()) } else { Ok(named) }
    }
}

impl Named {
    /// Returns the number of crates.
    pub fn crates(&self) -> usize {
        self.sources.len()
    }

    /// Reads the lock file in the unpacked source `of`.
    pub fn read_in(tree: &Tree, lock_file: &str, of: &Pin) -> Result<Self, SourceError> {
        let error = |reason| crates_error(of, lock_file, reason, Vec::new(), Kind::Config);
        let text = tree.text(lock_file)?.ok_or_else(|| error("the file does not exist".into()))?;
        let named = Named::read(&text).map_err(error)?;
        // Otherwise, upstream could make us pack any local repository.
        match named.sources.iter().find(|source| !is_elsewhere(source)) {
            Some(source) if !is_here(&of.source) => Err(error(format!(
                "it refers to a location on this machine, `{}`",
                super::shown_url(source)
            ))),
            _ => Ok(named),
        }
    }
}

impl Fetcher<'_> {
    /// Reads the lock file in the source `of`.
    pub(super) fn named_crates(&self, lock_file: &str, of: &Pin) -> Result<Named, SourceError> {
        Named::read_in(&self.tree(of)?, lock_file, of)
    }

    /// Ensures that the cache contains the archive of the crates and that it matches the lock.
    pub(super) fn pack_crates(
        &self,
        pin: &Pin,
        lock_file: &str,
        of: &Pin,
    ) -> Result<Sha256, SourceError> {
        let known = pin.evidence.0.as_deref();
        if let Some(known) = known {
            verify(pin, known, &self.named_crates(lock_file, of)?)?;
        }
        let locked = known.and_then(|entry| entry.archive);
        let (of_what, prefix) = (identity(of, self.workspace_root())?, source_dir(pin));
        let recipe = format!("crates 2\n{lock_file} of {of_what}\n{prefix}\n");
        match self.packed(&recipe)? {
            Some(digest) if locked.is_none_or(|locked| locked == digest) => return Ok(digest),
            _ => {}
        }
        let digest = self.vendor_crates(pin, lock_file, of, &recipe)?;
        match locked.filter(|locked| *locked != digest) {
            None => Ok(digest),
            Some(locked) => {
                let what = format!("the archive of the crates of `{lock_file}`");
                Err(differs(pin, what, locked.to_string(), digest.to_string()))
            }
        }
    }

    /// Vendors and packs the crates from a private copy of the source.
    fn vendor_crates(
        &self,
        pin: &Pin,
        lock_file: &str,
        of: &Pin,
        recipe: &str,
    ) -> Result<Sha256, SourceError> {
        let error = |reason| crates_error(of, lock_file, reason, Vec::new(), Kind::Config);
        self.needs_network(|| {
            format!("the crates of `{lock_file}` of `{}` {}", of.component, of.version)
        })?;
        let (_unpacked, tree) = self.private_tree(of)?;
        let named = Named::read_in(&tree, lock_file, of)?;
        self.phase(pin, WorkPhase::Fetching, format!("{} crates of {lock_file}", named.crates()));
        let scratch = self.cache().scratch()?;
        let manifest = Path::new(lock_file).with_file_name("Cargo.toml");
        if tree.text(&manifest.to_string_lossy())?.is_none() {
            return Err(error("there is no Cargo.toml next to it".to_owned()));
        }
        let manifest = tree.dir.join(manifest);
        let root = root_lock_file(&manifest, scratch.path())
            .map_err(|failed| failed.into_error(of, lock_file))?;
        if root.canonicalize().ok() != tree.dir.join(lock_file).canonicalize().ok() {
            let root = root.strip_prefix(&tree.dir).unwrap_or(&root);
            return Err(error(format!(
                "cargo uses `{}` of the cargo workspace instead",
                root.display()
            )));
        }
        let config =
            vendor(&manifest, scratch.path()).map_err(|failed| failed.into_error(of, lock_file))?;
        check_config(&config, &named, is_here(&of.source)).map_err(error)?;
        let action = || IoError::doing("pack crates");
        fs::create_dir(scratch.path().join(".cargo")).map_err(action())?;
        fs::write(scratch.path().join(".cargo/config.toml"), config).map_err(action())?;
        self.phase(pin, WorkPhase::Packing, file_name(pin));
        let packed = self.cache().scratch()?;
        let packed = packed.path().join("tar.gz");
        pack::folder(
            scratch.path(),
            pin.component.as_str(),
            pack::Which::All,
            &source_dir(pin),
            MTIME,
            &packed,
        )?;
        self.keep(&packed, recipe)
    }
}

/// Returns whether a source in `Cargo.lock`, such as `registry+https://...`, is on a server.
fn is_elsewhere(source: &str) -> bool {
    source.split_once('+').is_some_and(|(_, url)| is_on_server(url))
}

fn is_on_server(url: &str) -> bool {
    ["https://", "http://", "ssh://", "git://"].iter().any(|scheme| url.starts_with(scheme))
}

/// Returns whether a source comes from this machine.
fn is_here(source: &Source) -> bool {
    match source {
        Source::Folder { .. } => true,
        Source::Url { url, .. } | Source::Git { url, .. } => url::is_local(url),
        Source::Sdist { .. } | Source::Wheel { .. } | Source::Crates { .. } => false,
    }
}

/// Returns cargo in a folder. cargo fetches git repositories without the git program, whose
/// configuration could redirect it to local repositories.
pub(super) fn cargo(dir: &Path) -> Command {
    Command::new("cargo")
        .cwd(dir)
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        .env("CARGO_NET_GIT_FETCH_WITH_CLI", "false")
}

/// The reason why vendoring failed.
pub(super) enum Failed {
    Cargo { stderr: Vec<u8>, how: String },
    Other(SourceError),
}

/// Returns the lock file that cargo uses for a manifest: that of the workspace root.
fn root_lock_file(manifest: &Path, to: &Path) -> Result<PathBuf, Failed> {
    let cargo = cargo(to).args(["locate-project", "--workspace", "--message-format", "plain"]);
    let finished = cargo.arg("--manifest-path").arg(manifest).run();
    let finished = finished.map_err(|error| Failed::Other(error.into()))?;
    if !finished.success() {
        return Err(Failed::Cargo { how: finished.how(), stderr: finished.stderr });
    }
    Ok(Path::new(String::from_utf8_lossy(&finished.stdout).trim()).with_file_name("Cargo.lock"))
}

/// Runs cargo in the empty folder `to`, so that upstream's `.cargo/config.toml` and toolchain file
/// have no effect, and returns the configuration that it prints. cargo does not modify the
/// manifest's folder; the lock file must be up to date.
fn vendor(manifest: &Path, to: &Path) -> Result<String, Failed> {
    let other = |error: process::ProcessError| Failed::Other(error.into());
    // Without `--respect-source-config`, cargo would ignore the user's mirrors.
    let cargo = cargo(to)
        .args([
            "vendor",
            "--locked",
            "--versioned-dirs",
            "--respect-source-config",
            "--manifest-path",
        ])
        .arg(manifest)
        .arg(FOLDER);
    let finished = cargo.run().map_err(other)?;
    if !finished.success() {
        return Err(Failed::Cargo { how: finished.how(), stderr: finished.stderr });
    }
    Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
}

impl Failed {
    /// Explains the messages of cargo 1.95 and of rustup 1.28.
    pub(super) fn into_error(self, of: &Pin, lock_file: &str) -> SourceError {
        let (stderr, how) = match self {
            Self::Other(error) => return error,
            Self::Cargo { stderr, how } => (stderr, how),
        };
        let text = String::from_utf8_lossy(&stderr);
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        // rustup's message ends with a backtrace.
        if has(&["no default is configured", "no default toolchain configured"]) {
            let reason = "rustup has no default toolchain, so cargo cannot run".to_owned();
            return crates_error(of, lock_file, reason, Vec::new(), Kind::MissingTool);
        }
        let (reason, kind) = if has(&["--locked was passed"]) {
            ("it does not match the manifest next to it".to_owned(), Kind::Config)
        } else if has(&["failed to select a version", "no matching package"]) {
            (
                "the registry has no versions that match both it and the manifest".to_owned(),
                Kind::Config,
            )
        } else if has(&["checksum for `", "failed to verify the checksum", "checksum mismatch"]) {
            ("a crate does not match its digest in the lock file".to_owned(), Kind::Network)
        } else if has(&["failed to load manifest", "failed to parse", "failed to read"]) {
            ("cargo cannot read the workspace".to_owned(), Kind::Config)
        } else if has(&[
            "failed to download",
            "failed to get",
            "failed to fetch",
            "network",
            "failed to query",
        ]) {
            ("cargo cannot fetch them".to_owned(), Kind::Network)
        } else {
            (format!("cargo {how}"), Kind::Environment)
        };
        // Skip the list of fetched crates before the error.
        let from = text.find("error:").unwrap_or(0);
        let lines = text[from..].lines().map(str::trim_end).filter(|line| !line.is_empty());
        crates_error(of, lock_file, reason, lines.take(20).map(str::to_owned).collect(), kind)
    }
}

pub(super) fn crates_error(
    of: &Pin,
    lock_file: &str,
    reason: String,
    reported: Vec<String>,
    kind: Kind,
) -> SourceError {
    let lock_file = format!("`{lock_file}` of `{}` {}", of.component, of.version);
    SourceError::Crates { lock_file, reason, reported, kind }
}

/// Returns the keys by which cargo's configuration identifies a source in `Cargo.lock`.
fn settings_of(source: &str) -> BTreeMap<String, String> {
    let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    match source.split_once('+') {
        Some(("registry", url)) => [setting("registry", url)].into(),
        Some(("git", url)) => {
            let url = url.split_once('#').map_or(url, |(url, _)| url);
            let (url, query) = url.split_once('?').unwrap_or((url, ""));
            let reference = query.split('&').filter_map(|part| part.split_once('='));
            // References are percent-encoded since version 4 of the format.
            let reference = reference
                .map(|(key, value)| setting(key, &crate::text::percent_decode_lossy(value)));
            reference.chain([setting("git", url)]).collect()
        }
        _ => [setting("registry", source)].into(),
    }
}

/// Ensures that the configuration only replaces sources in the lock file with the vendored ones:
/// nothing specific to this machine, such as a mirror, may end up in the archive. `here` allows
/// sources on this machine.
fn check_config(config: &str, named: &Named, here: bool) -> Result<(), String> {
    let unexpected = |what: &str| format!("cargo requires an unexpected configuration: `{what}`");
    let table: toml::Table = toml::from_str(config).map_err(|error| unexpected(error.message()))?;
    let allowed: Vec<_> = named.sources.iter().map(|source| settings_of(source)).collect();
    for (key, sources) in &table {
        let sources =
            sources.as_table().filter(|_| key == "source").ok_or_else(|| unexpected(key))?;
        for (source, values) in sources {
            let values = values.as_table().ok_or_else(|| unexpected(source))?;
            let text = |value: &toml::Value| value.as_str().unwrap_or_default().to_owned();
            let mut settings: BTreeMap<_, _> =
                values.iter().map(|(key, value)| (key.clone(), text(value))).collect();
            let elsewhere = ["git", "registry"].iter().filter_map(|key| settings.get(*key));
            let mut elsewhere = elsewhere.map(|url| url.strip_prefix("sparse+").unwrap_or(url));
            let fine = (here || elsewhere.all(is_on_server))
                && match source == VENDORED {
                    true => settings == [("directory".to_owned(), FOLDER.to_owned())].into(),
                    false => {
                        settings.remove("replace-with").is_some_and(|with| with == VENDORED)
                            && (source == "crates-io" && settings.is_empty()
                                || allowed.contains(&settings))
                    }
                };
            if !fine {
                return Err(unexpected(&format!("[source.{source}] {values}")));
            }
        }
    }
    Ok(())
}

/// Compares a lock file with the recorded entry.
fn verify(pin: &Pin, entry: &LockEntry, named: &Named) -> Result<(), SourceError> {
    if let Some(locked) = entry.sha256.filter(|locked| *locked != named.sha256) {
        let what = format!("the digest of `{}`", entry.origin);
        return Err(differs(pin, what, locked.to_string(), named.sha256.to_string()));
    }
    // The following is derived from the file, so an entry without its digest has neither.
    let count = named.crates();
    match entry.crates.filter(|locked| usize::try_from(*locked) != Ok(count)) {
        Some(locked) => Err(differs(
            pin,
            "the number of crates".to_owned(),
            locked.to_string(),
            count.to_string(),
        )),
        None => Ok(()),
    }
}

fn differs(pin: &Pin, what: String, locked: String, found: String) -> SourceError {
    SourceError::LockDiffers { component: pin.component.to_string(), what, locked, found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Diagnose;

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
    fn reads_a_lock_file() {
        let named = Named::read(LOCK).unwrap();
        assert_eq!(named.crates(), 2);
        let commit = "0123456789012345678901234567890123456789".to_owned();
        assert_eq!(named.git, [("https://h/b?rev=abc".to_owned(), commit)].into());
        for bad in ["", "version = 4", "[[package]]\nsource = 1", "\0"] {
            assert!(Named::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn replaces_only_sources_of_the_lock_file() {
        let named = Named::read(LOCK).unwrap();
        let end = "[source.vendored-sources]\ndirectory = \"vendor\"\n";
        let replaced = "replace-with = \"vendored-sources\"\n";
        let config = |more: &str| format!("[source.crates-io]\n{replaced}{more}\n{end}");
        let git = format!(
            "[source.\"git+https://h/b?rev=abc\"]\ngit = \"https://h/b\"\nrev = \"abc\"\n{replaced}"
        );
        assert_eq!(check_config(&config(&git), &named, false), Ok(()));
        for bad in [
            config("registry = \"https://mirror.example/index\""),
            config("[source.x]\ngit = \"https://elsewhere\""),
            config(&git.replace("git = \"https://h/b\"", "git = \"https://h/\"")),
            config(&git.replace("rev = \"abc\"\n", "")),
            config(&git.replace("rev = \"abc\"", "rev = \"ab\"")),
            config("[http]\nproxy = \"h\""),
            config("").replace("\"vendor\"", "\"/home/me/vendor\""),
            config("").replace("with = \"vendored-sources", "with = \"mirror"),
            "source = 1".to_owned(),
            "[".to_owned(),
        ] {
            assert!(check_config(&bad, &named, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn rejects_local_sources_of_a_remote_source() {
        let lock = LOCK.replace("https://h/b?rev=abc", "https://h/x?rev=file:///private");
        let private = "[source.\"git+file:///private\"]\ngit = \"file:///private\"\nreplace-with = \"vendored-sources\"\n";
        assert!(check_config(private, &Named::read(&lock).unwrap(), false).is_err());
        let local = LOCK.replace("https://h/b?rev=abc", "file:///private");
        assert_eq!(check_config(private, &Named::read(&local).unwrap(), true), Ok(()));
        assert!(check_config(private, &Named::read(&local).unwrap(), false).is_err());
    }

    #[test]
    fn reports_rustup_without_a_toolchain_in_one_line() {
        let stderr = b"error: rustup could not choose a version of cargo to run, because one wasn't \
            specified explicitly, and no default is configured.\nhelp: run 'rustup default stable'\n\n\
            Stack backtrace:\n   0: anyhow::error\n";
        let of = crate::sources::name::tests::pin(
            "1",
            Source::Folder { path: "x".into(), paths: vec![] },
        );
        let failed = Failed::Cargo { stderr: stderr.to_vec(), how: "exited with 1".into() };
        let error = failed.into_error(&of, "Cargo.lock");
        assert!(
            error.to_string().ends_with("rustup has no default toolchain, so cargo cannot run")
        );
        assert_eq!(error.details(), [""; 0]);
        assert_eq!(
            (error.kind(), error.help()),
            (Kind::MissingTool, vec!["run `rustup default stable`".to_owned()])
        );
    }

    #[test]
    fn decodes_branches_of_a_lock_file() {
        let settings = settings_of("git+https://h/b?branch=a%2Fb#0123");
        let expected = [("branch", "a/b"), ("git", "https://h/b")];
        assert_eq!(
            settings,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
        );
        assert_eq!(settings_of("sparse+https://h/i/")["registry"], "sparse+https://h/i/");
        assert_eq!(settings_of("registry+https://h/i")["registry"], "https://h/i");
    }
}
