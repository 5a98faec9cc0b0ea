//! Tests adding, promoting and yanking wheels in an index in a folder, and checking it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};

use super::IndexError;
use super::change::{Action, Change, plan_add, plan_promote, plan_yank};
use super::check::{self, Options};
use super::folder::Folder;
use super::listing::Listing;
use super::place::IndexStorage as _;
use super::view::View;
use python_packaging::environment::Environment;
use rocmrpm_base::digest::Sha256;

/// Writes a wheel of `NAME-VERSION` with these lines in its METADATA.
fn wheel(dir: &Path, stem: &str, metadata: &str) -> PathBuf {
    let (name, version) = stem.split_once('-').unwrap();
    let (module, info) = (format!("{name}.py"), format!("{stem}.dist-info"));
    let files = [
        (module, format!("# {metadata}\n")),
        (
            format!("{info}/METADATA"),
            format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"),
        ),
        (
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n".into(),
        ),
    ];
    let digest = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(Sha256::of_bytes(text).as_bytes());
    let line = |(name, text): &(String, String)| {
        format!("{name},sha256={},{}\n", digest(text), text.len())
    };
    let record = files.iter().map(line).collect::<String>() + &format!("{info}/RECORD,,\n");
    let path = dir.join(format!("{stem}-py3-none-any.whl"));
    let mut zip = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
    for (name, text) in files.into_iter().chain([(format!("{info}/RECORD"), record)]) {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    path
}

/// An index in a folder, and another folder for wheels.
struct IndexFixture {
    dir: tempfile::TempDir,
    place: Folder,
}

impl IndexFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Folder::new(&dir.path().join("index"));
        fs_err::create_dir_all(place.root()).unwrap();
        Self { dir, place }
    }

    fn wheel(&self, stem: &str, metadata: &str) -> PathBuf {
        wheel(self.dir.path(), stem, metadata)
    }

    fn plan(&self, channel: &str, wheels: &[PathBuf]) -> Result<Change, IndexError> {
        plan_add(&self.place, Some(channel), wheels, &[], None, None)
    }

    /// Adds wheels; returns the actions and the number of new packages.
    fn add(&self, channel: &str, wheels: &[PathBuf]) -> (Vec<Action>, usize) {
        let change = self.plan(channel, wheels).unwrap();
        (self.apply(&change), change.packages.len())
    }

    fn apply(&self, change: &Change) -> Vec<Action> {
        change.apply(&self.place).unwrap();
        change.notes.iter().map(|note| note.action.clone()).collect()
    }

    /// Returns the findings of a check, each with severity, rule and description.
    fn check(&self, channel: &str, digests: bool) -> Vec<String> {
        let view = Listing::read(self.place.root(), Some(channel)).unwrap();
        let options = Options {
            environment: &Environment::new("3.14", "x86_64", None).unwrap(),
            outside: &[],
            offline: true,
            held: &BTreeMap::new(),
            digests,
            closed: false,
        };
        let report = check::check(&view, &options).unwrap();
        let errors =
            report.findings.iter().any(|finding| format!("{:?}", finding.severity) == "Error");
        assert_eq!(report.has_errors(), errors);
        report.findings.iter().map(|f| format!("{:?} {}: {}", f.severity, f.id, f.found)).collect()
    }
}

#[test]
fn adds_wheels_once_and_rejects_other_bytes() {
    let fixture = IndexFixture::new();
    let a = fixture.wheel("a-1.0", "Requires-Dist: b\n");
    let b = fixture.wheel("b-1.0", "");
    let both = [a.clone(), b.clone(), a.clone()];
    // The METADATA of each wheel is a package as well.
    assert_eq!(fixture.add("testing", &both), (vec![Action::Add, Action::Add], 4));
    let again = fixture.plan("testing", &both).unwrap();
    assert!(again.is_empty(), "{again}");
    assert_eq!(again.notes.iter().filter(|note| note.action == Action::Keep).count(), 2);
    // Channels share packages.
    assert_eq!(fixture.add("stable", &both[..1]), (vec![Action::Add], 0));

    fixture.wheel("a-1.0", "Requires-Dist: c\n");
    let other = fixture.plan("testing", std::slice::from_ref(&a)).unwrap_err();
    assert!(matches!(other, IndexError::OtherDigest { .. }), "{other}");
    fixture.wheel("b-1.0", "Requires-Dist: c\n");
    let other = fixture.plan("stable", &[b]).unwrap_err();
    assert!(matches!(other, IndexError::OtherDigest { .. }), "{other}");
}

