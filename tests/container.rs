//! The rendered container file, built by the real buildah: the repository is there
//! while packages are installed, and the labels say what went in. The base image is a
//! stand-in whose `dnf` writes down how it is called: what dnf itself makes of the
//! repository is tested where the repository is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::{Path, PathBuf};
use std::process::Command;

use rocmrpm::rpms::repository::Repository;
use rocmrpm::stack::Stack;
use rocmrpm::workspace::{Selection, Workspace};

/// What stands in for dnf: leaves its arguments and proof of the repository behind.
const DNF: &str = "#!/bin/sh\necho \"$@\" >> /dnf.calls\n\
                   [ \"$1\" = clean ] || cp /run/rocmrpm/repodata/repomd.xml /repomd.xml\n";

struct Buildah {
    storage: PathBuf,
}

impl Buildah {
    fn run(&self, args: &[&str]) -> String {
        let output = Command::new("buildah")
            .args(["--storage-driver", "vfs", "--root"])
            .arg(self.storage.join("root"))
            .arg("--runroot")
            .arg(self.storage.join("run"))
            .args(args)
            .output()
            .expect("buildah is not installed: the package is `buildah`, on Fedora and on Debian");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "buildah {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Makes an image with a shell and our `dnf`.
    fn base_image(&self, dir: &Path) {
        let busybox = ["/usr/bin/busybox", "/bin/busybox", "/usr/sbin/busybox"];
        let busybox = busybox.into_iter().find(|path| Path::new(path).exists());
        let busybox = busybox
            .expect("busybox is not installed: Debian's package is `busybox-static`, Fedora's `busybox`");
        let root = dir.join("base");
        for folder in ["bin", "usr/bin", "etc/yum.repos.d", "run", "tmp"] {
            fs_err::create_dir_all(root.join(folder)).unwrap();
        }
        fs_err::copy(busybox, root.join("bin/busybox")).unwrap();
        for applet in ["sh", "printf", "cp", "cat", "echo", "["] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        fs_err::write(root.join("usr/bin/dnf"), DNF).unwrap();
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(root.join("usr/bin/dnf"), runs).unwrap();
        let container = self.run(&["from", "scratch"]);
        self.run(&["copy", "--quiet", &container, &format!("{}/.", root.display()), "/"]);
        self.run(&["config", "--env", "PATH=/usr/bin:/bin", &container]);
        self.run(&["commit", "--quiet", &container, "localhost/base"]);
    }
}

/// Copies the quickstart workspace, build folders left out.
fn quickstart(to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let walk = walkdir::WalkDir::new(&from).into_iter().filter_entry(|e| e.file_name() != "build");
    for entry in walk.map(Result::unwrap).filter(|e| e.file_type().is_file()) {
        let target = to.join(entry.path().strip_prefix(&from).unwrap());
        fs_err::create_dir_all(target.parent().unwrap()).unwrap();
        fs_err::copy(entry.path(), target).unwrap();
    }
}

#[test]
fn buildah_builds_it_with_the_repository_and_the_labels() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("work space");
    quickstart(&workspace);
    let chroot = Some("fedora-43".to_owned());
    let workspace = Workspace::load(&workspace, &Selection { chroot, ..Selection::default() }).unwrap();
    let text = rocmrpm::container::render(&Stack::new(&workspace).unwrap()).unwrap();
    let file = workspace.root.join("Containerfile.fedora43");
    fs_err::write(&file, &text).unwrap();
    Repository::at(workspace.build_dir().join("repository")).refresh(&[]).unwrap();

    let buildah = Buildah { storage: dir.path().join("storage") };
    buildah.base_image(dir.path());
    let root = workspace.root.to_str().unwrap();
    let file = file.to_str().unwrap();
    let base = "BASE_IMAGE=localhost/base";
    buildah.run(&[
        "bud",
        "--isolation",
        "chroot",
        "--build-arg",
        base,
        "-t",
        "localhost/it",
        "-f",
        file,
        root,
    ]);

    let inspected: serde_json::Value =
        serde_json::from_str(&buildah.run(&["inspect", "--type", "image", "localhost/it"])).unwrap();
    let labels = &inspected["OCIv1"]["config"]["Labels"];
    let pin =
        |name: &str| workspace.pins.pins.values().find(|at| at.value.component.as_str() == name).unwrap();
    assert_eq!(labels["io.rocmrpm.component.amdsmi.version"], pin("amdsmi").value.version.as_str());
    assert_eq!(labels["io.rocmrpm.gpu-targets"], "gfx1151");
    let pins = rocmrpm::digest::Sha256::of_bytes(&workspace.pins.file.text);
    assert_eq!(labels["io.rocmrpm.pins.sha256"], pins.to_string().as_str());

    let container = buildah.run(&["from", "localhost/it"]);
    let read = |path: &str| buildah.run(&["run", "--isolation", "chroot", &container, "--", "cat", path]);
    let (calls, repomd) = (read("/dnf.calls"), read("/repomd.xml"));
    let repository = read("/etc/yum.repos.d/amdrocm.repo");
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls[0].starts_with("install -y --repofrompath=rocmrpm,file:///run/rocmrpm "), "{calls:?}");
    assert!(calls[0].ends_with(" python3-rocm-smoke"), "{calls:?}");
    assert_eq!(calls[1], "clean all");
    assert!(repomd.contains("<repomd"), "{repomd}");
    assert!(repository.contains("/$basearch\n") && repository.contains("gpgcheck=1\n"), "{repository}");
}
