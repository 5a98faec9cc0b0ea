//! Builds the rendered container file with the real buildah on the laboratory's base image, which
//! has the name of Fedora's.

use std::path::PathBuf;
use std::process::Command;

use super::build::{Small, small};
use super::lab;
use super::support::{Ran, ran};

/// buildah with a separate storage. Runs as root because the files of the base image have owners;
/// root also removes the storage.
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

    fn storage(&self) -> [String; 6] {
        let below = |name| self.0.join(name).display().to_string();
        ["--storage-driver", "vfs", "--root", &below("storage"), "--runroot", &below("run")]
            .map(str::to_owned)
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        ran(Self::command("buildah").args(self.storage()).args(args))
    }

    /// Builds the base image with the name of Fedora's.
    #[track_caller]
    fn make_base(&self) {
        let lab = format!("ROCMRPM_LAB={}", lab::folder().display());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/laboratory/system/image");
        ran(Self::command("env").args([&lab, "bash", script]).args(self.storage())).exits(0);
    }
}

impl Drop for Buildah {
    fn drop(&mut self) {
        let _ = Self::command("rm").args(["-rf", "--one-file-system"]).arg(&self.0).status();
    }
}

#[test]
fn container_file_builds_a_working_image() {
    let Small { workspace, .. } = small();
    let store = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("laboratory-images");
    std::fs::create_dir_all(&store).unwrap();
    let buildah = Buildah(store);
    buildah.make_base();

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
    assert!(
        run.stdout.starts_with("library 1.2.0 1.2.0\nvecsum 0.3.0\nvecsum-report 2.0.1\n"),
        "{run}"
    );
    if !std::path::Path::new("/dev/kfd").exists() {
        run.exits(3);
        assert!(
            run.stdout.ends_with("HIP error 100: no ROCm-capable device is detected\n"),
            "{run}"
        );
    }
}
