//! Tests the repository that users install from: signed, enabled by its release package, published
//! to a folder, over rsync and to S3, and read by the real dnf. Needs rpmbuild, rpmsign, gpg,
//! createrepo_c, dnf, rsync, aws, venv, and the index configured for pip.

pub(crate) mod keyring;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::publish::places::{Files, Moto, Rsyncd, Where, killed_at};
use crate::support::documents;
use crate::support::{Parts, Ran, Workspace, names_in, ran};
use keyring::{Keyring, checksig};
use rocmrpm::digest::Sha256;

const USER: &str = "Test <test@example.org>";

struct RepositoryFixture {
    workspace: Workspace,
    keyring: Option<Keyring>,
}

impl RepositoryFixture {
    /// Creates a workspace with two components and a `[repository] url`.
    fn new(keyring: Option<Keyring>) -> Self {
        let workspace = Workspace::new();
        workspace.component("one", &Parts::default());
        workspace.component("two", &Parts { preamble: "Requires: one", ..Parts::default() });
        let fixture = Self { workspace, keyring };
        let signing = if fixture.keyring.is_some() {
            format!("[signing]\nkey = \"{USER}\"\n")
        } else {
            String::new()
        };
        fixture.append(
            "rocmrpm.toml",
            &format!("{signing}[repository]\nurl = \"https://example.org/r/$releasever\"\n"),
        );
        fixture
    }

    fn append(&self, path: &str, text: &str) {
        self.workspace.write(path, self.workspace.read(path) + text);
    }

    fn command(&self, args: &[&str], place: Option<&Where>) -> Command {
        let mut command = self.workspace.command(args);
        if let Some(keyring) = &self.keyring {
            command.env("GNUPGHOME", keyring.path());
        }
        for (name, value) in place.into_iter().flat_map(Where::environment) {
            command.env(name, value);
        }
        command
    }

    fn build(&self) -> Ran {
        ran(&mut self.command(&["build", "--until", "rpm"], None))
    }

    fn publish_command(&self, place: &Where, args: &[&str]) -> Command {
        let mut all = vec!["publish", "repository"];
        all.extend(place.arguments());
        all.extend(args);
        self.command(&all, Some(place))
    }

    fn publish(&self, place: &Where, args: &[&str]) -> Ran {
        ran(&mut self.publish_command(place, args))
    }

    fn repository(&self) -> PathBuf {
        self.workspace.built("repository")
    }

    fn rpms(&self) -> Vec<PathBuf> {
        let names = names_in(&self.repository()).into_iter().filter(|name| name.ends_with(".rpm"));
        names.map(|name| self.repository().join(name)).collect()
    }

    /// Changes the version and content of a component.
    fn update(&self, component: &str, from: &str, to: &str) {
        self.workspace.write(format!("src/{component}/hello"), format!("hello {to}\n"));
        let pins = self.workspace.read("pins/stable.toml");
        let (before, after) =
            pins.split_once(&format!("[{component}]\nversion = \"{from}\"")).unwrap();
        self.workspace
            .write("pins/stable.toml", format!("{before}[{component}]\nversion = \"{to}\"{after}"));
        self.build().exits(0);
    }
}

/// Runs dnf with only this repository, requiring this key for packages and metadata, and downloads
/// `two` with its dependencies, which verifies everything.
fn dnf(repository: &Path, key: &str, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[r]\nname=r\nbaseurl=file://{}\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey={key}\n\
         skip_if_unavailable=0\n",
        repository.display().to_string().replace(' ', "%20")
    );
    for folder in ["repos", "log"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    std::fs::write(dir.path().join("repos/r.repo"), text).unwrap();
    let option =
        |name: &str, folder: &str| format!("--setopt={name}={}", dir.path().join(folder).display());
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args([
            "--mount",
            "dnf",
            "-y",
            "--releasever=43",
            "--setopt=module_platform_id=platform:f43",
        ])
        .arg(format!("--installroot={}", dir.path().join("root").display()))
        .args([option("reposdir", "repos"), option("cachedir", "cache"), option("logdir", "log")])
        .args([option("persistdir", "state"), "--setopt=install_weak_deps=0".into()])
        .args(args);
    let done = ran(&mut command);
    let root = dir.path().join("root/usr/share");
    assert!(
        done.code != Some(0) || root.join("two/hello").exists() || args[0] != "install",
        "{done}"
    );
    done
}

