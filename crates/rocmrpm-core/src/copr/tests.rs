//! Tests the builder's decisions against a fake COPR that is a list of builds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::builder::CoprBuilder;
use super::client::Client;
use super::error::CoprError;
use super::macros::MacrosPackage;
use super::parcel::{Base, Parcel};
use super::publish::{Obstacle, Published, publish, unaccepted, write_origin};
use super::record::Sent;
use super::state::BuildState;
use crate::build::Builder as _;
use crate::digest::Sha256;
use crate::events::Silent;
use crate::workspace::Workspace;
use crate::workspace::testing::sample;

const RESULTS: &str = "https://results.example/alice/lab/fedora-43-x86_64";
const CHROOT: &str = "fedora-43-x86_64";

/// A build as COPR lists it: number, state, name and version if COPR has read them, uploaded file.
type Listed = (u64, &'static str, Option<(&'static str, &'static str)>, String);

/// A fake COPR with one project.
#[derive(Default)]
struct Copr {
    builds: Vec<Listed>,
    /// The chroot of its builds, if it differs from the default.
    chroot: Option<&'static str>,
    /// The packages in the chroot's build root.
    packages: Vec<&'static str>,
    /// Answers about the state of a build in order, with `source-` until COPR has read the SRPM;
    /// after that, the state in `builds`.
    states: Vec<&'static str>,
    /// Answers to uploads, each accepted or lost after COPR accepted it; after that, a number.
    uploads: Vec<Listed>,
    /// The calls that changed something.
    calls: Vec<String>,
    /// The files in the result folders, by build.
    results: BTreeMap<u64, &'static str>,
}

impl Copr {
    fn answer(&mut self, call: &str) -> Result<String, CoprError> {
        let words: Vec<&str> = call.split(' ').collect();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let find = |id: u64| self.builds.iter().find(|build| build.0 == id);
        match words[..] {
            ["list-packages", ..] => {
                let named = self.builds.iter().filter_map(|(id, state, of, _)| {
                    let (name, version) = (*of)?;
                    let source = json!({"name": name, "version": version});
                    let chroots = [self.chroot.unwrap_or(CHROOT)];
                    let build =
                        json!({"id": id, "state": state, "chroots": chroots, "source_package": source});
                    Some(json!({"builds": [build]}))
                });
                Ok(json!(named.collect::<Vec<_>>()).to_string())
            }
            ["list-builds", ..] => {
                let row = |(id, state, of, _): &Listed| json!({"id": id, "state": state, "name": of.map(|(name, _)| name)});
                Ok(json!(self.builds.iter().map(row).collect::<Vec<_>>()).to_string())
            }
            ["get-chroot", _] => Ok(json!({"additional_packages": self.packages}).to_string()),
            ["build", ..] if !self.uploads.is_empty() => {
                self.calls.push(call.to_owned());
                self.builds.push(self.uploads.remove(0));
                let (what, url) = ("send".into(), "x".into());
                Err(CoprError::Server { what, url, reported: "HTTP status 504".into() })
            }
            ["build", ..] => {
                self.calls.push(call.to_owned());
                Ok("Uploading\nCreated builds: 9\n".to_owned())
            }
            ["project"] => Ok(json!({"chroot_repos": {CHROOT: RESULTS}}).to_string()),
            [url] if url.strip_prefix(RESULTS) == Some("/") => Ok(self
                .results
                .keys()
                .map(|build| format!("<a href=\"./{build:08}-one/\">"))
                .collect()),
            [url] if url.starts_with(RESULTS) => {
                let folder = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                let files = self.results[&number(folder.split('-').next().unwrap())].split(' ');
                Ok(files.map(|file| format!("<a href=\"{file}\">")).collect())
            }
            ["edit-chroot" | "regenerate-repos", ..] => {
                self.calls.push(call.to_owned());
                Ok(String::new())
            }
            _ if call.starts_with("build/source-build-config/") => {
                let id = call.rsplit('/').next().unwrap();
                let file = find(number(id)).map(|build| build.3.as_str());
                Ok(json!({"source_dict": {"pkg": file}}).to_string())
            }
            _ => {
                let id = number(call.strip_prefix("build/").expect(call));
                let (state, version) = match self.states.is_empty() {
                    false => match self.states.remove(0) {
                        state if state.starts_with("source-") => (&state[7..], None),
                        state => (state, Some("1.0-1")),
                    },
                    true => match find(id) {
                        Some((_, state, of, _)) => (*state, of.map(|(_, version)| version)),
                        // An answer that is not a document: the build does not exist.
                        None => return Ok(String::new()),
                    },
                };
                let source = json!({"name": "one", "version": version});
                Ok(json!({"id": id, "state": state, "source_package": source}).to_string())
            }
        }
    }
}

/// Calls `work` with a builder for this COPR, and returns COPR's state afterwards.
fn with<T>(
    workspace: &Workspace,
    copr: Copr,
    work: impl FnOnce(&CoprBuilder<'_>) -> T,
) -> (T, Copr) {
    let copr = Arc::new(Mutex::new(copr));
    let answers = {
        let copr = copr.clone();
        Box::new(move |call: &str| copr.lock().unwrap().answer(call))
    };
    let client = Client::answering("alice/lab", &Silent, answers);
    let project = workspace.copr.as_ref().unwrap();
    let done = work(&CoprBuilder::new(&client, project, workspace, &Silent).unwrap());
    let copr = std::mem::take(&mut *copr.lock().unwrap());
    (done, copr)
}

fn parcel<'p>(workspace: &'p Workspace, version_release: &str) -> Parcel<'p> {
    Parcel {
        component: Some(&workspace.component("one").unwrap().name),
        name: "one",
        version_release: version_release.to_owned(),
        key: Sha256::of_bytes("key"),
        srpm: Path::new("one.src.rpm"),
        timeout: None,
        after: 0,
    }
}

