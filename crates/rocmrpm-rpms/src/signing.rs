//! Signs with gpg and rpmsign and the user's key: packages, and files with detached signatures;
//! exports the public key. It does not decide what to sign, and never handles the passphrase, which
//! is up to the agent.

use std::path::{Path, PathBuf};

use fs_err as fs;

use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::process::{
    Command, Finished, ProcessError, find_program, install_help, last_lines,
};
use rocmrpm_base::text::visible;

/// The number of lines of a tool's output in an error.
const WORDS: usize = 6;

/// A key that can sign.
#[derive(Debug, Clone)]
pub struct Signer {
    gpg: PathBuf,
    fingerprint: String,
    public: Vec<u8>,
    file_name: String,
}

/// Why signing failed.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// gpg is not installed.
    #[error("`gpg` is not installed; [signing] needs it")]
    NoGpg,
    /// gpg does not have the secret key.
    #[error("gpg has no secret key `{key}` for [signing]")]
    NoKey {
        /// The key as written in the workspace.
        key: String,
    },
    /// Several secret keys match the name.
    #[error("`{key}` matches {} secret keys: {}", found.len(), found.join(", "))]
    Ambiguous {
        /// The key as written in the workspace.
        key: String,
        /// The fingerprints of the matching keys.
        found: Vec<String>,
    },
    /// The key exists but can no longer sign.
    #[error("the signing key {fingerprint} is {state}")]
    Unusable {
        /// The fingerprint of the key.
        fingerprint: String,
        /// The state of the key, such as `expired`.
        state: &'static str,
    },
    /// The agent does not have the passphrase and cannot ask for it.
    #[error(
        "the signing key {fingerprint} is locked, and no terminal is available to ask for its passphrase"
    )]
    Locked {
        /// The fingerprint of the key.
        fingerprint: String,
        /// gpg's output.
        words: Vec<String>,
    },
    /// The passphrase was wrong.
    #[error("the passphrase for the signing key {fingerprint} was wrong")]
    WrongPassphrase {
        /// The fingerprint of the key.
        fingerprint: String,
        /// gpg's output.
        words: Vec<String>,
    },
    /// gpg or rpm failed in another way.
    #[error("cannot {action}: `{program}` {how}")]
    Tool {
        /// The failed action.
        action: &'static str,
        /// The name of the tool.
        program: &'static str,
        /// The exit status.
        how: String,
        /// The last lines of the tool's output.
        words: Vec<String>,
    },
    /// rpm does not accept the signatures with the exported key.
    #[error("rpm rejects the signatures of the key {fingerprint}")]
    NotVerified {
        /// The fingerprint of the key.
        fingerprint: String,
        /// rpm's output.
        words: Vec<String>,
    },
    /// An I/O operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A tool could not be run, or the user interrupted rocmrpm.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Diagnose for SigningError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoGpg => Kind::MissingTool.with_help(install_help("gpg")),
            Self::NoKey { .. } => Kind::Config
                .with_help(
                    "run `gpg --list-secret-keys` to list the keys; set GNUPGHOME to use another keyring",
                )
                .with_help("or remove `[signing]` from rocmrpm.toml to sign nothing"),
            Self::Ambiguous { .. } => {
                Kind::Config.with_help("set the key in `[signing]` to one of these fingerprints")
            }
            Self::Unusable { fingerprint, .. } => Kind::Environment
                .with_help(format!("run `gpg --quick-set-expire {fingerprint} 2y` to renew an expired key"))
                .with_help("or use another key in rocmrpm.toml"),
            Self::Locked { fingerprint, words, .. } | Self::WrongPassphrase { fingerprint, words, .. } => {
                let unlock = format!("gpg --local-user {fingerprint} --output /dev/null --sign /dev/null");
                Kind::Environment
                    .with_help(format!(
                        "run `{unlock}` to enter the passphrase; gpg's agent then remembers it for a while"
                    ))
                    .with_help("in a terminal, run `export GPG_TTY=$(tty)` first so that gpg can ask")
                    .with_details(words)
            }
            Self::Tool { words, .. } | Self::NotVerified { words, .. } => {
                Diagnosis::from(Kind::Environment).with_details(words)
            }
            Self::Io(error) => error.diagnosis(),
            Self::Process(error) => error.diagnosis(),
        }
    }
}

