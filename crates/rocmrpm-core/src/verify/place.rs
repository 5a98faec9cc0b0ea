//! Where an installation is verified: a folder, this machine, an image. Commands run in
//! it, and nothing in it changes; what rpm and dnf need to know of it is copied out.

use std::path::{Path, PathBuf};

use crate::container::Engine;
use crate::error::{Error, IoError, Kind};
use crate::process::{Command, Finished, last_lines};
use crate::text::visible;

/// How long a command may take there.
const SECONDS: &str = "600";

/// What rpm and dnf know of a system: databases, repositories, the release.
const KNOWN: &[&str] = &[
    "usr/lib/sysimage/rpm",
    "usr/lib/sysimage/libdnf5",
    "var/lib/rpm",
    "etc/yum.repos.d",
    "etc/dnf/vars",
    "etc/os-release",
    "usr/lib/os-release",
];

/// Makes a root read-only for what runs in it, gives it the machine's devices, and enters it. The
/// home folder is an empty one: the root's own /tmp may hold what any user of it placed there.
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

/// `PATH` in a root: the caller's is about another system.
const ROOT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables of the caller that checks are about, and those that choose the GPU.
const PASSED: &[&str] = &[
    "HSA_OVERRIDE_GFX_VERSION",
    "ROCM_PATH",
    "VLLM_ROCM_USE_AITER",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
];

/// A place.
pub(super) struct Place {
    name: String,
    kind: What,
    /// A copy of [`KNOWN`], laid out as a root.
    known: tempfile::TempDir,
    /// The home folder of what runs on this machine.
    home: tempfile::TempDir,
}

enum What {
    Root(PathBuf),
    Container(Container),
}

/// A container of an image, removed when dropped.
struct Container {
    engine: Engine,
    /// The container for buildah, the image for podman.
    id: String,
}

/// What a command came to.
pub(super) struct Ran {
    pub success: bool,
    /// What it wrote, stderr last.
    pub output: String,
}

impl Ran {
    fn of(finished: &Finished) -> Self {
        let output = [&finished.stdout[..], &finished.stderr[..]].concat();
        Self { success: finished.success(), output: String::from_utf8_lossy(&output).into_owned() }
    }

    /// Returns the last line that says something.
    pub fn last_line(&self) -> String {
        last_lines(self.output.as_bytes(), 1).pop().map(|line| visible(&line)).unwrap_or_default()
    }
}

impl Place {
    /// Opens a folder with a system in it; an empty one is a system where nothing is installed.
    pub fn root(dir: &Path) -> Result<Self, Error> {
        let dir = fs_err::canonicalize(dir).map_err(IoError::doing("find the root"))?;
        if !dir.is_dir() {
            return Err(Error::new(Kind::Usage, format!("`{}` is no folder", dir.display())));
        }
        let place = Self::new(dir.display().to_string(), What::Root(dir.clone()))?;
        let there: Vec<&&str> = KNOWN.iter().filter(|path| dir.join(path).exists()).collect();
        if !there.is_empty() {
            let tar = Command::new("tar").arg("-C").arg(&dir).args(["-cf", "-"]).args(&there);
            place.keep(tar.output()?)?;
        }
        Ok(place)
    }

