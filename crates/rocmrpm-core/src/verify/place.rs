//! Provides access to a location to verify: a folder, this machine, or an image. Commands run
//! inside without modifying it; data for rpm and dnf is copied. It does not perform checks.

use std::path::{Path, PathBuf};

use crate::container::Engine;
use crate::error::{Error, IoError, Kind};
use crate::process::{Command, Finished, last_lines, quote};
use crate::text::visible;
use crate::trust::{self, TrustError};

/// Timeout for a command, in seconds.
const SECONDS: u64 = 600;

/// Files of a system that rpm and dnf use: databases, repositories, the release.
const KNOWN: &[&str] = &[
    "usr/lib/sysimage/rpm",
    "usr/lib/sysimage/libdnf5",
    "var/lib/rpm",
    "etc/yum.repos.d",
    "etc/dnf/vars",
    "etc/os-release",
    "usr/lib/os-release",
];

/// Makes a root read-only for the command, adds the machine's devices, and enters it. The home
/// folder is empty because the root's /tmp may contain files of any user.
const ENTER: &str = r#"set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
for d in dev proc sys; do [ ! -d "$1/$d" ] || mount --rbind "/$d" "$1/$d"; done
export HOME=/nonexistent
if [ -d "$1/tmp" ] && [ ! -L "$1/tmp" ]; then
    mount -t tmpfs -o mode=0700 tmpfs "$1/tmp"
    HOME=/tmp
fi
exec chroot "$1" /bin/sh -c "$2""#;

/// `PATH` inside a root; the caller's belongs to another system.
const ROOT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The caller's variables that affect checks or select the GPU.
const PASSED: &[&str] = &[
    "HSA_OVERRIDE_GFX_VERSION",
    "ROCM_PATH",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
];

/// A location to verify.
pub(super) struct VerifyTarget {
    name: String,
    kind: TargetKind,
    /// A copy of [`KNOWN`], laid out like a root.
    known: tempfile::TempDir,
    /// The home folder for commands on this machine.
    home: tempfile::TempDir,
}

enum TargetKind {
    Root(PathBuf),
    Container(Container),
}

/// A container of an image, removed when dropped.
struct Container {
    engine: Engine,
    /// The container for buildah, or the image for podman.
    id: String,
}

/// The result of a command.
pub(super) struct ScriptResult {
    pub success: bool,
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// Its stdout, then its stderr.
    pub output: String,
}

impl ScriptResult {
    fn of(finished: &Finished) -> Self {
        let output = [&finished.stdout[..], &finished.stderr[..]].concat();
        let output = String::from_utf8_lossy(&output).into_owned();
        Self { success: finished.success(), code: finished.code, output }
    }

    /// Returns the last non-empty line.
    pub fn last_line(&self) -> String {
        last_lines(self.output.as_bytes(), 1).pop().map(|line| visible(&line)).unwrap_or_default()
    }
}

impl VerifyTarget {
    /// Opens the root folder of a system; an empty folder is a system without packages.
    pub fn root(dir: &Path) -> Result<Self, Error> {
        let dir = fs_err::canonicalize(dir).map_err(IoError::doing("find the root"))?;
        if !dir.is_dir() {
            return Err(Error::new(Kind::Usage, format!("`{}` is not a folder", dir.display())));
        }
        let place = Self::new(dir.display().to_string(), TargetKind::Root(dir.clone()))?;
        let there: Vec<&&str> = KNOWN.iter().filter(|path| dir.join(path).exists()).collect();
        if !there.is_empty() {
            let tar = Command::new("tar").arg("-C").arg(&dir).args(["-cf", "-"]).args(&there);
            place.keep(tar.output()?)?;
        }
        Ok(place)
    }

    /// Opens a local image; never pulls one.
    pub fn image(engine: Engine, image: &str) -> Result<Self, Error> {
        let id = match engine {
            Engine::Buildah => {
                let from = Command::new("buildah").args(["from", "--pull=never"]).args(devices());
                let made = from.args(["--", image]).env("LC_ALL", "C").run()?;
                if !made.success() {
                    return Err(engine.refused(image, &made).into());
                }
                String::from_utf8_lossy(&made.stdout).trim().to_owned()
            }
            Engine::Podman => image.to_owned(),
        };
        let container = Container { engine, id };
        let place = Self::new(visible(image), TargetKind::Container(container))?;
        let script = format!("cd / && tar -cf - $(ls -d {} 2>/dev/null)", KNOWN.join(" "));
        let finished = place.command(&script, SECONDS).run()?;
        if !finished.success() {
            let words = last_lines(&finished.stderr, 3).join("; ");
            let message = format!(
                "cannot run commands in the image `{}`: {}",
                visible(image),
                visible(&words)
            );
            return Err(Error::new(Kind::Environment, message)
                .with_help("set BUILDAH_ISOLATION=chroot, which needs fewer privileges"));
        }
        place.keep(finished.stdout)?;
        Ok(place)
    }

    fn new(name: String, kind: TargetKind) -> Result<Self, Error> {
        let made = || private_folder().map_err(IoError::doing("make a temporary folder"));
        Ok(Self { name, kind, known: made()?, home: made()? })
    }

