//! Expands a spec's macros with rpm, as in a chroot. It does not interpret the result;
//! `spec::sections` does.

use std::path::Path;

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::macros::{FALLBACK_MACROS, macro_path};
use crate::process::{Command, ProcessError};
use crate::spec::sections::Sections;
use crate::workspace::Chroot;

/// rpm's name for the folder of a spec's sources and patches.
pub(super) const SOURCES: &str = "SOURCES";

/// Errors that occur while expanding a spec.
#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// rpmspec could not run or rejected the spec.
    #[error("rpmspec cannot parse `{file}`")]
    Rpmspec {
        /// The spec, as shown in messages.
        file: String,
        /// What rpmspec reported.
        source: ProcessError,
    },
    /// The spec could not be written for rpmspec.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for ExpandError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Rpmspec { source: source @ ProcessError::Failed { .. }, .. } => Diagnosis {
                kind: Kind::Config,
                ..source.diagnosis().with_help(
                    "run `rpmspec --parse FILE` for details; this machine may lack Fedora's macros",
                )
            },
            Self::Rpmspec { source, .. } => source.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

/// Expands a spec with rpm for this chroot and parses the result. rpm runs `%(...)` while it reads
/// a spec. `sources` is the folder of files that the spec may include; `folder_of_code` is what the
/// user must trust.
pub fn expand(
    text: &str,
    file: &str,
    sources: Option<&Path>,
    chroot: &Chroot,
    folder_of_code: &Path,
) -> Result<Sections, ExpandError> {
    let folder = tempfile::Builder::new().prefix("rocmrpm-spec-").tempdir();
    let folder = folder.map_err(IoError::doing("create a folder for rpmspec"))?;
    if let Some(sources) = sources {
        fs_err::os::unix::fs::symlink(sources, folder.path().join(SOURCES))
            .map_err(IoError::doing("create a folder for rpmspec"))?;
    }
    let path = folder.path().join("lint.spec");
    fs_err::write(&path, Sections::marked(text))
        .map_err(IoError::doing("write a spec for rpmspec"))?;
    // Names of packages and folders from Fedora's python3-rpm-macros.
    let mut defines = vec![
        ("_topdir".to_owned(), folder.path().display().to_string()),
        ("_sourcedir".to_owned(), format!("%{{_topdir}}/{SOURCES}")),
        ("python3_pkgversion".to_owned(), "3".to_owned()),
    ];
    if !chroot.is_host() {
        let (release, python) = (chroot.release.as_str(), chroot.python.as_str());
        let site = |lib: &str| format!("/usr/{lib}/python{python}/site-packages");
        let own = [
            ("fedora", release.to_owned()),
            ("dist", chroot.dist.clone()),
            ("_lib", "lib64".to_owned()),
            ("_isa", "(x86-64)".to_owned()),
            ("python3_version", python.to_owned()),
            ("__default_python3_pkgversion", python.to_owned()),
            ("python3_sitelib", site("lib")),
            ("python3_sitearch", site("lib64")),
        ];
        defines.extend(own.map(|(name, value)| (name.to_owned(), value)));
        defines.extend(chroot.macros.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    // Makes Fedora specs readable on other systems.
    let fallback = folder.path().join("fallback.macros");
    fs_err::write(&fallback, FALLBACK_MACROS)
        .map_err(IoError::doing("write macros for rpmspec"))?;
    let unread = |source| ExpandError::Rpmspec { file: file.to_owned(), source };
    let mut command = Command::new("rpmspec")
        .arg("--parse")
        .arg("--macros")
        .arg(macro_path(&fallback).map_err(unread)?);
    for (name, value) in defines {
        command = command.args(["--define".to_owned(), format!("{name} {value}")]);
    }
    let command = command.cwd(folder.path()).isolated(folder.path()).runs_code_of(folder_of_code);
    let expanded = command.arg(&path).text().map_err(unread)?;
    Ok(Sections::expanded(text, &expanded))
}