fn key_url(repository: &Path) -> String {
    format!(
        "file://{}",
        repository.join("RPM-GPG-KEY-test").display().to_string().replace(' ', "%20")
    )
}

#[test]
fn dnf_installs_signed_packages_and_rejects_changed_ones() {
    let fixture = RepositoryFixture::new(Some(Keyring::with_key(USER)));
    fixture.build().exits(0);
    // The results are the inspected packages, without a signature.
    fixture.workspace.assert_whole("one");
    let repository = fixture.repository();
    let key = repository.join("RPM-GPG-KEY-test");
    let rpms = fixture.rpms();
    assert_eq!(rpms.len(), 3, "{rpms:?}");
    checksig(&key, &rpms).exits(0);
    let unsigned: Vec<PathBuf> = names_in(&fixture.workspace.built("results/one"))
        .into_iter()
        .filter(|name| name.ends_with("noarch.rpm"))
        .map(|name| fixture.workspace.built("results/one").join(name))
        .collect();
    checksig(&key, &unsigned).exits(1);
    dnf(&repository, &key_url(&repository), &["install", "two"]).exits(0);

    // Nothing to do: nothing is signed again.
    let digests = |fixture: &RepositoryFixture| -> Vec<_> {
        fixture.rpms().iter().map(|rpm| Sha256::of_file(rpm).unwrap().0).collect()
    };
    let before =
        (digests(&fixture), std::fs::read(repository.join("repodata/repomd.xml.asc")).unwrap());
    fixture.build().exits(0);
    assert_eq!(
        before,
        (digests(&fixture), std::fs::read(repository.join("repodata/repomd.xml.asc")).unwrap())
    );
    // Only the changed package is signed again.
    fixture.update("two", "1.0", "1.1");
    let after = digests(&fixture);
    assert_eq!(before.0[..2], after[..2]);
    assert_ne!(before.0[2], after[2]);
    checksig(&key, &fixture.rpms()).exits(0);
    dnf(&repository, &key_url(&repository), &["install", "two"]).exits(0);

    // A repository with another key, and a package and metadata that were modified later.
    let other = Keyring::with_key("Other <other@example.org>");
    let armor =
        ran(Command::new("gpg").args(["--armor", "--export"]).env("GNUPGHOME", other.path()));
    let wrong = fixture.workspace.write("wrong-key", armor.stdout);
    dnf(&repository, &format!("file://{}", wrong.display()), &["install", "two"]).exits(1);
    let rpm = fixture.rpms().pop().unwrap();
    let good = std::fs::read(&rpm).unwrap();
    let mut bad = good.clone();
    let last = bad.len() - 20;
    bad[last] ^= 1;
    std::fs::write(&rpm, bad).unwrap();
    dnf(&repository, &key_url(&repository), &["install", "two"]).exits(1);
    std::fs::write(&rpm, good).unwrap();
    let repomd = repository.join("repodata/repomd.xml");
    let text = std::fs::read_to_string(&repomd).unwrap();
    std::fs::write(&repomd, text + "<!-- changed -->\n").unwrap();
    dnf(&repository, &key_url(&repository), &["install", "two"]).exits(1);

    // Without a key, nothing is signed and no key file remains.
    fixture.workspace.replace("rocmrpm.toml", &format!("[signing]\nkey = \"{USER}\"\n"), "");
    fixture.build().exits(0);
    assert!(!key.exists() && !repository.join("repodata/repomd.xml.asc").exists());
    assert_eq!(
        names_in(&repository.join("repodata")).iter().filter(|n| n.contains("primary")).count(),
        1
    );
    assert_eq!(std::fs::read(&unsigned[0]).unwrap(), std::fs::read(&fixture.rpms()[0]).unwrap());
}

