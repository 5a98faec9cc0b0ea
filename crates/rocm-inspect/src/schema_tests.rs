//! Tests the published JSON Schema against real documents: it accepts them, rejects others, and has
//! no field that never occurs. The content of the documents is tested elsewhere.

use std::collections::BTreeSet;
use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::facts::{DeviceCode, FileFacts, Storage, Subject, Unread};
use super::finding::Judgement;
use super::sample::sample;
use super::testing::{
    HostElf, Method, aligned, bundle, ccob, code_object, device_code, gpu, subject,
};
use super::{Depth, Expectations, Report, SCHEMA, inspect};
use rocmrpm_base::gpu::GpuTarget;

fn schema() -> Value {
    rocmrpm_base::document::schema_of::<Report>()
}

#[track_caller]
fn assert_valid(document: &Value) {
    let schema = schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert_eq!(errors, [""; 0]);
}

fn value(report: &Report) -> Value {
    serde_json::to_value(report).unwrap()
}

/// A library with one plain and one compressed bundle, one of them damaged.
fn library() -> Vec<u8> {
    let plain = bundle(&[
        ("host-x86_64-unknown-linux-gnu-", &[]),
        ("hipv4-amdgcn-amd-amdhsa--gfx1151", &code_object("gfx1151", 300)),
    ]);
    let mut cut = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx1151", &code_object("gfx1100", 300))]);
    cut.truncate(4200);
    let fatbin = aligned(&[
        plain.clone(),
        ccob(&plain, 3, Method::Zstd),
        ccob(&plain, 2, Method::Zlib),
        cut,
    ]);
    HostElf::new()
        .soname("libk.so.1")
        .needed("libc.so.6")
        .runpath("relative")
        .fatbin(&fatbin)
        .build()
}

/// Inspects a folder with an RPM and a wheel that both contain the library.
fn inspected(depth: Depth) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = rpm::PackageBuilder::new("k", "1.0", "MIT", "x86_64", "a fixture");
    builder.release("1.fc43");
    builder.with_file_contents(library(), rpm::FileOptions::new("/usr/lib64/libk.so.1")).unwrap();
    builder.build().unwrap().write_file(dir.path().join("k.rpm")).unwrap();
    let file = fs_err::File::create(dir.path().join("k-1.0-py3-none-linux_x86_64.whl")).unwrap();
    let mut zip = zip::ZipWriter::new(file);
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("k/libk.so", options).unwrap();
    zip.write_all(&library()).unwrap();
    zip.start_file("k/k.hsaco", options).unwrap();
    zip.write_all(&code_object("gfx90a", 300)).unwrap();
    zip.finish().unwrap();
    let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
    let expectations = Expectations { gpu_targets, device_code: Some(true), ..Default::default() };
    value(&inspect(&[dir.path().to_owned()], &expectations, depth).unwrap())
}

#[test]
fn validates_reports_of_an_rpm_and_a_wheel() {
    for depth in [Depth::Quick, Depth::Deep] {
        let document = inspected(depth);
        assert_eq!(document["subjects"].as_array().unwrap().len(), 2);
        assert!(!document["findings"].as_array().unwrap().is_empty());
        assert_valid(&document);
    }
}

#[test]
fn validates_the_sample_report() {
    let document = value(&sample());
    assert_eq!(document["schema"], SCHEMA);
    assert_valid(&document);
}

/// Collects the JSON pointers of every object in the document.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.push(at.to_owned());
            map.iter().for_each(|(key, value)| {
                objects(
                    value,
                    &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            });
        }
        Value::Array(items) => {
            // Items of an array are similar, so the first few suffice.
            items
                .iter()
                .take(4)
                .enumerate()
                .for_each(|(n, item)| objects(item, &format!("{at}/{n}"), found));
        }
        _ => {}
    }
}

#[test]
fn rejects_unknown_and_missing_fields() {
    let schema = schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let document = value(&sample());
    let mut places = Vec::new();
    objects(&document, "", &mut places);
    // Its keys are library names.
    places.retain(|place| !place.ends_with("/versions_needed"));
    assert!(places.len() > 30);
    for place in places {
        let mut more = document.clone();
        fields(&mut more, &place).insert("surprise".into(), json!(1));
        assert!(!validator.is_valid(&more), "{place}: an extra field");
        let names: Vec<String> =
            document.pointer(&place).unwrap().as_object().unwrap().keys().cloned().collect();
        for name in names {
            let mut less = document.clone();
            fields(&mut less, &place).remove(&name);
            assert!(!validator.is_valid(&less), "{place}: without `{name}`");
        }
    }
}

fn fields<'a>(document: &'a mut Value, place: &str) -> &'a mut Map<String, Value> {
    document.pointer_mut(place).unwrap().as_object_mut().unwrap()
}

#[test]
fn rejects_values_of_another_type() {
    let schema = schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let document = value(&sample());
    let others = [
        ("/schema", json!("rocmrpm/inspection/3")),
        ("/depth", json!("shallow")),
        ("/subjects/0/kind", json!("zip")),
        ("/subjects/0/size", json!(-1)),
        ("/subjects/0/sha256", json!("abc")),
        ("/findings/0/severity", json!("fatal")),
        ("/needs/0/origin", json!("elsewhere")),
        ("/subjects/0/files/0/device/0/storage", json!("nowhere")),
        ("/subjects/0/files/0/device/0/version", json!(7)),
    ];
    for (place, other) in others {
        let mut document = document.clone();
        *document.pointer_mut(place).unwrap() = other;
        assert!(!validator.is_valid(&document), "{place}");
    }
}

