//! The package `<stack>-release`, which contains the repositories that users of a stack need, and
//! its key, so that installing this one package enables the rest. It does not create the repository
//! itself.

use std::path::{Path, PathBuf};

use fs_err as fs;
use serde::Serialize;

use super::host::rpms_below;
use crate::digest::Sha256;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::process::Command;
use crate::rpms::signing::Signer;
use crate::spec::{Commits, commits_of};
use crate::template::Templates;
use crate::workspace::{CoprProject, MANIFEST, Workspace};

const SPEC: &str = include_str!("release.spec.tera");

/// The values for the spec.
#[derive(Serialize)]
struct ReleaseValues<'a> {
    stack: &'a str,
    version: &'a str,
    release: String,
    url: &'a str,
    key: &'a str,
    date: String,
}

/// Makes the package if the workspace names the location of its repository, and returns it. Reuses
/// the package of an earlier run if nothing changed.
pub(super) fn make(
    workspace: &Workspace,
    signer: Option<&Signer>,
) -> Result<Option<PathBuf>, Error> {
    let dir = workspace.build_dir().join("release");
    let fail = |what: &'static str| IoError::doing(what);
    let Some(repositories) = repositories(workspace, signer) else {
        files::remove_dir_if_there(&dir).map_err(fail("remove an old release package"))?;
        return Ok(None);
    };
    workspace.chroot.check_keys()?;
    let commits = commits_of(workspace, &concerning(workspace))?;
    let spec = spec(workspace, signer, &commits)?;
    let key = signer.map_or(&[][..], Signer::public);
    let digests = [spec.as_bytes(), repositories.as_bytes(), key].map(Sha256::of_bytes);
    let wanted = digests.map(|digest| format!("{digest}\n")).concat();
    let stamp = dir.join("inputs");
    let there = rpms_below(&dir).unwrap_or_default();
    if let ([rpm], Ok(true)) = (&there[..], fs::read_to_string(&stamp).map(|old| old == wanted)) {
        return Ok(Some(rpm.clone()));
    }
    files::remove_dir_if_there(&dir).map_err(fail("remove an old release package"))?;
    fs::create_dir_all(&dir).map_err(fail("create a folder for the release package"))?;
    let work = tempfile::Builder::new().prefix("rocmrpm-release-").tempdir();
    let work = work.map_err(fail("create a folder for the release package"))?;
    let write = |name: &str, bytes: &[u8]| fs::write(work.path().join(name), bytes);
    let stack = &workspace.manifest.name;
    write("release.spec", spec.as_bytes())
        .and_then(|()| write(&format!("{stack}.repo"), repositories.as_bytes()))
        .and_then(|()| signer.map_or(Ok(()), |signer| write(signer.file_name(), key)))
        .map_err(fail("write the release package's spec"))?;
    let built = rpmbuild(workspace, work.path(), commits.seconds)?;
    let name = built.file_name().unwrap_or_default();
    let rpm = dir.join(name);
    files::link_or_copy(&built, &rpm)
        .and_then(|()| files::write_atomically(&stamp, wanted))
        .map_err(fail("keep the release package"))?;
    Ok(Some(rpm))
}

/// Returns the files whose commits count: everything that determines where users find packages.
fn concerning(workspace: &Workspace) -> Vec<String> {
    vec![
        MANIFEST.to_owned(),
        format!("mock-configs/{}.toml", workspace.chroot.name),
        "copr/project.toml".to_owned(),
    ]
}

fn spec(
    workspace: &Workspace,
    signer: Option<&Signer>,
    commits: &Commits,
) -> Result<String, Error> {
    let name = "release.spec.tera";
    let url = workspace.manifest.repository.url.as_deref().unwrap_or_default();
    let number = if commits.dirty { commits.number + 1 } else { commits.number.max(1) };
    let values = ReleaseValues {
        stack: &workspace.manifest.name,
        version: if workspace.chroot.release.is_empty() { "1" } else { &workspace.chroot.release },
        release: format!("{number}{}", if commits.dirty { "~dirty" } else { "" }),
        // A package's URL must not contain dnf's variables.
        url: if url.contains(['$', '%']) { "" } else { url },
        key: signer.map_or("", Signer::file_name),
        date: jiff::Timestamp::from_second(commits.seconds)
            .unwrap_or_default()
            .strftime("%a %b %d %Y")
            .to_string(),
    };
    Ok(Templates::parse([(name.to_owned(), SPEC.to_owned())])?.render(name, &values)?)
}