impl Signer {
    /// Finds the secret key with this name and exports its public part, which is published as
    /// `RPM-GPG-KEY-<stack>`.
    pub fn find(key: &str, stack: &str) -> Result<Self, SigningError> {
        let gpg = find_program("gpg").ok_or(SigningError::NoGpg)?;
        let command = ["--with-colons", "--fixed-list-mode", "--list-secret-keys", "--", key];
        let listed = run(Command::new("gpg").arg("--batch").args(command))?;
        let listing = String::from_utf8_lossy(&listed.stdout).into_owned();
        let (fingerprint, state) = match &primary_keys(&listing)[..] {
            [] => return Err(SigningError::NoKey { key: visible(key) }),
            [one] => one.clone(),
            many => {
                let found = many.iter().map(|(fingerprint, _)| fingerprint.clone()).collect();
                return Err(SigningError::Ambiguous { key: visible(key), found });
            }
        };
        if let Some(state) = state {
            return Err(SigningError::Unusable { fingerprint, state });
        }
        let export =
            Command::new("gpg").args(["--batch", "--armor", "--export-options", "export-minimal"]);
        let export = run(export.args(["--export", &fingerprint]))?;
        if !export.success() || export.stdout.is_empty() {
            return Err(failed("export the signing key", "gpg", &export));
        }
        Ok(Self { gpg, fingerprint, public: export.stdout, file_name: key_file(stack) })
    }

    /// Returns the fingerprint of the key.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the public key, in ASCII armor.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns the name of the file with the public key.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Checks that the key can sign now by signing some test data, so that gpg asks for a
    /// passphrase before hours of work instead of after them.
    pub fn probe(&self) -> Result<(), SigningError> {
        self.detached(&["--output", "-"], b"rocmrpm").map(drop)
    }

    /// Returns the detached signature of bytes, in ASCII armor, verified with only the public key.
    pub fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SigningError> {
        let signature = self.detached(&["--armor", "--output", "-"], bytes)?;
        if is_signed_by(&self.public, bytes, &signature)? {
            return Ok(signature);
        }
        let how = "wrote an invalid signature".to_owned();
        Err(SigningError::Tool { action: "sign", program: "gpg", how, words: Vec::new() })
    }

    /// Writes the detached signature of a file, in ASCII armor.
    pub fn sign_file(&self, file: &Path, signature: &Path) -> Result<(), SigningError> {
        let bytes = fs::read(file).map_err(IoError::doing("read the file to sign"))?;
        let signed = self.sign(&bytes)?;
        Ok(fs::write(signature, signed).map_err(IoError::doing("write a signature"))?)
    }

    fn detached(&self, options: &[&str], bytes: &[u8]) -> Result<Vec<u8>, SigningError> {
        let command = Command::new("gpg").args(["--batch", "--yes", "--status-fd", "2"]);
        let command =
            command.args(["--local-user", &self.fingerprint, "--detach-sign"]).args(options);
        let finished = run(command.arg("-").stdin(bytes))?;
        if finished.success() && !finished.stdout.is_empty() {
            return Ok(finished.stdout);
        }
        Err(self.refused(&finished, "gpg", "sign"))
    }

    /// Signs packages in place, replacing existing signatures, and verifies each with only the
    /// public key, as a machine that trusts this key would.
    pub fn sign_rpms(&self, rpms: &[PathBuf]) -> Result<(), SigningError> {
        if rpms.is_empty() {
            return Ok(());
        }
        self.probe()?;
        // rpm's default path of gpg differs between distributions. All versions support
        // `_gpg_name`: rpm 6 uses it if `_openpgp_sign_id` is not set (its macros file).
        let command = Command::new("rpmsign")
            .args(["--define", &format!("__gpg {}", self.gpg.display())])
            .args(["--define", &format!("_gpg_name {}", self.fingerprint)])
            .args(["--define", &format!("_openpgp_sign_id {}", self.fingerprint)])
            .args(["--define", "_openpgp_sign gpg", "--addsign"]);
        let finished = run(command.args(rpms))?;
        if !finished.success() {
            return Err(self.refused(&finished, "rpmsign", "sign packages"));
        }
        self.verify(rpms)
    }

