//! Builds with exactly the packages of an earlier build, as listed in its `buildroot_lock.json`:
//! fetches them into a repository below the cache, and gives mock that repository and no other.
//!
//! mock's own `--hermetic-build` needs a bootstrap image that is ready, and its
//! `mock-hermetic-repo` neither fetches `file://` URLs, which the packages of the stack's own
//! repository have, nor verifies what it fetched. Source: mock, `docs/feature-hermetic-builds.md`,
//! `py/mock-hermetic-repo.py`, `process_hermetic_build_config` in `py/mockbuild/config.py`; of the
//! lock, `docs/buildroot-lock-schema-1.1.0.json`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::build::BuildError;
use crate::build::record::{BUILDROOT_LOCK, Results};
use crate::build::stage::Stage;
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::files;
use crate::names::{ComponentName, is_plain};
use crate::process::check_stop;
use crate::rpms::repository::{EPOCH_1980, make_metadata};
use crate::rpms::tags::{Tags, Value};
use crate::rpms::{self, RpmError};
use crate::sources::{Cache, SourceError, download_plain};
use crate::stack::REQUIRED;
use crate::template::python_literal;
use crate::text::file_url;

/// The digest of header and payload in an RPM's signature header (rpm, `rpmtag.h`,
/// `RPMSIGTAG_MD5`), called `sigmd5` in the lock.
const SIGNATURE_MD5: u32 = 1004;

/// The prefix of the folders in which a repository is being made.
const STAGING: &str = ".staging-";

/// The placeholder of rpm, and so of mock, for a package without such a digest.
const NONE: &str = "(none)";

/// The contents of a build root.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Lock {
    version: String,
    buildroot: Buildroot,
    #[serde(default)]
    config: Config,
    #[serde(default)]
    bootstrap: Bootstrap,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Buildroot {
    rpms: Vec<Package>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Config {
    bootstrap_image: Option<String>,
    #[serde(default)]
    bootstrap_image_ready: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Bootstrap {
    image_digest: Option<String>,
    pull_digest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Package {
    name: String,
    version: String,
    release: String,
    arch: String,
    epoch: Option<String>,
    sigmd5: Option<String>,
    url: String,
}

impl Package {
    fn file_name(&self) -> String {
        let Self { name, version, release, arch, .. } = self;
        format!("{name}-{version}-{release}.{arch}.rpm")
    }

    fn md5(&self) -> Option<&str> {
        self.sigmd5.as_deref().filter(|md5| !md5.is_empty() && *md5 != NONE)
    }

    /// Returns the package's name in the cache: two packages with one file name may differ.
    fn key(&self, ground: &str) -> Sha256 {
        let origin = match self.md5() {
            Some(md5) => md5.to_owned(),
            // rpm 6 packages have no such digest: use their origin instead.
            None if self.is_local() => format!("{} {ground}", self.url),
            None => self.url.clone(),
        };
        Sha256::of_bytes(canonical(&(self.file_name(), &self.epoch, origin)))
    }

    fn is_local(&self) -> bool {
        self.url.starts_with("file://")
    }
}

/// Why a hermetic build is not possible.
#[derive(Debug, thiserror::Error)]
pub enum HermeticError {
    /// Earlier builds left no lock.
    #[error("no {BUILDROOT_LOCK} found for {}", components.join(", "))]
    NoLock {
        /// The components without a lock.
        components: Vec<String>,
    },
    /// The lock has another format or is damaged.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The lock.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A package of the lock is no longer available.
    #[error("`{package}` of the build root is no longer available: {reason}")]
    Gone {
        /// The package's file name.
        package: String,
        /// Why not.
        reason: String,
        /// Whether the package should be on this machine rather than on the network.
        local: bool,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] SourceError),
    /// The metadata of the build root's packages could not be made.
    #[error(transparent)]
    Metadata(#[from] RpmError),
}

impl Diagnose for HermeticError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoLock { .. } => Kind::Config.with_help(
                "build with mock and without `--hermetic`, which writes the lock; other builders write none",
            ),
            Self::Unreadable { .. } => {
                Kind::Config.with_help("build without `--hermetic` to write a new one")
            }
            Self::Gone { local: true, .. } => Kind::Environment.with_help(
                "build without `--hermetic` to use current packages; the stack's repository has another build \
                 of this one now",
            ),
            Self::Gone { .. } => Kind::Network.with_help(
                "build without `--hermetic` to use current packages; mirrors remove superseded packages after \
                 a while",
            ),
            Self::Cache(error) => error.diagnosis(),
            Self::Metadata(error) => error.diagnosis(),
        }
    }
}

