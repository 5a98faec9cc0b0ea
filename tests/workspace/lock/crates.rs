//! The crates of a lock file, vendored by the real cargo: from a registry in a folder that stands
//! in for a mirror, and from the registry that cargo uses on this machine.

use std::path::{Path, PathBuf};

use super::support::{Ran, Workspace};
use super::{Repository, SPEC, forget, lock_text, set_pins};
use crate::support::archive::tar_gz;
use crate::support::server::{Reply, TestServer};
use rocmrpm::digest::Sha256;
use rocmrpm::process::Command;

/// A workspace, a cargo with its own home, and crates for it.
struct Crates {
    workspace: Workspace,
    cargo_home: PathBuf,
}

impl Crates {
    /// Returns a workspace whose cargo has a mirror of the registry with the crate `mini`.
    fn with_mirror() -> Self {
        let workspace = Workspace::init();
        let crates = Self { cargo_home: workspace.holder().join("cargo-home"), workspace };
        let index = crates.dir("mirror/index/mi/ni");
        let archive = crate_file("mini", "1.0.0", "pub fn seven() -> u8 { 7 }\n");
        let digest = Sha256::of_bytes(&archive);
        fs_err::write(crates.workspace.holder().join("mirror/mini-1.0.0.crate"), archive).unwrap();
        let line = format!(
            "{{\"name\":\"mini\",\"vers\":\"1.0.0\",\"deps\":[],\"features\":{{}},\"cksum\":\"{digest}\",\"yanked\":false}}\n"
        );
        fs_err::write(index.join("mini"), line).unwrap();
        let mirror =
            format!("local-registry = \"{}\"", crates.workspace.holder().join("mirror").display());
        crates.mirror(&mirror);
        crates
    }

    fn mirror(&self, source: &str) {
        let config =
            format!("[source.crates-io]\nreplace-with = \"mirror\"\n\n[source.mirror]\n{source}\n");
        fs_err::write(self.dir("cargo-home").join("config.toml"), config).unwrap();
    }

    fn dir(&self, name: &str) -> PathBuf {
        let dir = self.workspace.holder().join(name);
        fs_err::create_dir_all(&dir).unwrap();
        dir
    }

    /// Runs the toolchain's cargo directly, without rustup.
    fn cargo(&self, dir: &Path, home: &Path, args: &[&str]) -> String {
        let cargo = Command::new(env!("CARGO")).args(args).cwd(dir).env("CARGO_HOME", home);
        let cargo = cargo.env("PATH", path()).env_remove("CARGO_TARGET_DIR");
        cargo.env("RUSTC", Path::new(env!("CARGO")).with_file_name("rustc")).text().unwrap()
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.workspace.command(args);
        self.workspace.outcome(command.env("PATH", path()).env("CARGO_HOME", &self.cargo_home))
    }

    /// Pins the last commit of `upstream` and the crates of this lock file.
    fn pin(&self, upstream: &Repository<'_>, lock_file: &str) {
        let commit = upstream.git(&["rev-parse", "HEAD"]);
        let pins = format!(
            "[demo]\nversion = \"1\"\ngit = \"{}\"\ncommit = \"{commit}\"\n\n\
             [demo.sources.crates]\ncargo-vendor = \"{lock_file}\"\n",
            upstream.url()
        );
        set_pins(&self.workspace, &pins);
        self.workspace.write("specs-templates/demo/demo.spec.tera", SPEC);
    }

    /// Returns the archive in the cache whose top folder is this one.
    fn archive(&self, top: &str) -> PathBuf {
        let files = walkdir::WalkDir::new(self.workspace.holder().join("cache/sha256"))
            .into_iter()
            .map(Result::unwrap);
        let is_it = |path: &PathBuf| {
            let file = fs_err::File::open(path).unwrap();
            let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
            // git's own header comes first.
            archive
                .entries()
                .unwrap()
                .map(Result::unwrap)
                .any(|entry| entry.path().unwrap().starts_with(top))
        };
        let mut found = files
            .filter(|e| e.file_type().is_file())
            .map(walkdir::DirEntry::into_path)
            .filter(is_it);
        let one = found.next().unwrap_or_else(|| panic!("no archive has `{top}`"));
        assert_eq!(found.next(), None);
        one
    }

