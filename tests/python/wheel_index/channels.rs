//! Tests channels of a published index: adding, promoting, yanking, and rejections.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rocmrpm::error::Diagnose;
use rocmrpm::index::change::{Change, plan_add, plan_promote, plan_yank};
use rocmrpm::index::folder::Folder;
use rocmrpm::index::page::{File, Project};
use rocmrpm::index::view::View;

use super::fixtures::*;

/// Creates a pure wheel of any version.
pub(crate) fn small(dir: &Path, name: &str, version: &str, requires: &str) -> PathBuf {
    tagged(dir, name, version, requires, "py3-none-any")
}

fn tagged(dir: &Path, name: &str, version: &str, requires: &str, tag: &str) -> PathBuf {
    let file = name.replace('-', "_");
    let info = format!("{file}-{version}.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}");
    let parts: Vec<&str> = tag.split('-').collect();
    let pythons =
        parts[0].split('.').map(|python| format!("Tag: {python}-{}-{}\n", parts[1], parts[2]));
    let members = [
        (format!("{file}/__init__.py"), format!("made_in = {:?}\n", dir.file_name().unwrap())),
        (format!("{info}/METADATA"), metadata),
        (format!("{info}/WHEEL"), format!("Wheel-Version: 1.0\n{}", pythons.collect::<String>())),
    ];
    write_wheel(&dir.join(format!("{file}-{version}-{tag}.whl")), &info, &members)
}

fn page(root: &Path, view: View, name: &str) -> Vec<File> {
    let path = root.join(view.page(name) + ".json");
    match std::fs::read(&path) {
        Ok(bytes) => Project::from_json(&bytes, "page", view, name).unwrap().files,
        Err(_) => Vec::new(),
    }
}

fn names(root: &Path, view: View, name: &str) -> Vec<String> {
    page(root, view, name).into_iter().map(|file| file.name).collect()
}

const TESTING: View = View::Channel("testing");
const STABLE: View = View::Channel("stable");

/// Returns the inode, time and content of every file below `packages/`.
fn packages(root: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, Vec<u8>)> {
    let files = walkdir::WalkDir::new(root.join("packages")).into_iter().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().is_file());
    files
        .map(|entry| {
            let meta = entry.metadata().unwrap();
            let content = std::fs::read(entry.path()).unwrap();
            (entry.into_path(), (meta.ino(), meta.mtime(), meta.mtime_nsec(), content))
        })
        .collect()
}

struct Published {
    dir: tempfile::TempDir,
    root: PathBuf,
}

impl Published {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("published");
        Self { dir, root }
    }

    fn wheel(&self, name: &str, version: &str, requires: &str) -> PathBuf {
        small(self.dir.path(), name, version, requires)
    }

    fn folder(&self) -> Folder {
        Folder::lock(&self.root).unwrap()
    }

    fn add(&self, channel: &str, wheels: &[PathBuf]) -> Change {
        let time = Some("2026-11-21T10:00:00.123456789Z".parse().unwrap());
        let folder = self.folder();
        let change = plan_add(&folder, Some(channel), wheels, &[], time, None).unwrap();
        change.apply(&folder).unwrap();
        change
    }
}

