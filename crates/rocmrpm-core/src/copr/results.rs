//! Fetches the results of a build on COPR: its packages, which must be complete and signed by the
//! project, and its logs. Does not inspect the packages.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::client::{Client, curl, require_https};
use super::error::{CoprError, RESULT_URL};
use crate::process::{Command, last_lines};
use crate::rpms;
use crate::rpms::signing::RpmKeys;
use crate::text::{AsciiSet, SEGMENT, percent_encode};

/// The logs of a build to fetch. Source: COPR, backend's result folders.
const LOGS: &[&str] =
    &["builder-live.log", "build.log", "root.log", "state.log", "installed_pkgs.log", BACKEND_LOG];

/// The log of COPR's backend, which compresses it when it is done with a build. Source: COPR,
/// background_worker_build.py, `handle_task`.
pub(super) const BACKEND_LOG: &str = "backend.log";

/// The file that a builder leaves if it made packages.
const SUCCESS: &str = "success";

/// The maximum size of an unpacked log, in bytes; the rest is cut off.
const MOST_OF_A_LOG: u64 = 1 << 30;

/// The maximum size of a package, in bytes: far above the largest in a stack.
const MOST_OF_A_PACKAGE: u64 = 32 << 30;

/// The project's public key, in the folder above those of its chroots. Source: COPR, backend,
/// copr_backend/sign.py, `get_pubkey`.
const KEY: &str = "pubkey.gpg";

/// The maximum size of a public key, in bytes.
const MOST_OF_A_KEY: u64 = 1 << 20;

/// The bytes to percent-encode in file names: COPR's own links leave these three as is.
const FILE_NAME: &AsciiSet = &SEGMENT.remove(b'+').remove(b'@').remove(b':');

/// The results of one build for one chroot.
pub(super) struct Remote<'c, 'e> {
    client: &'c Client<'e>,
    build: u64,
    chroot: String,
    /// The URL of the folder, with a trailing slash.
    url: String,
}

/// Returns which of these builds have packages in the folders of the project's chroots, and whether
/// the backend is done with them. While the backend is not done, a build may still get packages. A
/// COPR that moves packages to Pulp leaves the file that marks a success.
pub(super) fn with_packages(
    client: &Client<'_>,
    builds: &BTreeSet<u64>,
) -> Result<BTreeMap<u64, bool>, CoprError> {
    let mut found = BTreeMap::new();
    for chroot in client.chroots()?.values().filter(|_| !builds.is_empty()) {
        for folder in client.files_at(chroot)? {
            // `00000026-lib`
            let number = folder.split_once('-').and_then(|(number, _)| number.parse().ok());
            let Some(build) = number.filter(|build| builds.contains(build)) else { continue };
            let files = client.files_at(&format!("{chroot}{folder}"))?;
            let done = !files.iter().any(|file| file == BACKEND_LOG);
            if !done || files.iter().any(|file| is_package(file)) {
                found.entry(build).and_modify(|all| *all &= done).or_insert(done);
            }
        }
    }
    Ok(found)
}

fn is_package(file: &str) -> bool {
    file == SUCCESS || file.ends_with(".rpm") && !file.ends_with(".src.rpm")
}

/// A package as COPR lists it.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    release: String,
    arch: String,
}

impl Package {
    fn file(&self) -> String {
        format!("{}-{}-{}.{}.rpm", self.name, self.version, self.release, self.arch)
    }
}

impl<'c, 'e> Remote<'c, 'e> {
    /// Looks up where the results of a build are; `None` if there are none.
    pub fn find(
        client: &'c Client<'e>,
        build: u64,
        chroot: &str,
    ) -> Result<Option<Self>, CoprError> {
        let id = build.to_string();
        let query = [("build_id", &*id), ("chrootname", chroot)];
        let answer =
            client.api(&format!("look up the results of build {build}"), "build-chroot", &query)?;
        let url =
            answer.as_ref().and_then(|answer| answer.get("result_url")).and_then(Value::as_str);
        let Some(url) = url.filter(|url| !url.is_empty()) else { return Ok(None) };
        require_https(RESULT_URL, url)?;
        let url = format!("{}/", url.trim_end_matches('/'));
        Ok(Some(Self { client, build, chroot: chroot.to_owned(), url }))
    }