    /// Unpacks the fetched sources as a spec does, and builds them with only these crates.
    fn builds_offline(&self) -> (String, Vec<u8>) {
        let bytes = fs_err::read(self.archive("demo-crates-1")).unwrap();
        let unpacked = tempfile::tempdir().unwrap();
        for name in ["demo-1", "demo-crates-1"] {
            let tar = Command::new("tar")
                .args(["-xf"])
                .arg(self.archive(name))
                .arg("-C")
                .arg(unpacked.path());
            tar.output().unwrap();
        }
        let (top, crates) =
            (unpacked.path().join("demo-1/rust"), unpacked.path().join("demo-crates-1"));
        let config = fs_err::read_to_string(crates.join(".cargo/config.toml")).unwrap();
        for name in [".cargo", "vendor"] {
            fs_err::rename(crates.join(name), top.join(name)).unwrap();
        }
        let home = tempfile::tempdir().unwrap();
        self.cargo(&top, home.path(), &["build", "--quiet", "--offline", "--frozen"]);
        let printed = Command::new(top.join("target/debug/demo").to_str().unwrap()).text().unwrap();
        assert_eq!(printed, "7");
        (config, bytes)
    }
}

/// `PATH` with the toolchain's own programs first.
fn path() -> std::ffi::OsString {
    let toolchain = Path::new(env!("CARGO")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::iter::once(toolchain).chain(std::env::split_paths(&path))).unwrap()
}

fn manifest(name: &str, version: &str) -> String {
    format!("[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2021\"\n")
}

/// Returns a `.crate` file with one module. It also has a file that rocmrpm would not pack
/// elsewhere, because the digest of a crate covers all of its files.
fn crate_file(name: &str, version: &str, code: &str) -> Vec<u8> {
    let manifest = manifest(name, version);
    let files =
        [("Cargo.toml", manifest.as_str()), ("src/lib.rs", code), ("build/made.pyc", "made")];
    tar_gz(&format!("{name}-{version}"), &files)
}

const WORKSPACE: &str = "[workspace]\nmembers = [\"demo\", \"part\"]\nresolver = \"2\"\n";

/// Commits a workspace of two members, whose configuration must be ignored, with the lock file
/// that cargo writes for it.
fn commit_workspace(
    crates: &Crates,
    upstream: &Repository<'_>,
    dependencies: &str,
    code: &str,
) -> String {
    let demo = format!(
        "{}[dependencies]\npart = {{ path = \"../part\" }}\n{dependencies}",
        manifest("demo", "0.1.0")
    );
    let main = format!("fn main() {{ println!(\"{{}}\", part::add({code})); }}\n");
    upstream.commit(
        &[
            ("rust/Cargo.toml", WORKSPACE),
            ("rust/demo/Cargo.toml", &demo),
            ("rust/demo/src/main.rs", &main),
            ("rust/part/Cargo.toml", &manifest("part", "0.1.0")),
            ("rust/part/src/lib.rs", "pub fn add(n: u8) -> u8 { n }\n"),
            ("rust/rust-toolchain.toml", "[toolchain]\nchannel = \"1.0.0\"\n"),
            (".cargo/config.toml", "[source.crates-io]\nreplace-with = \"none\"\n"),
        ],
        &[],
    );
    // In a copy without upstream's configuration and toolchain.
    let copy = tempfile::tempdir().unwrap();
    let tar = Command::new("cp").arg("-r").arg(upstream.dir.join("rust")).arg(copy.path());
    tar.output().unwrap();
    let copy = copy.path().join("rust");
    fs_err::remove_file(copy.join("rust-toolchain.toml")).unwrap();
    crates.cargo(&copy, &crates.cargo_home, &["generate-lockfile", "--quiet"]);
    let lock = fs_err::read_to_string(copy.join("Cargo.lock")).unwrap();
    upstream.commit(&[("rust/Cargo.lock", &lock)], &[]);
    lock
}

