//! Tests that the lock for installers and the check of the index respect a closure's lock.

use rocmrpm::closure::lock::Lock;
use rocmrpm::closure::{Locked, LockedFile, LockedOrigin};
use rocmrpm::digest::Sha256;
use rocmrpm::index;

use super::fixtures::*;
use super::requirements::with_uv;
use crate::support::{Ran, Workspace};

/// A workspace whose index contains `demo-vllm`, which requires the external `plain-lib`. There are
/// two versions of it, one of which is in the closure's lock.
struct Held(Workspace);

impl Held {
    fn new(requires: &str, held: &str) -> Self {
        let workspace = Workspace::init();
        let versions: [(&str, &str, &[&str]); 2] =
            [("plain-lib", "2.5", &[]), ("plain-lib", "3.0", &[])];
        let url = outside(&workspace.holder().join("others"), &versions);
        workspace.replace("rocmrpm.toml", "outside = [\"pip\"]", &format!("outside = [\"{url}\"]"));
        let wheel = requiring(workspace.holder(), "demo-vllm", &[requires]);
        index::write(&[wheel], &workspace.path("build/host/index")).unwrap();
        let file = format!("plain_lib-{held}-py3-none-any.whl");
        let wheel =
            LockedFile { sha256: Sha256::of_bytes(&file), name: file, size: None, metadata: None };
        let lock = Lock {
            component: "demo-vllm".into(),
            chroot: "host".into(),
            python: "3.14".into(),
            arch: "x86_64".into(),
            not_after: None,
            inputs: Sha256::of_bytes(""),
            packages: vec![Locked {
                name: "plain-lib".into(),
                version: held.parse().unwrap(),
                origin: LockedOrigin::Index { wheel: Some(wheel), sdist: None },
            }],
        };
        workspace.write("pins/stable.host.requirements.lock", lock.text());
        Self(workspace)
    }

    fn run(&self, args: &[&str]) -> Ran {
        let args = [args, &["--chroot", "host"]].concat();
        self.0.outcome(self.0.command(&args).env("PATH", with_uv(self.0.holder())))
    }

    /// Returns the version of `plain-lib` in the lock for installers.
    fn locked_version(&self) -> String {
        let lock = self.0.read("build/host/requirements/requirements.lock");
        let line = lock.lines().find_map(|line| line.strip_prefix("plain-lib==")).unwrap();
        line.trim_end_matches(" \\").to_owned()
    }
}

#[test]
fn installers_get_the_locked_version() {
    let held = Held::new("plain-lib>=2", "2.5");
    held.run(&["index", "check"]).exits(0).prints(["no findings", "1 requirement checked"]);
    held.run(&["requirements", "--resolve"]).exits(0);
    assert_eq!(held.locked_version(), "2.5");
    // Without it, the newest version is used.
    fs_err::remove_file(held.0.path("pins/stable.host.requirements.lock")).unwrap();
    held.run(&["requirements", "--resolve"]).exits(0);
    assert_eq!(held.locked_version(), "3.0");
}

#[test]
fn reports_missing_or_unsuitable_locked_versions() {
    let held = Held::new("plain-lib>=2", "2.6");
    held.run(&["index", "check"]).exits(1).prints([
        "error[unsatisfied]: plain-lib>=2",
        "has no 2.6, which",
        "`rocmrpm closure --write --upgrade`",
    ]);
    let held = Held::new("plain-lib>=3", "2.5");
    held.run(&["index", "check"]).exits(1).prints([
        "error[closure-differs]: plain-lib>=3",
        "the closure's lock file pins plain-lib 2.5, which does not satisfy it",
        "`rocmrpm closure --write --upgrade`",
    ]);
    held.run(&["requirements", "--resolve"])
        .exits(3)
        .reports(["plain-lib==2.5", "closure lock file satisfies"]);
    assert!(!held.0.path("build/host/requirements").exists());
}

#[test]
fn names_damaged_lock_and_writes_nothing() {
    let held = Held::new("plain-lib>=2", "2.5");
    let text = held
        .0
        .read("pins/stable.host.requirements.lock")
        .replace("plain-lib==2.5", "plain-lib>=2.5");
    held.0.write("pins/stable.host.requirements.lock", &text);
    for args in [&["index", "check"][..], &["requirements", "--resolve"]] {
        held.run(args)
            .exits(3)
            .reports(["pins/stable.host.requirements.lock:11: not the lock file of a closure"]);
    }
    assert!(!held.0.path("build/host/requirements").exists());
}
