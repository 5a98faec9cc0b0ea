//! Builds wheels from an RPM, reads them back, changes them, and compares them with the RPM.

use std::io::Write as _;
use std::path::PathBuf;

use super::*;
use crate::wheel::{LocalLabel, Pins, Rocm, build, read};
use rocmrpm_base::events::Silent;

const MODULES: &str = "/usr/lib/python3.14/site-packages";
const METADATA: &str = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n";
const INFO: &str = "demo-1.0+rocm7.14.dist-info";
const SCRIPT: &str = "demo-1.0+rocm7.14.data/scripts/script";

/// The name, the mode and the content of a member.
type ZipMember = (String, u32, Vec<u8>);

/// An RPM and the folder for its wheel.
struct WheelFixture {
    dir: tempfile::TempDir,
    rpms: [PathBuf; 1],
}

impl WheelFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = rpm::PackageBuilder::new("demo", "1.0", "MIT", "noarch", "a demo");
        for (path, mode, text) in [
            (format!("{MODULES}/demo.py"), 0o644, "x = 1\n"),
            (format!("{MODULES}/demo-1.0.dist-info/METADATA"), 0o644, METADATA),
            ("/usr/bin/script".to_owned(), 0o755, "#!/usr/bin/python3\nx = 1\n"),
        ] {
            let options = rpm::FileOptions::new(path).mode(rpm::FileMode::regular(mode));
            builder.with_file_contents(text, options).unwrap();
        }
        let rpm = dir.path().join("demo-1.0-1.noarch.rpm");
        builder.build().unwrap().write_file(&rpm).unwrap();
        Self { dir, rpms: [rpm] }
    }

    fn with<T>(&self, work: impl FnOnce(Request<'_>) -> T) -> T {
        work(Request {
            rpms: &self.rpms,
            label: &LocalLabel::new("7.14", &[]).unwrap(),
            source_date_epoch: 1_700_000_000,
            out_dir: &self.dir.path().join("wheels"),
            python: Some((3, 14)),
            pins: &Pins::new(),
            rocm: &Rocm::System,
            leave_out: &[],
            not_required: &[],
            origin: None,
            events: &Silent,
        })
    }

    /// Builds the wheel and changes its members.
    fn changed(&self, change: impl FnOnce(&mut Vec<ZipMember>)) -> Proof {
        let path = self.with(build).unwrap().remove(0).path;
        let mut archive = zip::ZipArchive::new(fs_err::File::open(&path).unwrap()).unwrap();
        let mut entries: Vec<ZipMember> = (0..archive.len())
            .map(|at| {
                let mut member = archive.by_index(at).unwrap();
                let mut bytes = Vec::new();
                member.read_to_end(&mut bytes).unwrap();
                (member.name().unwrap().into_owned(), member.unix_mode().unwrap(), bytes)
            })
            .collect();
        change(&mut entries);
        let mut out = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
        for (name, mode, bytes) in entries {
            let options = zip::write::SimpleFileOptions::default().unix_permissions(mode);
            out.start_file(name, options).unwrap();
            out.write_all(&bytes).unwrap();
        }
        out.finish().unwrap();
        self.with(verify).unwrap().remove(0)
    }
}

fn entry<'e>(entries: &'e mut [ZipMember], name: &str) -> &'e mut ZipMember {
    entries.iter_mut().find(|entry| entry.0 == name).unwrap()
}

#[test]
fn proves_unchanged_wheel() {
    let fixture = WheelFixture::new();
    let [wheel] = &fixture.with(build).unwrap()[..] else { panic!("one wheel") };
    assert_eq!(read(&wheel.path).unwrap(), *wheel);
    let proof = fixture.with(verify).unwrap().remove(0);
    assert_eq!((&proof.differences[..], proof.identical, proof.identical_bytes), (&[][..], 1, 6));
    let made: Vec<(&str, String)> =
        proof.made.iter().map(|made| (made.member.as_str(), made.changes.join(" "))).collect();
    let of = |name: &str| {
        made.iter().find(|(member, _)| *member == name).map(|(_, changes)| changes.as_str())
    };
    assert_eq!(of(SCRIPT), Some("-#!/usr/bin/python3 +#!python"));
    assert_eq!(of(&format!("{INFO}/METADATA")), Some("-Version: 1.0 +Version: 1.0+rocm7.14"));
    assert_eq!((of(&format!("{INFO}/WHEEL")), of(&format!("{INFO}/RECORD"))), (Some(""), Some("")));
    assert_eq!(made.len(), 4);
}

