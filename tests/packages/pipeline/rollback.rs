//! Brings what users get back to an earlier publication: the real dnf and pip read the published folders.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::fixture::PipelineFixture;
use crate::support::server::{Reply, TestServer};
use crate::support::{Parts, names_in, ran, template};
use rocmrpm::digest::Sha256;

/// Files of Python, so that `greet` has a wheel too.
const INSTALL: &str = "site=%{buildroot}/usr/lib/python<{ chroot.python }>/site-packages\n\
    info=$site/greet-<{ version }>.dist-info\n\
    mkdir -p $info $site/greet\n\
    printf 'Metadata-Version: 2.1\\nName: greet\\nVersion: <{ version }>\\n' > $info/METADATA\n\
    printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' > $info/WHEEL\n\
    printf 'version = \"<{ version }>\"\\n' > $site/greet/__init__.py\n";

/// A laboratory whose component `greet` has a package and a wheel.
fn fixture() -> PipelineFixture {
    let fixture = PipelineFixture::new();
    let parts = Parts {
        preamble: "Requires: base",
        install: INSTALL,
        files: "/usr/lib/python<{ chroot.python }>/site-packages/*",
        ..Parts::default()
    };
    fixture.workspace.write(template("greet"), parts.spec("greet"));
    fixture.workspace.replace(
        "mock-configs/rocm/host.toml",
        "version-header = \"/usr/include/hip/hip_version.h\"",
        "version = \"7.1\"",
    );
    amend(&fixture);
    fixture
}

/// Adds the changes to the last commit, so that they do not raise a Release.
fn amend(fixture: &PipelineFixture) {
    fixture.workspace.git(&["add", "--all"]);
    fixture.workspace.git(&["commit", "--quiet", "--amend", "--no-edit"]);
}

impl PipelineFixture {
    /// Releases a version, publishes it, and promotes it. Returns the number of the publication's record.
    fn publishes(&self, version: &str) -> u64 {
        if version != "1.0" {
            self.release(version, &[]);
        }
        self.pipeline(&["run"]).exits(0);
        self.workspace.run(&["publish", "promote", "../wheels"]).exits(0);
        *self.publications().last().unwrap()
    }

    fn publications(&self) -> Vec<u64> {
        let list = self.workspace.run(&["evidence", "show", "--json"]);
        let list = list.exits(0).document("rocmrpm/evidence-list/1");
        let all = list["records"].as_array().unwrap().iter();
        let published =
            all.filter(|record| record["stage"] == "publish" && record["outcome"] == "passed");
        published.map(|record| record["number"].as_u64().unwrap()).collect()
    }

    fn rollback(&self, args: &[&str]) -> crate::support::Ran {
        self.pipeline(&[&["rollback"], args].concat())
    }

    /// Returns the digest of the package that dnf downloads, and of the wheel that pip downloads.
    fn users_get(&self) -> [(String, Sha256); 2] {
        let dir = tempfile::tempdir().unwrap();
        let holder = self.workspace.holder();
        let venv = holder.join("venv");
        if !venv.exists() {
            ran(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv)).exits(0);
        }
        let pip = pip(&venv, &holder.join("wheels"), dir.path());
        [dnf(&holder.join("site/host"), dir.path()), pip]
    }
}

/// Returns the only file with this start in a folder and those below it, with its digest.
fn only(folder: &Path, start: &str, end: &str) -> (String, Sha256) {
    let files: Vec<PathBuf> = walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(start) && name.ends_with(end)
        })
        .collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    (name, Sha256::of_file(file).unwrap().0)
}

/// Makes a repository in a folder, with what packages with Python modules require of the distribution.
fn make_distribution(dir: &Path) {
    let abi = "import sys; print('%d.%d' % sys.version_info[:2])";
    let python = ran(Command::new("/usr/bin/python3").args(["-c", abi])).exits(0).stdout.clone();
    let spec = dir.join("python.spec");
    let text = format!(
        "Name: python3\nVersion: {0}\nRelease: 1\nSummary: Python\nLicense: MIT\nBuildArch: noarch\n\
         Provides: python(abi) = {0}\n%description\nPython.\n%files\n",
        python.trim()
    );
    std::fs::write(&spec, text).unwrap();
    let topdir = format!("_topdir {}", dir.join("top").display());
    let rpmdir = format!("_rpmdir {}", dir.display());
    let mut build = Command::new("rpmbuild");
    ran(build.args(["-bb", "--quiet", "--define", &topdir, "--define", &rpmdir]).arg(&spec))
        .exits(0);
    ran(Command::new("createrepo_c").arg("--quiet").arg(dir)).exits(0);
}