    /// Verifies packages with only the public key.
    fn verify(&self, rpms: &[PathBuf]) -> Result<(), SigningError> {
        match RpmKeys::with(&self.public)?.check(rpms)? {
            Ok(()) => Ok(()),
            Err(words) => {
                Err(SigningError::NotVerified { fingerprint: self.fingerprint.clone(), words })
            }
        }
    }

    /// Returns the reason why gpg did not sign. Source: GnuPG's doc/DETAILS, "STATUS";
    /// libgpg-error's err-codes.h.
    fn refused(
        &self,
        finished: &Finished,
        program: &'static str,
        action: &'static str,
    ) -> SigningError {
        let stderr = String::from_utf8_lossy(&finished.stderr);
        let fingerprint = self.fingerprint.clone();
        let messages: Vec<String> = words(&finished.stderr)
            .into_iter()
            .filter(|line| !line.starts_with("[GNUPG:]"))
            .collect();
        let has = |parts: &[&str]| parts.iter().any(|part| stderr.contains(part));
        if has(&["Bad passphrase", "BAD_PASSPHRASE"]) {
            return SigningError::WrongPassphrase { fingerprint, words: messages };
        }
        let locked = [
            "Inappropriate ioctl",
            "No pinentry",
            "Operation cancelled",
            "Timeout",
            "No passphrase given",
        ];
        if has(&locked) || has(&["Screen or window too small", "Not a terminal", "End of file"]) {
            return SigningError::Locked { fingerprint, words: messages };
        }
        if has(&["KEYEXPIRED", "Unusable secret key", "Key expired"]) {
            return SigningError::Unusable { fingerprint, state: "expired or not allowed to sign" };
        }
        SigningError::Tool { action, program, how: finished.how(), words: messages }
    }
}

/// Returns whether a detached signature of bytes is valid and from this public key, which must be
/// neither expired nor revoked. The user's keyring is not used.
pub fn is_signed_by(public: &[u8], bytes: &[u8], signature: &[u8]) -> Result<bool, SigningError> {
    let dir = tempfile::Builder::new().prefix("rocmrpm-keys-").tempdir();
    let dir = dir.map_err(IoError::doing("create a folder for gpg's keys"))?;
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(path(name), bytes).map_err(IoError::doing("write the files for gpg to verify"))
    };
    write("key", public)?;
    write("bytes", bytes)?;
    write("signature", signature)?;
    let gpg = || {
        let command =
            Command::new("gpg").args(["--batch", "--no-autostart", "--homedir"]).arg(dir.path());
        command.arg("--no-options")
    };
    let dearmored =
        run(gpg().arg("--output").arg(path("keyring")).arg("--dearmor").arg(path("key")))?;
    if !dearmored.success() {
        return Err(failed("read the public key", "gpg", &dearmored));
    }
    let verify =
        gpg().args(["--no-default-keyring", "--trust-model", "always", "--status-fd", "1"]);
    let verify = verify.arg("--keyring").arg(path("keyring"));
    let verified = run(verify.arg("--verify").arg(path("signature")).arg(path("bytes")))?;
    // GOODSIG is only reported for keys that are neither expired nor revoked. Source: GnuPG,
    // doc/DETAILS.
    let status = String::from_utf8_lossy(&verified.stdout);
    Ok(verified.success() && status.lines().any(|line| line.starts_with("[GNUPG:] GOODSIG ")))
}

/// Returns the fingerprint of the first key in an exported public key.
pub fn fingerprint_of(public: &[u8]) -> Result<String, SigningError> {
    let command = ["--batch", "--no-options", "--no-autostart", "--with-colons", "--show-keys"];
    let shown = run(Command::new("gpg").args(command).stdin(public))?;
    // Source: GnuPG, doc/DETAILS, "Format of the colon listings": the tenth field of `fpr`.
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("fpr:"));
    let fingerprint = line.and_then(|rest| rest.split(':').nth(8)).filter(|f| !f.is_empty());
    fingerprint.map(str::to_owned).ok_or_else(|| failed("read the public key", "gpg", &shown))
}