#[test]
fn crates_of_a_mirror_and_of_git_build_offline() {
    let crates = Crates::with_mirror();
    let (git, upstream) =
        (Repository::new(&crates.workspace, "gitty"), Repository::new(&crates.workspace, "up"));
    let git_commit = git.commit(
        &[
            ("Cargo.toml", &manifest("gitty", "0.2.0")),
            ("src/lib.rs", "pub fn none() -> u8 { 0 }\n"),
        ],
        &[],
    );
    let dependencies =
        format!("mini = \"1\"\ngitty = {{ git = \"{}\", branch = \"main\" }}\n", git.url());
    let lock = commit_workspace(&crates, &upstream, &dependencies, "mini::seven() + gitty::none()");
    crates.pin(&upstream, "rust/Cargo.lock");

    crates.run(&["lock"]).exits(0).reports(["Locked pins/stable.lock: 2 sources"]);
    let text = lock_text(&crates.workspace);
    let table = format!(
        "\n[demo.sources.crates]\nversion = \"1\"\norigin = \"rust/Cargo.lock\"\nsha256 = \"{}\"\n\
         archive = \"{}\"\ncrates = 2\n\n\
         [demo.sources.crates.git]\n\"{}?branch=main\" = \"{git_commit}\"\n",
        Sha256::of_bytes(&lock),
        Sha256::of_file(&crates.archive("demo-crates-1")).unwrap().0,
        git.url(),
    );
    assert!(text.ends_with(&table), "{text}");
    crates.run(&["build", "--until", "sources"]).exits(0);
    let (config, bytes) = crates.builds_offline();
    let expected = format!(
        "[source.crates-io]\nreplace-with = \"vendored-sources\"\n\n\
         [source.\"git+{url}?branch=main\"]\ngit = \"{url}\"\nbranch = \"main\"\nreplace-with = \"vendored-sources\"\n\n\
         [source.vendored-sources]\ndirectory = \"vendor\"\n",
        url = git.url()
    );
    similar_asserts::assert_eq!(config, expected);

    // The same bytes again, and then without network and without cargo.
    forget(&crates.workspace);
    crates.workspace.run(&["lock", "--check", "--offline"]).exits(0);
    crates.run(&["build", "--until", "sources"]).exits(0);
    assert_eq!(fs_err::read(crates.archive("demo-crates-1")).unwrap(), bytes);
    let lie =
        text.replace(&Sha256::of_bytes(&bytes).to_string(), &Sha256::of_bytes("lie").to_string());
    crates.workspace.write("pins/stable.lock", &lie);
    crates.run(&["build", "--until", "sources"]).exits(3).reports([
        "the lock file contradicts `demo-crates`",
        "the archive of the crates of `rust/Cargo.lock`",
    ]);
    crates.workspace.write("pins/stable.lock", &text);
    fs_err::remove_dir_all(&crates.cargo_home).unwrap();
    crates.workspace.run(&["build", "--until", "sources", "--offline"]).exits(0);

    // A build verifies the values of the lock.
    for (right, wrong, message) in [
        (
            Sha256::of_bytes(&lock).to_string(),
            Sha256::of_bytes("lie").to_string(),
            "the digest of `rust/Cargo.lock`",
        ),
        ("crates = 2".into(), "crates = 3".into(), "the number of crates"),
    ] {
        crates.workspace.write("pins/stable.lock", text.replace(&right, &wrong));
        crates
            .run(&["build", "--until", "sources"])
            .exits(3)
            .reports(["the lock file contradicts `demo-crates`", message]);
    }
}