/// Downloads `greet` with dnf, this repository, and one that stands for the distribution.
fn dnf(repository: &Path, dir: &Path) -> (String, Sha256) {
    for folder in ["repos", "log", "distribution"] {
        std::fs::create_dir(dir.join(folder)).unwrap();
    }
    make_distribution(&dir.join("distribution"));
    // dnf downloads nothing from local folders.
    let served = repository.to_owned();
    let server = TestServer::start(move |seen| {
        std::fs::read(served.join(seen.path.trim_start_matches('/')))
            .map_or(Reply::status(404), Reply::file)
    });
    let repo = |name: &str, url: &str| {
        format!(
            "[{name}]\nname={name}\nbaseurl={url}\nenabled=1\ngpgcheck=0\nskip_if_unavailable=0\n"
        )
    };
    let distribution = format!("file://{}", dir.join("distribution").display());
    let text = repo("r", &server.url("/")) + &repo("distribution", &distribution);
    std::fs::write(dir.join("repos/r.repo"), text).unwrap();
    let option =
        |name: &str, folder: &str| format!("--setopt={name}={}", dir.join(folder).display());
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["--mount", "dnf", "-y", "--releasever=43"])
        .args(["--setopt=module_platform_id=platform:f43", "--setopt=keepcache=1"])
        .arg(format!("--installroot={}", dir.join("root").display()))
        .args([option("reposdir", "repos"), option("cachedir", "cache"), option("logdir", "log")])
        .args([option("persistdir", "state"), "--setopt=install_weak_deps=0".into()])
        .args(["--downloadonly", "install", "greet"]);
    ran(&mut command).exits(0);
    only(dir, "greet-", ".rpm")
}

/// Downloads `greet` with pip from the channel `stable` only.
fn pip(venv: &Path, index: &Path, dir: &Path) -> (String, Sha256) {
    let url = format!("file://{}/stable/simple", index.display());
    let pip = ["-m", "pip", "download", "--quiet", "--no-cache-dir", "--disable-pip-version-check"];
    let to = dir.join("downloaded");
    let mut command = Command::new(venv.join("bin/python"));
    for name in ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"] {
        command.env_remove(name);
    }
    command.env("PIP_CONFIG_FILE", "/dev/null").args(pip).arg("--dest").arg(&to);
    ran(command.args(["--index-url", &url, "greet"])).exits(0);
    only(&to, "greet-", ".whl")
}

