//! The rendered container files, built by the real buildah: the repository is mounted while
//! packages are installed, the labels list the contents, and nothing runs as root. The base image
//! is a stand-in whose `dnf` records its arguments; the tests of the repository use the real dnf.

use std::path::{Path, PathBuf};
use std::process::Command;

use rocmrpm::digest::Sha256;
use rocmrpm::rpms::repository::Repository;
use rocmrpm::stack::Stack;
use rocmrpm::workspace::{Flavor, Selection, Workspace};

use crate::support::documents;
use crate::support::server::{Reply, TestServer};
use crate::support::{Transcript, Workspace as TestWorkspace};

/// A stand-in for dnf that records its arguments and copies the metadata of the repository.
const DNF: &str = "#!/bin/sh\necho \"$@\" >> /dnf.calls\n\
                   [ ! -e /run/rocmrpm/repodata ] || cp /run/rocmrpm/repodata/repomd.xml /repomd.xml\n";

/// The file with the versions in images of the quickstart.
const VERSIONS: &str = "/usr/share/rocm-quickstart/versions.txt";

struct Buildah {
    storage: PathBuf,
}

impl Buildah {
    /// Creates a separate image store with the base image.
    fn new(dir: &Path) -> Self {
        let buildah = Self { storage: dir.join("storage") };
        let text = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/root\"\nrunroot = \"{0}/run\"\n",
            buildah.storage.display()
        );
        fs_err::create_dir_all(&buildah.storage).unwrap();
        fs_err::write(buildah.storage.join("storage.conf"), text).unwrap();
        buildah.base_image(dir);
        buildah
    }

    /// Lets a command use this store.
    fn settle<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("CONTAINERS_STORAGE_CONF", self.storage.join("storage.conf"))
            .env("BUILDAH_ISOLATION", "chroot")
    }

    /// Runs rocmrpm with this store.
    fn rocmrpm(&self, root: &Path, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        let output = self.settle(command.arg("-C").arg(root).args(args)).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn run(&self, args: &[&str]) -> String {
        let output = Command::new("buildah")
            .env("CONTAINERS_STORAGE_CONF", self.storage.join("storage.conf"))
            .args(args)
            .output()
            .expect("buildah is not installed: the package is `buildah`, on Fedora and on Debian");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "buildah {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Creates an image with a shell and the stand-in for dnf.
    fn base_image(&self, dir: &Path) {
        let busybox = ["/usr/bin/busybox", "/bin/busybox", "/usr/sbin/busybox"];
        let busybox = busybox.into_iter().find(|path| Path::new(path).exists());
        let busybox = busybox.expect(
            "busybox is not installed: Debian's package is `busybox-static`, Fedora's `busybox`",
        );
        let root = dir.join("base");
        for folder in ["bin", "usr/bin", "etc/yum.repos.d", "run", "tmp"] {
            fs_err::create_dir_all(root.join(folder)).unwrap();
        }
        fs_err::copy(busybox, root.join("bin/busybox")).unwrap();
        for applet in [
            "ls", "tar", "test", "true", "sh", "printf", "cp", "cat", "chown", "echo", "mkdir",
            "rm", "[",
        ] {
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

/// Copies the quickstart workspace without build folders.
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
fn buildah_builds_the_image_with_repository_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("work space");
    quickstart(&workspace);
    let chroot = Some("fedora-43".to_owned());
    let workspace =
        Workspace::load(&workspace, &Selection { chroot, ..Selection::default() }).unwrap();
    let text =
        rocmrpm::container::render(&Stack::new(&workspace).unwrap(), &Flavor::Fedora).unwrap();
    let file = workspace.root.join("Containerfile.fedora43");
    fs_err::write(&file, &text).unwrap();
    Repository::at(workspace.build_dir().join("repository")).refresh(&[], None).unwrap();

    let buildah = Buildah::new(dir.path());
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
        serde_json::from_str(&buildah.run(&["inspect", "--type", "image", "localhost/it"]))
            .unwrap();
    let config = &inspected["OCIv1"]["config"];
    assert_eq!(config["User"], "10001:10001");
    let labels = &config["Labels"];
    assert_eq!(labels["org.opencontainers.image.base.name"], "localhost/base");
    let pin = |name: &str| {
        workspace.pins.pins.values().find(|at| at.value.component.as_str() == name).unwrap()
    };
    assert_eq!(labels["io.rocmrpm.component.amdsmi.version"], pin("amdsmi").value.version.as_str());
    assert_eq!(labels["io.rocmrpm.gpu-targets"], "gfx1151");
    let pins = rocmrpm::digest::Sha256::of_bytes(&workspace.pins.file.text);
    assert_eq!(labels["io.rocmrpm.pins.sha256"], pins.to_string().as_str());

    let page = Transcript::block(
        "docs/guides/images.md",
        "rocmrpm container check localhost/my-stack --chroot fedora-43",
    );
    buildah.run(&["tag", "localhost/it", "localhost/my-stack"]);
    let manifest = workspace.root.join("rocmrpm.toml");
    let text = fs_err::read_to_string(&manifest).unwrap();
    fs_err::write(manifest, text + "\n[container.fedora]\nbase = \"localhost/base\"\n").unwrap();
    let checked = buildah.settle(page.shell().current_dir(root)).output().unwrap();
    page.assert_output(&String::from_utf8(checked.stdout).unwrap());
    assert_eq!(checked.status.code(), Some(1));

    let container = buildah.run(&["from", "localhost/it"]);
    let versions =
        buildah.run(&["run", "--isolation", "chroot", &container, "--", "cat", VERSIONS]);
    let mut expected: Vec<String> = labels
        .as_object()
        .unwrap()
        .iter()
        .filter_map(|(name, value)| {
            Some(format!("{}={}", name.strip_prefix("io.rocmrpm.")?, value.as_str()?))
        })
        .collect();
    expected.insert(0, "base=localhost/base".into());
    assert_eq!(versions.lines().collect::<Vec<_>>(), expected);
    assert!(versions.contains("\ncomponent.amdsmi.version="), "{versions}");
    let read =
        |path: &str| buildah.run(&["run", "--isolation", "chroot", &container, "--", "cat", path]);
    let (calls, repomd) = (read("/dnf.calls"), read("/repomd.xml"));
    let repository = read("/etc/yum.repos.d/amdrocm.repo");
    let calls: Vec<&str> = calls.lines().collect();
    assert!(
        calls[0].starts_with("install -y --repofrompath=rocmrpm,file:///run/rocmrpm "),
        "{calls:?}"
    );
    assert!(calls[0].ends_with(" python3-rocm-smoke"), "{calls:?}");
    assert_eq!(calls[1], "clean all");
    assert!(repomd.contains("<repomd"), "{repomd}");
    assert!(
        repository.contains("/$basearch\n") && repository.contains("gpgcheck=1\n"),
        "{repository}"
    );
}

#[test]
fn builds_an_image_and_compares_it_with_the_pins() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("workspace");
    quickstart(&root);
    let manifest = root.join("rocmrpm.toml");
    let text = fs_err::read_to_string(&manifest).unwrap();
    let spoof = "\n[container.spoof]\nbase = \"localhost/base\"\nbuilt-by = \"AMD\"\n\
                 env = { HSA_OVERRIDE_GFX_VERSION = \"11.0.0\" }\n";
    fs_err::write(
        &manifest,
        format!("{text}{spoof}[container.fedora]\nbase = \"localhost/base\"\n"),
    )
    .unwrap();
    let buildah = Buildah::new(dir.path());

    // An image needs all of its components.
    let (code, _, reported) =
        buildah.rocmrpm(&root, &["container", "build", "--chroot", "fedora-43"]);
    assert_eq!(code, 2, "{reported}");
    let message = "is part of the image, but has not been built for `fedora-43`";
    assert!(reported.contains(message), "{reported}");
    let results = root.join("build/host/results/amdsmi");
    fs_err::create_dir_all(&results).unwrap();
    let (_, _, reported) = buildah.rocmrpm(&root, &["container", "build", "--chroot", "fedora-43"]);
    assert!(
        reported.contains("help: for another chroot there is one: pass `--chroot host`"),
        "{reported}"
    );
    fs_err::remove_dir(&results).unwrap();

    let (code, _, reported) = buildah.rocmrpm(&root, &["container", "build", "--flavor", "spoof"]);
    assert_eq!(code, 0, "{reported}");
    let image = "localhost/rocm-quickstart-spoof";
    let (code, out, reported) = buildah.rocmrpm(&root, &["container", "check", image]);
    assert_eq!(code, 0, "{out}{reported}");
    let inspected: serde_json::Value =
        serde_json::from_str(&buildah.run(&["inspect", "--type", "image", image])).unwrap();
    let config = &inspected["OCIv1"]["config"];
    assert!(config["Labels"]["io.rocmrpm.risk"].as_str().unwrap().contains("gfx1100"), "{config}");
    let env = config["Env"].as_array().unwrap();
    assert!(env.iter().any(|variable| variable == "HSA_OVERRIDE_GFX_VERSION=11.0.0"), "{env:?}");

    // Change labels of the image.
    let containers = buildah.run(&["containers", "--quiet"]).lines().count() + 1;
    let container = buildah.run(&["from", image]);
    buildah.run(&["config", "--label", "io.rocmrpm.component.gone.version=1", &container]);
    buildah.run(&["config", "--label", "io.rocmrpm.risk=none", &container]);
    buildah.run(&["commit", "--quiet", &container, "localhost/changed"]);
    let (code, out, _) =
        buildah.rocmrpm(&root, &["container", "check", "--json", "localhost/changed"]);
    assert_eq!(code, 1, "{out}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(documents::check(&report), Some("rocmrpm/container-check/1"));
    let labels: Vec<&str> = report["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["io.rocmrpm.component.gone.version", "io.rocmrpm.risk"]);

    let (code, _, reported) = buildah.rocmrpm(&root, &["container", "check", "localhost/base"]);
    assert_eq!(code, 1, "{reported}");
    assert!(reported.contains("was not built by rocmrpm"), "{reported}");
    let (code, _, reported) = buildah.rocmrpm(&root, &["container", "check", "localhost/nothing"]);
    assert_eq!(code, 2, "{reported}");
    assert!(reported.contains("the image `localhost/nothing` does not exist"), "{reported}");

    // Checks that need installed packages or a GPU are reported as not run.
    let verify = |chroot: &str, image: &str| {
        let args = ["verify", "--json", "--chroot", chroot, "--container", image];
        let (code, out, reported) = buildah.rocmrpm(&root, &args);
        assert!(code < 2, "{out}{reported}");
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        let check = |id: &str| {
            let mut checks = report["checks"].as_array().unwrap().iter();
            let found =
                checks.find(|check| check["id"] == id).unwrap_or_else(|| panic!("no {id}: {out}"));
            (
                found["outcome"].as_str().unwrap().to_owned(),
                found["detail"].as_str().unwrap().to_owned(),
            )
        };
        ["labels", "no-spoof", "system-cmake", "wheels"].map(check)
    };
    let [labels, spoof, cmake, wheels] = verify("fedora-43", image);
    assert_eq!(labels, ("pass".into(), String::new()));
    // This check is about exactly this flavor.
    assert_eq!(spoof.0, "fail");
    assert_eq!(cmake.0, "not-run", "{cmake:?}");
    assert_eq!(wheels.0, "not-run", "{wheels:?}");
    let [labels, ..] = verify("fedora-43", "localhost/changed");
    assert_eq!(labels.0, "fail");
    assert!(
        labels.1.starts_with("io.rocmrpm.component.gone.version, io.rocmrpm.risk differ"),
        "{labels:?}"
    );
    let [labels, spoof, ..] = verify("host", "localhost/base");
    assert_eq!((labels.0.as_str(), spoof.0.as_str()), ("not-run", "pass"), "{labels:?}");
    let (code, _, reported) =
        buildah.rocmrpm(&root, &["verify", "--container", "localhost/nothing"]);
    assert_eq!(code, 2, "{reported}");
    assert!(reported.contains("the image `localhost/nothing` does not exist"), "{reported}");
    // No container is left behind, except the one from above.
    assert_eq!(buildah.run(&["containers", "--quiet"]).lines().count(), containers);

    // A failed build shows the end of its log and keeps the log.
    let args = ["container", "build", "--flavor", "spoof", "--base", "localhost/nothing"];
    let (code, _, reported) = buildah.rocmrpm(&root, &args);
    assert_eq!(code, 10, "{reported}");
    assert!(reported.contains("         Log "), "{reported}");

    // A key on this machine, which no image has.
    let definition = root.join("mock-configs/fedora-43.toml");
    let text = fs_err::read_to_string(&definition).unwrap();
    let (before, after) = text.split_once("gpg-key = \"https://").unwrap();
    fs_err::write(&definition, format!("{before}gpg-key = \"file:///srv/{after}")).unwrap();
    let (code, _, reported) =
        buildah.rocmrpm(&root, &["container", "--print", "--chroot", "fedora-43"]);
    assert_eq!(code, 3, "{reported}");
    assert!(reported.contains("a file of this machine"), "{reported}");
}

#[test]
fn container_files_name_risks_clean_caches_and_drop_root() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = Workspace::load(root, &Selection::default()).unwrap();
    let stack = Stack::new(&workspace).unwrap();
    for flavor in Flavor::OWN.iter().chain(workspace.manifest.containers.keys()) {
        let text = rocmrpm::container::render(&stack, flavor).unwrap();
        // toolbox enters as the user of the machine, and passes the devices itself.
        let toolbox = *flavor == Flavor::Toolbox;
        let user = text.ends_with("USER 10001:10001\nWORKDIR /home/rocm\n");
        assert_ne!(user, toolbox, "{text}");
        assert_eq!(text.contains("--group-add keep-groups"), !toolbox, "{text}");
        // Base images are only pinned by `lock --images`; the risks of the flavor come first.
        let unpinned = "# RISK: the base image is not pinned by a digest";
        let own = matches!(flavor, Flavor::Fedora | Flavor::Toolbox);
        let first = text.lines().find(|line| line.starts_with("# RISK: "));
        assert_eq!(first.is_some_and(|risk| risk.starts_with(unpinned)), own, "{text}");
        assert!(text.contains("io.rocmrpm.risk=\""), "{text}");
        for install in text.split("\nRUN ").filter(|run| run.contains(" install ")) {
            let clean = ["dnf clean all", "rm -rf /var/lib/apt/lists/*", "--no-cache-dir"];
            assert!(clean.iter().any(|clean| install.contains(clean)), "{install}");
        }
        assert!(!text.contains("\n\n\n"), "{text}");
    }
}

#[test]
fn risks_follow_from_what_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("workspace");
    quickstart(&root);
    let manifest = root.join("rocmrpm.toml");
    let text = fs_err::read_to_string(&manifest).unwrap();
    let digest = format!("sha256:{}", "0".repeat(64));
    let rendered = |tables: &str, flavor: &str| {
        fs_err::write(&manifest, format!("{text}{tables}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        command.arg("-C").arg(&root).args(["container", "--print", "--flavor", flavor]);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert!(output.status.success(), "{}", text(output.stderr));
        text(output.stdout)
    };
    let risks = |file: &str| {
        let risks = file.lines().filter_map(|line| line.strip_prefix("# RISK: "));
        risks.map(str::to_owned).collect::<Vec<_>>()
    };
    let set = |flavor: &str, version: &str| {
        format!("\n[container.{flavor}]\nenv = {{ HSA_OVERRIDE_GFX_VERSION = \"{version}\" }}\n")
    };
    let foreign = |flavor: &str, rest: &str| {
        let table = format!("\n[container.{flavor}]\nbase = \"x.example/y@{digest}\"\n");
        rendered(&format!("{table}built-by = \"AMD\"\n{rest}"), flavor)
    };
    for (version, name) in [("11.0.0", "gfx1100"), ("11.0.2", "gfx1102")] {
        let env = format!("env = {{ HSA_OVERRIDE_GFX_VERSION = \"{version}\" }}\n");
        let spoof = foreign("spoof", &env);
        assert!(spoof.contains(&format!("HSA_OVERRIDE_GFX_VERSION=\"{version}\"\n")), "{spoof}");
        let risk = format!("runs code for {name} on gfx1151 (HSA_OVERRIDE");
        assert!(risks(&spoof)[0].starts_with("built by AMD: not built"), "{spoof}");
        assert!(risks(&spoof)[1].starts_with(&risk), "{spoof}");
        assert!(spoof.contains("--group-add keep-groups -it rocm-quickstart-spoof"), "{spoof}");
    }
    // Its own version, and options that a shell would split.
    let own = foreign(
        "vendor",
        "env = { HSA_OVERRIDE_GFX_VERSION = \"11.5.1\" }\nrun = [\"-e\", \"A=b c\"]\n",
    );
    assert!(own.contains("keep-groups -e 'A=b c' rocm-quickstart-vendor"), "{own}");
    assert_eq!(risks(&own).len(), 1, "{own}");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocmrpm"));
        let output = command.arg("-C").arg(&root).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, reported) = run(&["container", "run", "--print", "--flavor", "fedra"]);
    assert!(code == Some(3) && reported.contains("did you mean `fedora`?"), "{reported}");
    let clash = "\n[container.fedora43]\nbase = \"x/y:1\"\nbuilt-by = \"X\"\n";
    fs_err::write(&manifest, format!("{text}{clash}")).unwrap();
    let (code, reported) = run(&["plan"]);
    let expected = "the flavor `fedora43` is named like the container files of `fedora-43`";
    assert!(code == Some(3) && reported.contains(expected), "{reported}");
    // The vendor's own image presents nothing, unless someone sets the variable.
    let vendor =
        foreign("vendor", "contents = \"AMD: ROCm 7.1.1, Radeon\"\nrun = [\"-p\", \"1:1\"]\n");
    assert!(vendor.contains("keep-groups -p 1:1 rocm-quickstart-vendor"), "{vendor}");
    assert!(!vendor.contains("HSA_OVERRIDE"), "{vendor}");
    assert!(vendor.contains("io.rocmrpm.vendor=\"AMD: ROCm 7.1.1,"), "{vendor}");
    assert_eq!(risks(&vendor).len(), 1, "{vendor}");
    let fedora = rendered(&set("fedora", "10.3.0"), "fedora");
    assert!(risks(&fedora)[0].ends_with("which has other instructions: programs crash"));
    assert!(risks(&fedora)[1].contains("not pinned by a digest"), "{fedora}");
    // A digest is pinned, wherever it is from.
    let pinned = format!("\n[container.fedora]\nbase = \"example.org/fedora:43@{digest}\"\n");
    assert_eq!(risks(&rendered(&pinned, "fedora")), [""; 0]);
    let lock = root.join("pins/stable.lock");
    let locked = fs_err::read_to_string(&lock).unwrap_or_default();
    let name = "registry.fedoraproject.org/fedora:43";
    let entry = format!("\n[base-images.\"{name}\"]\nsha256 = \"{}\"\n", "0".repeat(64));
    fs_err::write(&lock, locked + &entry).unwrap();
    let file = rendered("\n[container.fedora]\n", "fedora");
    assert_eq!(risks(&file), [""; 0]);
    let from = format!("ARG BASE_IMAGE=registry.fedoraproject.org/fedora@{digest}\n");
    assert!(file.contains(&from), "{file}");
}

/// A registry with one image (OCI distribution specification, "Pulling manifests").
fn registry(manifest: &'static str) -> TestServer {
    TestServer::start(move |request| match request.path.as_str() {
        "/v2/" => Reply::file("{}"),
        "/v2/library/base/manifests/43" => Reply::file(manifest)
            .without_ranges()
            .header("Content-Type", "application/vnd.oci.image.index.v1+json"),
        _ => Reply::status(404),
    })
}

const MANIFEST: &str =
    r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;

#[test]
fn locks_base_images_by_digest() {
    let server = registry(MANIFEST);
    let host = server.url("").trim_start_matches("http://").to_owned();
    let workspace = TestWorkspace::init();
    workspace.write("src/hello/setup.py", "");
    workspace.run(&["add", "hello", "--path", "src/hello", "--version", "1.0"]).exits(0);
    let component = "specs-templates/hello/component.toml";
    let packages = "\n[container]\npackages = [\"python3-hello\"]\n";
    workspace.write(component, workspace.read(component) + packages);
    let manifest = workspace.read("rocmrpm.toml");
    let table = format!("\n[container.fedora]\nbase = \"{host}/library/base:43\"\n");
    workspace.write("rocmrpm.toml", manifest.clone() + &table);
    let home = workspace.holder().join("home-of-skopeo");
    let settings = home.join(".config/containers/registries.conf");
    fs_err::create_dir_all(settings.parent().unwrap()).unwrap();
    let insecure = format!("[[registry]]\nlocation = \"{host}\"\ninsecure = true\n");
    fs_err::write(&settings, insecure).unwrap();
    let lock = |args: &[&str]| {
        let mut command = workspace.command(&[&["lock"], args].concat());
        // Debian's skopeo 1.9 reads the settings only from the home folder.
        command.env("HOME", &home).env("NO_PROXY", "127.0.0.1");
        workspace.outcome(&mut command)
    };
    lock(&["--offline"]).exits(0);
    let before = workspace.read("pins/stable.lock");
    assert!(!before.contains("base-images"), "nothing asked for images");
    let ran = lock(&["--images", "--json"]);
    ran.exits(0);
    let name = format!("{host}/library/base:43");
    let digest = Sha256::of_bytes(MANIFEST).to_string();
    assert_eq!(ran.document("rocmrpm/lock/1")["images"][&name], digest.as_str());
    let locked = workspace.read("pins/stable.lock");
    assert!(locked.contains(&format!("\n[base-images.\"{name}\"]\nsha256 = \"{digest}\"\n")));
    let file = workspace.run(&["container", "--print"]);
    file.exits(0).prints([format!("ARG BASE_IMAGE={host}/library/base@sha256:{digest}")]);
    // Another image under the tag: the lock keeps the digest until it is asked to change it.
    drop(server);
    lock(&["--check", "--offline"]).exits(0);
    lock(&["--images"]).exits(30).has_one_help_per_error().reports([&name]);
    assert_eq!(workspace.read("pins/stable.lock"), locked);
    // A digest of an image that no container file uses is removed.
    workspace.write("rocmrpm.toml", &manifest);
    lock(&["--offline"]).exits(0);
    assert!(!workspace.read("pins/stable.lock").contains("base-images"));
    // Each engine chooses another registry for a short name.
    workspace.write("rocmrpm.toml", manifest + "\n[container.fedora]\nbase = \"fedora:43\"\n");
    let ran = lock(&["--images"]);
    ran.exits(3).reports(["has no registry in its name", "docker.io/library/fedora:43"]);
}

#[test]
fn toolbox_has_what_builds_need() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("workspace");
    quickstart(&root);
    let manifest = root.join("rocmrpm.toml");
    let text = fs_err::read_to_string(&manifest).unwrap();
    fs_err::write(&manifest, text + "\n[container.toolbox]\nbase = \"localhost/base\"\n").unwrap();
    let buildah = Buildah::new(dir.path());
    let build = ["container", "build", "--flavor", "toolbox", "--chroot", "fedora-43"];
    let (code, _, reported) = buildah.rocmrpm(&root, &build);
    assert_eq!(code, 2, "{reported}");
    assert!(reported.contains("`rocmrpm build --until spec --chroot fedora-43`"), "{reported}");
    let (code, _, reported) =
        buildah.rocmrpm(&root, &["build", "--until", "spec", "--chroot", "fedora-43", "--offline"]);
    assert_eq!(code, 0, "{reported}");
    let (code, _, reported) = buildah.rocmrpm(&root, &build);
    assert_eq!(code, 0, "{reported}");
    let image = "localhost/rocm-quickstart-toolbox";
    let inspected: serde_json::Value =
        serde_json::from_str(&buildah.run(&["inspect", "--type", "image", image])).unwrap();
    let config = &inspected["OCIv1"]["config"];
    assert_eq!(config["Labels"]["com.github.containers.toolbox"], "true");
    assert!(config["User"].is_null() || config["User"] == "", "toolbox chooses the user");
    let container = buildah.run(&["from", image]);
    let calls =
        buildah.run(&["run", "--isolation", "chroot", &container, "--", "cat", "/dnf.calls"]);
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls[0].starts_with("install -y cargo copr-cli "), "{calls:?}");
    let builddep = "builddep -y --skip-unavailable /run/rocmrpm/python-amdsmi-rocm.spec";
    assert!(calls.iter().any(|call| call.starts_with(builddep)), "{calls:?}");
    // What rocmrpm's own package requires or recommends.
    let own = fs_err::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("specs-templates/rocmrpm/rocmrpm.spec.tera"),
    );
    let own = own.unwrap();
    let tags = ["Requires:", "Recommends:"];
    for package in own.lines().filter_map(|line| {
        let rest = tags.iter().find_map(|tag| line.strip_prefix(tag))?;
        Some(rest.trim().to_owned())
    }) {
        assert!(rocmrpm::container::TOOLS.contains(&package.as_str()), "{package}");
    }
    let (code, _, reported) = buildah.rocmrpm(&root, &["container", "run", "--flavor", "toolbox"]);
    assert_eq!(code, 2, "{reported}");
    assert!(reported.contains("toolbox create --image"), "{reported}");
}

