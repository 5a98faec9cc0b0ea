//! Tests plans of wheels from the payload of small RPMs.

use super::*;
use crate::wheel::{LocalLabel, Pins, Rocm};
use rocmrpm_base::error::{Diagnose, Kind};
use rocmrpm_base::events::Silent;

const MODULES: &str = "/usr/lib/python3.14/site-packages";
const METADATA: &str = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n";

/// Reads the payload of an RPM with these files and links.
fn payload_of(
    dir: &std::path::Path,
    files: &[(&str, &str)],
    links: &[(&str, &str)],
) -> (Spool, Payload) {
    let mut builder = rpm::PackageBuilder::new("demo", "1.0", "MIT", "noarch", "a demo");
    for (path, text) in files {
        builder.with_file_contents(*text, rpm::FileOptions::new(*path)).unwrap();
    }
    for (path, target) in links {
        builder.with_symlink(rpm::FileOptions::symlink(*path, *target)).unwrap();
    }
    let rpm = dir.join("demo-1.0-1.noarch.rpm");
    builder.build().unwrap().write_file(&rpm).unwrap();
    let mut spool = Spool::new(dir).unwrap();
    let payload = Payload::read(&rpm, &mut spool, |_| true).unwrap().unwrap();
    (spool, payload)
}

/// Reads the payload of an RPM with these files in site-packages.
fn payload(dir: &std::path::Path, files: &[&str]) -> (Spool, Payload) {
    let paths: Vec<String> = files.iter().map(|file| format!("{MODULES}/{file}")).collect();
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "x = 1\n")).collect();
    payload_of(dir, &files, &[])
}

/// Plans the wheel of demo 1.0 with a METADATA and these files, which are below site-packages
/// unless their path starts with `/`.
fn plan(files: &[(&str, &str)], links: &[(&str, &str)]) -> Result<Plan, WheelError> {
    let dir = tempfile::tempdir().unwrap();
    let absolute =
        |path: &str| if path.starts_with('/') { path.into() } else { format!("{MODULES}/{path}") };
    let files = files.iter().chain(&[("demo-1.0.dist-info/METADATA", METADATA)]);
    let files: Vec<(String, &str)> = files.map(|(path, text)| (absolute(path), *text)).collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let (mut spool, payload) = payload_of(dir.path(), &files, links);
    let request = Request {
        rpms: &[],
        label: &LocalLabel::new("7.14", &[]).unwrap(),
        source_date_epoch: 0,
        out_dir: dir.path(),
        python: Some((3, 14)),
        pins: &Pins::new(),
        rocm: &Rocm::System,
        leave_out: &[],
        not_required: &[],
        origin: None,
        events: &Silent,
    };
    Plan::new(&payload, "demo-1.0.dist-info", &[], request, &mut spool)
}

