//! Records what a component's wheels were built from and inspected with. It does not build wheels.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::build::FileRecord;
use crate::document::Document;
use crate::files;
use crate::stack::KeyInputs;
use crate::wheel::Pins;

/// The schema ID of the note.
const SCHEMA: &str = "rocmrpm/wheels/2";

const FILE: &str = "wheels.json";

/// `wheels.json`: the wheels of one component, and their inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct WheelsNote {
    schema: String,
    /// The inputs of the wheels, except other components.
    pub made_from: KeyInputs,
    /// The distributions that they require, each with the version of the stack that it was
    /// pinned to, if the stack had it.
    pub requires: BTreeMap<String, Option<String>>,
    /// The inputs of the inspection.
    pub judged_by: KeyInputs,
    /// The wheels.
    pub wheels: Vec<FileRecord>,
}

impl Document for WheelsNote {
    const SCHEMA: &'static str = SCHEMA;
}

impl WheelsNote {
    pub fn new(
        made_from: KeyInputs,
        requires: BTreeMap<String, Option<String>>,
        judged_by: KeyInputs,
        wheels: Vec<FileRecord>,
    ) -> Self {
        Self { schema: SCHEMA.to_owned(), made_from, requires, judged_by, wheels }
    }

    /// Reads the note in a folder, if it is valid and has our schema.
    pub fn read(dir: &Path) -> Option<Self> {
        let note: Self = serde_json::from_slice(&fs_err::read(dir.join(FILE)).ok()?).ok()?;
        (note.schema == SCHEMA).then_some(note)
    }

    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        files::write_atomically(&dir.join(FILE), json)
    }

    /// Returns the reasons to rebuild the wheels in a folder; empty if they are up to date. Checks
    /// only presence and size of files.
    pub fn reasons_to_make(&self, now: &KeyInputs, pins: &Pins, dir: &Path) -> Vec<String> {
        let mut reasons: Vec<String> = now
            .changed_since(&self.made_from)
            .iter()
            .map(|name| format!("{name} changed"))
            .collect();
        for (name, pinned) in &self.requires {
            let version = pins.get(name).map(ToString::to_string);
            if version != *pinned {
                let version = version.unwrap_or_else(|| "no longer part of the stack".to_owned());
                reasons.push(format!("required {name} is {version}"));
            }
        }
        for wheel in &self.wheels {
            let metadata = fs_err::metadata(dir.join(&wheel.file));
            if !metadata.is_ok_and(|metadata| metadata.len() == wheel.size) {
                reasons.push(format!("{} is missing or changed on disk", wheel.file));
            }
        }
        reasons
    }

    /// Returns the wheels whose content has changed, even if the size is the same.
    pub fn damaged(&self, dir: &Path) -> std::io::Result<Vec<&str>> {
        let mut damaged = Vec::new();
        for wheel in &self.wheels {
            if FileRecord::of(&dir.join(&wheel.file))? != *wheel {
                damaged.push(wheel.file.as_str());
            }
        }
        Ok(damaged)
    }
}

/// Returns the version that each distribution's requirement is pinned to.
pub(super) fn pinned(
    names: impl IntoIterator<Item = String>,
    pins: &Pins,
) -> BTreeMap<String, Option<String>> {
    let version = |name: &str| pins.get(name).map(ToString::to_string);
    names.into_iter().map(|name| (name.clone(), version(&name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::str::FromStr;

    use pep440_rs::Version;

    fn inputs(value: &str) -> KeyInputs {
        let mut inputs = KeyInputs::default();
        inputs.add("packages", value);
        inputs
    }

    #[test]
    fn only_changed_inputs_make_wheels_stale() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.whl");
        fs_err::write(&file, "wheel").unwrap();
        let pins = |list: &[(&str, &str)]| -> Pins {
            list.iter()
                .map(|(name, version)| ((*name).to_owned(), Version::from_str(version).unwrap()))
                .collect()
        };
        let then = pins(&[("torch", "2.0+a.1"), ("other", "1")]);
        let required = pinned(["torch".to_owned(), "triton".to_owned()], &then);
        let note = WheelsNote::new(
            inputs("1"),
            required,
            inputs("x"),
            vec![FileRecord::of(&file).unwrap()],
        );
        note.write(dir.path()).unwrap();
        assert_eq!(WheelsNote::read(dir.path()), Some(note.clone()));
        let reasons = |now: &str, list: &[(&str, &str)]| {
            note.reasons_to_make(&inputs(now), &pins(list), dir.path())
        };
        assert_eq!(
            reasons("1", &[("torch", "2.0+a.1"), ("other", "2"), ("new", "1")]),
            Vec::<String>::new()
        );
        assert_eq!(reasons("2", &[("torch", "2.0+a.1")]), ["packages changed"]);
        assert_eq!(reasons("1", &[("torch", "2.0+a.2")]), ["required torch is 2.0+a.2"]);
        assert_eq!(reasons("1", &[]), ["required torch is no longer part of the stack"]);
        assert_eq!(
            reasons("1", &[("torch", "2.0+a.1"), ("triton", "3")]),
            ["required triton is 3"]
        );
        assert_eq!(note.damaged(dir.path()).unwrap(), [""; 0]);
        fs_err::write(&file, "whee1").unwrap();
        assert_eq!(reasons("1", &[("torch", "2.0+a.1")]), [""; 0], "the size is the same");
        assert_eq!(note.damaged(dir.path()).unwrap(), ["a.whl"]);
        fs_err::write(&file, "another").unwrap();
        assert_eq!(reasons("1", &[("torch", "2.0+a.1")]), ["a.whl is missing or changed on disk"]);
    }

    #[test]
    fn note_format_is_pinned() {
        let requires =
            BTreeMap::from([("torch".to_owned(), Some("2".to_owned())), ("x".to_owned(), None)]);
        let note =
            WheelsNote::new(KeyInputs::default(), requires, KeyInputs::default(), Vec::new());
        assert_eq!(
            serde_json::to_string(&note).unwrap(),
            r#"{"schema":"rocmrpm/wheels/2","made_from":{},"requires":{"torch":"2","x":null},"judged_by":{},"wheels":[]}"#
        );
    }
}