/// Returns the path of the lock in a component's accepted results.
pub(super) fn lock_of(build_dir: &Path, component: &ComponentName) -> PathBuf {
    Results::of(build_dir, Stage::Rpm, component).dir().join(BUILDROOT_LOCK)
}

/// Fails if one of these components has no lock for a hermetic build.
pub fn check_locks<'c>(
    build_dir: &Path,
    components: impl IntoIterator<Item = &'c ComponentName>,
) -> Result<(), HermeticError> {
    let without = components.into_iter().filter(|name| !lock_of(build_dir, name).is_file());
    let components: Vec<String> = without.map(|name| format!("`{name}`")).collect();
    if components.is_empty() { Ok(()) } else { Err(HermeticError::NoLock { components }) }
}

/// Returns the Python to append to the usual mock config, so that the build root has exactly the
/// lock's packages. Fetches packages that are not in the cache.
pub(super) fn settings(
    cache: &Cache,
    offline: bool,
    build_dir: &Path,
    component: &ComponentName,
) -> Result<String, BuildError> {
    check_locks(build_dir, [component])?;
    let path = lock_of(build_dir, component);
    let (lock, digest) = read(&path)?;
    let ground = Ground::of(build_dir, component)?;
    let repository = repository(cache, offline, &lock, &digest, &ground)?;
    Ok(overrides(&lock, &repository))
}

/// The stack's own packages in the build root. Two builds of a component may have packages of the
/// same name, but never the same key.
#[derive(Debug, Default)]
struct Ground {
    /// The keys of the required components, as one text.
    keys: String,
    /// The first required component whose key has changed since.
    changed: Option<String>,
}

impl Ground {
    fn of(build_dir: &Path, component: &ComponentName) -> Result<Self, IoError> {
        let results = |name: &ComponentName| Results::of(build_dir, Stage::Rpm, name).record();
        let mut ground = Self::default();
        let inputs = results(component)?.map(|record| record.inputs).unwrap_or_default();
        for (name, key) in inputs.iter() {
            let Some(required) = name.strip_prefix(REQUIRED) else { continue };
            ground.keys += &format!("{required} {key}\n");
            let now =
                ComponentName::parse(required).map(|name| results(&name)).transpose()?.flatten();
            if now.is_none_or(|record| record.key.to_string() != key) && ground.changed.is_none() {
                ground.changed = Some(required.to_owned());
            }
        }
        Ok(ground)
    }
}

fn read(path: &Path) -> Result<(Lock, Sha256), HermeticError> {
    let refused = |reason: String| HermeticError::Unreadable { path: path.to_owned(), reason };
    let bytes = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let lock: Lock = serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
    if !lock.version.starts_with("1.") {
        return Err(refused(format!(
            "its format is {}, not 1",
            crate::text::visible(&lock.version)
        )));
    }
    if let Some(odd) = lock.buildroot.rpms.iter().find(|package| !is_name(&package.file_name())) {
        return Err(refused(format!(
            "`{}` is not a package name",
            crate::text::visible(&odd.file_name())
        )));
    }
    let Lock { config, bootstrap, .. } = &lock;
    let names = [&config.bootstrap_image, &bootstrap.image_digest, &bootstrap.pull_digest];
    if let Some(odd) = names.into_iter().flatten().find(|name| !is_image(name)) {
        return Err(refused(format!(
            "`{}` is not the name or digest of an image",
            crate::text::visible(odd)
        )));
    }
    Ok((lock, Sha256::of_bytes(&bytes)))
}

/// Returns whether a text can be the name of an image or its digest (OCI Distribution
/// Specification, "Pulling manifests"): podman gets it as an argument, and mock evaluates it as a
/// Jinja template.
fn is_image(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@+".contains(c))
}

/// Returns whether a text can be an RPM's file name, which may have `~` and `^` in its version.
fn is_name(text: &str) -> bool {
    is_plain(&text.replace(['~', '^'], "."))
}