/// Returns the file name that the parcel, or one with another key, is uploaded as.
fn file(workspace: &Workspace, version_release: &str, same: bool) -> String {
    let key = Sha256::of_bytes(if same { "key" } else { "other" });
    Parcel { key, ..parcel(workspace, version_release) }.file_name()
}

#[test]
fn sends_new_builds_and_resumes_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = sample(dir.path(), "fedora-43");
    let base = Base::new("one", "1.0", "1.fc43", ".fc43");
    let same = |version_release: &str| file(&workspace, version_release, true);
    let other = |version_release: &str| file(&workspace, version_release, false);
    let ours = Some(("one", "1.0-1"));
    // The number that it gets, and the build that is found for it.
    for (what, builds, after, expected, found) in [
        ("no builds", vec![], 0, 1, None),
        ("its own", vec![(5, "running", ours, same("1.0-1.fc43"))], 0, 1, Some(5)),
        ("failed", vec![(5, "failed", ours, same("1.0-1.fc43"))], 0, 2, None),
        ("older than what it requires", vec![(5, "running", ours, same("1.0-1.fc43"))], 5, 2, None),
        ("another key", vec![(5, "succeeded", ours, other("1.0-1.fc43"))], 0, 2, None),
        (
            "another package",
            vec![(5, "running", Some(("lib", "1.0-1")), same("1.0-1"))],
            0,
            1,
            None,
        ),
        (
            "another version",
            vec![(5, "running", Some(("one", "0.9-1")), same("1.0-1"))],
            0,
            1,
            None,
        ),
        (
            "its second",
            vec![(6, "running", Some(("one", "1.0-1.2")), same("1.0-1.2.fc43"))],
            0,
            2,
            Some(6),
        ),
        ("not read yet", vec![(6, "importing", None, same("1.0-1.2.fc43"))], 0, 2, Some(6)),
        (
            "another one not read yet",
            vec![(6, "importing", None, other("1.0-1.4.fc43"))],
            0,
            5,
            None,
        ),
        (
            "several",
            vec![
                (5, "succeeded", ours, other("1.0-1.fc43")),
                (6, "succeeded", Some(("one", "1.0-1.3")), other("1.0-1.3.fc43")),
            ],
            0,
            4,
            None,
        ),
    ] {
        let parcel = Parcel { after, ..parcel(&workspace, "1.0-1.fc43") };
        let copr = Copr { builds: builds.clone(), ..Copr::default() };
        let (number, _) = with(&workspace, copr, |builder| builder.number(&base, &parcel).unwrap());
        assert_eq!(number, expected, "{what}");
        let sent = Sent::read(&workspace.build_dir(), "alice/lab", "one").map(|sent| sent.build);
        assert_eq!(sent, found, "{what}");

        // A build that was found is not sent again.
        let (sent, copr) = with(&workspace, Copr { builds, ..Copr::default() }, |builder| {
            builder.find_or_send(&parcel).unwrap().build
        });
        assert_eq!(
            (sent, copr.calls.len()),
            (found.unwrap_or(9), usize::from(found.is_none())),
            "{what}"
        );
        fs_err::remove_dir_all(workspace.build_dir().join("copr")).unwrap();
    }
    let elsewhere = Copr {
        builds: vec![(5, "running", ours, same("1.0-1.fc43"))],
        chroot: Some("fedora-44-x86_64"),
        ..Copr::default()
    };
    let number = |builder: &CoprBuilder<'_>| {
        builder.number(&base, &parcel(&workspace, "1.0-1.fc43")).unwrap()
    };
    assert_eq!(with(&workspace, elsewhere, number).0, 2, "a build for another chroot");
}