    /// Looks up the results of a build's first step, which reads the SRPM; `None` if there are
    /// none. The frontend answers 500 for a build that has no log yet.
    pub fn find_source(client: &'c Client<'e>, build: u64) -> Result<Option<Self>, CoprError> {
        let asked = format!("look up the source build of build {build}");
        let answer = client.api_once(&asked, &format!("build/source-chroot/{build}"), &[]);
        let answer = match answer {
            Err(error) if error.passes() => None,
            answer => answer?,
        };
        let url =
            answer.as_ref().and_then(|answer| answer.get("result_url")).and_then(Value::as_str);
        let Some(url) = url.filter(|url| !url.is_empty()) else { return Ok(None) };
        require_https(RESULT_URL, url)?;
        let url = format!("{}/", url.trim_end_matches('/'));
        Ok(Some(Self { client, build, chroot: "srpm-builds".to_owned(), url }))
    }

    /// Fetches all binary packages of the build into a folder and returns them sorted. Keeps
    /// complete packages from an earlier fetch. Each must be signed with the project's key.
    pub fn packages(&self, dir: &Path) -> Result<Vec<PathBuf>, CoprError> {
        let id = self.build.to_string();
        let query = [("build_id", &*id), ("chrootname", &*self.chroot)];
        let asked = format!("list the packages of build {}", self.build);
        let answer = self.client.api(&asked, "build-chroot/built-packages", &query)?;
        let list = answer.and_then(|mut answer| answer.get_mut("packages").map(Value::take));
        let list: Vec<Package> = serde_json::from_value(list.unwrap_or_default())
            .map_err(|error| CoprError::Answer { asked, why: error.to_string() })?;
        let mut files = Vec::new();
        for file in list.iter().filter(|package| package.arch != "src").map(Package::file) {
            if file.contains('/') || file.starts_with('.') {
                let (asked, why) =
                    ("built-packages".to_owned(), format!("invalid package file name `{file}`"));
                return Err(CoprError::Answer { asked, why });
            }
            let to = dir.join(&file);
            if !to.exists() || self.whole(&to).is_err() {
                self.client.retried(|| {
                    match self.fetch(&file, &to, MOST_OF_A_PACKAGE) {
                        Err(CoprError::Server { reported, .. }) if reported.ends_with("404") => {
                            self.fetch_unpublished(&file, &to)?;
                        }
                        fetched => fetched?,
                    }
                    self.whole(&to)
                })?;
            }
            files.push(to);
        }
        files.sort();
        self.check_signatures(&files)?;
        Ok(files)
    }

    /// Removes and rejects packages that are not signed with the project's key.
    fn check_signatures(&self, files: &[PathBuf]) -> Result<(), CoprError> {
        let Some((folder, _)) = self.url.split_once(&format!("/{}/", self.chroot)) else {
            let why = format!("the results are not in a folder of {}", self.chroot);
            return Err(CoprError::Answer { asked: "build-chroot".to_owned(), why });
        };
        let holder = tempfile::tempdir()?;
        let path = holder.path().join(KEY);
        self.client
            .retried(|| self.fetch_from(&format!("{folder}/"), KEY, &path, MOST_OF_A_KEY))?;
        let keys = RpmKeys::with(&fs_err::read(&path)?)?;
        for path in files {
            if let Err(words) = keys.check(std::slice::from_ref(path))? {
                let _ = fs_err::remove_file(path);
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let key = format!("{folder}/{KEY}");
                return Err(CoprError::NotSigned { file, build: self.build, key, words });
            }
        }
        Ok(())
    }

    /// Fetches the available logs into a folder, unpacked. A missing log is not an error. Returns
    /// the logs that were fetched.
    pub fn logs(&self, dir: &Path) -> Result<Vec<PathBuf>, CoprError> {
        let mut logs = Vec::new();
        for name in LOGS {
            let (to, packed) = (dir.join(name), dir.join(format!("{name}.gz")));
            // Compressing a log removes the plain one of the running build.
            let came = self.fetch(&format!("{name}.gz"), &packed, MOST_OF_A_LOG).is_ok()
                && unpack(&packed, &to).is_ok();
            let _ = fs_err::remove_file(&packed);
            if came || self.fetch(name, &to, MOST_OF_A_LOG).is_ok() {
                logs.push(to);
            }
            crate::process::check_stop()?;
        }
        Ok(logs)
    }

    /// Fetches one file. An incomplete file never gets the file's name.
    fn fetch(&self, file: &str, to: &Path, most: u64) -> Result<(), CoprError> {
        self.fetch_from(&self.url, file, to, most)
    }

