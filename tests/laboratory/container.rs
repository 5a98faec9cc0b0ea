//! The rendered container file, built by the real buildah on a base image that is made of
//! the laboratory's repository and has the name of Fedora's.

use std::path::PathBuf;
use std::process::Command;

use super::build::{Small, small};
use super::lab;
use super::support::{Ran, ran};

const BASE: &str = "registry.fedoraproject.org/fedora:43";

/// buildah with a storage of its own. As root, since the base image's files have owners;
/// removed as root, too.
struct Buildah(PathBuf);

impl Buildah {
    fn command(program: &str) -> Command {
        if rustix::process::geteuid().is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("sudo");
        command.args(["-n", program]);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        let mut command = Self::command("buildah");
        command.args(["--storage-driver", "vfs", "--root"]).arg(self.0.join("storage"));
        ran(command.arg("--runroot").arg(self.0.join("run")).args(args))
    }
}

impl Drop for Buildah {
    fn drop(&mut self) {
        let _ = Self::command("rm").args(["-rf", "--one-file-system"]).arg(&self.0).status();
    }
}

#[test]
fn the_container_file_builds_an_image_in_which_it_runs() {
    let Small { workspace, .. } = small();
    let store = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("laboratory-images");
    std::fs::create_dir_all(&store).unwrap();
    let buildah = Buildah(store);
    // What Fedora's image has of what there is: a base system with dnf5, without the plugins
    // that are packages of their own there (rpm-plugin-unshare, libdnf5-plugin-local).
    let base = "dnf5 -y --installroot=/mnt/base --releasever=43 --use-host-config --setopt=install_weak_deps=0 \
                --setopt=cachedir=/mnt/cache install fedora-base dnf5 ca-certificates >&2\n\
                rm -f /mnt/base/usr/lib64/rpm-plugins/unshare.so /mnt/base/etc/dnf/libdnf5-plugins/local.conf\n\
                tar -C /mnt/base --create --file=../base.tar .";
    lab::root(workspace, base).exits(0);
    let from = buildah.run(&["from", "scratch"]);
    let container = from.exits(0).stdout.trim();
    let archive = workspace.holder().join("base.tar");
    buildah.run(&["add", "--quiet", container, archive.to_str().unwrap(), "/"]).exits(0);
    buildah.run(&["commit", "--quiet", "--rm", container, BASE]).exits(0);

    lab::rocmrpm(workspace, &["render", "--check", "--chroot", "fedora-43"]).exits(0);
    let file = workspace.path("Containerfile.fedora43");
    let volume = format!("{}:/lab/fedora:ro", lab::folder().join("fedora").display());
    let (file, root) = (file.to_str().unwrap(), workspace.root());
    let bud = [
        "bud",
        "--isolation",
        "chroot",
        "--pull-never",
        "--volume",
        &volume,
        "-t",
        "localhost/it",
        "-f",
        file,
    ];
    let built = buildah.run(&[&bud[..], &[root.to_str().unwrap()]].concat());
    assert!(built.exits(0).stdout.contains("python3-vecsum-report"), "{built}");

    let inspected = buildah.run(&["inspect", "--type", "image", "localhost/it"]).exits(0).json();
    let labels = &inspected["OCIv1"]["config"]["Labels"];
    assert_eq!(labels["io.rocmrpm.component.vecsum.version"], "1.2.0", "{labels}");
    let from = buildah.run(&["from", "--pull-never", "localhost/it"]);
    let container = from.exits(0).stdout.trim();
    let run = buildah.run(&["run", "--isolation", "chroot", container, "--", "vecsum-report"]);
    assert!(run.stdout.starts_with("library 1.2.0 1.2.0\nvecsum 0.3.0\nvecsum-report 2.0.1\n"), "{run}");
    if !std::path::Path::new("/dev/kfd").exists() {
        run.exits(3);
        assert!(run.stdout.ends_with("HIP says 100: no ROCm-capable device is detected\n"), "{run}");
    }
}