#[test]
fn adds_required_wheels_first_and_only_once() {
    let published = Published::new();
    let torch = published.wheel(
        "torch",
        "2.0+rocm7.14.1",
        "Requires-Dist: triton==3.0; python_version > '3'\n",
    );
    let triton = published.wheel("triton", "3.0+rocm7.14.1", "");
    let wheels = [torch.clone(), triton];
    let plan = plan_add(
        &Folder::new(&published.root),
        Some("testing"),
        &wheels,
        &[],
        None,
        Some("https://u:p@host/simple/"),
    )
    .unwrap();
    assert!(!published.root.exists(), "planning changed something");
    let shown = plan.to_string();
    for line in [
        "add torch-2.0+rocm7.14.1-py3-none-any.whl to testing",
        "put packages/torch/torch-2.0+rocm7.14.1-py3-none-any.whl (",
        "write testing/simple/index.json",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let order: Vec<&str> = plan.pages.iter().map(|page| page.path.as_str()).collect();
    assert_eq!(
        order,
        [
            "testing/simple/triton/index.html",
            "testing/simple/triton/index.json",
            "testing/simple/torch/index.html",
            "testing/simple/torch/index.json",
            "testing/simple/index.html",
            "testing/simple/index.json",
            "testing/links.html",
        ]
    );
    plan.apply(&published.folder()).unwrap();
    let html =
        std::fs::read_to_string(published.root.join("testing/simple/torch/index.html")).unwrap();
    assert!(
        html.contains("content=\"https://host/simple/torch/\"") && !html.contains("u:p"),
        "{html}"
    );

    let again = plan_add(
        &published.folder(),
        Some("testing"),
        &wheels,
        &[],
        None,
        Some("https://host/simple"),
    )
    .unwrap();
    assert!(again.is_empty(), "{again}");
    assert!(!published.root.join("stable").exists());
    // The date of the archive's members, or the time of publishing.
    let time = |name: &str| page(&published.root, TESTING, name)[0].upload_time.to_string();
    assert_eq!(time("torch"), "1980-01-01T00:00:00Z");
    published.add("testing", &[published.wheel("other", "1.0", "")]);
    assert_eq!(time("other"), "2026-11-21T10:00:00Z");

    // Packages uploaded before a run was killed are not uploaded again; different content is
    // rejected.
    std::fs::remove_dir_all(published.root.join("testing")).unwrap();
    let resumed = plan_add(&published.folder(), Some("testing"), &wheels, &[], None, None).unwrap();
    assert!(resumed.packages.is_empty() && resumed.pages.len() == 7, "{resumed}");
    let there = published.root.join("packages/torch").join(torch.file_name().unwrap());
    std::fs::write(&there, "other bytes").unwrap();
    let error = plan_add(&published.folder(), Some("testing"), &wheels, &[], None, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("torch-2.0+rocm7.14.1-py3") && error.contains("already exists in"),
        "{error}"
    );
}

#[test]
fn adds_releases_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("index");
    // In name order, the tenth precedes the ninth.
    let wheels =
        ["9", "10"].map(|n| small(dir.path(), "a", &format!("1.0+rocm7.14.gfx1151.{n}"), ""));
    let place = Folder::new(&root);
    plan_add(&place, Some("testing"), &wheels, &[], None, None).unwrap().apply(&place).unwrap();
    assert_eq!(names(&root, TESTING, "a").len(), 2);
    plan_promote(&place, "testing", "stable", &[]).unwrap().apply(&place).unwrap();
    assert_eq!(names(&root, STABLE, "a"), names(&root, TESTING, "a"));
}

#[test]
fn promotes_entries_without_changing_packages() {
    let published = Published::new();
    let wheels =
        [("a", "1.0+rocm7.14.1"), ("a", "1.1+rocm7.14.1"), ("b", "1.0+rocm7.14.1"), ("c", "1.0")];
    let wheels = wheels.map(|(name, version)| published.wheel(name, version, ""));
    published.add("testing", &wheels);
    let before = packages(&published.root);
    let promote = |selection: &[&str]| -> Result<Change, String> {
        let selection: Vec<String> = selection.iter().map(|&text| text.into()).collect();
        let folder = published.folder();
        let change = plan_promote(&folder, "testing", "stable", &selection);
        let change = change.map_err(|error| format!("{error}; {}", error.help().join("; ")))?;
        assert!(change.packages.is_empty());
        change.apply(&folder).unwrap();
        Ok(change)
    };
    for (selection, expected) in [
        (&["a==1.0"][..], "there is no `a==1.0` in testing of "),
        (&["a==1.0"], "did you mean `a==1.0+rocm7.14.1`?"),
        (&["bb"], "did you mean `b`?"),
        (&["A==x"], "`A==x` is neither"),
        (&["a", "d"], "there is no `d`"),
    ] {
        let error = promote(selection).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(!published.root.join("stable").exists(), "something was promoted");
    }
    promote(&["A==1.0+rocm7.14.1"]).unwrap();
    assert_eq!(names(&published.root, STABLE, "a"), ["a-1.0+rocm7.14.1-py3-none-any.whl"]);
    promote(&["b"]).unwrap();
    assert_eq!(page(&published.root, STABLE, "b"), page(&published.root, TESTING, "b"));
    assert!(names(&published.root, STABLE, "c").is_empty());
    promote(&[]).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(page(&published.root, STABLE, name), page(&published.root, TESTING, name));
    }
    assert!(promote(&[]).unwrap().is_empty());
    assert!(packages(&published.root) == before, "a package was touched");
    let error = plan_promote(&published.folder(), "tsting", "stable", &[]).unwrap_err();
    assert_eq!(error.help(), ["did you mean `testing`?"]);

    // A wheel whose metadata is missing in testing cannot be promoted.
    published.add("testing", &[published.wheel("d", "1.0", "")]);
    std::fs::remove_file(published.root.join("packages/d/d-1.0-py3-none-any.whl.metadata"))
        .unwrap();
    let error = promote(&[]).unwrap_err();
    assert!(error.contains("packages/d/d-1.0-py3-none-any.whl.metadata is missing"), "{error}");
}

