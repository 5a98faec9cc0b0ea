//! The ROCm of a build if no package has it: ROCm's Python packages or TheRock's artifacts, unpacked
//! below the build folder. Variables and the macro `rocm_prefix` lead to it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::{BuildError, Builder};
use crate::error::{Diagnose, Diagnosis, Error, IoError, Kind};
use crate::events::Events;
use crate::files;
use crate::process::{Command, ProcessError, find_program};
use crate::sources::{Cache, Fetched, Fetcher, SourceError, unpack};
use crate::uv;
use crate::wheel::RocmWheel;
use crate::workspace::{Delivery, RocmFile, RocmLock, RocmSource, Workspace};

/// The folder with the files that a build unpacks.
const FILES: &str = "rocm-files";
/// The folder that they are unpacked in.
const FOLDER: &str = "rocm";
/// The file with the folders of the unpacked ROCm: one line each for its root, its programs and its
/// CMake files.
const FOLDERS: &str = "rocm-folders";
/// The list of the parts of a build tree that an artifact's members are below.
const MANIFEST: &str = "artifact_manifest.txt";

/// Fails if the provider's ROCm is not locked, or if a builder or wheels cannot use it.
pub(super) fn check(workspace: &Workspace, builder: &dyn Builder) -> Result<(), BuildError> {
    let delivery = &workspace.provider.delivery;
    let name = &workspace.provider.name;
    if workspace.manifest.wheel_rocm == RocmSource::Bundled
        && !matches!(delivery, Some(Delivery::PythonPackages { .. }))
    {
        return Err(BuildError::Chroot {
            message: format!(
                "`rocm = \"bundled\"` puts ROCm's Python packages into wheels, and the ROCm provider \
                 `{name}` has none"
            ),
            help:
                "choose a chroot whose provider has `[python-packages]`, or another `rocm` under \
                   `[wheels]` in rocmrpm.toml"
                    .into(),
        });
    }
    let Some(delivery) = delivery else { return Ok(()) };
    if builder.name() != "host" {
        return Err(BuildError::Chroot {
            message: format!(
                "the ROCm provider `{name}` has no packages, which the builder `{}` needs",
                builder.name()
            ),
            help: "build with `--builder host`, or choose a provider with packages".into(),
        });
    }
    if matches!(delivery, Delivery::PythonPackages { .. }) && find_program("uv").is_none() {
        return Err(ProcessError::Missing { program: "uv".into() }.into());
    }
    lock_of(workspace, delivery).map(drop)
}

/// Returns the lock of the provider's ROCm if it is for this workspace.
fn lock_of<'w>(workspace: &'w Workspace, delivery: &Delivery) -> Result<&'w RocmLock, BuildError> {
    let name = &workspace.provider.name;
    let wrong = |what: &str| BuildError::Chroot {
        message: format!("the ROCm of the provider `{name}` {what}"),
        help: "run `rocmrpm lock`, and commit the file".into(),
    };
    let lock = workspace.provider.lock.as_ref().ok_or_else(|| wrong("is not locked"))?;
    let arch = workspace.chroot.architecture();
    let inputs = RocmLock::inputs(delivery, arch, &workspace.rocm_target());
    match lock.inputs == Some(inputs) {
        true => Ok(lock),
        false => Err(wrong("is locked for other settings")),
    }
}

/// Fetches the locked files of the provider's ROCm for the build in the folder `work`.
pub fn lay_out_rocm(
    workspace: &Workspace,
    fetcher: &Fetcher<'_>,
    work: &Path,
) -> Result<(), Error> {
    let Some(delivery) = &workspace.provider.delivery else { return Ok(()) };
    for file in &lock_of(workspace, delivery)?.files {
        let fetched = obtain(file, delivery, fetcher)?;
        let to = work.join(FILES).join(&file.name);
        fs_err::create_dir_all(work.join(FILES))
            .and_then(|()| files::link_or_copy(&fetched.path, &to))
            .map_err(IoError::doing("copy a file of ROCm"))?;
    }
    Ok(())
}