/// Returns the folder of the repository with exactly the lock's packages. It is created atomically.
fn repository(
    cache: &Cache,
    offline: bool,
    lock: &Lock,
    digest: &Sha256,
    ground: &Ground,
) -> Result<PathBuf, BuildError> {
    let above = cache.dir().join("buildroots");
    let dir = above.join(Sha256::of_bytes(format!("{digest}\n{}", ground.keys)).to_string());
    // One at a time: build roots share most of their packages.
    let _lock = cache.lock("buildroots").map_err(HermeticError::from)?;
    if dir.is_dir() {
        return Ok(dir);
    }
    fs_err::create_dir_all(&above)?;
    // Remove what killed runs left.
    for name in files::names_in(&above)?.iter().filter(|name| name.starts_with(STAGING)) {
        files::remove_dir_if_there(&above.join(name))?;
    }
    let staging = tempfile::Builder::new().prefix(STAGING).tempdir_in(&above)?;
    for package in &lock.buildroot.rpms {
        check_stop()?;
        let kept = above.join("packages").join(package.key(&ground.keys).to_string());
        if !kept.is_file() {
            fs_err::create_dir_all(above.join("packages"))?;
            let partial = staging.path().join("partial");
            if let Some(changed) = ground.changed.as_ref().filter(|_| package.is_local()) {
                let package = package.file_name();
                let reason = format!("`{changed}` was rebuilt from other inputs");
                return Err(HermeticError::Gone { package, reason, local: true }.into());
            }
            obtain(package, offline, &partial)?;
            fs_err::rename(&partial, &kept)?;
        }
        files::link_or_copy(&kept, &staging.path().join(package.file_name()))?;
    }
    make_metadata(staging.path(), EPOCH_1980, None).map_err(HermeticError::from)?;
    // mock reads it as root, and the build user through the permissions for others.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(staging.path(), open)?;
    fs_err::rename(staging.keep(), &dir)?;
    Ok(dir)
}

/// Fetches a package and verifies that it is the locked one.
fn obtain(package: &Package, offline: bool, to: &Path) -> Result<(), BuildError> {
    let local = package.is_local();
    let gone = |reason: String| HermeticError::Gone { package: package.file_name(), reason, local };
    if offline && !local {
        return Err(
            gone("it is not in the cache, and `--offline` disables downloads".into()).into()
        );
    }
    // Some servers decode `+` as a space; its escape is unambiguous.
    let url = match package.url.rsplit_once('/') {
        Some((folder, name)) if !local => format!("{folder}/{}", name.replace('+', "%2B")),
        _ => package.url.clone(),
    };
    // Reading a device or a pipe might never end.
    if local && !crate::text::path_of_file_url(&url).is_some_and(|path| path.is_file()) {
        return Err(gone(format!("{} does not exist", crate::text::visible(&url))).into());
    }
    match download_plain(&url, to) {
        Ok(()) => {}
        Err(error) if error.kind() == Kind::Interrupted => {
            return Err(HermeticError::from(error).into());
        }
        Err(error) => return Err(gone(error.to_string()).into()),
    }
    match identity(to) {
        Ok((name, epoch, md5)) => {
            let same_epoch = epoch.to_string() == package.epoch.as_deref().unwrap_or("0");
            let same_md5 = package.md5().is_none_or(|wanted| md5.as_deref() == Some(wanted));
            if name == package.file_name() && same_epoch && same_md5 {
                return Ok(());
            }
            Err(gone(format!("{} is a different package now", package.url)).into())
        }
        Err(error) => Err(gone(error.to_string()).into()),
    }
}

/// Returns a package's file name according to its header, its epoch, and its digest.
fn identity(path: &Path) -> Result<(String, u32, Option<String>), RpmError> {
    let header = rpms::header(path)?;
    let md5 = match Tags::read_signatures(path)?.0.remove(&SIGNATURE_MD5) {
        Some(value @ Value::Bytes(_)) => Some(value.to_string()),
        _ => None,
    };
    let name = format!("{}-{}-{}.{}.rpm", header.name, header.version, header.release, header.arch);
    Ok((name, header.epoch, md5))
}