#[test]
fn reports_differences_from_the_rpm() {
    let fixture = WheelFixture::new();
    let (metadata, record) = (format!("{INFO}/METADATA"), format!("{INFO}/RECORD"));
    let of = |proof: Proof| {
        let all = proof.differences.into_iter();
        all.map(|one| format!("{}: {}", one.member.unwrap_or_default(), one.what))
            .collect::<Vec<_>>()
    };
    let unchanged = fixture.changed(|_| ());
    assert_eq!(of(unchanged), [""; 0]);
    let found = of(fixture.changed(|all| entry(all, "demo.py").2 = b"x = 2\n".to_vec()));
    assert_eq!(found, ["demo.py: it differs from the RPM's file"]);
    let found = of(fixture.changed(|all| entry(all, &metadata).2.push(b'\n')));
    assert_eq!(found, [format!("{metadata}: it differs from what rocmrpm makes from the RPMs")]);
    let found = of(fixture.changed(|all| entry(all, "demo.py").1 = 0o755));
    assert_eq!(found, ["demo.py: it is executable"]);
    let found = of(fixture.changed(|all| entry(all, SCRIPT).1 = 0o644));
    assert_eq!(found, [format!("{SCRIPT}: it is not executable")]);
    let found = of(fixture.changed(|all| all.retain(|entry| entry.0 != "demo.py")));
    assert_eq!(found, ["demo.py: it is missing"]);
    let found = of(fixture.changed(|all| all.push(("more.py".into(), 0o644, Vec::new()))));
    assert_eq!(found, ["more.py: no file in the RPMs corresponds to it"]);
    let found = of(fixture.changed(|all| all.retain(|entry| entry.0 != record)));
    assert_eq!(found, [format!("{record}: it is missing")]);
    let found = of(fixture.changed(|all| {
        let text = String::from_utf8(entry(all, &record).2.clone()).unwrap();
        let lines: String = text
            .lines()
            .filter(|line| !line.starts_with("demo.py"))
            .map(|l| format!("{l}\n"))
            .collect();
        entry(all, &record).2 = lines.into_bytes();
    }));
    assert_eq!(found, [format!("{record}: it has no line for `demo.py`")]);
}

#[test]
fn rejects_invalid_wheels() {
    let fixture = WheelFixture::new();
    let refused = |change: &dyn Fn(&mut Vec<ZipMember>)| {
        let wheel =
            fixture.dir.path().join("wheels").join(fixture.changed(|all| change(all)).wheel);
        read(&wheel).unwrap_err().to_string()
    };
    let wheel = format!("{INFO}/WHEEL");
    let added = |name: &str| {
        let name = name.to_owned();
        move |all: &mut Vec<ZipMember>| all.push((name.clone(), 0o644, Vec::new()))
    };
    assert!(refused(&added("more.py")).contains("`more.py` is not listed"));
    assert!(refused(&added("../more.py")).contains("could point outside the wheel"));
    assert!(refused(&added("a//b.py")).contains("could point outside the wheel"));
    assert!(refused(&added("a\\b.py")).contains("could point outside the wheel"));
    assert!(refused(&added("demo.py/x")).contains("both as a file and as a folder"));
    assert!(refused(&added("other-1.dist-info/METADATA")).contains("several dist-info folders"));
    let tag = |all: &mut Vec<ZipMember>| {
        let text = String::from_utf8(entry(all, &wheel).2.clone()).unwrap();
        entry(all, &wheel).2 = text.replace("py3-none-any", "py2-none-any").into_bytes();
    };
    assert!(
        refused(&tag)
            .contains("its file name has the tags py3-none-any, but its WHEEL has py2-none-any")
    );
    let format = |all: &mut Vec<ZipMember>| {
        let text = String::from_utf8(entry(all, &wheel).2.clone()).unwrap();
        entry(all, &wheel).2 =
            text.replace("Wheel-Version: 1.0", "Wheel-Version: 2.0").into_bytes();
    };
    assert!(refused(&format).contains("the format version is `2.0`, expected 1"));
    let size = |all: &mut Vec<ZipMember>| entry(all, "demo.py").2.push(b'\n');
    assert!(refused(&size).contains("`demo.py` is listed with"));
}

#[test]
fn reports_stray_and_missing_wheels() {
    let fixture = WheelFixture::new();
    let whats = || {
        let proofs = fixture.with(verify).unwrap();
        let what = |proof: &Proof| format!("{}: {}", proof.wheel, proof.differences[0].what);
        proofs.iter().filter(|proof| !proof.differences.is_empty()).map(what).collect::<Vec<_>>()
    };
    let out = fixture.dir.path().join("wheels");
    fs_err::create_dir(&out).unwrap();
    assert_eq!(whats(), ["demo-1.0+rocm7.14-py3-none-any.whl: the wheel is missing"]);
    fixture.with(build).unwrap();
    fs_err::write(out.join("stray.whl"), "").unwrap();
    fs_err::write(out.join("notes.txt"), "").unwrap();
    assert_eq!(whats(), ["stray.whl: no RPM of the component makes this wheel"]);
}
