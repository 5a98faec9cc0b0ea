//! Decides which folders may run their code as the user. Specs, mock configs and source
//! distributions are programs, so the content of a workspace runs only after the user trusts it:
//! `rocmrpm trust` records that, and `ROCMRPM_TRUST` names folders for a single run.
//! [`crate::process`] calls this module before it starts a program that runs such code.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::files;
use crate::ownership;
use crate::text::{quote, visible};

/// The schema of the list.
const SCHEMA: &str = "rocmrpm/trust/1";

/// The folders passed to [`trust_in_this_process`].
static IN_THIS_PROCESS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Why code may not run, or why the list of trusted folders is unusable.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The user does not trust the folder.
    #[error("`{}` is not trusted, and this command runs code from it as you", visible(&folder.to_string_lossy()))]
    Untrusted {
        /// The folder.
        folder: PathBuf,
    },
    /// The content of the list was not written by rocmrpm.
    #[error("`{}` is not a list of trusted folders: {why}", file.display())]
    Damaged {
        /// The list.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another user can change the list.
    #[error("another user can change `{}`", file.display())]
    Open {
        /// The list.
        file: PathBuf,
    },
    /// The list holds UTF-8 text, and the path is not UTF-8.
    #[error("the path `{}` is not UTF-8", visible(&folder.to_string_lossy()))]
    NotText {
        /// The folder.
        folder: PathBuf,
    },
    /// There is no location for the list.
    #[error(
        "no location for the list of trusted folders: neither XDG_STATE_HOME nor HOME is an absolute path"
    )]
    NoState,
    /// A file-system error.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for TrustError {
    fn diagnosis(&self) -> Diagnosis {
        let word = |path: &Path| quote(&path.to_string_lossy());
        match self {
            Self::Untrusted { folder } => {
                Kind::Config.with_help(format!("to trust it, run `rocmrpm trust {}`", word(folder)))
            }
            Self::NotText { folder } => Kind::Config.with_help(format!(
                "trust it for this run: export {}={}",
                ownership::TRUST,
                word(folder)
            )),
            Self::Damaged { file, .. } | Self::Open { file } => {
                Kind::Environment.with_help(format!(
                    "remove the list and trust your workspaces again: rm {}; rocmrpm trust DIR",
                    word(file)
                ))
            }
            Self::NoState => Kind::Environment.with_help("set HOME to your home folder"),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

/// Trusts a folder, by its canonical path, until this process exits. For programs that use this
/// crate as a library. Records nothing.
pub fn trust_in_this_process(folder: PathBuf) {
    IN_THIS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
}

/// Trusts a folder that rocmrpm filled from the history of a trusted one, until this process exits.
/// Both must be canonical. Fails unless the user trusts `source`.
pub fn extend(source: &Path, folder: &Path) -> Result<(), TrustError> {
    check(source)?;
    let mut trusted = IN_THIS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    trusted.push(folder.to_owned());
    Ok(())
}

/// Returns an error unless the user trusts this folder, which must be canonical. Trust does not
/// extend to subfolders: a workspace may contain a clone of another one.
pub fn check(folder: &Path) -> Result<(), TrustError> {
    let in_this_process = || IN_THIS_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    if ownership::is_accepted(folder) || in_this_process().iter().any(|trusted| trusted == folder) {
        return Ok(());
    }
    let untrusted = || TrustError::Untrusted { folder: folder.to_owned() };
    let list = TrustList::of_user().map_err(|_| untrusted())?;
    if list.folders()?.iter().any(|trusted| trusted == folder) { Ok(()) } else { Err(untrusted()) }
}

/// The user's list of trusted folders, by canonical path. Like git's `safe.directory`, it does not
/// detect that the content of a folder changed: `git pull` changes every workspace.
#[derive(Debug, Clone)]
pub struct TrustList {
    file: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    schema: String,
    folders: Vec<String>,
}

impl TrustList {
    /// Returns the list at `$XDG_STATE_HOME/rocmrpm/trust.json`, or below `~/.local/state`.
    pub fn of_user() -> Result<Self, TrustError> {
        Self::from_vars(|name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
    }

    fn from_vars(var: impl Fn(&str) -> Option<PathBuf>) -> Result<Self, TrustError> {
        // The XDG base directory specification requires relative values to be ignored.
        let xdg = var("XDG_STATE_HOME").filter(|dir| dir.is_absolute());
        let home =
            || var("HOME").filter(|dir| dir.is_absolute()).map(|dir| dir.join(".local/state"));
        let state = xdg.or_else(home).ok_or(TrustError::NoState)?;
        Ok(Self { file: state.join("rocmrpm/trust.json") })
    }

    /// Returns the trusted folders, sorted.
    pub fn folders(&self) -> Result<Vec<PathBuf>, TrustError> {
        let action = || IoError::doing("read the list of trusted folders");
        let bytes = match fs_err::read(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(action())?,
        };
        let metadata = fs_err::metadata(&self.file).map_err(action())?;
        if !ownership::is_private(&metadata) {
            return Err(TrustError::Open { file: self.file.clone() });
        }
        let damaged = |why: String| TrustError::Damaged { file: self.file.clone(), why };
        let record: Record =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if record.schema != SCHEMA {
            return Err(damaged(format!(
                "its schema is `{}`, not `{SCHEMA}`",
                visible(&record.schema)
            )));
        }
        Ok(record.folders.into_iter().map(PathBuf::from).collect())
    }

    /// Adds a folder, by its canonical path.
    pub fn add(&self, folder: &Path) -> Result<(), TrustError> {
        self.change(|folders| {
            folders.push(folder.to_owned());
            folders.sort();
            folders.dedup();
        })
    }

    /// Removes a folder. Returns whether it was in the list.
    pub fn remove(&self, folder: &Path) -> Result<bool, TrustError> {
        let mut removed = false;
        self.change(|folders| {
            let before = folders.len();
            folders.retain(|trusted| trusted != folder);
            removed = folders.len() < before;
        })?;
        Ok(removed)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<PathBuf>)) -> Result<(), TrustError> {
        let action = || IoError::doing("write the list of trusted folders");
        fs_err::create_dir_all(self.file.parent().unwrap_or(Path::new("/"))).map_err(action())?;
        let _lock = files::lock(&self.file.with_extension("lock")).map_err(action())?;
        let before = self.folders()?;
        let mut folders = before.clone();
        change(&mut folders);
        if folders == before {
            return Ok(());
        }
        let text = |folder: PathBuf| {
            folder
                .into_os_string()
                .into_string()
                .map_err(|folder| TrustError::NotText { folder: folder.into() })
        };
        let folders = folders.into_iter().map(text).collect::<Result<_, _>>()?;
        let record = Record { schema: SCHEMA.to_owned(), folders };
        let bytes = serde_json::to_vec_pretty(&record).map_err(io::Error::from).map_err(action())?;
        Ok(files::write_private(&self.file, bytes).map_err(action())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn list() -> (tempfile::TempDir, TrustList) {
        let dir = tempfile::tempdir().unwrap();
        let list = TrustList { file: dir.path().join("state/rocmrpm/trust.json") };
        (dir, list)
    }

    #[test]
    fn records_folders_in_a_private_file() {
        let (_dir, list) = list();
        assert_eq!(list.folders().unwrap(), [""; 0].map(PathBuf::from));
        assert!(!list.remove(Path::new("/b")).unwrap());
        for folder in ["/b", "/a b", "/b"] {
            list.add(Path::new(folder)).unwrap();
        }
        assert_eq!(list.folders().unwrap(), ["/a b", "/b"].map(PathBuf::from));
        assert_eq!(fs_err::metadata(&list.file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(list.remove(Path::new("/b")).unwrap());
        assert_eq!(list.folders().unwrap(), [PathBuf::from("/a b")]);
    }

    #[test]
    fn rejects_a_damaged_list_and_keeps_it() {
        let (_dir, list) = list();
        list.add(Path::new("/a")).unwrap();
        let other = r#"{"schema": "rocmrpm/trust/9", "folders": []}"#;
        for (text, why) in
            [("", "EOF"), ("[]", "invalid"), ("{\"fold", "EOF"), (other, "its schema is")]
        {
            fs_err::write(&list.file, text).unwrap();
            for error in
                [list.folders().map(drop).unwrap_err(), list.add(Path::new("/b")).unwrap_err()]
            {
                let message = error.to_string();
                assert!(
                    message.contains("is not a list of trusted folders") && message.contains(why),
                    "{message}"
                );
                assert!(error.help()[0].contains("rm /"), "{:?}", error.help());
            }
            assert_eq!(fs_err::read_to_string(&list.file).unwrap(), text);
        }
    }

    #[test]
    fn rejects_a_list_that_others_can_write() {
        let (_dir, list) = list();
        list.add(Path::new("/a")).unwrap();
        fs_err::set_permissions(&list.file, PermissionsExt::from_mode(0o622)).unwrap();
        assert!(matches!(list.folders(), Err(TrustError::Open { .. })));
    }

    #[test]
    fn rejects_a_path_that_is_not_text() {
        let (_dir, list) = list();
        let folder: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"/a\xff");
        let error = list.add(Path::new(folder)).unwrap_err();
        assert!(matches!(error, TrustError::NotText { .. }), "{error}");
        assert_eq!(list.folders().unwrap().len(), 0);
    }

    #[test]
    fn finds_the_state_folder_in_the_environment() {
        let of = |vars: &[(&str, &str)]| {
            let var = |name: &str| {
                vars.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
            };
            TrustList::from_vars(var).map(|list| list.file).ok()
        };
        let home = ("HOME", "/h");
        assert_eq!(of(&[home]), Some("/h/.local/state/rocmrpm/trust.json".into()));
        assert_eq!(of(&[home, ("XDG_STATE_HOME", "/s")]), Some("/s/rocmrpm/trust.json".into()));
        assert_eq!(
            of(&[home, ("XDG_STATE_HOME", "s")]),
            Some("/h/.local/state/rocmrpm/trust.json".into())
        );
        assert_eq!(of(&[("HOME", "h")]), None);
    }
}
