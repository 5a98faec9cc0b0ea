//! Tests index writers that are killed at every step with strace: the index always remains usable,
//! and the next run completes it. Also tests which files a writer opens.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocmrpm::digest::Sha256;
use rocmrpm::index;
use rocmrpm::index::change::{plan_add, plan_promote, plan_yank};
use rocmrpm::index::folder::Folder;

use super::channels::small;

/// All calls whose result is visible to a reader or a later run. Not every architecture has all of
/// them.
const STEPS: [&str; 13] = [
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "write",
    "copy_file_range",
    "sendfile",
];

/// Makes this program act as a writer: the operation and the folder.
const WRITER: &str = "ROCMRPM_TEST_WRITER";

fn wheels(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut wheels: Vec<PathBuf> =
        std::fs::read_dir(dir.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    wheels.sort();
    wheels
}

fn act(work: &str, dir: &Path) {
    let (root, folder) = (dir.join("index"), || Folder::lock(&dir.join("index")).unwrap());
    let change = |folder: &Folder| match work {
        "add" => plan_add(folder, Some("testing"), &wheels(dir, "new"), &[], None, None),
        "add-one" => plan_add(folder, None, &wheels(dir, "new"), &[], None, None),
        "promote" => plan_promote(folder, "testing", "stable", &[]),
        "yank" => plan_yank(folder, "kept==1.0", Some("broken")),
        other => panic!("{other}"),
    };
    if work == "write" {
        index::write(&wheels(dir, "new"), &root).unwrap();
    } else {
        let folder = folder();
        change(&folder).unwrap().apply(&folder).unwrap();
    }
}

/// Acts as a writer and returns `true` if this process was started as one.
fn is_writer() -> bool {
    let Ok(work) = std::env::var(WRITER) else { return false };
    let (work, dir) = work.split_once(':').unwrap();
    act(work, Path::new(dir));
    true
}

/// Starts this program again as a writer, with strace and on one processor to make the order of
/// steps deterministic.
fn strace(options: &[&str], test: &str, work: &str, dir: &Path) -> std::process::ExitStatus {
    let (_, module) = module_path!().split_once("::").unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first = allowed.trim().split([',', '-']).next().unwrap();
    let temporary = dir.join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let output = Command::new("taskset")
        .args(["-c", first, "strace", "-f", "-qq"])
        .args(options)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::{test}"), "--test-threads=1"])
        .env(WRITER, format!("{work}:{}", dir.display()))
        .env("TMPDIR", temporary)
        .output()
        .expect("this test needs taskset, of the package util-linux");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !stderr.contains("taskset: failed to execute"),
        "this test needs the package strace: {stderr}"
    );
    assert!(
        output.status.success() || output.status.signal() == Some(9),
        "{:?}: {stderr}",
        output.status
    );
    output.status
}

/// Returns every file of an index with its content.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let there = root.exists().then(|| walkdir::WalkDir::new(root));
    let files = there.into_iter().flatten().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().is_file() && entry.file_name() != ".lock");
    files
        .map(|e| {
            (e.path().strip_prefix(root).unwrap().to_owned(), std::fs::read(e.path()).unwrap())
        })
        .collect()
}

fn decoded(url: &str) -> String {
    let mut parts = url.split('%');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        text + &char::from(u8::from_str_radix(&part[..2], 16).unwrap()).to_string() + &part[2..]
    })
}

fn check_file(page: &Path, url: &str, sha256: &str, metadata: &str) {
    let path = page.parent().unwrap().join(decoded(url));
    let metadata_path = format!("{}.metadata", path.display());
    for (path, expected) in [(path.as_path(), sha256), (Path::new(&metadata_path), metadata)] {
        let (digest, _) =
            Sha256::of_file(path).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert_eq!(digest.to_string(), expected, "{} names {}", page.display(), path.display());
    }
}

/// Follows every link of every page in both forms and returns the number of links to wheels.
fn check(root: &Path) -> usize {
    let mut links = 0;
    for (path, bytes) in tree(root) {
        let (page, text) = (root.join(&path), String::from_utf8_lossy(&bytes).into_owned());
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_root = path.parent().is_some_and(|folder| folder.ends_with("simple"));
        match (name, is_root) {
            ("index.html", _) => {
                assert!(text.ends_with("</html>\n"), "{}", page.display());
                for link in text.split("<a href=\"").skip(1) {
                    let (url, rest) = link.split_once('"').unwrap();
                    if is_root {
                        assert!(page.with_file_name(url).join("index.html").is_file(), "{url}");
                        continue;
                    }
                    let (url, sha256) = url.split_once("#sha256=").unwrap();
                    let metadata = rest.split_once("data-core-metadata=\"sha256=").unwrap().1;
                    check_file(&page, url, sha256, &metadata[..64]);
                    links += 1;
                }
            }
            ("index.json", true) => {
                let json: serde_json::Value = serde_json::from_str(&text).unwrap();
                for project in json["projects"].as_array().unwrap() {
                    let folder = page.with_file_name(project["name"].as_str().unwrap());
                    assert!(folder.join("index.json").is_file(), "{project}");
                }
            }
            ("index.json", false) => {
                let json: serde_json::Value = serde_json::from_str(&text).unwrap();
                for file in json["files"].as_array().unwrap() {
                    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
                    let sha256 = text(&file["hashes"]["sha256"]);
                    check_file(
                        &page,
                        &text(&file["url"]),
                        &sha256,
                        &text(&file["core-metadata"]["sha256"]),
                    );
                    links += 1;
                }
            }
            _ => {}
        }
    }
    links
}

