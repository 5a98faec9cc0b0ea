//! Provides a temporary keyring with its own agent, which stops with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::ran;

pub struct Keyring {
    dir: tempfile::TempDir,
}

impl Keyring {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("rocmrpm-gpg-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .tempdir()
            .unwrap();
        // The agent cannot prompt for a passphrase.
        std::fs::write(dir.path().join("gpg-agent.conf"), "pinentry-program /bin/false\n").unwrap();
        Self { dir }
    }

    /// Creates a keyring that contains a key for this user ID without a passphrase.
    pub fn with_key(user: &str) -> Self {
        let keyring = Self::new();
        keyring.make(user, "", "never");
        keyring
    }

    pub fn make(&self, user: &str, passphrase: &str, expires: &str) {
        let options =
            ["--pinentry-mode", "loopback", "--passphrase", passphrase, "--faked-system-time"];
        let long_ago = "20200101T000000!";
        let time = if expires == "never" { [].as_slice() } else { &[options[4], long_ago] };
        let make =
            [&options[..4], time, &["--quick-generate-key", user, "rsa2048", "sign", expires]]
                .concat();
        ran(self.gpg().args(make)).exits(0);
        // Otherwise the agent would remember the passphrase.
        self.end_agent();
    }

    pub fn fingerprint(&self, user: &str) -> String {
        let list = ran(self.gpg().args(["--with-colons", "--list-secret-keys", user]));
        let line = list.stdout.lines().find(|line| line.starts_with("fpr:")).unwrap().to_owned();
        line.split(':').nth(9).unwrap().to_owned()
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn gpg(&self) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.args(["--batch", "--quiet"]).env("GNUPGHOME", self.path());
        gpg
    }

    fn end_agent(&self) {
        let _ =
            Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", self.path()).status();
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        self.end_agent();
    }
}

/// Checks packages with rpm, requiring a signature by this key.
pub fn checksig(key: &Path, packages: &[PathBuf]) -> crate::support::Ran {
    let db = tempfile::tempdir().unwrap();
    let rpmkeys = || {
        let mut command = Command::new("rpmkeys");
        command.arg("--dbpath").arg(db.path());
        command
    };
    ran(rpmkeys().arg("--import").arg(key)).exits(0);
    ran(rpmkeys().args(["--define", "_pkgverify_level all", "--checksig"]).args(packages))
}