#[test]
fn resumes_interrupted_publishing() {
    let fixture = IndexFixture::new();
    let a = [fixture.wheel("a-1.0", "")];
    let change = fixture.plan("testing", &a).unwrap();
    fixture.place.put_packages(&change.packages).unwrap();
    assert_eq!(fixture.plan("testing", &a).unwrap().packages, []);
    fixture.wheel("a-1.0", "Requires-Dist: b\n");
    assert!(matches!(fixture.plan("testing", &a), Err(IndexError::OtherDigest { .. })));
}

#[test]
fn refuses_a_second_wheel_for_the_same_tags_or_with_a_lower_label() {
    let fixture = IndexFixture::new();
    let wheels =
        ["a-1.0+rocm2", "a-1.0+rocm1", "a-1.0.0+rocm2"].map(|stem| fixture.wheel(stem, ""));
    fixture.add("testing", &wheels[..1]);
    assert!(matches!(fixture.plan("testing", &wheels[1..2]), Err(IndexError::Below { .. })));
    assert!(matches!(fixture.plan("testing", &wheels[2..]), Err(IndexError::SameTags { .. })));
    assert!(matches!(
        fixture.plan("stable", &[&wheels[..1], &wheels[2..]].concat()),
        Err(IndexError::SameTags { .. })
    ));
}

#[test]
fn promotes_selected_wheels() {
    let fixture = IndexFixture::new();
    fixture.add("testing", &["a-1.0", "a-2.0", "b-1.0"].map(|stem| fixture.wheel(stem, "")));
    assert!(matches!(
        plan_promote(&fixture.place, "stable", "testing", &[]),
        Err(IndexError::Empty { .. })
    ));
    let promote = |selection: &[&str]| {
        let selection: Vec<String> = selection.iter().map(|text| (*text).to_owned()).collect();
        plan_promote(&fixture.place, "testing", "stable", &selection)
    };
    let files =
        |change: &Change| change.notes.iter().map(|note| note.file.clone()).collect::<Vec<_>>();
    let change = promote(&["A==1.0.0"]).unwrap();
    assert_eq!(files(&change), ["a-1.0-py3-none-any.whl"]);
    let edge = View::of(Some("testing")).unwrap();
    assert_eq!(fixture.apply(&change), [Action::Promote(edge)]);
    let rest = promote(&[]).unwrap();
    assert_eq!(files(&rest).len(), 3);
    assert_eq!(fixture.apply(&rest).iter().filter(|action| **action == Action::Keep).count(), 1);
    assert!(promote(&[]).unwrap().is_empty());
    for (wrong, near) in [("a==3", "a==1.0"), ("c", "a")] {
        let error = promote(&[wrong]).unwrap_err();
        let IndexError::NotThere { near: found, .. } = error else { panic!("{error}") };
        assert!(
            found.is_none_or(|found| found.starts_with(near.split('=').next().unwrap())),
            "{wrong}"
        );
    }
    assert!(matches!(promote(&["a=="]), Err(IndexError::Selection(_))));
    assert!(matches!(
        plan_promote(&fixture.place, "testing", "testing", &[]),
        Err(IndexError::SameChannel(_))
    ));
}

#[test]
fn yanks_one_version_in_all_channels_and_restores_it() {
    let fixture = IndexFixture::new();
    let wheels = ["a-1.0", "a-2.0"].map(|stem| fixture.wheel(stem, ""));
    fixture.add("testing", &wheels);
    fixture.add("stable", &wheels[..1]);
    let yank = |reason| fixture.apply(&plan_yank(&fixture.place, "a==1.0", reason).unwrap());
    let yanked = Action::Yank("broken".into());
    assert_eq!(yank(Some("broken")), [yanked.clone(), yanked]);
    assert_eq!(yank(Some("broken")), [Action::Keep, Action::Keep]);
    assert_eq!(yank(None), [Action::Restore, Action::Restore]);
    assert!(matches!(plan_yank(&fixture.place, "a", None), Err(IndexError::NoVersion(_))));
    assert!(matches!(plan_yank(&fixture.place, "a==3", None), Err(IndexError::NotThere { .. })));
}