/// A temporary rpm database with a single public key.
#[derive(Debug)]
pub struct RpmKeys(tempfile::TempDir);

impl RpmKeys {
    /// Creates a database with this key, in ASCII armor.
    pub fn with(public: &[u8]) -> Result<Self, SigningError> {
        let folder = tempfile::Builder::new().prefix("rocmrpm-keys-").tempdir();
        let keys = Self(folder.map_err(IoError::doing("create a folder for rpm's keys"))?);
        let key = keys.0.path().join("key");
        fs::write(&key, public).map_err(IoError::doing("write the public key"))?;
        let imported = run(keys.command().arg("--import").arg(&key))?;
        if !imported.success() {
            return Err(failed("import the public key", "rpmkeys", &imported));
        }
        Ok(keys)
    }

    /// Checks that packages are undamaged and signed with the key. The inner error is rpm's output
    /// about those that are not.
    pub fn check(&self, rpms: &[PathBuf]) -> Result<Result<(), Vec<String>>, SigningError> {
        let level = ["--define", "_pkgverify_level all"];
        let checked = run(self.command().args(level).arg("--checksig").args(rpms))?;
        if checked.success() {
            return Ok(Ok(()));
        }
        let lines = words(&[checked.stdout, checked.stderr].concat());
        Ok(Err(lines
            .into_iter()
            .filter(|line| !line.ends_with(" OK") || line.contains("NOT"))
            .collect()))
    }

    fn command(&self) -> Command {
        Command::new("rpmkeys").arg("--dbpath").arg(self.0.path().join("db"))
    }
}

/// Returns the name of the file with a stack's public key.
pub fn key_file(stack: &str) -> String {
    format!("RPM-GPG-KEY-{stack}")
}

/// Returns the fingerprints of the primary keys in a listing, each with the reason why it is
/// unusable, if any. Source: GnuPG's doc/DETAILS, "Format of the colon listings".
fn primary_keys(listing: &str) -> Vec<(String, Option<&'static str>)> {
    let mut keys = Vec::new();
    let mut state = None;
    for line in listing.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[..] {
            ["sec", validity, ..] => {
                state = Some(match validity {
                    "e" => Some("expired"),
                    "r" => Some("revoked"),
                    "d" => Some("disabled"),
                    _ => None,
                });
            }
            ["fpr", .., _, _] => {
                // The first `fpr` after `sec` belongs to the primary key, others to subkeys.
                if let (Some(state), Some(fingerprint)) = (state.take(), fields.get(9)) {
                    keys.push(((*fingerprint).to_owned(), state));
                }
            }
            _ => {}
        }
    }
    keys
}

fn run(command: Command) -> Result<Finished, ProcessError> {
    command.env("LC_ALL", "C").run()
}

fn failed(action: &'static str, program: &'static str, finished: &Finished) -> SigningError {
    SigningError::Tool { action, program, how: finished.how(), words: words(&finished.stderr) }
}

