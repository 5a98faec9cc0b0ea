//! Several chroots, destinations on servers, and a pin that follows a branch.

use super::fixture::PipelineFixture;
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
    let (fixture, server) = (PipelineFixture::new(), Rsyncd::start());
    let other = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
                 rocm-provider = \"host\"\nbase-config = \"fedora-43-x86_64.cfg\"\n";
    fixture.workspace.write(OTHER, format!("{other}\n[macros]\nonly_other = \"1\"\n"));
    let to = format!("rsync://127.0.0.1:{}/module/site/{{chroot}}", server.port);
    fixture.workspace.write("pipeline.toml", format!("repository = \"{to}\"\n"));
    let fails = "%{?only_other:exit 3}\nsh ./build.sh";
    fixture.workspace.replace(&template("greet"), "sh ./build.sh", fails);
    fixture.workspace.commit("Add a chroot");
    let run = || -> Ran {
        fixture.pipeline(&["run", "--chroot", "host", "--chroot", "other", "--builder", "host"])
    };
    run().exits(10).reports(["Passed build for host", "`greet` failed in %build"]);
    assert!(!server.root.join("site").exists());
    fixture.workspace.write(OTHER, other);
    fixture.workspace.commit("Fix the chroot");
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
    let (fixture, server) = (PipelineFixture::new(), Moto::start());
    let place = Where::s3(&server);
    let url = format!("file://{}", fixture.upstream().display());
    fixture.workspace.write(
        "pipeline.toml",
        format!("repository = \"s3://a-bucket/index\"\nendpoint-url = \"{}\"\n", server.url()),
    );
    fixture.release("1.1", &[("version.txt", "2.0a0\n")]);
    let pins = fixture.workspace.read("pins/stable.toml");
    let pinned = format!("[greet]\nversion = \"1.0\"\ngit = \"{url}\"");
    assert!(pins.contains(&pinned), "{pins}");
    let branch = format!("[greet]\ngit = \"{url}\"\nbranch = \"main\"");
    fixture.workspace.write("pins/stable.toml", pins.replace(&pinned, &branch));
    fixture.workspace.run(&["lock"]).exits(0);
    fixture.workspace.commit("Follow main");
    let run = || -> Vec<String> {
        let mut command = fixture.command(&["run"]);
        ran(command.envs(place.environment().iter().cloned())).exits(0);
        listed(&place.files()["rocmrpm.json"])
    };
    let first = run();
    assert!(first[0].starts_with("greet-2.0~a0^"), "{first:?}");
    assert_eq!(run(), first);
    fixture.release("1.2", &[("LICENSE", "MIT\n"), ("more", "x\n")]);
    let second = run();
    assert_eq!(second.len(), 1);
    assert_ne!(second, first);
    let lua = format!("%{{lua: print(rpm.vercmp(\"{}\", \"{}\"))}}", first[0], second[0]);
    let order = std::process::Command::new("rpm").args(["--eval", &lua]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&order.stdout).trim(), "-1", "{first:?} {second:?}");
    assert!(place.files().contains_key("evidence/stable.json"));
}