/// Records every property of a schema that `value` has, and every variant of an enumeration.
fn visit(root: &Value, schema: &Value, value: &Value, seen: &mut BTreeSet<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let address = |what: &str| format!("{:p} {what}", std::ptr::from_ref(schema));
    if !value.is_null() {
        let either = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        either.into_iter().flatten().for_each(|s| visit(root, s, value, seen));
    }
    if schema["const"] == *value {
        seen.insert(address("const"));
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        // A field that is always null or an empty list does not count as present.
        let there = &value[name];
        if !there.is_null() && there != &json!([]) && there != &json!({}) {
            seen.insert(address(name));
            visit(root, below, there, seen);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        visit(root, &schema["items"], item, seen);
    }
}

/// Collects everything that `visit` should record, with a readable name.
fn all(schema: &Value, at: &str, found: &mut Vec<(String, String)>) {
    let address = |what: &str| format!("{:p} {what}", std::ptr::from_ref(schema));
    if schema["const"].is_string() {
        found.push((address("const"), format!("{at} {}", schema["const"])));
    }
    for either in schema["oneOf"].as_array().into_iter().flatten() {
        all(either, at, found);
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        found.push((address(name), format!("{at}.{name}")));
        all(below, &format!("{at}.{name}"), found);
    }
    for (name, below) in schema["$defs"].as_object().into_iter().flatten() {
        all(below, name, found);
    }
    if schema["items"].is_object() {
        all(&schema["items"], at, found);
    }
}

/// Returns the reports for gfx1151 of a file with code for other targets, of one with bitcode, and
/// of one without code.
fn verdicts() -> Vec<Value> {
    let code = |target, storage, count| DeviceCode { storage, count, ..device_code(gpu(target)) };
    let counted =
        |target, count| DeviceCode { kernels: Some(count), ..code(target, Storage::HipFatbin, 1) };
    let fatbin = |target, count| code(target, Storage::HipFatbin, count);
    let of = |device: Vec<DeviceCode>, unread: &[Unread]| {
        let file = FileFacts { path: "a.so".into(), device, ..FileFacts::default() };
        let subjects = vec![Subject { unread: unread.into(), ..subject("a-1.whl", vec![file]) }];
        let gpu_targets = vec![GpuTarget::parse("gfx1151").unwrap()];
        let judgement =
            Judgement { gpu_targets, system: String::new(), findings: vec![], waived: vec![] };
        value(&Report::new(Depth::Quick, subjects, vec![], judgement))
    };
    let unread =
        Unread { path: "x.7z".into(), archive: true, why: "unsupported archive format".into() };
    let reports = vec![
        of(vec![fatbin("gfx1151", 1)], &[]),
        of(vec![code("gfx11-generic", Storage::Bitcode, 1)], &[]),
        of(vec![counted("gfx1100", 11), counted("gfx1151", 10)], &[]),
        of(vec![fatbin("gfx1100", 11), fatbin("gfx1151", 1)], &[]),
        of(vec![counted("gfx1100", 11), counted("gfx1151", 1)], &[]),
        of(vec![fatbin("gfx1100", 1)], &[]),
        of(vec![], &[unread]),
        of(vec![], &[]),
    ];
    let served: Vec<&Value> =
        reports.iter().map(|report| &report["verdicts"][0]["served"]).collect();
    assert_eq!(
        served,
        ["exactly", "covered", "fewer", "partly", "partly", "no", "unknown", "no-code"]
    );
    reports.iter().for_each(assert_valid);
    reports
}

#[test]
fn uses_every_field_and_variant_of_the_schema() {
    let schema = schema();
    let mut seen = BTreeSet::new();
    for document in [value(&sample()), inspected(Depth::Quick)].into_iter().chain(verdicts()) {
        visit(&schema, &schema, &document, &mut seen);
    }
    let mut expected = Vec::new();
    all(&schema, "report", &mut expected);
    assert!(expected.len() > 100);
    let dead: Vec<&String> =
        expected.iter().filter(|(at, _)| !seen.contains(at)).map(|(_, name)| name).collect();
    // A file that is neither program nor library nor object.
    assert_eq!(dead, ["ElfKind \"other\""], "only kinds that no test creates");
}

#[test]
fn describes_and_requires_every_field() {
    fn check(schema: &Value, at: &str) {
        if let Some(properties) = schema["properties"].as_object() {
            let names: Vec<&str> = properties.keys().map(String::as_str).collect();
            let required: BTreeSet<&str> =
                schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert_eq!(required, names.into_iter().collect(), "{at}");
            assert_eq!(schema["additionalProperties"], json!(false), "{at}");
            for (name, property) in properties {
                assert!(
                    property["description"].as_str().is_some_and(|d| d.len() > 7),
                    "{at}.{name}"
                );
                check(property, name);
            }
        }
        for (name, below) in schema["$defs"].as_object().into_iter().flatten() {
            assert!(below["description"].is_string(), "{name}");
            check(below, name);
        }
    }
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["properties"]["schema"]["const"], SCHEMA);
    check(&schema, "report");
}