#[test]
fn users_get_an_earlier_publication_byte_for_byte() {
    let fixture = fixture();
    let first = fixture.publishes("1.0");
    let old = fixture.users_get();
    assert!(old.iter().all(|(name, _)| name.starts_with("greet-1.0")), "{old:?}");
    fixture.publishes("1.1");
    let new = fixture.users_get();
    assert!(new.iter().all(|(name, _)| name.starts_with("greet-1.1")), "{new:?}");

    let number = first.to_string();
    let shown = fixture.rollback(&[&number, "--dry-run"]);
    shown.exits(0).prints([
        "Drop greet-1.1",
        "Add greet-1.0-1.noarch.rpm to ../site/host",
        "Drop greet-1.1-1.noarch.rpm from ../site/host",
    ]);
    assert_eq!(fixture.users_get(), new, "a dry run changes nothing");
    let records = fixture.records();
    let done = fixture.rollback(&[&number, "--json"]);
    let done = done.exits(0).document("rocmrpm/rollback/1");
    assert_eq!((done["record"].as_u64(), done["chroot"].as_str()), (Some(first), Some("host")));
    assert_eq!(fixture.users_get(), old);
    assert_eq!(fixture.records(), records + 1);
    // The same command again has nothing to do.
    fixture.rollback(&[&number]).exits(0).reports(["Unchanged"]);
    assert_eq!(fixture.records(), records + 1);
    let check = ["index", "check", "../wheels", "--channel", "stable", "--offline", "--digests"];
    fixture.workspace.run(&check).exits(0);

    // The next run does not publish it again, until a person says so.
    let held = fixture.pipeline(&["run"]);
    held.exits(1).reports(["greet-1.1-1.noarch.rpm was rolled back"]).has_one_help_per_error();
    assert_eq!(fixture.users_get(), old);
    // A new release is published as usual.
    fixture.publishes("1.2");
    let newest = fixture.users_get();
    assert!(newest.iter().all(|(name, _)| name.starts_with("greet-1.2")), "{newest:?}");
    fixture.workspace.run(&["evidence", "check"]).exits(0);

    // After two more publications, the packages of 1.0 are gone.
    fixture.publishes("1.3");
    let newest = fixture.users_get();
    let gone = fixture.rollback(&[&number]);
    gone.exits(1).reports(["no longer has greet-1.0-1.noarch.rpm", "`keep` in `[repository]`"]);
    gone.has_one_help_per_error();
    assert_eq!(fixture.users_get(), newest, "nothing changed");
}

#[test]
fn keeps_as_many_builds_as_configured_and_publishes_again_on_request() {
    let fixture = fixture();
    let manifest = fixture.workspace.read("rocmrpm.toml") + "[repository]\nkeep = 3\n";
    fixture.workspace.write("rocmrpm.toml", manifest);
    amend(&fixture);
    let first = fixture.publishes("1.0").to_string();
    let old = fixture.users_get();
    fixture.publishes("1.1");
    fixture.publishes("1.2");
    let newest = fixture.users_get();
    fixture.rollback(&[&first]).exits(0).reports(["Restored stable of host, record"]);
    assert_eq!(fixture.users_get(), old);
    assert_eq!(fixture.published(), ["greet-1.0-1.noarch.rpm"]);
    fixture.pipeline(&["run"]).exits(1).reports(["greet-1.2-1.noarch.rpm was rolled back"]);
    fixture.pipeline(&["accept", "--reason", "it was not the cause"]).exits(0);
    fixture.pipeline(&["run"]).exits(0);
    fixture.workspace.run(&["publish", "promote", "../wheels"]).exits(0);
    assert_eq!(fixture.users_get(), newest);
}

#[test]
fn refuses_what_is_not_a_publication() {
    let fixture = fixture();
    let none = fixture.rollback(&["3"]);
    none.exits(2).reports(["record 3 of `stable` is not a publication", "rocmrpm pipeline run"]);
    let first = fixture.publishes("1.0");
    let none = fixture.rollback(&["1"]);
    none.exits(2).reports([format!("choose one of {first}")]).has_one_help_per_error();
    fixture.rollback(&["x"]).exits(2);
    fixture.rollback(&["1", "--pins", "nosuch"]).exits(2).reports(["pin set `nosuch`"]);
    let number = first.to_string();
    fixture.workspace.write("pipeline.toml", "");
    let nowhere = fixture.rollback(&[&number]);
    nowhere.exits(3).reports(["neither `index` nor `repository`"]).has_one_help_per_error();
    fixture.workspace.git(&["restore", "pipeline.toml"]);
    // Its file was replaced on the server.
    fixture.publishes("1.1");
    let site = fixture.workspace.holder().join("site/host");
    assert!(names_in(&site).contains(&"greet-1.0-1.noarch.rpm".to_owned()));
    let newest = std::fs::read(site.join("greet-1.1-1.noarch.rpm")).unwrap();
    std::fs::write(site.join("greet-1.0-1.noarch.rpm"), newest).unwrap();
    let before = fixture.users_get();
    let replaced = fixture.rollback(&[&number]);
    replaced.exits(20).reports(["greet-1.0-1.noarch.rpm is not the package that was published"]);
    replaced.has_one_help_per_error();
    assert_eq!(fixture.users_get(), before);
}