fn words(output: &[u8]) -> Vec<String> {
    last_lines(output, WORDS).iter().map(|line| visible(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that does not expire, and its signature of `bytes`.
    const KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\
        \n\
        mDMEXgvhABYJKwYBBAHaRw8BAQdA8kyL1XFBEqdNzvCoIsZOVMTPDvdw8KY6ZJrz\n\
        1gtGXz+0EUEgPGFAZXhhbXBsZS5vcmc+iJAEExYIADgWIQQMl3qCzbNvua1DziXK\n\
        Eb6WFKkP/AUCXgvhAAIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAKCRDKEb6W\n\
        FKkP/EHmAP9Bq7ulxbh3fw9i98Bx/OkRvhxPUZY6NJ6uz2l1yYZsxgD9GcnOrluQ\n\
        mTAJuPvAxoHSxv4o63055DtQSDvCzO/UbwE=\n\
        =hso2\n\
        -----END PGP PUBLIC KEY BLOCK-----\n";
    const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----\n\
        \n\
        iHUEABYIAB0WIQQMl3qCzbNvua1DziXKEb6WFKkP/AUCXgvhAAAKCRDKEb6WFKkP\n\
        /OSjAQDgQAZEWyZhfoNXR4U96+LfCQ2OU9kh8xDax2RWWtk/egD+LevI2KGX7Exp\n\
        KEaLW6zesYjsF0M1W3CLOVf4q0Ol9gc=\n\
        =J0LI\n\
        -----END PGP SIGNATURE-----\n";

    #[test]
    fn signatures_are_valid_for_one_key_and_content() {
        let signed = |key: &str, bytes: &str, signature: &str| {
            is_signed_by(key.as_bytes(), bytes.as_bytes(), signature.as_bytes()).ok()
        };
        for (key, bytes, signature, expected) in [
            (KEY, "bytes", SIGNATURE, Some(true)),
            (KEY, "other bytes", SIGNATURE, Some(false)),
            (KEY, "bytes", "", Some(false)),
            (KEY, "bytes", "no signature", Some(false)),
            ("no key", "bytes", SIGNATURE, None),
        ] {
            assert_eq!(signed(key, bytes, signature), expected, "{bytes} {signature}");
        }
    }

    #[test]
    fn distinguishes_reasons_for_failed_signing() {
        let signer = Signer {
            gpg: "gpg".into(),
            fingerprint: "F".into(),
            public: Vec::new(),
            file_name: key_file("lab"),
        };
        let kind = |stderr: &str| {
            let (stdout, stderr) = (Vec::new(), stderr.as_bytes().to_owned());
            let elapsed = std::time::Duration::ZERO;
            let finished = Finished { code: Some(2), signal: None, stdout, stderr, elapsed };
            match signer.refused(&finished, "gpg", "sign") {
                SigningError::WrongPassphrase { .. } => "wrong passphrase",
                SigningError::Locked { .. } => "locked",
                SigningError::Unusable { .. } => "unusable",
                SigningError::Tool { words, .. } => {
                    assert!(words.iter().all(|line| !line.starts_with("[GNUPG:]")), "{words:?}");
                    "other"
                }
                error => panic!("{error}"),
            }
        };
        for (stderr, expected) in [
            ("gpg: signing failed: Bad passphrase", "wrong passphrase"),
            ("[GNUPG:] BAD_PASSPHRASE 1", "wrong passphrase"),
            ("gpg: signing failed: Inappropriate ioctl for device", "locked"),
            ("gpg: signing failed: Screen or window too small", "locked"),
            ("[GNUPG:] KEYEXPIRED 1577836800", "unusable"),
            ("[GNUPG:] FAILURE sign 1\ngpg: signing failed: No space left on device", "other"),
        ] {
            assert_eq!(kind(stderr), expected, "{stderr}");
        }
        // Signing nothing does not need the key.
        signer.sign_rpms(&[]).unwrap();
    }

    #[test]
    fn verifies_packages_with_only_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("unsigned.rpm");
        let package =
            rpm::PackageBuilder::new("demo", "1", "MIT", "noarch", "a demo").build().unwrap();
        package.write_file(&path).unwrap();
        let signer = Signer {
            gpg: "gpg".into(),
            fingerprint: "F".into(),
            public: KEY.into(),
            file_name: key_file("lab"),
        };
        let error = signer.verify(&[path]).unwrap_err();
        assert!(matches!(error, SigningError::NotVerified { .. }), "{error}");
    }

    #[test]
    fn distinguishes_primary_keys_from_subkeys() {
        let listing = "sec:u:255:22:AA:1:::u:::scESC:::+::ed25519:::0:\nfpr:::::::::FIRST:\ngrp:::::::::G:\n\
                       uid:u::::1::H::A <a@b>::::::::::0:\nssb:u:255:18:BB:1::::::e:::+::cv25519::\n\
                       fpr:::::::::SUB:\nsec:e:255:22:CC:1:2::u:::sc:::+::ed25519:::0:\nfpr:::::::::SECOND:\n";
        assert_eq!(
            primary_keys(listing),
            [("FIRST".to_owned(), None), ("SECOND".to_owned(), Some("expired"))]
        );
        assert_eq!(primary_keys("tru::1:2:3\nfpr:\n"), []);
    }
}