/// The lock file of such crates is in the workspace itself, and its history records it.
#[test]
fn crates_of_a_folder_need_no_lock_entry() {
    let crates = Crates::with_mirror();
    let workspace = &crates.workspace;
    let toml = format!("{}[dependencies]\nmini = \"1\"\n", manifest("demo", "1.0.0"));
    workspace.write("Cargo.toml", toml);
    workspace.write("src/main.rs", "fn main() {}\n");
    crates.cargo(&workspace.root(), &crates.cargo_home, &["generate-lockfile", "--quiet"]);
    let pins = "[demo]\nversion = \"1\"\npath = \".\"\npaths = [\"Cargo.toml\", \"Cargo.lock\", \"src\"]\n\n\
                [demo.sources.crates]\ncargo-vendor = \"Cargo.lock\"\n";
    set_pins(workspace, pins);
    workspace.write("specs-templates/demo/demo.spec.tera", SPEC);

    crates.run(&["lock"]).exits(0).reports(["pins/stable.lock: 0 sources"]);
    crates.run(&["build", "--until", "sources"]).exits(0);
    let packed = |top: &str| {
        let file = fs_err::File::open(crates.archive(top)).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let paths =
            archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned());
        paths.map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(packed("demo-1"), ["demo-1/Cargo.lock", "demo-1/Cargo.toml", "demo-1/src/main.rs"]);
    let vendored = packed("demo-crates-1");
    assert!(
        vendored.contains(&"demo-crates-1/vendor/mini-1.0.0/src/lib.rs".to_owned()),
        "{vendored:?}"
    );

    // A changed lock file gives other crates, without `rocmrpm lock`.
    crates.workspace.replace("Cargo.toml", "mini = \"1\"\n", "");
    crates.cargo(&workspace.root(), &crates.cargo_home, &["generate-lockfile", "--quiet"]);
    crates.run(&["build", "--until", "sources"]).exits(3).reports(["it lists no crates"]);
}

/// The two crates are dependencies of this program, so cargo already has them.
#[test]
fn crates_of_this_machines_registry_build_offline() {
    let own: toml::Table = toml::from_str(include_str!("../../../Cargo.lock"))
        .expect("the repository's own lock file");
    let version = |name: &str| {
        let packages = own["package"].as_array().unwrap();
        packages.iter().find(|package| package["name"].as_str() == Some(name)).unwrap()["version"]
            .clone()
    };
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || Path::new(&std::env::var_os("HOME").expect("HOME or CARGO_HOME")).join(".cargo"),
        PathBuf::from,
    );
    let crates = Crates { workspace: Workspace::init(), cargo_home: home };
    let upstream = Repository::new(&crates.workspace, "up");
    let dependencies = format!(
        "itoa = \"={}\"\ncfg-if = \"={}\"\n",
        version("itoa").as_str().unwrap(),
        version("cfg-if").as_str().unwrap()
    );
    commit_workspace(
        &crates,
        &upstream,
        &dependencies,
        "itoa::Buffer::new().format(7u8).parse().unwrap()",
    );
    crates.pin(&upstream, "rust/Cargo.lock");
    crates.run(&["lock"]).exits(0);
    assert!(lock_text(&crates.workspace).contains("crates = 2\n"));
    crates.run(&["build", "--until", "sources"]).exits(0);
    let (config, _) = crates.builds_offline();
    let expected = "[source.crates-io]\nreplace-with = \"vendored-sources\"\n\n\
                    [source.vendored-sources]\ndirectory = \"vendor\"\n";
    assert_eq!(config, expected);
}