#[test]
fn run_needs_a_gpu_and_an_engine() {
    let workspace = TestWorkspace::copy_of("examples/quickstart");
    let bin = workspace.holder().join("no-engine");
    fs_err::create_dir(&bin).unwrap();
    let run = |args: &[&str]| {
        let mut command = workspace.command(&[&["container", "run"], args].concat());
        workspace.outcome(command.env("PATH", &bin))
    };
    run(&["--without-gpu"])
        .exits(40)
        .reports(["`podman` is not installed", "apt-get install podman"]);
    let script = "#!/bin/sh\necho \"$0 $*\"\nexit 7\n";
    for (name, groups) in [("docker", "--group-add "), ("podman", "--group-add keep-groups ")] {
        let path = bin.join(name);
        fs_err::write(&path, script).unwrap();
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(&path, runs).unwrap();
        let args = ["--without-gpu", "--tag", "some/image", "--", "sh", "-c", "exit 7"];
        let ran = run(&args);
        // The exit code is that of the program in the container.
        let line = "run --rm --interactive --pull never some/image sh -c exit 7";
        ran.exits(7).prints([&format!("[HOLDER]/no-engine/{name} {line}")]);
        let with_gpu = run(&["--print"]);
        match Path::new("/dev/kfd").exists() {
            true => with_gpu.exits(0).prints([groups]),
            false => with_gpu.exits(20).reports(["this machine has no /dev/kfd", "rocmrpm doctor"]),
        };
    }
}