/// Fetches the locked wheels of the provider's ROCm, for wheels that contain files of them.
pub fn fetch_rocm_wheels(
    workspace: &Workspace,
    events: &dyn Events,
) -> Result<Vec<RocmWheel>, Error> {
    let Some(delivery @ Delivery::PythonPackages { .. }) = &workspace.provider.delivery else {
        return Ok(Vec::new());
    };
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
    let lock = lock_of(workspace, delivery)?;
    let mut wheels = Vec::new();
    for file in lock.files.iter().filter(|file| file.name.ends_with(".whl")) {
        let path = obtain(file, delivery, &fetcher)?.path;
        let (distribution, version) = file.distribution.clone().unwrap_or_default();
        let (file, sha256) = (file.name.clone(), file.sha256);
        wheels.push(RocmWheel { path, file, distribution, version, sha256 });
    }
    Ok(wheels)
}

/// Fetches a file from the first index that has it.
fn obtain(file: &RocmFile, delivery: &Delivery, fetcher: &Fetcher<'_>) -> Result<Fetched, Error> {
    let own = match delivery {
        Delivery::PythonPackages { index: Some(index), .. } => Some(fetcher.at_index(index)),
        _ => None,
    };
    let message = format!("the lock of ROCm does not state what `{}` is", file.name);
    let unclear = Error::new(Kind::Config, message).with_help("run `rocmrpm lock`");
    let Some(pin) = file.pin(delivery) else { return Err(unclear) };
    let mut missing = None;
    for fetcher in own.iter().chain([fetcher]) {
        let fetched = fetcher.obtain(&pin);
        // The name has no progress line afterwards.
        fetcher.leave(&pin.component);
        match fetched {
            Err(
                error @ (SourceError::NoWheel { .. }
                | SourceError::NoSdist { .. }
                | SourceError::NoProject { .. }),
            ) => drop(missing.get_or_insert(error)),
            other => return Ok(other?),
        }
    }
    Err(missing.map_or(unclear, Error::from))
}

/// The unpacked ROCm.
#[derive(Debug, Clone)]
pub(super) struct RocmRoot {
    /// Its folder.
    pub root: PathBuf,
    /// The folder of its programs.
    bin: PathBuf,
    /// The folder for CMAKE_PREFIX_PATH.
    cmake: PathBuf,
    /// The names and versions of its Python packages.
    pub distributions: Vec<(String, String)>,
}

impl RocmRoot {
    /// Unpacks the files that [`lay_out_rocm`] put below a build folder; `None` if the provider has
    /// packages.
    pub fn unpack(
        workspace: &Workspace,
        work: &Path,
        log: &Path,
    ) -> Result<Option<Self>, BuildError> {
        let Some(delivery) = &workspace.provider.delivery else { return Ok(None) };
        let lock = lock_of(workspace, delivery)?;
        let dir = work.join(FOLDER);
        files::remove_dir_if_there(&dir)?;
        let mut root = match delivery {
            Delivery::PythonPackages { .. } => installed(workspace, lock, work, &dir, log)?,
            Delivery::Artifacts(_) => {
                for file in &lock.files {
                    flatten(file, work, &dir)?;
                }
                let (bin, cmake) = (dir.join("bin"), dir.join("lib/cmake"));
                Self { root: dir, bin, cmake, distributions: Vec::new() }
            }
        };
        root.distributions = lock.files.iter().filter_map(|f| f.distribution.clone()).collect();
        let folders = [&root.root, &root.bin, &root.cmake].map(|dir| dir.display().to_string());
        files::write_atomically(&work.join(FOLDERS), folders.join("\n"))?;
        files::remove_dir_if_there(&work.join(FILES))?;
        Ok(Some(root))
    }

    /// Returns the ROCm below a build folder, if the build has one of its own.
    pub fn of_build(work: &Path) -> Option<Self> {
        let text = fs_err::read_to_string(work.join(FOLDERS)).ok()?;
        let mut lines = text.lines().map(PathBuf::from);
        let (root, bin, cmake) = (lines.next()?, lines.next()?, lines.next()?);
        Some(Self { root, bin, cmake, distributions: Vec::new() })
    }