#[test]
fn yanks_in_every_channel() {
    let published = Published::new();
    let (old, new) =
        (published.wheel("a", "1.0+rocm7.14.1", ""), published.wheel("a", "1.0+rocm7.14.2", ""));
    published.add("testing", &[old.clone(), new]);
    let folder = published.folder();
    plan_promote(&folder, "testing", "stable", &["a==1.0+rocm7.14.1".into()])
        .unwrap()
        .apply(&folder)
        .unwrap();
    let before = packages(&published.root);
    let yanked = |view| page(&published.root, view, "a")[0].yanked.clone();
    for wrong in ["a", "a==1.0", "b==1.0"] {
        plan_yank(&folder, wrong, Some("why")).unwrap_err();
    }
    plan_yank(&folder, "a==1.0+rocm7.14.1", Some("no <kernels>")).unwrap().apply(&folder).unwrap();
    assert_eq!(
        (yanked(TESTING), yanked(STABLE)),
        (Some("no <kernels>".into()), Some("no <kernels>".into()))
    );
    let html = std::fs::read_to_string(published.root.join("stable/simple/a/index.html")).unwrap();
    assert!(html.contains("data-yanked=\"no &lt;kernels&gt;\""), "{html}");
    assert!(page(&published.root, TESTING, "a")[1].yanked.is_none());
    assert!(plan_yank(&folder, "a==1.0+rocm7.14.1", Some("no <kernels>")).unwrap().is_empty());

    // A view that gets the wheel later also gets the mark.
    std::fs::remove_dir_all(published.root.join("testing")).unwrap();
    drop(folder);
    published.add("testing", &[old]);
    assert_eq!(yanked(TESTING), Some("no <kernels>".into()));

    let folder = published.folder();
    plan_yank(&folder, "a==1.0+rocm7.14.1", None).unwrap().apply(&folder).unwrap();
    assert_eq!((yanked(TESTING), yanked(STABLE)), (None, None));
    assert!(packages(&published.root) == before, "a package was touched");
}

#[test]
fn keeps_concurrently_published_wheels() {
    let published = Published::new();
    published.add("testing", &[published.wheel("a", "1.0", "")]);
    let wheels = [published.wheel("b", "1.0", ""), published.wheel("a", "1.1", "")];
    let plan = |at: usize| {
        let wheels = &wheels[at..=at];
        plan_add(&Folder::new(&published.root), Some("testing"), wheels, &[], None, None).unwrap()
    };
    let yank = || plan_yank(&Folder::new(&published.root), "a==1.0", Some("bad")).unwrap();
    let (first, early, late) = (plan(0), yank(), plan(1));
    first.apply(&published.folder()).unwrap();
    // Every change has the flat page in common.
    let error = early.apply(&published.folder()).unwrap_err();
    assert!(error.to_string().contains("testing/links.html in "), "{error}");
    yank().apply(&published.folder()).unwrap();
    let error = late.apply(&published.folder()).unwrap_err();
    assert!(error.to_string().contains("testing/simple/a/index.json in "), "{error}");
    assert!(error.help()[0].contains("run the same command again"), "{:?}", error.help());
    assert_eq!(names(&published.root, TESTING, "a"), ["a-1.0-py3-none-any.whl"]);
    assert_eq!(page(&published.root, TESTING, "a")[0].yanked.as_deref(), Some("bad"));
    plan(1).apply(&published.folder()).unwrap();
    assert_eq!(names(&published.root, TESTING, "a").len(), 2);
    assert_eq!(names(&published.root, TESTING, "b").len(), 1);
}