#[test]
fn keeps_pages_changed_by_another_run() {
    let fixture = IndexFixture::new();
    let (a, b) = (fixture.wheel("a-1.0", ""), fixture.wheel("b-1.0", ""));
    let late = fixture.plan("testing", &[a]).unwrap();
    fixture.add("testing", &[b]);
    assert!(matches!(late.apply(&fixture.place), Err(IndexError::Meanwhile { .. })));
}

#[test]
fn check_finds_changed_packages() {
    let fixture = IndexFixture::new();
    let a = fixture.wheel("a-1.0", "");
    fixture.add("testing", std::slice::from_ref(&a));
    assert_eq!(fixture.check("testing", true), [""; 0]);
    let package = fixture.place.root().join("packages/a/a-1.0-py3-none-any.whl");
    let mut bytes = fs_err::read(&a).unwrap();
    bytes[100] ^= 1;
    let write = |bytes: &[u8]| {
        fs_err::remove_file(&package).unwrap();
        fs_err::write(&package, bytes).unwrap();
    };
    write(&bytes);
    let found = fixture.check("testing", true);
    assert!(
        found.iter().any(|text| text.contains("Error package-differs: its sha256 is")),
        "{found:?}"
    );
    assert!(!fixture.check("testing", false).iter().any(|text| text.contains("package-differs")));
    bytes.push(0);
    write(&bytes);
    let found = fixture.check("testing", false);
    assert!(found.iter().any(|text| text.contains("bytes, but its page lists")), "{found:?}");
    fs_err::remove_file(&package).unwrap();
    let found = fixture.check("testing", false);
    assert!(found.iter().any(|text| text.starts_with("Error package-missing")), "{found:?}");
}

#[test]
fn check_finds_unsatisfied_requirements() {
    let fixture = IndexFixture::new();
    let needs = "Provides-Extra: fast\nRequires-Dist: b>=1\nRequires-Dist: b[x]\nRequires-Dist: c\n\
                 Requires-Dist: never ; python_version < \"3\"\nRequires-Dist: d ; extra == \"fast\"\n\
                 Requires-Dist: b>=2 ; extra == \"fast\"\nRequires-Dist: u @ https://u.example/u.whl\n";
    fixture.add("testing", &[fixture.wheel("a-1.0", needs), fixture.wheel("b-1.0", "")]);
    assert_eq!(
        fixture.check("testing", false),
        [
            "Error unsatisfied: the index has no `c`, and no outside index is declared",
            "Warning requires-url: it names a URL instead of versions, and the file at that URL can change",
            "Warning unknown-extra: `b` has no extra `x`; installers ignore it",
            "Warning unsatisfied-extra: with the extra `fast`: the index has only b 1.0",
            "Warning unsatisfied-extra: with the extra `fast`: the index has no `d`, and no outside index is declared",
        ]
    );
    // A yanked wheel satisfies no requirement.
    fixture.apply(&plan_yank(&fixture.place, "b==1.0", Some("x")).unwrap());
    let found = fixture.check("testing", false);
    let yanked = "Error unsatisfied: the index has `b` only as yanked or for other environments";
    assert_eq!(found.iter().filter(|text| *text == yanked).count(), 2, "{found:?}");
}

#[test]
fn check_finds_ambiguous_wheels() {
    let fixture = IndexFixture::new();
    let stems = [
        "a-1.0",
        "a-1.1+rocm7.gfx1100.1",
        "a-1.1+rocm7.gfx1151.1",
        "b-1.0+rocm7.gfx1151.xnackon.1",
    ];
    fixture.add("testing", &stems.map(|stem| fixture.wheel(stem, "")));
    let found = fixture.check("testing", false);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("Error plain-beside-labelled: a wheel of `a` without a label"),
        "{found:?}"
    );
    assert!(
        found[1].contains("the index has a 1.1 for the GPU targets gfx1100 and gfx1151;"),
        "{found:?}"
    );
    assert!(found[1].starts_with("Warning several-gpu-targets"), "{found:?}");
}

