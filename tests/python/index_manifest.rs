//! Tests the signed manifest of a published index: what `index check` and `publish` detect with it.
//! Offline; needs rpmbuild, rpmsign, createrepo_c, gpg and strace.

#[allow(dead_code, reason = "the tests of the repository use the rest")]
#[path = "../packages/repository/keyring.rs"]
mod keyring;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use crate::support::documents;
use crate::support::server::{Reply, TestServer};
use crate::support::{Parts, Ran, Workspace, ran};
use keyring::Keyring;

const USER: &str = "Test <test@example.org>";

const INSTALL: &str = "\
site=%{buildroot}/usr/lib/python<{ chroot.python }>/site-packages
info=$site/<{ name }>-<{ version }>.dist-info
install -d $info
echo > $site/<{ name }>.py
printf 'Metadata-Version: 2.1\\nName: <{ name }>\\nVersion: <{ version }>\\n' > $info/METADATA
printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' > $info/WHEEL";

/// A workspace with one wheel and a signing key, and a folder to publish its index to.
struct ManifestFixture {
    workspace: Workspace,
    keyring: Keyring,
    holder: tempfile::TempDir,
}

impl ManifestFixture {
    fn new() -> Self {
        let workspace = Workspace::new();
        let provider = "mock-configs/rocm/host.toml";
        workspace.replace(
            provider,
            "version-header = \"/usr/include/hip/hip_version.h\"",
            "version = \"7.1\"",
        );
        let files = "/usr/lib/python<{ chroot.python }>/site-packages/*";
        workspace.component("demo", &Parts { install: INSTALL, files, ..Parts::default() });
        let manifest = workspace.read("rocmrpm.toml");
        workspace.write("rocmrpm.toml", format!("{manifest}[signing]\nkey = \"{USER}\"\n"));
        let fixture = Self {
            workspace,
            keyring: Keyring::with_key(USER),
            holder: tempfile::tempdir().unwrap(),
        };
        fixture.run(&["build"]).exits(0);
        fixture
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.workspace.command(args);
        command.env("GNUPGHOME", self.keyring.path());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(args))
    }

    fn index(&self) -> PathBuf {
        self.holder.path().join("index")
    }

    fn publish_command(&self, args: &[&str]) -> Command {
        let index = self.index();
        self.command(&[&["publish", "index", index.to_str().unwrap()], args].concat())
    }

    fn publish(&self, args: &[&str]) -> Ran {
        ran(&mut self.publish_command(args))
    }

    fn check(&self, args: &[&str]) -> Ran {
        let index = self.index();
        let check =
            ["index", "check", index.to_str().unwrap(), "--channel", "testing", "--offline"];
        self.run(&[&check, args].concat())
    }

    /// Changes the version of the wheel.
    fn update(&self, from: &str, to: &str) {
        self.workspace.replace(
            "pins/stable.toml",
            &format!("version = \"{from}\""),
            &format!("version = \"{to}\""),
        );
        self.run(&["build"]).exits(0);
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = walkdir::WalkDir::new(self.index()).into_iter().map(Result::unwrap);
        let files =
            entries.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path);
        files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }
}

