//! Removes components from a workspace: their folders, and their tables in all pin sets and lock
//! files. Results of builds stay.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml_edit::DocumentMut;

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::files;
use crate::git::{Repository, RepositoryError};
use crate::workspace::{Workspace, names};

/// Why components cannot be removed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// There is no such component.
    #[error("there is no component `{name}`")]
    Unknown {
        /// The name.
        name: String,
        /// The components, sorted.
        known: Vec<String>,
    },
    /// Another component requires it.
    #[error("`{component}` requires `{name}`")]
    Required {
        /// The component to remove.
        name: String,
        /// The component that requires it.
        component: String,
    },
    /// Files would be lost.
    #[error("git cannot restore {}", files.join(", "))]
    Uncommitted {
        /// The files, relative to the workspace.
        files: Vec<String>,
    },
    /// A pin set or lock file is not valid TOML.
    #[error("cannot edit `{file}`: {reason}")]
    Invalid {
        /// The file, relative to the workspace.
        file: String,
        /// The parser's message.
        reason: String,
    },
    /// git failed.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for RemovalError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Unknown { name, known } => {
                let near = crate::names::nearest(name, known.iter().map(String::as_str));
                Kind::Usage.with_help(match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the components are {}", known.join(", ")),
                })
            }
            Self::Required { component, name } => Kind::Config.with_help(format!(
                "remove `{component}` too, or `{name}` from `requires` in \
                 specs-templates/{component}/component.toml"
            )),
            Self::Uncommitted { .. } => {
                Kind::Environment.with_help("commit them first, or use --force")
            }
            Self::Invalid { .. } => Kind::Config.into(),
            Self::Repository(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

/// What to remove.
#[derive(Debug)]
pub struct Removal {
    root: PathBuf,
    /// The folders of the components, relative to the workspace.
    pub folders: Vec<String>,
    /// The pin sets and lock files that name them, relative to the workspace, with their new text.
    pub edited: Vec<(String, String)>,
}

impl Removal {
    /// Finds what belongs to components. Refuses components that others require, and unless `force`
    /// is set, folders with files that git cannot restore.
    pub fn of(workspace: &Workspace, wanted: &[String], force: bool) -> Result<Self, RemovalError> {
        let known = names::components(&workspace.root);
        let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
        for name in &wanted {
            if !known.iter().any(|known| known == name) {
                return Err(RemovalError::Unknown { name: (*name).to_owned(), known });
            }
        }
        let others = workspace.components.values().filter(|c| !wanted.contains(c.name.as_str()));
        for component in others {
            let required = component.requires.iter().map(|required| required.value.as_str());
            if let Some(name) = required.into_iter().find(|name| wanted.contains(name)) {
                let (name, component) = (name.to_owned(), component.name.to_string());
                return Err(RemovalError::Required { name, component });
            }
        }
        let folders: Vec<String> =
            wanted.iter().map(|name| format!("specs-templates/{name}")).collect();
        if !force {
            let lost = unrestorable(&workspace.root, &folders)?;
            if !lost.is_empty() {
                return Err(RemovalError::Uncommitted { files: lost });
            }
        }
        let edited = edited(&workspace.root, &wanted)?;
        Ok(Self { root: workspace.root.clone(), folders, edited })
    }

    /// Removes it. If it is interrupted, the same call removes the rest.
    pub fn apply(&self) -> Result<(), IoError> {
        // A folder without a pin is allowed; a pin without a folder is not.
        for (name, text) in &self.edited {
            files::write_durably(&self.root.join(name), text)
                .map_err(IoError::doing(format!("write `{name}`")))?;
        }
        for folder in &self.folders {
            files::remove_dir_if_there(&self.root.join(folder))
                .map_err(IoError::doing(format!("remove `{folder}`")))?;
        }
        Ok(())
    }
}

/// Returns the files below folders that differ from the last commit, or that git ignores.
fn unrestorable(root: &Path, folders: &[String]) -> Result<Vec<String>, RemovalError> {
    match Repository::find(root)? {
        None => Ok(folders.to_vec()),
        Some(repository) => {
            let changes = repository.changes(folders)?;
            Ok(changes.changed.into_iter().chain(changes.ignored).collect())
        }
    }
}

/// Returns the pin sets and lock files without the tables of these components.
fn edited(root: &Path, wanted: &BTreeSet<&str>) -> Result<Vec<(String, String)>, RemovalError> {
    let mut edited = Vec::new();
    for set in names::pin_sets(root) {
        for name in [format!("pins/{set}.toml"), format!("pins/{set}.lock")] {
            let path = root.join(&name);
            if !path.is_file() {
                continue;
            }
            let text =
                fs_err::read_to_string(&path).map_err(IoError::doing(format!("read `{name}`")))?;
            let document = text.parse::<DocumentMut>();
            let mut document = document.map_err(|error| RemovalError::Invalid {
                file: name.clone(),
                reason: error.message().to_owned(),
            })?;
            if wanted.iter().filter(|name| document.remove(name).is_some()).count() > 0 {
                edited.push((name, document.to_string()));
            }
        }
    }
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::testing::git;
    use crate::workspace::testing::sample;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn refuses_unknown_and_required_components() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let error = |wanted: &[&str]| {
            let error = Removal::of(&workspace, &names(wanted), true).unwrap_err();
            (error.to_string(), error.help().concat())
        };
        let unknown = ("there is no component `on`".to_owned(), "did you mean `one`?".to_owned());
        assert_eq!(error(&["on"]), unknown);
        let (message, help) = error(&["one"]);
        assert_eq!(message, "`two` requires `one`");
        assert!(help.starts_with("remove `two` too, or `one` from"), "{help}");
        assert_eq!(
            Removal::of(&workspace, &names(&["one", "two"]), true).unwrap().folders.len(),
            2
        );
    }

    #[test]
    fn refuses_to_lose_files_that_git_cannot_restore() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let lost = || match Removal::of(&workspace, &names(&["two"]), false) {
            Err(RemovalError::Uncommitted { files }) => files,
            other => other.map(|_| Vec::new()).unwrap(),
        };
        assert_eq!(lost(), ["specs-templates/two"], "without a repository");
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "Start"]] {
            git(dir.path()).args(args).output().unwrap();
        }
        assert_eq!(lost(), names(&[]));
        fs_err::write(dir.path().join("specs-templates/two/new.patch"), "").unwrap();
        fs_err::write(dir.path().join("specs-templates/one/new.patch"), "").unwrap();
        assert_eq!(lost(), ["specs-templates/two/new.patch"]);
    }

    #[test]
    fn removes_the_folder_and_every_pin_and_keeps_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = sample(dir.path(), "fedora-43");
        let write = |name: &str, text: &str| fs_err::write(dir.path().join(name), text).unwrap();
        let one = "# The first one.\n[one]\nversion = \"1.0\" # final\npath = \"src/one\"\n";
        write(
            "pins/stable.toml",
            &format!(
                "{one}\n# Two.\n[two]\nversion = \"7\"\npath = \"src/two\"\n\n[two.sources.x]\npath = \"src/x\"\n"
            ),
        );
        write("pins/stable.lock", "# Written.\n\n[two]\nversion = \"7\"\n");
        let removal = Removal::of(&workspace, &names(&["two"]), true).unwrap();
        removal.apply().unwrap();
        let read = |name: &str| fs_err::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("pins/stable.toml"), one);
        assert!(!read("pins/stable.lock").contains("two"));
        assert!(!dir.path().join("specs-templates/two").exists());
        assert!(dir.path().join("specs-templates/one/one.spec.tera").exists());
    }
}