#[test]
fn rejects_an_unusable_key_before_building() {
    let refused = |keyring: Keyring, code: i32, words: &[&str]| {
        let fixture = RepositoryFixture::new(Some(keyring));
        fixture.build().exits(code).reports(words);
        fixture.workspace.assert_nothing_of("one");
    };
    refused(
        Keyring::new(),
        3,
        &["no secret key `Test <test@example.org>`", "gpg --list-secret-keys"],
    );
    let two = Keyring::with_key(USER);
    two.make(&format!("Another {USER}"), "", "never");
    refused(two, 3, &["2 secret keys", "to one of these fingerprints"]);
    let locked = Keyring::new();
    locked.make(USER, "secret", "never");
    refused(locked, 20, &["is locked", "to enter the passphrase", "GPG_TTY"]);
    let expired = Keyring::new();
    expired.make(USER, "", "1d");
    refused(expired, 20, &["is expired", "--quick-set-expire"]);
}

#[test]
fn release_package_enables_the_repository() {
    let fixture = RepositoryFixture::new(Some(Keyring::with_key(USER)));
    fixture.append(
        "mock-configs/host.toml",
        "[[repositories]]\nid = \"amdrocm\"\nurl = \"https://repo.example.com/$basearch\"\n\
         gpg-key = \"https://repo.example.com/key\"\npriority = 50\n",
    );
    fixture.build().exits(0);
    let rpm = fixture
        .rpms()
        .into_iter()
        .find(|rpm| rpm.to_string_lossy().contains("test-release-"))
        .unwrap();
    let unpack = |rpm: &Path| {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            "cd {} && rpm2cpio {} | cpio -idm --quiet",
            dir.path().display(),
            rpm.display()
        );
        ran(Command::new("sh").args(["-c", &script])).exits(0);
        dir
    };
    let dir = unpack(&rpm);
    let text = std::fs::read_to_string(dir.path().join("etc/yum.repos.d/test.repo")).unwrap();
    assert_eq!(
        text,
        "[test]\nname=test\nbaseurl=https://example.org/r/$releasever\nenabled=1\nmetadata_expire=6h\ngpgcheck=1\n\
         repo_gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\n\n\
         [amdrocm]\nname=amdrocm\nbaseurl=https://repo.example.com/$basearch\nenabled=1\npriority=50\n\
         gpgcheck=1\ngpgkey=https://repo.example.com/key\n"
    );
    let key = std::fs::read(dir.path().join("etc/pki/rpm-gpg/RPM-GPG-KEY-test")).unwrap();
    assert_eq!(key, std::fs::read(fixture.repository().join("RPM-GPG-KEY-test")).unwrap());

    // The package is reproducible.
    let made = fixture.workspace.built("release");
    let unsigned = made.join(rpm.file_name().unwrap());
    let first = std::fs::read(&unsigned).unwrap();
    std::fs::remove_dir_all(&made).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    fixture.build().exits(0);
    assert_eq!(first, std::fs::read(&unsigned).unwrap());

    // Without a URL, COPR's is used; without COPR, there is no release package.
    let url = "[repository]\nurl = \"https://example.org/r/$releasever\"\n";
    fixture.workspace.replace("rocmrpm.toml", url, "");
    fixture.build().exits(0);
    assert_eq!(fixture.rpms().len(), 2);
    fixture.workspace.write(
        "mock-configs/fedora-43.toml",
        "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
         base-config = \"fedora-43-x86_64.cfg\"\nrocm-provider = \"host\"\n",
    );
    fixture.workspace.write(
        "copr/project.toml",
        "owner = \"@us\"\nproject = \"rocm\"\nchroots = [\"fedora-43-x86_64\"]\n",
    );
    fixture.build().exits(0);
    let dir = unpack(&fixture.rpms()[1]);
    let text = std::fs::read_to_string(dir.path().join("etc/yum.repos.d/test.repo")).unwrap();
    let results = "https://download.copr.fedorainfracloud.org/results/@us/rocm";
    assert!(text.starts_with("[copr:copr.fedorainfracloud.org:group_us:rocm]\n"), "{text}");
    assert!(text.contains("\nname=Copr repo for rocm owned by @us\n"), "{text}");
    assert!(text.contains(&format!("baseurl={results}/fedora-$releasever-$basearch/\n")), "{text}");
    assert!(text.contains(&format!("gpgkey={results}/pubkey.gpg\n")), "{text}");

    // Private files are not distributed to users.
    fixture.workspace.replace(
        "mock-configs/host.toml",
        "https://repo.example.com/key",
        "file:///root/key.asc",
    );
    let refused = fixture.build();
    assert!(
        refused.exits(3).stderr.contains("is /root/key.asc, a file of this machine"),
        "{refused}"
    );
}