#[test]
fn resumes_a_recorded_build_unless_settled_canceled_or_changed() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = sample(dir.path(), "fedora-43");
    let base = Base::new("one", "1.0", "1.fc43", ".fc43");
    let parcel = parcel(&workspace, "1.0-1.fc43");
    for (what, state, settled, key, number, build) in [
        ("running", "running", false, "key", 3, 7),
        ("failed, unseen", "failed", false, "key", 3, 7),
        ("canceled", "canceled", false, "key", 4, 9),
        ("settled", "succeeded", true, "key", 4, 9),
        ("changed", "running", false, "other", 4, 9),
    ] {
        let mut sent = Sent::new("alice/lab", 7, Sha256::of_bytes(key), "1.0-1.3.fc43");
        sent.settled = settled;
        sent.before = vec![3];
        sent.write(&workspace.build_dir(), "one").unwrap();
        let copr = || Copr { states: vec![state], ..Copr::default() };
        let found = with(&workspace, copr(), |builder| builder.number(&base, &parcel).unwrap()).0;
        assert_eq!(found, number, "{what}");
        let (sent, _) = with(&workspace, copr(), |builder| builder.find_or_send(&parcel).unwrap());
        assert_eq!(sent.build, build, "{what}");
        // Packages of builds that were not accepted must not be published.
        assert_eq!(sent.before, if build == 9 { vec![3, 7] } else { vec![3] }, "{what}");
    }
    let deleted =
        with(&workspace, Copr::default(), |builder| builder.find_or_send(&parcel).unwrap().build);
    assert_eq!(deleted.0, 9);
}

#[test]
fn does_not_resend_an_upload_that_copr_accepted_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = sample(dir.path(), "fedora-43");
    let parcel =
        Parcel { timeout: Some(Duration::from_secs(999_999)), ..parcel(&workspace, "1.0-1.fc43") };
    let uploads = vec![(8, "importing", None, file(&workspace, "1.0-1.fc43", true))];
    let copr = Copr { uploads, ..Copr::default() };
    let (sent, copr) = with(&workspace, copr, |builder| builder.find_or_send(&parcel).unwrap());
    assert_eq!(sent.build, 8);
    let [call] = &copr.calls[..] else { panic!("{:?}", copr.calls) };
    // COPR rejects a longer timeout.
    let expected = format!("build --nowait --chroot={CHROOT} --timeout=108000 alice/lab /");
    assert!(call.starts_with(&expected) && call.ends_with(&parcel.file_name()), "{call}");
}

