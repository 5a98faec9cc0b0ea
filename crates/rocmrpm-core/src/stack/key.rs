//! Calculates build keys: digests of everything that can affect the result of a build. It keeps the
//! inputs so that a plan can report which ones changed. It does not collect inputs.

use std::collections::BTreeMap;

use crate::digest::Sha256;

/// The inputs of a build by name, each as text or digest. Their order does not matter. A plan shows
/// the names.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct KeyInputs(BTreeMap<String, String>);

impl KeyInputs {
    /// Adds an input, or replaces the one of the same name.
    pub fn add(&mut self, name: impl Into<String>, value: impl ToString) {
        self.0.insert(name.into(), value.to_string());
    }

    /// Returns the value of an input.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns all names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the key: the digest of all names and values, each preceded by its length to make the
    /// encoding unambiguous.
    pub fn key(&self) -> Sha256 {
        let mut bytes = b"rocmrpm build key 1\n".to_vec();
        for (name, value) in &self.0 {
            for part in [name, value] {
                bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                bytes.extend_from_slice(part.as_bytes());
            }
        }
        Sha256::of_bytes(bytes)
    }

    /// Returns the names of the inputs that differ, sorted.
    pub fn changed_since(&self, old: &KeyInputs) -> Vec<String> {
        let mut names: Vec<&String> = self.0.keys().chain(old.0.keys()).collect();
        names.sort();
        names.dedup();
        names.into_iter().filter(|name| self.0.get(*name) != old.0.get(*name)).cloned().collect()
    }

    /// Returns the names of inputs that `others` lacks or has with another value.
    pub fn others_in(&self, others: &KeyInputs) -> Vec<String> {
        let differ = self.0.iter().filter(|(name, value)| others.0.get(*name) != Some(*value));
        differ.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(pairs: &[(&str, &str)]) -> KeyInputs {
        let mut inputs = KeyInputs::default();
        pairs.iter().for_each(|(name, value)| inputs.add(*name, value));
        inputs
    }

    #[test]
    fn key_covers_every_input_unambiguously() {
        let a = inputs(&[("spec", "x"), ("source", "y")]);
        assert_eq!(a.key(), inputs(&[("source", "y"), ("spec", "x")]).key());
        assert_ne!(a.key(), inputs(&[("spec", "x"), ("source", "z")]).key());
        assert_ne!(inputs(&[("a", "bc")]).key(), inputs(&[("ab", "c")]).key());
    }

    #[test]
    fn names_changed_inputs() {
        let old = inputs(&[("spec", "x"), ("patch a", "1")]);
        let new = inputs(&[("spec", "y"), ("patch b", "1")]);
        assert_eq!(new.changed_since(&old), ["patch a", "patch b", "spec"]);
        assert_eq!(new.others_in(&old), ["patch b", "spec"]);
        assert_eq!(new.others_in(&new), [""; 0]);
    }

    #[test]
    fn finds_inputs_by_name() {
        let inputs = inputs(&[("spec", "x"), ("source", "y")]);
        assert_eq!((inputs.get("spec"), inputs.get("patch")), (Some("x"), None));
    }

    /// A PyTorch build takes days and must be repeated if its key changes.
    #[test]
    fn key_and_serialized_inputs_are_stable() {
        let inputs = inputs(&[("spec", "x"), ("GPU targets", "gfx1151")]);
        assert_eq!(
            inputs.key().to_string(),
            "64afdf9469a5c9d112eb3a05f0a0f85025601a5994ea6bc556ba1344d4ecbb0e"
        );
        assert_eq!(
            serde_json::to_string(&inputs).unwrap(),
            r#"{"GPU targets":"gfx1151","spec":"x"}"#
        );
    }
}