/// Fails unless every file named by the metadata exists and matches; returns the packages.
fn whole(files: &Files) -> Vec<String> {
    let repomd = String::from_utf8(files["repodata/repomd.xml"].clone()).unwrap();
    let mut packages = Vec::new();
    let digest = |path: &str| {
        Sha256::of_bytes(&files.get(path).unwrap_or_else(|| panic!("{path} is missing"))[..])
    };
    for data in repomd.split("<data type=").skip(1) {
        let checksum = between(data, "<checksum type=\"sha256\">", "<");
        let path = between(data, "href=\"", "\"");
        assert_eq!(digest(path).to_string(), checksum, "{path}");
        if path.contains("-primary.xml") {
            for package in inflated(&files[path]).split("<package ").skip(1) {
                let path = between(package, "href=\"", "\"").to_owned();
                assert_eq!(
                    digest(&path).to_string(),
                    between(package, "pkgid=\"YES\">", "<"),
                    "{path}"
                );
                packages.push(path);
            }
        }
    }
    packages.sort();
    packages
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}")).1;
    rest.split_once(end).unwrap().0
}

fn inflated(bytes: &[u8]) -> String {
    if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return String::from_utf8(zstd::decode_all(bytes).unwrap()).unwrap();
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(bytes), &mut text).unwrap();
    text
}