#[test]
fn watching_reports_each_state_once_until_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = sample(dir.path(), "fedora-43");
    let watch = |states: &[&'static str]| {
        let mut seen = Vec::new();
        let copr = Copr { states: states.to_vec(), ..Copr::default() };
        let end = with(&workspace, copr, |builder| {
            builder.watch(7, &mut |state| seen.push(state)).unwrap()
        })
        .0;
        (end, seen)
    };
    let (succeeded, running) = (BuildState::Succeeded, BuildState::Running);
    assert_eq!(
        watch(&["running", "running", "succeeded"]),
        (Some(succeeded), vec![running, succeeded])
    );
    let (source, importing) = (BuildState::SourceRunning, BuildState::Importing);
    assert_eq!(
        watch(&["source-running", "source-running", "importing", "running", "succeeded"]).1,
        [source, importing, running, succeeded]
    );
    // COPR may be in the next step already.
    assert_eq!(watch(&["source-running", "running", "succeeded"]).1, [source, running, succeeded]);
    assert_eq!(watch(&["failed"]), (Some(BuildState::Failed), vec![BuildState::Failed]));
    assert_eq!(watch(&[]), (None, vec![]), "a deleted build");
}

#[test]
fn adds_the_macros_package_to_the_build_root_once() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = sample(dir.path(), "fedora-43");
    let macros = MacrosPackage::sample("lab-rpm-macros", "2-x");
    for (present, expected) in [
        (vec!["gcc"], Some("gcc lab-rpm-macros-2-x")),
        (vec!["gcc", "lab-rpm-macros-1-x"], Some("gcc lab-rpm-macros-2-x")),
        (vec!["gcc", "lab-rpm-macros-2-x"], None),
    ] {
        let builds = vec![(4, "succeeded", Some(("lab-rpm-macros", "2-x")), String::new())];
        let copr = Copr { builds, packages: present, ..Copr::default() };
        let work = dir.path().join("work");
        let (_, copr) =
            with(&workspace, copr, |builder| builder.provide_macros(&macros, &work).unwrap());
        let call = |packages| format!("edit-chroot --packages={packages} alice/lab/{CHROOT}");
        assert_eq!(copr.calls, expected.map(call).into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn results_are_lost_when_their_build_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = sample(dir.path(), "fedora-43");
    let results = workspace.build_dir().join("results/one");
    let lost = |present: u64| {
        let builds = vec![(present, "succeeded", Some(("one", "1.0-1")), String::new())];
        let copr = Copr { builds, ..Copr::default() };
        with(&workspace, copr, |builder| builder.lost(&results).unwrap()).0
    };
    assert_eq!(lost(7), None, "built elsewhere");
    fs_err::create_dir_all(results.join("logs")).unwrap();
    write_origin(&Client::sample("alice/lab", &Silent), &results.join("logs"), 7).unwrap();
    assert_eq!(lost(7), None);
    assert_eq!(lost(8).as_deref(), Some("build 7 is no longer on COPR"));
}

#[test]
fn publishes_only_if_all_builds_with_packages_were_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = sample(dir.path(), "fedora-43");
    let build_root = dir.path().join("build");
    let accept = |build| {
        let logs = workspace.build_dir().join("results/one/logs");
        fs_err::create_dir_all(&logs).unwrap();
        write_origin(&Client::sample("alice/lab", &Silent), &logs, build).unwrap();
    };
    let send = |build, before: &[u64], name: &str| {
        let mut sent = Sent::new("alice/lab", build, Sha256::of_bytes("x"), "1-1");
        sent.before = before.to_vec();
        sent.write(&workspace.build_dir(), name).unwrap();
    };
    let listed = |id, state, name| (id, state, Some((name, "1-1")), String::new());
    let copr = |builds: Vec<Listed>, results: &[(u64, &'static str)]| Copr {
        builds,
        results: results.iter().copied().collect(),
        ..Copr::default()
    };
    let ask = |copr: Copr| {
        let (asked, copr) = with(&workspace, copr, |builder| {
            let open = unaccepted(builder.client, &build_root, "lab-rpm-macros").unwrap();
            let published = publish(builder.client, &build_root, "lab-rpm-macros").unwrap();
            if let Published::Not(obstacles) = &published {
                assert_eq!(*obstacles, open);
            }
            published
        });
        let calls = usize::from(asked == Published::Asked);
        assert_eq!(copr.calls, vec!["regenerate-repos alice/lab"; calls]);
        asked
    };
    let not = |build, over| Published::Not(vec![Obstacle { package: "one".into(), build, over }]);
    let (logs, packages) = ("build.log backend.log.gz", "a-1-1.x86_64.rpm");

    send(2, &[], "lab-rpm-macros");
    send(7, &[5], "one");
    let builds = || {
        vec![
            listed(5, "failed", "one"),
            listed(7, "succeeded", "one"),
            listed(9, "running", "other"),
        ]
    };
    // Nothing is accepted, so there is nothing to publish.
    assert_eq!(ask(copr(builds(), &[(7, packages)])), Published::Already);
    accept(7);
    // A failed build may have left packages. COPR itself handles other packages.
    assert_eq!(ask(copr(builds(), &[(5, packages), (7, packages), (9, packages)])), not(5, true));
    assert_eq!(ask(copr(builds(), &[(5, "success")])), not(5, true));
    assert_eq!(ask(copr(builds(), &[(5, "backend.log"), (7, packages)])), not(5, false));
    let running = || vec![listed(5, "running", "one"), listed(7, "succeeded", "one")];
    assert_eq!(ask(copr(running(), &[])), not(5, false));
    let unread = vec![(5, "importing", None, String::new()), listed(7, "succeeded", "one")];
    assert_eq!(ask(copr(unread, &[])), not(5, false));
    // A build that is being deleted is no longer listed.
    assert_eq!(ask(copr(vec![listed(7, "succeeded", "one")], &[(5, packages)])), not(5, false));
    assert_eq!(ask(copr(builds(), &[(5, logs), (7, packages)])), Published::Asked);
    assert_eq!(ask(copr(builds(), &[(5, logs), (7, packages)])), Published::Already);
    // Users would get a 404 for a deleted build.
    assert_eq!(ask(copr(vec![listed(7, "succeeded", "one")], &[(7, packages)])), Published::Asked);
}

#[test]
fn settings_of_project_and_chroot_change_what_is_built() {
    let dir = tempfile::tempdir().unwrap();
    let original = sample(dir.path(), "fedora-43");
    let key = |change: &dyn Fn(&mut Workspace)| {
        let mut workspace = original.clone();
        change(&mut workspace);
        with(&workspace, Copr::default(), |builder| builder.key(Sha256::of_bytes("x")).to_string())
            .0
    };
    let mut keys = vec![
        key(&|_| ()),
        key(&|workspace| workspace.copr.as_mut().unwrap().network ^= true),
        key(&|workspace| workspace.copr.as_mut().unwrap().bootstrap = "image".into()),
        key(&|workspace| workspace.copr.as_mut().unwrap().isolation = "nspawn".into()),
        key(&|workspace| workspace.copr.as_mut().unwrap().chroots[0].packages.push("gcc".into())),
        key(&|workspace| {
            workspace.copr.as_mut().unwrap().chroots[0].repositories = Some(Vec::new())
        }),
        key(&|workspace| drop(workspace.chroot.macros.insert("x".into(), "1".into()))),
        key(&|workspace| workspace.provider.gpu_macros.push("x".into())),
        key(&|workspace| workspace.manifest.gpu_targets.clear()),
    ];
    let all = keys.len();
    assert_eq!(keys[0], key(&|workspace| workspace.copr.as_mut().unwrap().unlisted ^= true));
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all);
}