    /// Fetches a package from where a COPR that stores packages in Pulp keeps unpublished ones.
    /// Source: copr-cli, main.py, `action_download_build`.
    fn fetch_unpublished(&self, file: &str, to: &Path) -> Result<(), CoprError> {
        let (published, chroot) =
            (format!("/{}/", self.chroot), format!("/{}-devel/", self.chroot));
        self.fetch_from(&self.url.replace(&published, &chroot), file, to, MOST_OF_A_PACKAGE)
    }

    fn fetch_from(&self, folder: &str, file: &str, to: &Path, most: u64) -> Result<(), CoprError> {
        let part = to.with_file_name(format!("{file}.part"));
        let url = format!("{folder}{}", percent_encode(file, FILE_NAME));
        let done = curl(&url, most).arg("--fail").arg("--output").arg(&part).run()?;
        if !done.success() {
            let reported = last_lines(&done.stderr, 1).concat();
            let _ = fs_err::remove_file(&part);
            let what = format!("fetch `{file}` of build {}", self.build);
            return Err(CoprError::Server { what, url: self.client.url().to_owned(), reported });
        }
        fs_err::rename(&part, to)?;
        Ok(())
    }

    /// Verifies that a package is complete: a readable header, and rpm's digests over all of it.
    /// Removes a package that is not.
    fn whole(&self, path: &Path) -> Result<(), CoprError> {
        let proof = rpms::header(path).map_err(|error| error.to_string()).and_then(|_| {
            let rpm =
                Command::new("rpm").args(["-K", "--nosignature"]).arg(path).env("LC_ALL", "C");
            rpm.output().map_err(|error| error.to_string())
        });
        crate::process::check_stop()?;
        if let Err(why) = proof {
            let _ = fs_err::remove_file(path);
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(CoprError::Damaged { file, build: self.build, why });
        }
        Ok(())
    }
}

/// Unpacks a log. The server may already have unpacked it in transit.
fn unpack(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut bytes = fs_err::read(from)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice())
            .take(MOST_OF_A_LOG)
            .read_to_end(&mut text)?;
        bytes = text;
    }
    fs_err::write(to, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    use serde_json::json;

    use crate::events::Silent;

    /// Returns a client whose API gives this answer.
    fn answering(answer: Value) -> Client<'static> {
        Client::answering("alice/lab", &Silent, Box::new(move |_| Ok(answer.to_string())))
    }

    #[test]
    fn fetches_results_only_over_https() {
        for (answer, expected) in [
            (json!({"result_url": "https://r.example/x"}), Ok(Some("https://r.example/x/"))),
            (json!({"result_url": "https://r.example/x/"}), Ok(Some("https://r.example/x/"))),
            (json!({"result_url": ""}), Ok(None)),
            (json!({"result_url": null}), Ok(None)),
            (json!({}), Ok(None)),
            (json!({"result_url": "http://r.example/x"}), Err(())),
        ] {
            let client = answering(answer.clone());
            let url = |found: Result<Option<Remote<'_, '_>>, CoprError>| {
                found.map(|found| found.map(|remote| remote.url)).map_err(drop)
            };
            let expected = expected.map(|url| url.map(str::to_owned));
            assert_eq!(url(Remote::find(&client, 7, "fedora-43-x86_64")), expected, "{answer}");
            assert_eq!(url(Remote::find_source(&client, 7)), expected, "{answer}");
        }
    }

    #[test]
    fn rejects_package_names_outside_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        for (name, arch) in [("../x", "noarch"), (".x", "noarch"), ("x", "noarch/../..")] {
            let package = json!({"name": name, "version": "1", "release": "1", "arch": arch});
            let client = answering(json!({"packages": [package]}));
            let (chroot, url) = ("fedora-43-x86_64".to_owned(), "https://127.0.0.1:1/".to_owned());
            let remote = Remote { client: &client, build: 7, chroot, url };
            let error = remote.packages(dir.path()).unwrap_err().to_string();
            assert!(error.contains("invalid package file name"), "{error}");
        }
    }

    #[test]
    fn recognizes_packages_and_the_success_file() {
        for (file, expected) in [
            ("a-1-1.x86_64.rpm", true),
            ("success", true),
            ("a-1-1.src.rpm", false),
            ("build.log.gz", false),
            ("success.log", false),
        ] {
            assert_eq!(is_package(file), expected, "{file}");
        }
    }

    #[test]
    fn unpacks_compressed_and_plain_logs() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.gz"), dir.path().join("a"));
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(b"words").unwrap();
        for bytes in [gz.finish().unwrap(), b"words".to_vec()] {
            fs_err::write(&from, bytes).unwrap();
            unpack(&from, &to).unwrap();
            assert_eq!(fs_err::read(&to).unwrap(), b"words");
        }
    }
}