fn text_of<'p>(plan: &'p Plan, name: &str) -> &'p str {
    match &plan.members[name].content {
        Content::Text(bytes) => std::str::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn includes_files_that_installers_do_not_write() {
    let info = |name: &'static str| (format!("demo-1.0.dist-info/{name}"), "x");
    let mut files: Vec<(String, &str)> = OWN_FILES.into_iter().map(info).collect();
    files.extend(["licenses/LICENSE", "top_level.txt"].map(info));
    files.push(("demo-1.0.dist-info/WHEEL".into(), "Tag: py2-none-any\nTag: py3-none-any\n"));
    files.push((
        "demo-1.0.dist-info/entry_points.txt".into(),
        "[console_scripts]\ndemo = demo:main\n",
    ));
    files.extend(
        ["demo.py", "/etc/demo.conf", "/usr/share/doc/demo/README"].map(|path| (path.into(), "")),
    );
    files.extend(
        ["demo", "script"].map(|name| (format!("/usr/bin/{name}"), "#!/usr/bin/python3\n")),
    );
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    // The command that installers generate has two names.
    let links = [("/usr/bin/demo3", "demo"), ("/usr/bin/script3", "script")];
    let plan = plan(&files, &links).unwrap();
    assert_eq!(plan.file_name, "demo-1.0+rocm7.14-py2.py3-none-any.whl");
    let stem = "demo-1.0+rocm7.14";
    let expected = [
        "data/data/etc/demo.conf",
        "data/scripts/script",
        "data/scripts/script3",
        "dist-info/METADATA",
        "dist-info/WHEEL",
        "dist-info/entry_points.txt",
        "dist-info/licenses/LICENSE",
        "dist-info/top_level.txt",
    ];
    let expected = expected.map(|name| format!("{stem}.{name}"));
    assert_eq!(
        Vec::from_iter(plan.members.keys().cloned()),
        [&expected[..], &["demo.py".into()]].concat()
    );
    assert_eq!(text_of(&plan, &expected[3]), METADATA.replace("1.0", "1.0+rocm7.14"));
    let wheel = text_of(&plan, &expected[4]);
    assert!(
        wheel.contains("Root-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n"),
        "{wheel}"
    );
    assert_eq!(plan.replaced[&expected[3]], METADATA);
}

#[test]
fn checks_dist_info_name() {
    for (folder, metadata, agree) in [
        ("Demo_x-1.0.dist-info", "Name: demo-x\nVersion: 1.0.0\n", true),
        ("demo-1.0.dist-info", "Name: demo\nVersion: 1.1\n", false),
        ("demo-1.0.dist-info", "Name: other\nVersion: 1.0\n", false),
        ("demo.dist-info", "Name: demo\nVersion: 1.0\n", false),
    ] {
        let found = agrees(folder, &Metadata::parse(metadata).unwrap());
        assert_eq!(found.is_ok(), agree, "{folder} {metadata}: {found:?}");
    }
    let other = METADATA.replace("1.0", "1.1");
    let path = "/usr/lib64/python3.14/site-packages/demo-1.0.dist-info/METADATA";
    let error = plan(&[(path, &other)], &[]).unwrap_err().to_string();
    assert!(error.contains("it differs from"), "{error}");
}

#[test]
fn refuses_files_that_no_wheel_can_have() {
    for (files, expected) in [
        (
            &[("other-1.0.dist-info/METADATA", "")][..],
            "a second dist-info folder next to demo-1.0.dist-info",
        ),
        (&[("demo-1.0.data/x", "")], "installers would treat this folder as the wheel's own data"),
        (&[("demo.egg-info/PKG-INFO", "")], EGG_INFO),
        (&[("/usr/lib/libdemo.so", "")], "a shared library outside site-packages"),
        (&[("/usr/lib/python3.13/site-packages/demo.py", "")], "but the chroot has Python 3.14"),
        (
            &[("demo.py", "x"), ("/usr/lib64/python3.14/site-packages/demo.py", "y")],
            "it differs from",
        ),
        (
            &[("demo", "x"), ("/usr/lib64/python3.14/site-packages/demo/x.py", "y")],
            "both as a file and as a folder",
        ),
    ] {
        let error = plan(files, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{files:?}: {error}");
    }
    let same = [("demo.py", "x"), ("/usr/lib64/python3.14/site-packages/demo.py", "x")];
    assert!(plan(&same, &[]).unwrap().members.contains_key("demo.py"));
}

#[test]
fn links_become_copies() {
    let copied = |path: &str, target: &str| {
        let files = [("demo/a.py", "a"), ("demo/b/c.py", "c")];
        plan(&files, &[(&format!("{MODULES}/{path}"), target)]).map(|plan| {
            let copy = |name: &&String| name.starts_with("copy");
            plan.members.keys().filter(copy).cloned().collect::<Vec<_>>().join(" ")
        })
    };
    assert_eq!(copied("copy.py", "demo/a.py").unwrap(), "copy.py");
    assert_eq!(copied("copy", "demo").unwrap(), "copy/a.py copy/b/c.py");
    for (path, target, expected) in [
        ("demo/copy", "..", "a link to a folder above it"),
        ("copy", "/usr/lib/none", "a link that leaves the package"),
    ] {
        let error = copied(path, target).unwrap_err().to_string();
        assert!(error.contains(expected), "{path}: {error}");
    }
}

#[test]
fn only_top_level_dist_infos_describe_distributions() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        "demo-1.0.dist-info/METADATA",
        "demo/METADATA",
        "demo/old-1.0.dist-info/METADATA",
        "data/METADATA",
    ];
    let (_spool, payload) = payload(dir.path(), &files);
    assert_eq!(dist_infos(&payload), ["demo-1.0.dist-info".to_owned()].into());
}

#[test]
fn refuses_egg_infos_before_modules_without_a_distribution() {
    let refused = |files: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let (_spool, payload) = payload(dir.path(), files);
        refuse_modules(&payload).unwrap_err().to_string()
    };
    let egg = refused(&["a.py", "demo.egg-info", "z.py"]);
    assert!(egg.contains("demo.egg-info") && egg.contains(EGG_INFO), "{egg}");
    let modules = refused(&["a.py", "z.py"]);
    assert!(modules.contains("a.py") && modules.contains("no dist-info"), "{modules}");
}

#[test]
fn stops_while_it_gathers_files() {
    let dir = tempfile::tempdir().unwrap();
    let (spool, payload) = payload(dir.path(), &["demo.py"]);
    let gather = |check_stop: fn() -> Result<(), process::ProcessError>| {
        let mut gathering = Gathering {
            payload: &payload,
            spool: &spool,
            old_dist_info: "demo-1.0.dist-info",
            stem: "demo-1.0",
            commands: BTreeSet::new(),
            python: None,
            members: BTreeMap::new(),
            origins: BTreeMap::new(),
            elfs: BTreeMap::new(),
            evidence: Evidence::default(),
            check_stop,
        };
        gathering.run()
    };
    gather(|| Ok(())).unwrap();
    assert_eq!(
        gather(|| Err(process::ProcessError::Stopped)).unwrap_err().kind(),
        Kind::Interrupted
    );
}