    /// Opens an image that the engine has; none is fetched.
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
        let place = Self::new(visible(image), What::Container(container))?;
        let script = format!("cd / && tar -cf - $(ls -d {} 2>/dev/null)", KNOWN.join(" "));
        let finished = place.command(&script).run()?;
        if !finished.success() {
            let words = last_lines(&finished.stderr, 3).join("; ");
            let message =
                format!("nothing can be run in the image `{}`: {}", visible(image), visible(&words));
            return Err(Error::new(Kind::Environment, message)
                .with_help("BUILDAH_ISOLATION=chroot works in places where nothing else does"));
        }
        place.keep(finished.stdout)?;
        Ok(place)
    }

    fn new(name: String, kind: What) -> Result<Self, Error> {
        let made = || private_folder().map_err(IoError::doing("make a temporary folder"));
        Ok(Self { name, kind, known: made()?, home: made()? })
    }

    fn keep(&self, archive: Vec<u8>) -> Result<(), Error> {
        let tar = Command::new("tar").arg("-C").arg(self.known()).args(["--no-same-owner", "-xf", "-"]);
        tar.stdin(archive).output()?;
        Ok(())
    }

    /// Returns how users call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a folder laid out as a root, with what rpm and dnf know of the place.
    pub fn known(&self) -> &Path {
        self.known.path()
    }

    /// Returns whether this machine has a GPU that ROCm can use.
    pub fn has_gpu() -> bool {
        Path::new("/dev/kfd").exists()
    }

    /// Runs a script in it; the inner error is the reason why it cannot be.
    pub fn run(&self, script: &str) -> Result<Result<Ran, String>, Error> {
        if let What::Root(dir) = &self.kind {
            if !dir.join("bin/sh").exists() {
                return Ok(Err("there is no shell to run it with".into()));
            }
            if !self.can_enter()? {
                return Ok(Err("this user cannot enter the folder as root; run it with sudo".into()));
            }
        }
        Ok(Ok(Ran::of(&self.command(script).run()?)))
    }

    fn can_enter(&self) -> Result<bool, Error> {
        Ok(self.command("true").run()?.success())
    }

    fn command(&self, script: &str) -> Command {
        // A container's environment is the image's.
        let locale = ["--env", "LC_ALL=C.UTF-8"];
        let command = match &self.kind {
            What::Root(dir) if dir == Path::new("/") => {
                // Python imports from the current folder first.
                let command = Command::new("timeout").args([SECONDS, "sh", "-c", script]).cwd("/");
                command.isolated(self.home.path())
            }
            What::Root(dir) => {
                let unshare = Command::new("timeout").args([SECONDS, "unshare", "--mount"]);
                let user: &[&str] =
                    if rustix::process::geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
                let command = unshare.args(user).args(["sh", "-c", ENTER, "sh"]).arg(dir).arg(script);
                command.isolated(self.home.path()).env("PATH", ROOT_PATH)
            }
            What::Container(Container { engine: Engine::Buildah, id }) => {
                let run = Command::new("timeout").args([SECONDS, "buildah", "run"]).args(locale);
                return run.args(["--", id, "sh", "-c", script]);
            }
            What::Container(Container { engine: Engine::Podman, id }) => {
                let run = Command::new("timeout").args([SECONDS, "podman", "run", "--rm", "--pull=never"]);
                let run = run.args(devices()).args(locale).args(["--network=none", "--entrypoint", "sh"]);
                return run.args(["--", id, "-c", script]);
            }
        };
        let passed = PASSED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let command = passed.fold(command, |command, (name, value)| command.env(name, value));
        // Python would leave its caches in the root.
        command.env("PYTHONDONTWRITEBYTECODE", "1")
    }
}

/// Makes a temporary folder that only this user can enter, whatever the umask.
fn private_folder() -> std::io::Result<tempfile::TempDir> {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    tempfile::Builder::new().prefix("rocmrpm-verify-").permissions(permissions).tempdir()
}

/// Returns the options that hand the machine's GPU on.
fn devices() -> &'static [&'static str] {
    if Place::has_gpu() { &["--device=/dev/kfd", "--device=/dev/dri"] } else { &[] }
}

impl Drop for Container {
    fn drop(&mut self) {
        if self.engine == Engine::Buildah {
            // Also where we were asked to stop.
            Command::new("buildah").args(["rm", &self.id]).run_to_stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_on_this_machine_have_an_empty_private_home() {
        let place = Place::root(Path::new("/")).unwrap();
        let script = "pwd; stat -c %a:%u \"$HOME\"; ls -A \"$HOME\"";
        let ran = place.run(script).unwrap().unwrap();
        assert_eq!(ran.output, format!("/\n700:{}\n", rustix::process::geteuid().as_raw()));
    }
}