#[test]
fn reports_why_crates_cannot_be_vendored() {
    let crates = Crates::with_mirror();
    let upstream = Repository::new(&crates.workspace, "up");
    let good = commit_workspace(&crates, &upstream, "mini = \"1\"\n", "mini::seven()");
    let build = ["build", "--until", "sources"];
    let digest = good.split("checksum = \"").nth(1).unwrap()[..64].to_owned();
    let manifest = fs_err::read_to_string(upstream.dir.join("rust/demo/Cargo.toml")).unwrap();
    let vendored = "cannot vendor the crates of `rust/Cargo.lock` of `demo` 1: ";
    let refused = |files: &[(&str, &str)], code: i32, reason: &str, more: &str| {
        upstream.commit(files, &[]);
        crates.pin(&upstream, "rust/Cargo.lock");
        let _ = std::fs::remove_file(crates.workspace.path("pins/stable.lock"));
        let ran = crates.run(&build);
        ran.exits(code);
        ran.reports([&format!("{vendored}{reason}"), more]);
    };
    let lock = "rust/Cargo.lock";
    refused(
        &[(lock, &good.replace(&digest, &Sha256::of_bytes("other").to_string()))],
        30,
        "a crate does not match its digest in the lock file",
        "checksum for `mini v1.0.0`",
    );
    let part = "rust/part/Cargo.toml";
    let part_text = fs_err::read_to_string(upstream.dir.join(part)).unwrap();
    refused(
        &[(lock, &good), (part, &format!("{part_text}[dependencies]\nmini = \"1\"\n"))],
        3,
        "it does not match the manifest next to it",
        "--locked was passed",
    );
    let newer = manifest.replace("mini = \"1\"", "mini = \"=1.0.1\"");
    refused(
        &[(part, &part_text), ("rust/demo/Cargo.toml", &newer)],
        3,
        "the registry has no versions that match both",
        "candidate versions found which didn't match: 1.0.0",
    );
    refused(
        &[("rust/demo/Cargo.toml", "[package")],
        3,
        "cargo cannot read the workspace",
        "Cargo.toml",
    );
    refused(
        &[("rust/demo/Cargo.toml", &manifest), (lock, "version = 4\n")],
        3,
        "it lists no crates",
        "",
    );
    refused(&[(lock, "x")], 3, "it is not a Cargo.lock", "");
    // A lock file that does not belong to the workspace.
    let stray = "version = 4\n\n[[package]]\nname = \"q\"\nversion = \"9.0.0\"\nsource = \"registry+https://h\"\n";
    upstream.commit(&[(lock, &good), ("rust/demo/Cargo.lock", stray)], &[]);
    crates.pin(&upstream, "rust/demo/Cargo.lock");
    crates
        .run(&build)
        .exits(3)
        .reports(["cargo uses `rust/Cargo.lock` of the cargo workspace instead"]);

    // An unreachable registry, and a cargo with an empty cache.
    crates.mirror("registry = \"sparse+http://127.0.0.1:9/index/\"\n\n[net]\nretry = 0");
    refused(&[("y", "")], 30, "cargo cannot fetch them", "127.0.0.1");

    // Without cargo.
    let bin = crates.dir("bin");
    for tool in ["git", "tar", "curl"] {
        let real = rocmrpm::process::find_program(tool)
            .unwrap_or_else(|| panic!("{tool} (package: {tool})"));
        std::os::unix::fs::symlink(real, bin.join(tool)).unwrap();
    }
    crates
        .workspace
        .outcome(crates.workspace.command(&build).env("PATH", &bin))
        .exits(40)
        .reports(["the program `cargo` is not installed", "`dnf install cargo`"]);

    upstream.git(&["rm", "--quiet", "rust/Cargo.toml"]);
    refused(&[("z", "")], 3, "there is no Cargo.toml next to it", "");
    upstream.git(&["rm", "--quiet", lock]);
    refused(&[("z", "z")], 3, "the file does not exist", "");
    let ran = crates.run(&["lock"]);
    ran.exits(3);
    ran.reports([
        "cannot lock 1 of 2 sources",
        &format!("demo.sources.crates: {vendored}the file does not exist"),
    ]);
}

#[test]
fn packs_no_files_of_this_machine() {
    let crates = Crates::with_mirror();
    let upstream = Repository::new(&crates.workspace, "up");
    upstream.commit(&[("x", "x")], &[]);
    std::os::unix::fs::symlink("/etc/passwd", upstream.dir.join("Cargo.lock")).unwrap();
    upstream.commit(&[("y", "y")], &[]);
    crates.pin(&upstream, "Cargo.lock");
    crates.run(&["lock"]).exits(3).reports([
        "demo.sources.crates: cannot read `Cargo.lock` of `demo-1.tar.gz`: it is a link that leads out",
    ]);

    // A lock file from a server, with a repository on this machine.
    let ours = Repository::new(&crates.workspace, "ours");
    let commit = ours.commit(
        &[("Cargo.toml", &manifest("ours", "0.1.0")), ("src/lib.rs", ""), ("key", "secret")],
        &[],
    );
    let lock = format!(
        "version = 4\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\nsource = \"git+{}#{commit}\"\n",
        ours.url()
    );
    fs_err::write(crates.dir("demo-1").join("Cargo.lock"), lock).unwrap();
    let tar = Command::new("tar")
        .args(["-C"])
        .arg(crates.workspace.holder())
        .args(["-cz", "demo-1"])
        .output()
        .unwrap();
    let server = TestServer::start(move |_| Reply::file(tar.clone()));
    let url = server.url("/demo-1.tar.gz");
    let pins = format!(
        "[demo]\nversion = \"1\"\nurl = \"{url}\"\n\n[demo.sources.crates]\ncargo-vendor = \"Cargo.lock\"\n"
    );
    set_pins(&crates.workspace, &pins);
    crates
        .run(&["lock"])
        .exits(3)
        .reports(["it refers to a location on this machine, `git+file://[HOLDER]/ours#"]);
}