/// Returns what to append to the usual config.
fn overrides(lock: &Lock, repository: &Path) -> String {
    let url = python_literal(&file_url(repository));
    let mut text = format!(
        "\n# Exactly the packages of an earlier build.\n\
         config_opts['root'] += '-hermetic'\n\
         config_opts['chroot_setup_cmd'] = 'install *'\n\
         config_opts['chroot_additional_packages'] = []\n\
         config_opts['update_before_build'] = False\n\
         config_opts['plugin_conf']['root_cache_enable'] = False\n\
         config_opts['plugin_conf']['buildroot_lock_enable'] = False\n\
         # dnf's own settings stay, its repositories go. What was signed was verified when the\n\
         # lock was written.\n\
         config_opts['dnf.conf'] = ''.join(\n    \
             '\\n[' + part for part in ('\\n' + config_opts['dnf.conf']).split('\\n[') if part.startswith('main]')\n\
         ) + '\\n[hermetic]\\nname=hermetic\\nenabled=1\\ngpgcheck=0\\nskip_if_unavailable=False\\nbaseurl=' + {url} + '\\n'\n"
    );
    match (&lock.config, &lock.bootstrap) {
        (
            Config { bootstrap_image: Some(image), bootstrap_image_ready: true },
            Bootstrap { pull_digest: Some(digest), image_digest },
        ) => {
            // podman takes either a tag or a digest, and a registry may have a port.
            let tag = image.rfind(':').filter(|at| !image[*at..].contains('/'));
            let image = format!("{}@{digest}", &image[..tag.unwrap_or(image.len())]);
            text += &format!(
                "config_opts['use_bootstrap'] = True\n\
                 config_opts['use_bootstrap_image'] = True\n\
                 config_opts['bootstrap_image'] = {}\n\
                 config_opts['bootstrap_image_fallback'] = False\n",
                python_literal(&image)
            );
            if let Some(digest) = image_digest {
                let digest = python_literal(digest);
                text += &format!("config_opts['bootstrap_image_assert_digest'] = {digest}\n");
            }
        }
        // A bootstrap root made of packages would need the network: use this machine's dnf instead.
        _ => text += "config_opts['use_bootstrap'] = False\n",
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rpm(dir: &Path, name: &str) -> PathBuf {
        let mut builder = rpm::PackageBuilder::new(name, "1.0", "MIT", "noarch", "a demo");
        builder.release("2.fc43").using_config(rpm::BuildConfig::v4().source_date(1_000u32));
        fs_err::create_dir_all(dir).unwrap();
        let path = dir.join(format!("{name}-1.0-2.fc43.noarch.rpm"));
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    fn entry(path: &Path, name: &str) -> serde_json::Value {
        let md5 = identity(path).unwrap().2;
        serde_json::json!({
            "name": name, "version": "1.0", "release": "2.fc43", "arch": "noarch", "epoch": null,
            "license": "MIT", "signature": null, "sigmd5": md5.unwrap_or(NONE.into()), "url": file_url(path),
        })
    }

    fn lock(dir: &Path, rpms: &[serde_json::Value], bootstrap: serde_json::Value) -> PathBuf {
        let path = dir.join(BUILDROOT_LOCK);
        let config = serde_json::json!({
            "bootstrap_image": "registry.example.org:5000/fedora:43",
            "bootstrap_image_ready": bootstrap.get("pull_digest").is_some(), "macros": {"%dist": ".fc43"},
        });
        let document = serde_json::json!({
            "version": "1.1.0", "buildroot": {"rpms": rpms}, "config": config, "bootstrap": bootstrap,
        });
        fs_err::write(&path, document.to_string()).unwrap();
        path
    }

    #[test]
    fn repository_has_exactly_the_locked_packages_and_stays_in_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (rpm(&dir.path().join("local"), "a"), rpm(&dir.path().join("local"), "b++"));
        let path = lock(dir.path(), &[entry(&a, "a"), entry(&b, "b++")], serde_json::json!({}));
        let cache = Cache::at(dir.path().join("cache"));
        let (read, digest) = read(&path).unwrap();
        let made = repository(&cache, true, &read, &digest, &Ground::default()).unwrap();
        let rpms = ["a-1.0-2.fc43.noarch.rpm", "b++-1.0-2.fc43.noarch.rpm", "repodata"];
        assert_eq!(files::names_in(&made).unwrap(), rpms);
        // Packages in the cache are not needed anywhere else.
        fs_err::remove_dir_all(dir.path().join("local")).unwrap();
        assert_eq!(repository(&cache, true, &read, &digest, &Ground::default()).unwrap(), made);
        fs_err::remove_dir_all(&made).unwrap();
        assert_eq!(repository(&cache, true, &read, &digest, &Ground::default()).unwrap(), made);
        assert_eq!(files::names_in(&cache.dir().join("buildroots")).unwrap().len(), 2);
    }

    #[test]
    fn reports_missing_and_changed_packages() {
        let dir = tempfile::tempdir().unwrap();
        let a = rpm(&dir.path().join("local"), "a");
        let b = rpm(&dir.path().join("other"), "b");
        let refused = |entry: serde_json::Value| {
            let cache = Cache::at(dir.path().join("cache"));
            let (read, digest) = read(&lock(dir.path(), &[entry], serde_json::json!({}))).unwrap();
            let error = repository(&cache, true, &read, &digest, &Ground::default()).unwrap_err();
            // No incomplete repository remains.
            assert!(
                files::names_in(&cache.dir().join("buildroots"))
                    .unwrap()
                    .iter()
                    .all(|name| name == "packages")
            );
            (error.to_string(), error.kind(), error.help().concat())
        };
        let mut other = entry(&a, "a");
        other["url"] = file_url(&b).into();
        let (text, kind, help) = refused(other);
        assert!(
            text.starts_with(
                "`a-1.0-2.fc43.noarch.rpm` of the build root is no longer available: "
            ),
            "{text}"
        );
        assert!(
            text.ends_with("is a different package now")
                && help.contains("another build of this one"),
            "{text} {help}"
        );
        assert_eq!(kind, Kind::Environment);
        let mut changed = entry(&a, "a");
        changed["sigmd5"] = "00".repeat(16).into();
        assert!(refused(changed).0.ends_with("is a different package now"));
        let cache = Cache::at(dir.path().join("another cache"));
        let (read, digest) =
            read(&lock(dir.path(), &[entry(&a, "a")], serde_json::json!({}))).unwrap();
        let ground = Ground { keys: "a 1\n".into(), changed: Some("a".into()) };
        let error = repository(&cache, true, &read, &digest, &ground).unwrap_err();
        assert!(error.to_string().ends_with("`a` was rebuilt from other inputs"), "{error}");
        let mut gone = entry(&a, "a");
        gone["url"] = file_url(&dir.path().join("gone.rpm")).into();
        assert_eq!(refused(gone).1, Kind::Environment);
        let mut endless = entry(&a, "a");
        endless["url"] = "file:///dev/zero".into();
        assert!(refused(endless).0.ends_with("file:///dev/zero does not exist"));
        let mut remote = entry(&a, "a");
        remote["url"] = "https://mirror.example.org/a-1.0-2.fc43.noarch.rpm".into();
        let (text, kind, _) = refused(remote);
        assert!(text.contains("--offline"), "{text}");
        assert_eq!(kind, Kind::Network);
    }

    #[test]
    fn reports_missing_and_damaged_locks() {
        let dir = tempfile::tempdir().unwrap();
        let name = ComponentName::parse("demo").unwrap();
        let error = check_locks(dir.path(), [&name]).unwrap_err();
        assert_eq!(error.to_string(), "no buildroot_lock.json found for `demo`");
        assert_eq!(error.kind(), Kind::Config);
        for bad in ["", "{}", "{\"version\": \"2.0.0\", \"buildroot\": {\"rpms\": []}}"] {
            let path = dir.path().join("lock");
            fs_err::write(&path, bad).unwrap();
            assert_eq!(read(&path).unwrap_err().kind(), Kind::Config, "{bad}");
        }
        let a = rpm(dir.path(), "a");
        let mut evil = entry(&a, "a");
        evil["name"] = "../../x".into();
        assert!(read(&lock(dir.path(), &[evil], serde_json::json!({}))).is_err());
        for digest in ["{{ 7 * 7 }}", "--root=/"] {
            assert!(
                read(&lock(dir.path(), &[], serde_json::json!({"pull_digest": digest}))).is_err()
            );
        }
    }

    #[test]
    fn pulls_bootstrap_image_by_digest() {
        let dir = tempfile::tempdir().unwrap();
        let text = |bootstrap| {
            let (read, _) = read(&lock(dir.path(), &[], bootstrap)).unwrap();
            overrides(&read, Path::new("/c/it's"))
        };
        let without = text(serde_json::json!({}));
        assert!(without.contains("config_opts['use_bootstrap'] = False"), "{without}");
        assert!(without.contains("baseurl=' + 'file:///c/it%27s'"), "{without}");
        let with = text(serde_json::json!({"pull_digest": "sha256:12", "image_digest": "34"}));
        assert!(with.contains("'registry.example.org:5000/fedora@sha256:12'"), "{with}");
        assert!(with.contains("['bootstrap_image_assert_digest'] = '34'"), "{with}");
    }

    #[test]
    fn cache_key_of_a_package_is_pinned() {
        let mut package: Package = serde_json::from_value(serde_json::json!({
            "name": "a", "version": "1", "release": "2", "arch": "noarch", "epoch": null, "sigmd5": "0f",
            "url": "file:///a.rpm",
        }))
        .unwrap();
        let text = |text: &str| Sha256::of_bytes(text);
        assert_eq!(package.key("ground"), text(r#"("a-1-2.noarch.rpm", None, "0f")"#));
        (package.sigmd5, package.epoch) = (None, Some("3".into()));
        assert_eq!(package.key("g"), text(r#"("a-1-2.noarch.rpm", Some("3"), "file:///a.rpm g")"#));
    }
}