    /// Adds the variables with which compilers and build systems find this ROCm.
    pub fn add_to(&self, variables: &mut BTreeMap<&'static str, String>) {
        let root = self.root.display().to_string();
        for name in ["ROCM_PATH", "ROCM_HOME", "HIP_PATH"] {
            variables.insert(name, root.clone());
        }
        for (name, folder) in
            [("HIP_CLANG_PATH", "lib/llvm/bin"), ("HIP_DEVICE_LIB_PATH", "lib/llvm/amdgcn/bitcode")]
        {
            let folder = self.root.join(folder);
            if folder.is_dir() {
                variables.insert(name, folder.display().to_string());
            }
        }
        let lib = self.root.join("lib");
        for (name, folder) in
            [("PATH", &self.bin), ("CMAKE_PREFIX_PATH", &self.cmake), ("LD_LIBRARY_PATH", &lib)]
        {
            let folder = folder.display();
            let value = match variables.get(name) {
                Some(rest) => format!("{folder}:{rest}"),
                None => folder.to_string(),
            };
            variables.insert(name, value);
        }
    }
}

/// Installs ROCm's Python packages into a virtual environment, and asks them for their folders.
fn installed(
    workspace: &Workspace,
    lock: &RocmLock,
    work: &Path,
    dir: &Path,
    log: &Path,
) -> Result<RocmRoot, BuildError> {
    let target = workspace.rocm_target();
    let install = uv::Install { venv: dir, files: &work.join(FILES), log, target: &target };
    let (wheels, sdists): (Vec<_>, Vec<_>) =
        lock.files.iter().partition(|file| file.name.ends_with(".whl"));
    // Source distributions may need the wheels to be built.
    for files in [wheels, sdists] {
        let lines = files.iter().filter_map(|file| {
            let (name, version) = file.distribution.as_ref()?;
            Some(format!("{name}=={version} --hash=sha256:{}\n", file.sha256))
        });
        install.add(&workspace.root, lines.collect())?;
    }
    let tool = dir.join("bin/rocm-sdk");
    if !tool.is_file() {
        return Err(BuildError::Chroot {
            message: format!(
                "the Python packages of the ROCm provider `{}` have no program `rocm-sdk`",
                workspace.provider.name
            ),
            help: "add `rocm[libraries,devel]` to `requirements`, then run `rocmrpm lock`".into(),
        });
    }
    let ask = |arguments: &[&str]| -> Result<PathBuf, ProcessError> {
        let program = tool.to_string_lossy();
        let ask = Command::new(program).args(arguments).cwd(work).isolated(work);
        let text = ask.runs_code_of(&workspace.root).env(uv::TARGET, &target).text()?;
        Ok(PathBuf::from(text.trim()))
    };
    // This unpacks the development files.
    ask(&["init"])?;
    Ok(RocmRoot {
        root: ask(&["path", "--root"])?,
        bin: ask(&["path", "--bin"])?,
        cmake: ask(&["path", "--cmake"])?,
        distributions: Vec::new(),
    })
}

/// Unpacks an artifact of TheRock, and adds its content to the folder `to`: each line of the
/// manifest is a folder whose content belongs in the root of ROCm.
fn flatten(file: &RocmFile, work: &Path, to: &Path) -> Result<(), BuildError> {
    let scratch = work.join("rocm-artifact");
    files::remove_dir_if_there(&scratch)?;
    fs_err::create_dir_all(&scratch)?;
    let path = work.join(FILES).join(&file.name);
    let size = fs_err::metadata(&path)?.len();
    let fetched =
        Fetched { path, file_name: file.name.clone(), sha256: file.sha256, size, top_folder: None };
    unpack(&fetched, &scratch).map_err(ArtifactError::Source)?;
    let wrong = |reason: String| ArtifactError::Artifact { file: file.name.clone(), reason };
    let manifest = fs_err::read_to_string(scratch.join(MANIFEST))
        .map_err(|_| wrong(format!("it has no readable {MANIFEST}")))?;
    fs_err::remove_file(scratch.join(MANIFEST))?;
    for line in manifest.lines().filter(|line| !line.is_empty()) {
        let inside = Path::new(line).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            return Err(
                wrong(format!("its {MANIFEST} has `{}`", crate::text::visible(line))).into()
            );
        }
        let from = scratch.join(line);
        // No folder on the way may be a link, which could lead out of the artifact.
        let linked = from.ancestors().take_while(|above| *above != scratch).any(Path::is_symlink);
        if from.is_dir() && !linked {
            merge(&from, to)?;
        }
    }
    for entry in walkdir::WalkDir::new(&scratch) {
        let entry = entry.map_err(std::io::Error::from)?;
        if !entry.file_type().is_dir() {
            let member = entry.path().strip_prefix(&scratch).unwrap_or(entry.path());
            return Err(wrong(format!(
                "its {MANIFEST} does not cover `{}`",
                crate::text::visible(&member.to_string_lossy())
            ))
            .into());
        }
    }
    Ok(files::remove_dir_if_there(&scratch)?)
}