#[test]
fn build_index_does_not_clear_a_published_one() {
    let published = Published::new();
    let wheel = published.wheel("a", "1.0", "");
    published.add("testing", std::slice::from_ref(&wheel));
    let before = packages(&published.root);
    let other = published.wheel("b", "1.0", "");
    let error = rocmrpm::index::write(&[other], &published.root).unwrap_err();
    assert!(error.to_string().ends_with("is a published index"), "{error}");
    assert_eq!(packages(&published.root), before);
}

#[test]
fn rejects_surprising_wheels_without_changes() {
    let published = Published::new();
    let wheel = published.wheel("a", "1.0+rocm7.14.2", "");
    published.add("testing", &[wheel]);
    let other = |name: &str| {
        let folder = published.dir.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    };
    let same_name = small(&other("x"), "a", "1.0+rocm7.14.2", "");
    let twin = tagged(&other("y"), "a", "1.0+rocm7.14.2", "", "py2.py3-none-any");
    let lower = small(&other("z"), "a", "1.0+rocm7.14.1", "");
    let fine = small(&other("w"), "fine", "1.0", "");
    let pages = |root: &Path| {
        let files = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap);
        let files = files.filter(|entry| entry.file_type().is_file());
        files
            .map(|e| (e.path().to_owned(), std::fs::read(e.path()).unwrap()))
            .collect::<BTreeMap<_, _>>()
    };
    let before = pages(&published.root);
    let name = "a-1.0+rocm7.14.2-py3-none-any.whl";
    for (channel, wheel, expected, help) in [
        (
            "testing",
            &same_name,
            vec![name, "in testing of", "with the digest"],
            "raise the component's Release",
        ),
        ("stable", &same_name, vec![name, "in testing of"], "raise the component's Release"),
        (
            "testing",
            &twin,
            vec![name, "a-1.0+rocm7.14.2-py2.py3-none-any.whl", "both match py3-none-any"],
            "leave one",
        ),
        (
            "testing",
            &lower,
            vec!["a-1.0+rocm7.14.1-py3-none-any.whl sorts below", name],
            "publish yank",
        ),
    ] {
        let wheels = [fine.clone(), wheel.clone()];
        let error =
            plan_add(&published.folder(), Some(channel), &wheels, &[], None, None).unwrap_err();
        for part in expected {
            assert!(error.to_string().contains(part), "expected {part}: {error}");
        }
        assert!(error.help()[0].contains(help), "{:?}", error.help());
        assert_eq!(error.kind().exit_code(), 2);
        assert!(pages(&published.root) == before, "something changed");
    }
    // In the other channel the lower version has no predecessor, but it would have one after
    // promotion.
    published.add("stable", std::slice::from_ref(&lower));
    let error =
        plan_promote(&published.folder(), "stable", "testing", &[]).unwrap_err().to_string();
    assert!(error.contains("sorts below"), "{error}");

    // A damaged page stops all operations and is named.
    let page = published.root.join("testing/simple/a/index.json");
    std::fs::write(&page, "{").unwrap();
    let folder = published.folder();
    for result in [
        plan_add(&folder, Some("stable"), &[lower], &[], None, None),
        plan_promote(&folder, "testing", "stable", &[]),
        plan_yank(&folder, "a==1.0", Some("")),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(page.to_str().unwrap()), "{error}");
    }
}