/// Tests the requirements for every destination, from the first packages to the removal of old
/// ones.
fn story(place: &Where) {
    let fixture = RepositoryFixture::new(Some(Keyring::with_key(USER)));
    fixture.publish(place, &[]).exits(2).reports(["nothing to publish"]);
    fixture.build().exits(0);
    let dry = fixture.publish(place, &["--dry-run"]);
    dry.exits(0);
    for line in
        ["Add one-1.0-1.noarch.rpm (", "Write repodata/repomd.xml.asc", "Write test-release.rpm"]
    {
        assert!(dry.stdout.contains(line), "{line}\n{dry}");
    }
    assert_eq!(place.files(), Files::new());
    fixture
        .publish(place, &[])
        .exits(0)
        .reports(["Add two-1.0-1.noarch.rpm", "Published 3 packages, 3 of them new"]);
    let first = place.files();
    let state = serde_json::from_slice(&first["rocmrpm.json"]).unwrap();
    assert_eq!(documents::check(&state), Some("rocmrpm/repository/1"));
    assert_eq!(
        whole(&first),
        ["one-1.0-1.noarch.rpm", "test-release-1-1.noarch.rpm", "two-1.0-1.noarch.rpm"]
    );
    assert_eq!(first["test-release.rpm"], first["test-release-1-1.noarch.rpm"]);
    fixture.publish(place, &["--json"]).exits(0).document("rocmrpm/publish-repository/1");
    fixture.publish(place, &[]).exits(0).reports(["Unchanged"]);
    assert_eq!(place.files(), first);

    // Different content with the same name.
    fixture.workspace.write("src/one/hello", "another\n");
    fixture.build().exits(0);
    fixture.publish(place, &[]).exits(2).reports([
        "one-1.0-1.noarch.rpm",
        "a different build",
        "raises Release",
    ]);
    assert_eq!(place.files(), first);

    // Replaced files remain until the next publication.
    fixture.update("one", "1.0", "1.1");
    fixture
        .publish(place, &[])
        .exits(0)
        .reports(["Add one-1.1-1.noarch.rpm", "Drop one-1.0-1.noarch.rpm"]);
    let second = place.files();
    assert_eq!(whole(&second)[0], "one-1.1-1.noarch.rpm");
    for (path, bytes) in &first {
        let replaced = ["repomd.xml", "rocmrpm.json"].iter().any(|name| path.contains(name));
        assert!(replaced || second[path] == *bytes, "{path}");
    }
    fixture.append("rocmrpm.toml", "keep = 2\n");
    fixture.update("one", "1.1", "1.2");
    fixture.publish(place, &[]).exits(0).reports(["Add one-1.2-1.noarch.rpm"]);
    let third = place.files();
    let names = ["one-1.1-1.noarch.rpm", "one-1.2-1.noarch.rpm", "test-release-1-1.noarch.rpm"];
    assert_eq!(whole(&third)[..3], names);
    // Of the first publication, only files still in use remain.
    assert!(!third.contains_key("one-1.0-1.noarch.rpm"), "{:?}", third.keys());
    assert_eq!(third.keys().filter(|path| path.contains("-primary.xml")).count(), 2);
    let root = tempfile::tempdir().unwrap();
    for (path, bytes) in &third {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    dnf(root.path(), &key_url(root.path()), &["install", "two", "one-1.1"]).exits(0);
}

#[test]
fn publishes_to_a_folder() {
    let holder = tempfile::tempdir().unwrap();
    story(&Where::folder(holder.path()));
}

#[test]
fn publishes_over_rsync_with_a_remote_shell() {
    let holder = tempfile::tempdir().unwrap();
    story(&Where::remote_shell(holder.path()));
}

#[test]
fn publishes_to_an_rsync_daemon() {
    let server = Rsyncd::start();
    story(&Where::daemon(&server));
}

#[test]
fn publishes_to_s3() {
    let server = Moto::start();
    story(&Where::s3(&server));
    let head = server.head("index/repodata/repomd.xml");
    assert!(head.contains("text/xml") && head.contains("max-age=60"), "{head}");
    let head = server.head("index/two-1.0-1.noarch.rpm");
    assert!(head.contains("application/x-rpm") && head.contains("immutable"), "{head}");
}

/// Kills rocmrpm at every call of the tool, or every `step`-th, in these updates of a package. Clients
/// always find a valid repository, and the next run completes it.
fn kill_at_every(place: &Where, tool: &str, step: usize, updates: &[(&str, &str)]) {
    let fixture = RepositoryFixture::new(None);
    fixture.build().exits(0);
    fixture.publish(place, &[]).exits(0).reports(["are unsigned"]);
    let mut killed = 0;
    for (round, (from, to)) in updates.iter().enumerate() {
        fixture.update("one", from, to);
        for at in (1..).step_by(step) {
            let done = killed_at(&mut fixture.publish_command(place, &[]), tool, at);
            whole(&place.files());
            if done.code == Some(0) {
                break;
            }
            assert_eq!(done.code, None, "{done}");
            killed += 1;
        }
        assert!(whole(&place.files())[0].contains(to), "round {round}");
        assert_eq!(whole(&place.files()).len(), 3);
    }
    assert!(killed > 2, "{tool} was killed {killed} times");
    fixture.publish(place, &[]).exits(0).reports(["Unchanged"]);
    assert_old_packages_are_removed(&fixture, place);
}

#[test]
fn resumes_after_a_kill_during_rsync() {
    let server = Rsyncd::start();
    kill_at_every(&Where::daemon(&server), "rsync", 1, &[("1.0", "1.1"), ("1.1", "1.2")]);
}

#[test]
fn resumes_after_a_kill_during_aws() {
    let server = Moto::start();
    // One update, because each start of aws takes a second.
    kill_at_every(&Where::s3(&server), "aws", 5, &[("1.0", "1.2")]);
}

/// Tests the same for a folder, without a tool: killed at every system call that changes names.
#[test]
fn resumes_after_a_kill_at_any_step_in_a_folder() {
    let holder = tempfile::tempdir().unwrap();
    let place = Where::folder(holder.path());
    let fixture = RepositoryFixture::new(None);
    fixture.build().exits(0);
    fixture.publish(&place, &[]).exits(0);
    fixture.update("one", "1.0", "1.1");
    fixture.publish(&place, &[]).exits(0);
    fixture.update("one", "1.1", "1.2");
    let mut killed = 0;
    for at in 1.. {
        let mut strace = Command::new("strace");
        let inject =
            format!("inject=rename,renameat,renameat2,unlink,unlinkat:signal=KILL:when={at}");
        let publish = fixture.publish_command(&place, &[]);
        strace.args([
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=rename,renameat,renameat2,unlink,unlinkat",
            "-e",
            &inject,
        ]);
        strace.arg(publish.get_program()).args(publish.get_args());
        fixture.workspace.settle(&mut strace);
        let done = ran(&mut strace);
        whole(&place.files());
        if done.code == Some(0) {
            break;
        }
        killed += 1;
        assert!(killed < 200, "it never finished");
    }
    assert!(killed > 4, "it was killed {killed} times");
    assert_eq!(whole(&place.files())[0], "one-1.2-1.noarch.rpm");
    assert_old_packages_are_removed(&fixture, &place);
}

/// Checks that the next publication removes what a killed run should have removed.
fn assert_old_packages_are_removed(fixture: &RepositoryFixture, place: &Where) {
    fixture.update("one", "1.2", "1.3");
    fixture.publish(place, &[]).exits(0);
    let files = place.files();
    let old: Vec<_> =
        files.keys().filter(|path| path.contains("one-1.0") || path.contains("one-1.1")).collect();
    assert!(old.is_empty(), "{old:?}");
    assert_eq!(files.keys().filter(|path| path.contains("-primary.xml")).count(), 2);
}

/// Runs with a createrepo_c that truncates `repomd.xml` and exits with 0, like version 0.17 on a
/// full disk.
fn with_truncating_createrepo_c(command: &mut Command, bin: &Path) -> Ran {
    use std::os::unix::fs::PermissionsExt;
    let real = rocmrpm::process::find_program("createrepo_c").unwrap();
    let script = format!(
        "#!/bin/sh\n'{}' \"$@\" || exit\nfor last; do :; done\n: > \"$last/repodata/repomd.xml\"\n",
        real.display()
    );
    let program = bin.join("createrepo_c");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    ran(command.env("PATH", path))
}

#[test]
fn never_publishes_truncated_metadata_and_repairs_it() {
    let (holder, bin) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = Where::folder(holder.path());
    let fixture = RepositoryFixture::new(None);
    fixture.build().exits(0);
    fixture.publish(&place, &[]).exits(0);
    fixture.update("one", "1.0", "1.1");
    let before = place.files();
    with_truncating_createrepo_c(&mut fixture.publish_command(&place, &[]), bin.path())
        .exits(20)
        .reports(["repodata/repomd.xml: damaged metadata: it does not end with </repomd>"]);
    assert_eq!(place.files(), before);
    fixture.publish(&place, &[]).exits(0);
    let good = place.files();
    assert_eq!(whole(&good)[0], "one-1.1-1.noarch.rpm");

    // State published by a release without this check.
    let mut state: serde_json::Value = serde_json::from_slice(&good["rocmrpm.json"]).unwrap();
    for (serial, repomd) in [(100, ""), (200, "<repomd>\n")] {
        state["repomd"] = repomd.into();
        state["serial"] = serial.into();
        place.put("rocmrpm.json", &serde_json::to_vec(&state).unwrap());
        place.put("repodata/repomd.xml", repomd.as_bytes());
        fixture.publish(&place, &[]).exits(0).never_reports("Unchanged");
        assert_eq!(whole(&place.files()), whole(&good));
        fixture.publish(&place, &[]).exits(0).reports(["Unchanged"]);
    }

    // The build's own repository.
    fixture.workspace.write("src/two/hello", "another\n");
    with_truncating_createrepo_c(
        &mut fixture.command(&["build", "--until", "rpm"], None),
        bin.path(),
    )
    .exits(20)
    .reports(["damaged metadata"]);
}

#[test]
fn rejects_a_repository_that_was_rolled_back() {
    let holder = tempfile::tempdir().unwrap();
    let place = Where::folder(holder.path());
    let fixture = RepositoryFixture::new(None);
    fixture.build().exits(0);
    fixture.publish(&place, &[]).exits(0);
    let old = place.files();
    fixture.update("one", "1.0", "1.1");
    fixture.publish(&place, &[]).exits(0);
    for path in ["rocmrpm.json", "repodata/repomd.xml"] {
        place.put(path, &old[path]);
    }
    fixture
        .publish(&place, &[])
        .exits(20)
        .reports(["its serial number is 1, but this machine has seen 2"]);
    assert_eq!(place.files()["rocmrpm.json"], old["rocmrpm.json"]);
    fixture.publish(&place, &["--allow-rollback"]).exits(0);
    assert_eq!(whole(&place.files())[0], "one-1.1-1.noarch.rpm");
}

#[test]
fn syncs_published_files_before_and_after_renaming() {
    let holder = tempfile::tempdir().unwrap();
    let place = Where::folder(holder.path());
    let fixture = RepositoryFixture::new(None);
    fixture.build().exits(0);
    let trace = holder.path().join("trace");
    let publish = fixture.publish_command(&place, &[]);
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-y", "-qq", "-s", "4096", "-e", "trace=fsync,rename,renameat2", "-o"])
        .arg(&trace);
    strace.arg(publish.get_program()).args(publish.get_args());
    fixture.workspace.settle(&mut strace);
    ran(&mut strace).exits(0);
    let root = place.arguments().next().unwrap().to_owned();
    let (mut synced, mut renamed, mut unsynced) = (Vec::new(), 0, Vec::new());
    for line in std::fs::read_to_string(&trace).unwrap().lines() {
        if line.contains("fsync(") {
            let path = between(line, "<", ">").to_owned();
            unsynced.retain(|folder| *folder != path);
            synced.push(path);
        } else if let Some((_, names)) = line.split_once("\"").filter(|_| line.contains(&root)) {
            let (from, rest) = names.split_once('"').unwrap();
            let to = between(rest, "\"", "\"");
            if to.starts_with(&root) {
                assert!(synced.iter().any(|path| path == from), "{from} was not synced\n{line}");
                unsynced.push(Path::new(to).parent().unwrap().display().to_string());
                renamed += 1;
            }
        }
    }
    assert!(renamed > 5, "{renamed} files were renamed");
    assert_eq!(unsynced, [""; 0], "folders that were not synced");
}

#[test]
fn does_not_overwrite_foreign_repositories() {
    let holder = tempfile::tempdir().unwrap();
    let place = Where::folder(holder.path());
    let fixture = RepositoryFixture::new(None);
    fixture.build().exits(0);
    place.put("repodata/repomd.xml", b"<repomd/>");
    fixture.publish(&place, &[]).exits(2).reports(["that rocmrpm did not publish"]);
    place.remove("repodata/repomd.xml");
    // The build's own repository cannot be a destination.
    let own = fixture.repository();
    ran(&mut fixture.command(&["publish", "repository", own.to_str().unwrap()], None))
        .exits(2)
        .reports(["did not publish"]);
    fixture.publish(&place, &[]).exits(0);
    let before = place.files();
    // A new key.
    let keyring = Keyring::with_key(USER);
    fixture
        .append("rocmrpm.toml", &format!("[signing]\nkey = \"{}\"\n", keyring.fingerprint(USER)));
    let fixture = RepositoryFixture { keyring: Some(keyring), ..fixture };
    fixture
        .publish(&place, &[])
        .exits(2)
        .reports(["is not signed, but this one is signed with", "publish to a new folder"]);
    assert_eq!(place.files(), before);
    let damaged =
        String::from_utf8(before["rocmrpm.json"].clone()).unwrap().replace("repodata/", "../x/");
    place.put("rocmrpm.json", damaged.as_bytes());
    fixture.publish(&place, &[]).exits(20).reports(["is damaged"]);
}

#[test]
fn rejects_dirty_builds() {
    let holder = tempfile::tempdir().unwrap();
    let place = Where::folder(holder.path());
    let fixture = RepositoryFixture::new(None);
    fixture.workspace.commit("Begin");
    fixture.workspace.write("src/one/hello", "changed\n");
    fixture.build().exits(0);
    fixture
        .publish(&place, &[])
        .exits(2)
        .reports(["built from uncommitted changes", "--allow-dirty"]);
    assert_eq!(std::fs::read_dir(holder.path()).unwrap().count(), 0);
    fixture.publish(&place, &["--allow-dirty"]).exits(0).reports(["which no one else can repeat"]);
    whole(&place.files());
}
