//! Expands a spec's macros with rpm, as in a chroot. It does not interpret the result;
//! `spec::sections` does.

use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::error::{Diagnose, Diagnosis, IoError, Kind};
use crate::macros::{FALLBACK_MACROS, macro_path};
use crate::process::{Command, ProcessError};
use crate::spec::sections::Sections;
use crate::workspace::Chroot;

/// Definitions for macros of Fedora's packages that a spec needs to be read.
const FEDORA_MACROS: &str = include_str!("fedora.macros");

/// `%autosetup` with the options of rpm 4.20, but without the commands that apply patches, which no
/// rule reads.
const AUTOSETUP: &str = "%setup %{-a} %{-b} %{-c} %{-C:-c} %{-D} %{-n} %{-T} %{!-v:-q}";

/// Defines functions of rpm 4.19 where rpm lacks them. A macro file must not define names of rpm's
/// own, so this stands before the spec.
const NEWER_FUNCTIONS: &str = concat!(
    "%{!?gsub:%{lua:rpm.define(\"gsub(-) %{lua:print((string.gsub(",
    "arg[1] or '', arg[2] or '', arg[3] or '')))}\")}}",
    "%{!?sub:%{lua:rpm.define(\"sub(-) %{lua:print(string.sub(",
    "arg[1] or '', tonumber(arg[2]) or 1, tonumber(arg[3]) or -1))}\")}}\n",
);

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
        /// This machine's rpm, such as `RPM version 4.18.0`; empty if unknown.
        rpm: String,
        /// The container image of the chroot's release.
        image: String,
        /// What rpmspec reported.
        source: Box<ProcessError>,
    },
    /// The spec could not be written for rpmspec.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for ExpandError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Rpmspec { source, rpm, image, .. }
                if matches!(**source, ProcessError::Failed { .. }) =>
            {
                let machine = if rpm.is_empty() { "this machine" } else { rpm };
                let image = if image.is_empty() { "a container of the release" } else { image };
                if source.to_string().contains(": Unknown tag: ") {
                    let help = "correct the tag in the template";
                    return Diagnosis { kind: Kind::Config, ..source.diagnosis().with_help(help) };
                }
                let help = format!(
                    "put the spec's own sources beside it if it reads them; where {machine} differs \
                     from the release's rpm and macros, run rocmrpm in {image} with rpm-build and \
                     fedora-packager"
                );
                Diagnosis { kind: Kind::Config, ..source.diagnosis().with_help(help) }
            }
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
    let marked = Sections::marked(text);
    fs_err::write(&path, format!("{NEWER_FUNCTIONS}{marked}"))
        .map_err(IoError::doing("write a spec for rpmspec"))?;
    // Names of packages and folders from Fedora's python3-rpm-macros.
    let mut defines = vec![
        ("_topdir".to_owned(), folder.path().display().to_string()),
        ("_sourcedir".to_owned(), format!("%{{_topdir}}/{SOURCES}")),
        ("python3_pkgversion".to_owned(), "3".to_owned()),
        ("autosetup(a:b:cCDn:TvNS:p:)".to_owned(), AUTOSETUP.to_owned()),
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
    fs_err::write(&fallback, format!("{FALLBACK_MACROS}\n{FEDORA_MACROS}"))
        .map_err(IoError::doing("write macros for rpmspec"))?;
    let unread = |source| ExpandError::Rpmspec {
        file: file.to_owned(),
        rpm: Command::new("rpmspec").arg("--version").text().unwrap_or_default().trim().to_owned(),
        image: chroot.container_image.clone(),
        source: Box::new(source),
    };
    let mut command = Command::new("rpmspec")
        .arg("--parse")
        .arg("--macros")
        .arg(macro_path(&fallback).map_err(unread)?);
    for (name, value) in defines {
        command = command.args(["--define".to_owned(), format!("{name} {value}")]);
    }
    let command = command.cwd(folder.path()).isolated(folder.path()).runs_code_of(folder_of_code);
    let expanded =
        command.arg(&path).text().map_err(|error| unread(placed(error, &path, &marked, file)))?;
    Ok(Sections::expanded(text, &expanded))
}

/// Replaces the copy that rpm read by the spec itself in rpm's messages, which have the form
/// `error: PATH:7: ...` or `error: line 7: ...`.
fn placed(error: ProcessError, copy: &Path, marked: &str, file: &str) -> ProcessError {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(\blint\.spec:|\bline )(\d+)").expect("the expression is valid")
    });
    let ProcessError::Failed { program, how, code, tail } = error else { return error };
    let tail = LINE.replace_all(&tail, |found: &Captures<'_>| {
        let number = found[2].parse().unwrap_or(0_usize);
        let own = number.saturating_sub(NEWER_FUNCTIONS.lines().count());
        format!("{}{}", &found[1], Sections::unmarked_line(marked, own))
    });
    let tail = tail.replace(&*copy.to_string_lossy(), file);
    ProcessError::Failed { program, how, code, tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_rpms_messages_in_the_spec_itself() {
        let marked = Sections::marked("Name: x\n%build\nmake\n%if a b\n%endif\n");
        let tail = "error: line 2: Unknown tag; error: /t/lint.spec:6: bad %if condition";
        let failed = ProcessError::Failed {
            program: "rpmspec".into(),
            how: "exited with 1".into(),
            code: Some(1),
            tail: tail.into(),
        };
        let placed = placed(failed, Path::new("/t/lint.spec"), &marked, "a/x.spec").to_string();
        let expected = "error: line 1: Unknown tag; error: a/x.spec:4: bad %if condition";
        assert!(placed.ends_with(expected), "{placed}");
    }
}