/// Builds the spec in a folder, without the user's macros or environment. The same inputs give the
/// same bytes.
fn rpmbuild(workspace: &Workspace, work: &Path, seconds: i64) -> Result<PathBuf, Error> {
    let define = |name: &str, value: &str| ["--define".to_owned(), format!("{name} {value}")];
    let folder = work.display().to_string();
    let mut command = Command::new("rpmbuild").arg("-bb");
    for (name, value) in [
        ("_topdir", folder.as_str()),
        ("_sourcedir", folder.as_str()),
        ("_buildhost", "localhost"),
        ("use_source_date_epoch_as_buildtime", "1"),
        ("source_date_epoch_from_changelog", "0"),
        // The first is for rpm up to 4.19, the second for 4.20 and later.
        ("clamp_mtime_to_source_date_epoch", "1"),
        ("build_mtime_policy", "clamp_to_source_date_epoch"),
    ] {
        command = command.args(define(name, value));
    }
    if !workspace.chroot.is_host() {
        command = command.args(define("dist", &workspace.chroot.dist));
    }
    let log = work.join("log");
    let command = command
        .isolated(work)
        .env("LC_ALL", "C")
        .env("SOURCE_DATE_EPOCH", seconds.to_string())
        .log_to(&log);
    // rpm expands the dist tag, which comes from the workspace.
    let command = command.runs_code_of(&workspace.root);
    command.arg(work.join("release.spec")).output()?;
    let made =
        rpms_below(&work.join("RPMS")).map_err(IoError::doing("find the release package"))?;
    let none = || Error::new(Kind::Internal, "rpmbuild succeeded but made no release package");
    made.into_iter().next().ok_or_else(none)
}

/// Returns dnf's configuration: the stack's own repository and those of its chroot; `None` if the
/// location of the stack's repository is unknown.
fn repositories(workspace: &Workspace, signer: Option<&Signer>) -> Option<String> {
    let manifest = &workspace.manifest;
    let mut text = match (&manifest.repository.url, &workspace.copr) {
        (Some(url), _) => own(&manifest.name, url, signer),
        (None, Some(copr)) => of_copr(&copr.of_definition(&workspace.chroot.name)),
        (None, None) => return None,
    };
    for repository in &workspace.chroot.repositories {
        let (id, url, key) = (&repository.id, &repository.url, &repository.gpg_key);
        let check = if key.is_empty() {
            "gpgcheck=0\n".to_owned()
        } else {
            format!("gpgcheck=1\ngpgkey={key}\n")
        };
        text += &format!(
            "\n[{id}]\nname={id}\nbaseurl={url}\nenabled=1\npriority={}\n{check}",
            repository.priority
        );
    }
    Some(text)
}

fn own(stack: &str, url: &str, signer: Option<&Signer>) -> String {
    let check = match signer {
        Some(signer) => {
            let key = signer.file_name();
            format!("gpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/{key}\n")
        }
        None => "gpgcheck=0\n".to_owned(),
    };
    // dnf's default is two days, during which an old state could be replayed.
    format!("[{stack}]\nname={stack}\nbaseurl={url}\nenabled=1\nmetadata_expire=6h\n{check}")
}

/// Returns what `dnf copr enable` writes, with the same ID: COPR signs packages, not metadata.
/// Source: copr's frontend/coprs_frontend/coprs/templates/coprs/copr_dir.repo; dnf5's
/// dnf5-plugins/copr_plugin/copr_repo.hpp.
fn of_copr(copr: &CoprProject) -> String {
    let (id, url, key) = (copr.repository_id(), copr.repository_url(), copr.key_url());
    let priority =
        copr.priority.map_or_else(String::new, |priority| format!("priority={priority}\n"));
    format!(
        "[{id}]\nname=Copr repo for {} owned by {}\nbaseurl={url}\ntype=rpm-md\nskip_if_unavailable=True\n\
         gpgcheck=1\ngpgkey={key}\nrepo_gpgcheck=0\nenabled=1\nenabled_metadata=1\n{priority}",
        copr.project, copr.owner
    )
}
