//! Several chroots, destinations on servers, and a pin that follows a branch.

use super::lab::Lab;
use crate::publish::places::{Moto, Rsyncd, Where};
use crate::support::{Ran, names_in, ran, template};

const OTHER: &str = "mock-configs/other.toml";

/// Returns the packages of `greet` in the metadata of a published repository.
fn listed(state: &[u8]) -> Vec<String> {
    let state: serde_json::Value = serde_json::from_slice(state).unwrap();
    let packages = state["packages"].as_array().unwrap().iter();
    let names = packages.map(|package| package["file"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("greet-")).collect()
}

/// Two chroots share the branch and the pins, and each has its own stages, packages, and pages. One that
/// fails keeps both from being published.
#[test]
fn publishes_two_chroots_over_rsync() {
    let (lab, server) = (Lab::new(), Rsyncd::start());
    let other = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
                 rocm-provider = \"host\"\nbase-config = \"fedora-43-x86_64.cfg\"\n";
    lab.workspace.write(OTHER, format!("{other}\n[macros]\nonly_other = \"1\"\n"));
    let to = format!("rsync://127.0.0.1:{}/module/site/{{chroot}}", server.port);
    lab.workspace.write("pipeline.toml", format!("repository = \"{to}\"\n"));
    let fails = "%{?only_other:exit 3}\nsh ./build.sh";
    lab.workspace.replace(&template("greet"), "sh ./build.sh", fails);
    lab.workspace.commit("Add a chroot");
    let run = || -> Ran {
        lab.pipeline(&["run", "--chroot", "host", "--chroot", "other", "--builder", "host"])
    };
    run().exits(10).reports(["Passed build for host", "`greet` failed in %build"]);
    assert!(!server.root.join("site").exists());
    lab.workspace.write(OTHER, other);
    lab.workspace.commit("Fix the chroot");
    run().exits(0).reports(["Passed publish for host", "Passed publish for other"]);
    for chroot in ["host", "other"] {
        let site = server.root.join("site").join(chroot);
        assert_eq!(listed(&std::fs::read(site.join("rocmrpm.json")).unwrap()).len(), 1, "{chroot}");
        let mut expected = [format!("stable.{chroot}.html"), "stable.json".to_owned()];
        expected.sort();
        assert_eq!(names_in(&site.join("evidence")), expected);
    }
    run().exits(0).reports(["Unchanged publish for other"]);
}

/// The pin follows a branch: each run takes the newest commit, and users upgrade to it.
#[test]
fn follows_a_branch_to_s3() {
    let (lab, server) = (Lab::new(), Moto::start());
    let place = Where::s3(&server);
    let url = format!("file://{}", lab.upstream().display());
    lab.workspace.write(
        "pipeline.toml",
        format!("repository = \"s3://a-bucket/index\"\nendpoint-url = \"{}\"\n", server.url()),
    );
    lab.release("1.1", &[("version.txt", "2.0a0\n")]);
    let pins = lab.workspace.read("pins/stable.toml");
    let pinned = format!("[greet]\nversion = \"1.0\"\ngit = \"{url}\"");
    assert!(pins.contains(&pinned), "{pins}");
    let branch = format!("[greet]\ngit = \"{url}\"\nbranch = \"main\"");
    lab.workspace.write("pins/stable.toml", pins.replace(&pinned, &branch));
    lab.workspace.run(&["lock"]).exits(0);
    lab.workspace.commit("Follow main");
    let run = || -> Vec<String> {
        let mut command = lab.command(&["run"]);
        ran(command.envs(place.environment().iter().cloned())).exits(0);
        listed(&place.files()["rocmrpm.json"])
    };
    let first = run();
    assert!(first[0].starts_with("greet-2.0~a0^"), "{first:?}");
    assert_eq!(run(), first);
    lab.release("1.2", &[("LICENSE", "MIT\n"), ("more", "x\n")]);
    let second = run();
    assert_eq!(second.len(), 1);
    assert_ne!(second, first);
    let lua = format!("%{{lua: print(rpm.vercmp(\"{}\", \"{}\"))}}", first[0], second[0]);
    let order = std::process::Command::new("rpm").args(["--eval", &lua]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&order.stdout).trim(), "-1", "{first:?} {second:?}");
    assert!(place.files().contains_key("evidence/stable.json"));
}
