//! Reads back the report of an earlier inspection: only the parts that a later one is compared
//! with.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::facts::Storage;
use super::finding::Depth;
use super::report::SCHEMA;

/// The fields of a serialized report that are read back.
#[derive(Deserialize)]
struct Earlier {
    schema: String,
    depth: String,
    subjects: Vec<EarlierSubject>,
}

#[derive(Deserialize)]
struct EarlierSubject {
    debug: bool,
    device: Vec<EarlierCode>,
}

#[derive(Deserialize)]
struct EarlierCode {
    target: String,
    storage: String,
    kernels: Option<u64>,
}

/// Returns the number of kernels per target in an earlier report, by the target's text. Empty if it
/// is not a report of this format, or if its kernels were not counted.
pub fn kernels_in(json: &[u8]) -> BTreeMap<String, u64> {
    let mut kernels = BTreeMap::new();
    let Ok(Earlier { schema, depth, subjects }) = serde_json::from_slice(json) else {
        return kernels;
    };
    if schema != SCHEMA || depth != Depth::Deep.to_string() {
        return kernels;
    }
    let no_code = [Storage::DataFile, Storage::Embedded].map(|storage| storage.to_string());
    let codes =
        subjects.into_iter().filter(|subject| !subject.debug).flat_map(|subject| subject.device);
    for code in codes.filter(|code| !no_code.contains(&code.storage)) {
        if let Some(count) = code.kernels {
            let sum: &mut u64 = kernels.entry(code.target).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{DeviceCode, FileFacts, Subject};
    use crate::finding::Judgement;
    use crate::report::Report;
    use crate::testing::{device_code, gpu, subject};

    fn with(name: &str, codes: &[(&str, Storage, Option<u64>)]) -> Subject {
        let device = codes.iter().map(|(target, storage, kernels)| DeviceCode {
            storage: *storage,
            version: Some(5),
            kernels: *kernels,
            ..device_code(gpu(target))
        });
        subject(
            name,
            vec![FileFacts {
                path: "/usr/k.so".into(),
                device: device.collect(),
                ..FileFacts::default()
            }],
        )
    }

    fn json(depth: Depth) -> Vec<u8> {
        let judgement = Judgement {
            gpu_targets: Vec::new(),
            system: String::new(),
            findings: Vec::new(),
            waived: Vec::new(),
        };
        let subjects = vec![
            with(
                "a.rpm",
                &[
                    ("gfx1151", Storage::HipFatbin, Some(40)),
                    ("gfx1100", Storage::Embedded, Some(9)),
                ],
            ),
            with(
                "b.rpm",
                &[("gfx1151", Storage::CodeObject, Some(2)), ("gfx1201", Storage::Kpack, None)],
            ),
            with("a-debuginfo.rpm", &[("gfx1151", Storage::HipFatbin, Some(40))]),
        ];
        serde_json::to_vec(&Report::new(depth, subjects, Vec::new(), judgement)).unwrap()
    }

    #[test]
    fn sums_serving_kernels_by_target() {
        assert_eq!(kernels_in(&json(Depth::Deep)), BTreeMap::from([("gfx1151".to_owned(), 42)]));
    }

    #[test]
    fn ignores_uncounted_reports_and_other_formats() {
        assert_eq!(kernels_in(&json(Depth::Quick)), BTreeMap::new());
        let deep = String::from_utf8(json(Depth::Deep)).unwrap();
        let older = deep.replace(SCHEMA, "rocmrpm/inspection/1");
        assert_eq!(kernels_in(older.as_bytes()), BTreeMap::new());
        for end in 0..deep.len() {
            assert_eq!(kernels_in(&deep.as_bytes()[..end]), BTreeMap::new());
        }
        let huge = deep
            .replace(":40,", ":18446744073709551615,")
            .replace(":40}", ":18446744073709551615}");
        assert_eq!(kernels_in(huge.as_bytes()).get("gfx1151"), Some(&u64::MAX));
    }
}
