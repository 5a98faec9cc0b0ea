//! Tests a wheel's records of its origin and their verification: SBOM, provenance, and comparison
//! with the RPMs.

use std::io::Write;
use std::path::{Path, PathBuf};

use rocmrpm::digest::Sha256;
use rocmrpm::events::Silent;
use rocmrpm::process::Command;
use rocmrpm::wheel::{self, BuildOrigin, LocalLabel, Pins, Proof, Request, Rocm, Wheel};
use serde_json::{Value, json};
use zip::write::SimpleFileOptions;

use super::fixtures::*;
use crate::support::documents;

const STEM: &str = "demo_tool-1.0+rocm7.14.gfx1151";

fn origin() -> BuildOrigin {
    BuildOrigin {
        component: "demo-tool".into(),
        version: "1.0".into(),
        release: "1".into(),
        chroot: "fedora-43".into(),
        rocm: Some("7.14".into()),
        gpu_targets: vec!["gfx1151".into()],
        key: Sha256::of_bytes("key"),
        sources: vec![
            ("demo-1.0.tar.gz".into(), Sha256::of_bytes("source"), 6),
            ("0001-fix.patch".into(), Sha256::of_bytes("patch"), 5),
        ],
    }
}

/// Calls `then` with a request that has an origin.
fn with<T>(rpms: &[PathBuf], out_dir: &Path, then: impl FnOnce(Request<'_>) -> T) -> T {
    let label: LocalLabel = label();
    then(Request {
        rpms,
        label: &label,
        source_date_epoch: EPOCH,
        out_dir,
        python: None,
        pins: &Pins::new(),
        rocm: &Rocm::System,
        leave_out: &[],
        not_required: &[],
        origin: Some(&origin()),
        events: &Silent,
    })
}

fn made(rpms: &[PathBuf], out_dir: &Path) -> Wheel {
    let mut wheels = with(rpms, out_dir, |request| wheel::build(request).unwrap());
    assert_eq!(wheels.len(), 1);
    wheels.remove(0)
}

fn verified(rpms: &[PathBuf], out_dir: &Path) -> Vec<Proof> {
    with(rpms, out_dir, |request| wheel::verify(request).unwrap())
}

/// Returns the Python of a shared environment with the validator.
fn validator() -> PathBuf {
    let requirements = include_str!("cyclonedx.txt");
    let store = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs_err::create_dir_all(store).unwrap();
    let lock = fs_err::File::create(store.join("cyclonedx.lock")).unwrap();
    lock.file().lock().unwrap();
    let dir = store.join("cyclonedx");
    let (python, complete) = (dir.join("bin/python"), dir.join("complete.txt"));
    if fs_err::read_to_string(&complete).is_ok_and(|text| text == requirements) {
        return python;
    }
    if dir.exists() {
        fs_err::remove_dir_all(&dir).unwrap();
    }
    Command::new("/usr/bin/python3")
        .args(["-m", "venv"])
        .arg(&dir)
        .output()
        .expect("a virtual environment needs Debian's package python3-venv, or Fedora's python3");
    let list = dir.join("requirements.txt");
    fs_err::write(&list, requirements).unwrap();
    Command::new(python.to_str().unwrap())
        .args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r"])
        .arg(&list)
        .output()
        .expect("the validator comes from the pip index that this machine is configured with");
    fs_err::write(&complete, requirements).unwrap();
    python
}

/// Returns the validator's complaints about a document and the package URLs that it cannot parse;
/// empty if it is valid.
fn complaints(document: &Value, dir: &Path) -> String {
    let code = "import sys, json\n\
        from cyclonedx.schema import SchemaVersion\n\
        from cyclonedx.validation.json import JsonStrictValidator\n\
        from packageurl import PackageURL\n\
        text = open(sys.argv[1]).read()\n\
        error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)\n\
        if error: print(str(error)[:2000])\n\
        bom = json.loads(text)\n\
        refs = [c['bom-ref'] for c in bom['components']] + [bom['metadata']['component']['bom-ref']]\n\
        if len(set(refs)) != len(refs): print('two components with one reference')\n\
        for link in bom['dependencies']:\n\
        \x20   for ref in [link['ref'], *link['dependsOn']]:\n\
        \x20       if ref not in refs: print('nothing is', ref)\n\
        for component in bom['components'] + [bom['metadata']['component']]:\n\
        \x20   url = component.get('purl')\n\
        \x20   if url and PackageURL.from_string(url).to_string() != url:\n\
        \x20       print(url, 'is spelled', PackageURL.from_string(url).to_string())\n";
    let path = dir.join("document.json");
    std::fs::write(&path, document.to_string()).unwrap();
    Command::new(validator().to_str().unwrap()).args(["-c", code]).arg(&path).text().unwrap()
}

/// Creates a distribution from two RPMs, one of which bundles dependencies and contains an SBOM.
fn split(dir: &Path) -> Vec<PathBuf> {
    let info = format!("{LIB}/Demo_Tool-1.0.dist-info");
    let main = Package::new("python3-demo-tool", "noarch")
        .bundles("zlib", "1.3.1")
        .bundles("npm(@types/node)", "22.1.0")
        .file(
            &format!("{info}/METADATA"),
            "Metadata-Version: 2.4\nName: Demo.Tool\nVersion: 1.0\nLicense-Expression: MIT OR Apache-2.0\n\n",
        )
        .file(&format!("{info}/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n")
        .file(&format!("{info}/sboms/upstream.cdx.json"), "{\"bomFormat\": \"CycloneDX\"}\n")
        .file(&format!("{LIB}/demo_tool/__init__.py"), "x = 1\n")
        .program("/usr/bin/demo-extra", "#!/usr/bin/python3 -sP\nprint('extra')\n")
        .write(dir);
    let devel = Package::new("python3-demo-tool-devel", "noarch")
        .bundles("zlib", "1.3.1")
        .file("/usr/include/demo/a.h", "int a;\n")
        .write(dir);
    let doc = Package::new("python3-demo-tool-doc", "noarch")
        .file("/usr/share/doc/python3-demo-tool/README", "read me\n")
        .write(dir);
    vec![doc, devel, main]
}

#[test]
fn sbom_lists_the_origin_of_the_wheel() {
    let dir = tempfile::tempdir().unwrap();
    let rpms = split(dir.path());
    let wheel = made(&rpms, &dir.path().join("out"));
    let upstream = text(&wheel.path, &format!("{STEM}.dist-info/sboms/upstream.cdx.json"));
    assert_eq!(upstream, "{\"bomFormat\": \"CycloneDX\"}\n");
    let sbom = text(&wheel.path, &format!("{STEM}.dist-info/sboms/rocmrpm.cdx.json"));
    let sbom: Value = serde_json::from_str(&sbom).unwrap();
    assert_eq!(complaints(&sbom, dir.path()), "");
    // The validator does detect errors.
    let mut wrong = sbom.clone();
    wrong["components"][0]["type"] = json!("no such type");
    assert!(complaints(&wrong, dir.path()).contains("no such type"));

    let main = &sbom["metadata"]["component"];
    assert_eq!(main["purl"], "pkg:pypi/demo-tool@1.0%2Brocm7.14.gfx1151");
    assert_eq!(main["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
    assert_eq!(sbom["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    let components = sbom["components"].as_array().unwrap();
    let component = |reference: &str| {
        let found = components.iter().find(|component| component["bom-ref"] == reference);
        found.unwrap_or_else(|| panic!("no {reference} in {components:#?}"))
    };
    let (zlib, node) = ("pkg:generic/zlib@1.3.1", "pkg:npm/%40types/node@22.1.0");
    let package = |name: &str| format!("pkg:rpm/{name}@1.0-1.fc43?arch=noarch");
    let (package, devel) = (package("python3-demo-tool"), package("python3-demo-tool-devel"));
    let digest = |of: &str| json!([{"alg": "SHA-256", "content": Sha256::of_bytes(of)}]);
    assert_eq!(component("source:demo-1.0.tar.gz")["hashes"], digest("source"));
    assert_eq!(component("patch:0001-fix.patch")["hashes"], digest("patch"));
    let rpm = Sha256::of_file(&rpms[2]).unwrap().0;
    assert_eq!(component(&package)["hashes"], json!([{"alg": "SHA-256", "content": rpm}]));
    assert_eq!(
        (&component(zlib)["name"], &component(zlib)["version"]),
        (&json!("zlib"), &json!("1.3.1"))
    );
    // The documentation package is missing because the wheel contains none of its files.
    assert_eq!(components.len(), 6, "{components:#?}");
    let link = |of: &str| {
        let links = sbom["dependencies"].as_array().unwrap();
        links.iter().find(|link| link["ref"] == of).map(|link| link["dependsOn"].clone()).unwrap()
    };
    assert_eq!(link(main["bom-ref"].as_str().unwrap()), json!([devel, package]));
    assert_eq!(link(&devel), json!(["patch:0001-fix.patch", zlib, "source:demo-1.0.tar.gz"]));
    assert_eq!(
        link(&package),
        json!(["patch:0001-fix.patch", zlib, node, "source:demo-1.0.tar.gz"])
    );
}

#[test]
fn wheel_names_its_build_reproducibly() {
    let dir = tempfile::tempdir().unwrap();
    let rpms = split(dir.path());
    let wheel = made(&rpms, &dir.path().join("out"));
    let reported: Value =
        serde_json::from_str(&text(&wheel.path, &format!("{STEM}.dist-info/rocmrpm.json")))
            .unwrap();
    let rpm = |path: &Path| {
        let (sha256, size) = Sha256::of_file(path).unwrap();
        let file = path.file_name().unwrap().to_str().unwrap();
        json!({"file": file, "nevra": file.strip_suffix(".rpm"), "sha256": sha256, "size": size})
    };
    let expected = json!({
        "schema": "rocmrpm/provenance/2",
        "generator": format!("rocmrpm {}", env!("CARGO_PKG_VERSION")),
        "component": "demo-tool",
        "version": "1.0",
        "release": "1",
        "chroot": "fedora-43",
        "rocm": "7.14",
        "gpu_targets": ["gfx1151"],
        "build_key": Sha256::of_bytes("key"),
        "rpms": [rpm(&rpms[2]), rpm(&rpms[1])],
    });
    similar_asserts::assert_eq!(reported, expected);
    assert_eq!(documents::check(&reported), Some("rocmrpm/provenance/2"));
    let mut other = rpms.clone();
    other.reverse();
    let again = made(&other, &dir.path().join("again"));
    assert_eq!(std::fs::read(&wheel.path).unwrap(), std::fs::read(&again.path).unwrap());
    assert_eq!(wheel::read(&wheel.path).unwrap(), wheel);

    let taken =
        Package::pure("python3-a", "a").file(&format!("{LIB}/a-1.0.dist-info/rocmrpm.json"), "{}");
    let out = dir.path().join("taken");
    let error =
        with(&[taken.write(dir.path())], &out, |request| wheel::build(request).unwrap_err());
    assert!(error.to_string().contains("its dist-info already has rocmrpm.json"), "{error}");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
}

/// Rewrites a wheel with changed members.
fn alter(wheel: &Path, change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) {
    let mut all = members(wheel);
    change(&mut all);
    let mut archive = zip::ZipWriter::new(std::fs::File::create(wheel).unwrap());
    for (name, content) in all {
        let mode = if name.contains("/scripts/") { 0o755 } else { 0o644 };
        archive.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
        archive.write_all(&content).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn proves_that_a_wheel_comes_from_its_rpms() {
    let dir = tempfile::tempdir().unwrap();
    let (rpms, out) = (split(dir.path()), dir.path().join("out"));
    let wheel = made(&rpms, &out);
    let proofs = verified(&rpms, &out);
    let [proof] = &proofs[..] else { panic!("{proofs:?}") };
    assert_eq!(proof.differences, []);
    // The module, the header and upstream's SBOM.
    assert_eq!((proof.identical, proof.identical_bytes), (3, 6 + 7 + 27));
    let info = format!("{STEM}.dist-info");
    let made: Vec<_> =
        proof.made.iter().map(|made| (made.member.clone(), made.changes.join("|"))).collect();
    let nothing = |name: &str| (format!("{info}/{name}"), String::new());
    let expected = vec![
        (format!("{STEM}.data/scripts/demo-extra"), "-#!/usr/bin/python3 -sP|+#!python".into()),
        (format!("{info}/METADATA"), "-Version: 1.0|+Version: 1.0+rocm7.14.gfx1151".into()),
        (format!("{info}/WHEEL"), "+Generator: rocmrpm (0.1.0)|+Root-Is-Purelib: true".into()),
        nothing("rocmrpm.json"),
        nothing("sboms/rocmrpm.cdx.json"),
        nothing("RECORD"),
    ];
    similar_asserts::assert_eq!(made, expected);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1, "something was written");

    // Different compression or member order is not a difference.
    alter(&wheel.path, |members| members.reverse());
    assert_eq!(verified(&rpms, &out)[0].differences, []);
}

#[test]
fn reports_every_difference_with_both_digests() {
    let dir = tempfile::tempdir().unwrap();
    let (rpms, out) = (split(dir.path()), dir.path().join("out"));
    let wheel = made(&rpms, &out);
    let whole = std::fs::read(&wheel.path).unwrap();
    let at = |members: &[(String, Vec<u8>)], end: &str| {
        members.iter().position(|(name, _)| name.ends_with(end)).unwrap()
    };
    type Change<'a> = &'a dyn Fn(&mut Vec<(String, Vec<u8>)>);
    let edit = |end: &'static str, new: &'static str| {
        move |members: &mut Vec<(String, Vec<u8>)>| {
            let at = at(members, end);
            members[at].1 = new.into();
        }
    };
    let module = Some(Sha256::of_bytes("x = 1\n"));
    let (longer, short) = (edit("__init__.py", "x = 1\nx = 2\n"), edit("__init__.py", "x"));
    let (version, list) =
        (edit("METADATA", "Name: demo-tool\nVersion: 9\n"), edit("/RECORD", "a,,\n"));
    let sbom = edit("rocmrpm.cdx.json", "{}");
    type Case<'a> = (&'a str, &'a str, Option<Option<Sha256>>, Option<Option<Sha256>>, Change<'a>);
    let cases: [Case<'_>; 9] = [
        (
            "__init__.py",
            "it differs from",
            Some(module),
            Some(Some(Sha256::of_bytes("x = 1\nx = 2\n"))),
            &longer,
        ),
        ("__init__.py", "it differs from", Some(module), Some(Some(Sha256::of_bytes("x"))), &short),
        ("METADATA", "differs from what rocmrpm makes", None, None, &version),
        (
            "rocmrpm.cdx.json",
            "differs from what rocmrpm makes",
            None,
            Some(Some(Sha256::of_bytes("{}"))),
            &sbom,
        ),
        ("RECORD", "its line for `a` does not", Some(None), None, &list),
        ("__init__.py", "it is missing", Some(module), Some(None), &|members| {
            let at = at(members, "__init__.py");
            members.remove(at);
        }),
        ("RECORD", "it is missing", Some(None), Some(None), &|members| {
            let at = at(members, "/RECORD");
            members.remove(at);
        }),
        (
            "evil.pth",
            "no file in the RPMs",
            Some(None),
            Some(Some(Sha256::of_bytes("import os"))),
            &|members| {
                members.push(("evil.pth".into(), b"import os".to_vec()));
            },
        ),
        ("RECORD", "has no line for", Some(None), None, &|members| {
            let at = at(members, "/RECORD");
            let text = String::from_utf8(members[at].1.clone()).unwrap();
            members[at].1 = text
                .lines()
                .skip(1)
                .map(|line| format!("{line}\n"))
                .collect::<String>()
                .into_bytes();
        }),
    ];
    for (member, what, expected, found, change) in cases {
        std::fs::write(&wheel.path, &whole).unwrap();
        alter(&wheel.path, change);
        let proofs = verified(&rpms, &out);
        let [difference] = &proofs[0].differences[..] else { panic!("{what}: {proofs:#?}") };
        assert!(difference.member.as_deref().unwrap().ends_with(member), "{difference:?}");
        assert!(difference.what.contains(what), "{difference:?}");
        if let Some(expected) = expected {
            assert_eq!(difference.expected, expected, "{difference:?}");
        }
        if let Some(found) = found {
            assert_eq!(difference.found, found, "{difference:?}");
        }
        assert!(
            difference.expected.is_some() || difference.found.is_some() || what == "it is missing"
        );
    }
    let differ = |what: &str| {
        let proofs = verified(&rpms, &out);
        let all: Vec<_> = proofs.iter().flat_map(|proof| &proof.differences).collect();
        assert!(all.len() == 1 && all[0].what.contains(what), "{what}: {proofs:#?}");
    };
    std::fs::write(&wheel.path, &whole[..whole.len() - 1]).unwrap();
    differ("not a zip archive");
    std::fs::write(&wheel.path, [&whole[..], b"more"].concat()).unwrap();
    differ("after its central directory");
    std::fs::remove_file(&wheel.path).unwrap();
    differ("the wheel is missing");
    std::fs::write(&wheel.path, &whole).unwrap();
    std::fs::write(out.join("other-1.0-py3-none-any.whl"), "x").unwrap();
    differ("no RPM of the component makes this wheel");
}