/// cargo would use the lock file above the one that the pin names, and a URL in the named one
/// contains the path of a repository on this machine.
#[test]
fn rejects_a_lock_file_above_the_named_one() {
    let crates = Crates::with_mirror();
    let private = Repository::new(&crates.workspace, "private");
    let commit = private.commit(
        &[("Cargo.toml", &manifest("private", "1.0.0")), ("src/lib.rs", "// SECRET\n")],
        &[],
    );
    let lock = |source: &str| {
        format!(
            "version = 4\n\n[[package]]\nname = \"demo\"\nversion = \"0.1.0\"\ndependencies = [\"private\"]\n\n\
             [[package]]\nname = \"private\"\nversion = \"1.0.0\"\nsource = \"{source}#{commit}\"\n"
        )
    };
    let demo = format!(
        "{}[dependencies]\nprivate = {{ git = \"{}\" }}\n",
        manifest("demo", "0.1.0"),
        private.url()
    );
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"rust\"]\nresolver = \"2\"\n".to_owned()),
        ("Cargo.lock", lock(&format!("git+{}", private.url()))),
        ("rust/Cargo.toml", demo),
        ("rust/src/lib.rs", String::new()),
        ("rust/Cargo.lock", lock(&format!("git+https://example.invalid/x?rev={}", private.url()))),
    ];
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let archive = tar_gz("demo-1", &files);
    let server = TestServer::start(move |_| Reply::file(archive.clone()));
    let url = server.url("/demo-1.tar.gz");
    set_pins(
        &crates.workspace,
        &format!(
            "[demo]\nversion = \"1\"\nurl = \"{url}\"\n\n[demo.sources.crates]\ncargo-vendor = \"rust/Cargo.lock\"\n"
        ),
    );
    crates
        .run(&["lock"])
        .exits(3)
        .reports(["cargo uses `Cargo.lock` of the cargo workspace instead"]);
}

#[test]
fn changed_cache_files_do_not_reach_an_archive() {
    let crates = Crates::with_mirror();
    let upstream = Repository::new(&crates.workspace, "up");
    commit_workspace(&crates, &upstream, "mini = \"1\"\n", "mini::seven()");
    crates.pin(&upstream, "rust/Cargo.lock");
    crates.run(&["lock"]).exits(0);
    let (sources, archive) = (crates.archive("demo-1"), crates.archive("demo-crates-1"));
    let bytes = fs_err::read(&archive).unwrap();
    let build = ["build", "--until", "sources"];
    let is_unchanged = || {
        crates.run(&build).exits(0);
        assert_eq!(fs_err::read(&archive).unwrap(), bytes);
    };

    // Change the tree that the crates were vendored from, and remove the archive.
    let unpacked = crates.workspace.holder().join("cache/unpacked");
    for entry in walkdir::WalkDir::new(&unpacked).into_iter().map(Result::unwrap) {
        if entry.file_name() == "Cargo.lock" {
            fs_err::write(entry.path(), "version = 4\n").unwrap();
        }
    }
    fs_err::remove_file(&archive).unwrap();
    is_unchanged();

    // Change the archive itself, then the record of which archive it is.
    fs_err::write(&archive, "another").unwrap();
    crates.run(&build).exits(0).reports(["rocmrpm removed it"]);
    assert_eq!(fs_err::read(&archive).unwrap(), bytes);
    let [wrong, right] =
        [&sources, &archive].map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    let packed = crates.workspace.holder().join("cache/packed");
    let entry = fs_err::read_dir(packed).unwrap().map(|entry| entry.unwrap().path());
    let entry: Vec<_> =
        entry.filter(|path| fs_err::read_to_string(path).unwrap().trim() == right).collect();
    assert_eq!(entry.len(), 1);
    fs_err::write(&entry[0], format!("{wrong}\n")).unwrap();
    is_unchanged();
    assert_eq!(fs_err::read_to_string(&entry[0]).unwrap().trim(), right);
}