/// Kills a writer before its first step, its second, and so on until it finishes, for each kind of
/// step, because strace counts them separately. `before` creates the initial index.
fn kill_at_every_step(test: &str, work: &str, least: usize, before: impl Fn(&Path)) {
    let done = tempfile::tempdir().unwrap();
    before(done.path());
    act(work, done.path());
    let expected = tree(&done.path().join("index"));
    let mut kills = 0;
    for call in STEPS {
        for step in 1.. {
            let at = format!("{work} killed at {call} {step}");
            let dir = tempfile::tempdir().unwrap();
            before(dir.path());
            let root = dir.path().join("index");
            let links = check(&root);
            let options =
                [format!("--trace=?{call}"), format!("--inject=?{call}:signal=KILL:when={step}")];
            let survived =
                strace(&options.each_ref().map(String::as_str), test, work, dir.path()).success();
            assert!(check(&root) > 0 || links == 0, "{at}: no wheel is left");
            if !survived {
                kills += 1;
                act(work, dir.path());
            }
            let now = tree(&root);
            assert_eq!(now.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{at}");
            assert!(now == expected, "{at}: the next run did not complete it");
            if survived {
                break;
            }
        }
    }
    assert!(kills > least, "{work} had only {kills} steps");
}

/// Creates wheels whose bytes differ between folders: the folder name is part of their modules.
fn folder(dir: &Path, name: &str, wheels: &[(&str, &str, &str)]) {
    std::fs::create_dir_all(dir.join(name)).unwrap();
    for (distribution, version, requires) in wheels {
        small(&dir.join(name), distribution, version, requires);
    }
}

#[test]
fn local_index_survives_killed_writers() {
    if is_writer() {
        return;
    }
    let test = "local_index_survives_killed_writers";
    // From an empty index; then with one wheel kept, one added to its distribution, one rebuilt
    // with the same name, and one distribution removed.
    let new: [(&str, &str, &str); 4] = [
        ("kept", "1.0", ""),
        ("kept", "1.1", "Requires-Dist: rebuilt\n"),
        ("rebuilt", "1.0", ""),
        ("z", "1.0", ""),
    ];
    kill_at_every_step(test, "write", 20, |dir| folder(dir, "new", &new));
    kill_at_every_step(test, "write", 30, |dir| {
        folder(dir, "new", &new);
        folder(dir, "old", &[("rebuilt", "1.0", "Requires-Dist: gone\n"), ("gone", "1.0", "")]);
        let mut old = wheels(dir, "old");
        old.push(dir.join("new/kept-1.0-py3-none-any.whl"));
        index::write(&old, &dir.join("index")).unwrap();
    });
}

#[test]
fn published_index_survives_killed_writers() {
    if is_writer() {
        return;
    }
    let test = "published_index_survives_killed_writers";
    let publish = |dir: &Path| {
        folder(dir, "new", &[("kept", "1.0", "Requires-Dist: other\n"), ("other", "1.0", "")]);
        act("add", dir);
        std::fs::remove_dir_all(dir.join("new")).unwrap();
        folder(dir, "new", &[("kept", "1.1", ""), ("more", "1.0", "Requires-Dist: kept\n")]);
    };
    kill_at_every_step(test, "add", 20, publish);
    kill_at_every_step(test, "promote", 10, publish);
    kill_at_every_step(test, "yank", 5, |dir| {
        publish(dir);
        act("promote", dir);
    });
}

#[test]
fn adding_a_wheel_opens_only_it_and_its_pages() {
    if is_writer() {
        return;
    }
    let test = "adding_a_wheel_opens_only_it_and_its_pages";
    let dir = tempfile::tempdir().unwrap();
    let others: Vec<String> = (0..40).map(|at| format!("other{}", at % 20)).collect();
    let many: Vec<_> = others
        .iter()
        .enumerate()
        .map(|(at, name)| (name.as_str(), ["1.0", "2.0"][at / 20], ""))
        .collect();
    folder(dir.path(), "many", &many);
    folder(dir.path(), "new", &[("other7", "3.0", "Requires-Dist: other8\n")]);
    index::write(&wheels(dir.path(), "many"), &dir.path().join("index")).unwrap();
    let log = dir.path().join("log");
    strace(
        &["--trace=open,openat,openat2", "-o", log.to_str().unwrap()],
        test,
        "add-one",
        dir.path(),
    );
    let text = std::fs::read_to_string(&log).unwrap();
    let opened: BTreeSet<&str> = text
        .lines()
        .filter(|line| line.contains("RDONLY"))
        .filter_map(|line| line.split('"').nth(1))
        .filter_map(|path| path.strip_prefix(dir.path().to_str().unwrap()))
        .filter(|path| !path.starts_with("/tmp/") && !path.contains("/.rocmrpm-"))
        .collect();
    let package = "/index/packages/other7/other7-3.0-py3-none-any.whl";
    let sidecar = format!("{package}.metadata");
    // The locations of the two new packages are checked once before writing. The folders are
    // opened to sync them.
    let expected = [
        "/index",
        "/index/links.html",
        "/index/packages/other7",
        "/index/simple/other7",
        "/index/simple/index.json",
        "/index/simple/other7/index.json",
        "/new/other7-3.0-py3-none-any.whl",
        "/new",
        package,
        &sidecar,
    ];
    assert_eq!(opened, BTreeSet::from(expected));
    assert!(check(&dir.path().join("index")) == 82);
}