    fn keep(&self, archive: Vec<u8>) -> Result<(), Error> {
        let tar =
            Command::new("tar").arg("-C").arg(self.known()).args(["--no-same-owner", "-xf", "-"]);
        tar.stdin(archive).output()?;
        Ok(())
    }

    /// Returns the display name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a folder laid out like a root with the files that rpm and dnf use.
    pub fn known(&self) -> &Path {
        self.known.path()
    }

    /// Returns whether this machine has a GPU that ROCm can use.
    pub fn has_gpu() -> bool {
        Path::new("/dev/kfd").exists()
    }

    /// Runs a script at the location; the inner error is the reason why it could not run.
    pub fn run(&self, script: &str) -> Result<Result<ScriptResult, String>, Error> {
        self.run_within(script, SECONDS)
    }

    /// Like [`Self::run`], with another timeout in seconds.
    pub fn run_within(
        &self,
        script: &str,
        seconds: u64,
    ) -> Result<Result<ScriptResult, String>, Error> {
        self.run_if_possible(self.command(script, seconds))
    }

    /// Like [`Self::run`], for a script of the workspace in `root`, with the caller's variables that it
    /// reads. A container has only those of its image. The script does not run if the workspace is not
    /// trusted.
    pub fn run_of_workspace(
        &self,
        script: &str,
        variables: &[String],
        root: &Path,
    ) -> Result<Result<ScriptResult, String>, Error> {
        if let Err(TrustError::Untrusted { folder }) = trust::check(root) {
            let folder = quote(&folder.to_string_lossy());
            return Ok(Err(format!("the workspace is not trusted; run `rocmrpm trust {folder}`")));
        }
        let values = variables.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let command = self.command(script, SECONDS).runs_code_of(root);
        self.run_if_possible(
            values.fold(command, |command, (name, value)| command.env(name, value)),
        )
    }

    fn run_if_possible(&self, command: Command) -> Result<Result<ScriptResult, String>, Error> {
        if let TargetKind::Root(dir) = &self.kind {
            if !dir.join("bin/sh").exists() {
                return Ok(Err("/bin/sh not found".into()));
            }
            if !self.can_enter()? {
                return Ok(
                    Err("cannot enter the folder as root; run the command with sudo".into()),
                );
            }
        }
        Ok(Ok(ScriptResult::of(&command.run()?)))
    }

    fn can_enter(&self) -> Result<bool, Error> {
        Ok(self.command("true", SECONDS).run()?.success())
    }

    fn command(&self, script: &str, seconds: u64) -> Command {
        let seconds = &seconds.to_string();
        // A container uses the environment of its image.
        let locale = ["--env", "LC_ALL=C.UTF-8"];
        let command = match &self.kind {
            TargetKind::Root(dir) if dir == Path::new("/") => {
                // Python searches the current folder first for imports.
                let command = Command::new("timeout").args([seconds, "sh", "-c", script]).cwd("/");
                command.isolated(self.home.path())
            }
            TargetKind::Root(dir) => {
                let unshare = Command::new("timeout").args([seconds, "unshare", "--mount"]);
                let user: &[&str] = if rustix::process::geteuid().is_root() {
                    &[]
                } else {
                    &["--user", "--map-root-user"]
                };
                let command =
                    unshare.args(user).args(["sh", "-c", ENTER, "sh"]).arg(dir).arg(script);
                command.isolated(self.home.path()).env("PATH", ROOT_PATH)
            }
            TargetKind::Container(Container { engine: Engine::Buildah, id }) => {
                let run = Command::new("timeout").args([seconds, "buildah", "run"]).args(locale);
                return run.args(["--", id, "sh", "-c", script]);
            }
            TargetKind::Container(Container { engine: Engine::Podman, id }) => {
                let run = Command::new("timeout").args([
                    seconds,
                    "podman",
                    "run",
                    "--rm",
                    "--pull=never",
                ]);
                let run =
                    run.args(devices()).args(locale).args(["--network=none", "--entrypoint", "sh"]);
                return run.args(["--", id, "-c", script]);
            }
        };
        let passed = PASSED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let command = passed.fold(command, |command, (name, value)| command.env(name, value));
        // Otherwise Python would write caches to the root.
        command.env("PYTHONDONTWRITEBYTECODE", "1")
    }
}

/// Creates a temporary folder that only this user can enter, regardless of the umask.
fn private_folder() -> std::io::Result<tempfile::TempDir> {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().prefix("rocmrpm-verify-").permissions(permissions).tempdir()
}

/// Returns the options that pass the machine's GPU to a container.
fn devices() -> &'static [&'static str] {
    if VerifyTarget::has_gpu() { &["--device=/dev/kfd", "--device=/dev/dri"] } else { &[] }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.engine == Engine::Buildah {
            // Remove it even after an interrupt.
            Command::new("buildah").args(["rm", &self.id]).run_to_stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_scripts_with_an_empty_private_home() {
        let place = VerifyTarget::root(Path::new("/")).unwrap();
        let script = "pwd; stat -c %a:%u \"$HOME\"; ls -A \"$HOME\"";
        let ran = place.run(script).unwrap().unwrap();
        assert_eq!(ran.output, format!("/\n700:{}\n", rustix::process::geteuid().as_raw()));
    }
}