fn put_back(files: &BTreeMap<PathBuf, Vec<u8>>) {
    for (path, bytes) in files {
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn detects_rollbacks_and_changed_pages() {
    let fixture = ManifestFixture::new();
    fixture.publish(&[]).exits(0);
    fixture.publish(&[]).exits(0).reports(["Unchanged"]);
    fixture.check(&["--digests"]).exits(0);
    let first = fixture.files();
    fixture.update("1.0", "1.1");
    fixture.publish(&[]).exits(0);
    fixture.check(&["--digests"]).exits(0);
    let envelope = std::fs::read(fixture.index().join("manifest.json")).unwrap();
    let envelope: serde_json::Value = serde_json::from_slice(&envelope).unwrap();
    let manifest = serde_json::from_str(envelope["manifest"].as_str().unwrap()).unwrap();
    assert_eq!(documents::check(&manifest), Some("rocmrpm/index-manifest/1"));
    let second = fixture.files();

    put_back(&first);
    let rolled_back = fixture.check(&[]);
    assert!(rolled_back.exits(1).stdout.contains("error[rollback]"), "{rolled_back}");
    fixture
        .publish(&[])
        .exits(20)
        .reports(["was rolled back: its serial number is 2, but this machine has seen 4"]);
    assert_eq!(
        fixture.files().get(&fixture.index().join("manifest.json")),
        first.get(&fixture.index().join("manifest.json"))
    );
    std::fs::remove_file(fixture.index().join("manifest.json")).unwrap();
    fixture.publish(&[]).exits(20).reports(["its serial number is 0"]);
    put_back(&first);
    fixture.check(&["--allow-rollback"]).exits(0);
    fixture.publish(&[]).exits(0);

    put_back(&second);
    for page in ["testing/simple/demo/index.html", "testing/simple/index.json"] {
        put_back(&second);
        let path = fixture.index().join(page);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text + " ").unwrap();
        let changed = fixture.check(&[]);
        assert!(changed.exits(1).stdout.contains("error[manifest-differs]"), "{changed}");
        assert!(changed.stdout.contains(page), "{changed}");
        fixture.publish(&[]).exits(20).reports([page, "was changed without a signature"]);
    }
    put_back(&second);

    let other = Keyring::with_key("Other <other@example.org>");
    let armor =
        ran(Command::new("gpg").args(["--armor", "--export"]).env("GNUPGHOME", other.path()));
    let wrong = fixture.workspace.write("wrong-key", armor.stdout);
    let refused = fixture.check(&["--key", wrong.to_str().unwrap()]);
    assert!(refused.exits(1).stdout.contains("error[manifest-invalid]"), "{refused}");
}

#[test]
fn checks_an_index_by_url_and_public_key() {
    let fixture = ManifestFixture::new();
    fixture.publish(&[]).exits(0);
    let index = fixture.index();
    let server = TestServer::start(move |seen| {
        std::fs::read(index.join(seen.path.trim_start_matches('/').replace("%2B", "+")))
            .map_or_else(|_| Reply::status(404), Reply::file)
    });
    let key = fixture.workspace.built("repository/RPM-GPG-KEY-test");
    let check = || {
        let args = ["index", "check", &server.url(""), "--key", key.to_str().unwrap(), "--digests"];
        // Without the keyring that contains the secret key.
        fixture.workspace.run(&args)
    };
    check().exits(0);
    let wheels = fixture.index().join("packages/demo");
    let wheel = std::fs::read_dir(wheels).unwrap().map(|entry| entry.unwrap().path());
    let wheel =
        wheel.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl")).unwrap();
    std::fs::write(wheel, "another").unwrap();
    let changed = check();
    assert!(changed.exits(1).stdout.contains("error[manifest-differs]"), "{changed}");
    std::fs::remove_file(fixture.index().join("manifest.json")).unwrap();
    let missing = check();
    assert!(missing.exits(1).stdout.contains("error[manifest-invalid]"), "{missing}");
}

#[test]
fn changes_a_signed_index_only_with_the_key() {
    let fixture = ManifestFixture::new();
    fixture.publish(&[]).exits(0);
    let before = fixture.files();
    let index = fixture.index();
    let promote = ["publish", "promote", index.to_str().unwrap()];
    let mut outside = fixture.command(&promote);
    ran(outside.current_dir(fixture.holder.path()))
        .exits(3)
        .reports(["is signed, but no key is configured"]);
    assert_eq!(fixture.files(), before);
    fixture.run(&promote).exits(0);
    assert_ne!(fixture.files(), before);
    fixture.check(&[]).exits(0);
    fixture
        .run(&["index", "check", index.to_str().unwrap(), "--channel", "stable", "--offline"])
        .exits(0);
}

/// Kills the publication at every system call that renames a file.
#[test]
fn interrupted_publishing_leaves_a_valid_manifest() {
    let fixture = ManifestFixture::new();
    fixture.publish(&[]).exits(0);
    fixture.update("1.0", "1.1");
    let mut killed = 0;
    for at in 1.. {
        let publish = fixture.publish_command(&[]);
        let mut strace = Command::new("strace");
        strace.args(["-qq", "-o", "/dev/null"]);
        let inject = format!("inject=rename,renameat2:signal=KILL:when={at}");
        strace.args(["-e", "trace=rename,renameat2", "-e", &inject]);
        strace.arg(publish.get_program()).args(publish.get_args());
        fixture.workspace.settle(&mut strace);
        strace.env("GNUPGHOME", fixture.keyring.path());
        let done = ran(&mut strace);
        // The two forms of a page may temporarily differ, but both are signed.
        let checked = fixture.check(&[]);
        assert!(
            matches!(checked.code, Some(0 | 1)) && !checked.stdout.contains("manifest-"),
            "{checked}"
        );
        assert!(checked.stdout.contains("1 distribution"), "{checked}");
        if done.code == Some(0) {
            break;
        }
        killed += 1;
        assert!(killed < 60, "it never finished");
    }
    assert!(killed > 3, "it was killed {killed} times");
    fixture.publish(&[]).exits(0).reports(["Unchanged"]);
    assert!(has_file(&fixture.index(), "demo-1.1"));
}

fn has_file(index: &Path, start: &str) -> bool {
    support::names_in(&index.join("packages/demo")).iter().any(|name| name.starts_with(start))
}