/// Writes an sdist of `NAME-VERSION`.
fn sdist(dir: &Path, stem: &str, fields: &str) -> PathBuf {
    let (name, version) = stem.split_once('-').unwrap();
    let info = format!("Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n{fields}");
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let mut header = tar::Header::new_gnu();
    header.set_size(info.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(1_700_000_000);
    archive.append_data(&mut header, format!("{stem}/PKG-INFO"), info.as_bytes()).unwrap();
    let path = dir.join(format!("{stem}.tar.gz"));
    fs_err::write(&path, archive.into_inner().unwrap().finish().unwrap()).unwrap();
    path
}

#[test]
fn sdists_are_published_beside_wheels() {
    let fixture = IndexFixture::new();
    let files = [
        sdist(fixture.dir.path(), "a-1.0", "Requires-Python: >=3.9\nRequires-Dist: b\n"),
        fixture.wheel("a-1.0", ""),
        fixture.wheel("b-1.0", ""),
    ];
    // An sdist has no METADATA of its own on the index.
    assert_eq!(fixture.add("testing", &files), (vec![Action::Add; 3], 5));
    assert_eq!(fixture.check("testing", true), [""; 0]);
    let promoted = plan_promote(&fixture.place, "testing", "stable", &["a".into()]).unwrap();
    assert_eq!(fixture.apply(&promoted).len(), 2);
    assert_eq!(
        fixture.check("stable", true),
        ["Error unsatisfied: the index has no `b`, and no outside index is declared"],
        "the requirements of an sdist count"
    );
    let page =
        fs_err::read_to_string(fixture.place.root().join("stable/simple/a/index.html")).unwrap();
    assert!(page.contains("a-1.0.tar.gz</a>") && page.contains("&gt;=3.9"), "{page}");
    let again = sdist(fixture.dir.path(), "a-1.0", "Requires-Dist: c\n");
    assert!(matches!(fixture.plan("testing", &[again]), Err(IndexError::OtherDigest { .. })));
    let other = fixture.dir.path().join("a-2.0.tar.gz");
    fs_err::copy(fixture.dir.path().join("a-1.0.tar.gz"), &other).unwrap();
    let error = fixture.plan("testing", &[other]).unwrap_err();
    assert!(error.to_string().ends_with("has a 2.0, but its PKG-INFO has a 1.0"), "{error}");
}

#[test]
fn the_flat_page_follows_every_change() {
    let fixture = IndexFixture::new();
    let links = |channel: &str| {
        let path = fixture.place.root().join(channel).join("links.html");
        let page = fs_err::read_to_string(path).unwrap();
        let names =
            page.lines().filter_map(|line| Some(line.split_once('>')?.1.split_once("</a>")?.0));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let (a, b) = ("a-1.0-py3-none-any.whl", "b-1.0-py3-none-any.whl");
    fixture.add("testing", &[fixture.wheel("b-1.0", "")]);
    fixture.add("testing", &[fixture.wheel("a-1.0", "")]);
    assert_eq!(links("testing"), [a, b]);
    fixture.apply(&plan_promote(&fixture.place, "testing", "stable", &["b".into()]).unwrap());
    assert_eq!(links("stable"), [b]);
    fixture.apply(&plan_yank(&fixture.place, "a==1.0", Some("broken")).unwrap());
    assert_eq!(links("testing"), [b]);
    fixture.apply(&plan_yank(&fixture.place, "a==1.0", None).unwrap());
    // As an index that was written before there was such a page.
    fs_err::remove_file(fixture.place.root().join("testing/links.html")).unwrap();
    fixture.add("testing", &[fixture.wheel("c-1.0", "")]);
    assert_eq!(links("testing"), [a, b, "c-1.0-py3-none-any.whl"]);
    assert_eq!(fixture.check("testing", true), [""; 0]);
    fs_err::remove_file(fixture.place.root().join("testing/links.html")).unwrap();
    fs_err::copy(
        fixture.place.root().join("stable/links.html"),
        fixture.place.root().join("testing/links.html"),
    )
    .unwrap();
    assert_eq!(
        fixture.check("testing", true),
        ["Error pages-differ: links.html lists other files than the pages of the distributions"]
    );
}