/// Moves the content of a folder into another one, where it replaces files and links of the same
/// name.
fn merge(from: &Path, to: &Path) -> std::io::Result<()> {
    if to.is_symlink() || to.is_file() {
        fs_err::remove_file(to)?;
    }
    fs_err::create_dir_all(to)?;
    for name in files::names_in(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() && !source.is_symlink() {
            merge(&source, &target)?;
            continue;
        }
        match target.is_dir() && !target.is_symlink() {
            true => fs_err::remove_dir_all(&target)?,
            false => files::remove_if_there(&target)?,
        }
        fs_err::rename(&source, &target)?;
    }
    Ok(())
}

/// Why an artifact of TheRock could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The archive cannot be unpacked.
    #[error(transparent)]
    Source(SourceError),
    /// Its content is not that of an artifact.
    #[error("`{file}` is not an artifact of TheRock: {reason}")]
    Artifact {
        /// The archive.
        file: String,
        /// What is wrong.
        reason: String,
    },
}

impl Diagnose for ArtifactError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Source(error) => error.diagnosis(),
            Self::Artifact { .. } => Kind::Config.with_help(
                "correct `groups` or `run` of the provider's `[artifacts]`, then run `rocmrpm lock`",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Sha256;

    fn artifact(work: &Path, members: &[(&str, &str)]) -> RocmFile {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, text) in members {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            match text.strip_prefix("-> ") {
                Some(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_size(0);
                    archive.append_link(&mut header, name, target).unwrap();
                }
                None => {
                    header.set_size(text.len() as u64);
                    archive.append_data(&mut header, name, text.as_bytes()).unwrap();
                }
            }
        }
        let bytes = zstd::encode_all(&*archive.into_inner().unwrap(), 1).unwrap();
        fs_err::create_dir_all(work.join(FILES)).unwrap();
        fs_err::write(work.join(FILES).join("a_lib_generic.tar.zst"), &bytes).unwrap();
        RocmFile {
            name: "a_lib_generic.tar.zst".into(),
            distribution: None,
            sha256: Sha256::of_bytes(&bytes),
            size: None,
        }
    }

    #[test]
    fn artifacts_share_one_root() {
        let work = tempfile::tempdir().unwrap();
        let (work, to) = (work.path(), work.path().join(FOLDER));
        let manifest = (MANIFEST, "math/blas/stage\nbase/stage\nabsent/stage\n");
        let first = [
            manifest,
            ("math/blas/stage/lib/libx.so.1", "old"),
            ("math/blas/stage/lib/libx.so", "-> libx.so.1"),
            ("base/stage/bin/tool", "b"),
        ];
        flatten(&artifact(work, &first), work, &to).unwrap();
        let second = [manifest, ("math/blas/stage/lib/libx.so.1", "new")];
        flatten(&artifact(work, &second), work, &to).unwrap();
        assert_eq!(fs_err::read_to_string(to.join("lib/libx.so")).unwrap(), "new");
        assert!(to.join("bin/tool").is_file() && !work.join("rocm-artifact").exists());
    }

    #[test]
    fn rejects_archives_that_are_no_artifacts() {
        let work = tempfile::tempdir().unwrap();
        let work = work.path();
        for (members, reason) in [
            (&[("a/x", "1")][..], "it has no readable artifact_manifest.txt"),
            (&[(MANIFEST, "../x\n")], "its artifact_manifest.txt has `../x`"),
            (&[(MANIFEST, "a\n"), ("b/x", "1")], "its artifact_manifest.txt does not cover `b/x`"),
        ] {
            let file = artifact(work, members);
            let error = flatten(&file, work, &work.join(FOLDER)).unwrap_err().to_string();
            let expected = format!("`{}` is not an artifact of TheRock: {reason}", file.name);
            assert_eq!(error, expected);
        }
    }
}
