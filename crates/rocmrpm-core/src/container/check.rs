//! Checks by its labels whether an image matches the pins. Does not look inside the image.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{labels, wanted_labels};
use crate::error::{Error, Kind};
use crate::stack::Stack;
use crate::text::visible;
use crate::workspace::Flavour;

/// A label that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The label.
    pub label: String,
    /// Its value in the image; null if the image has no such label.
    pub image: Option<String>,
    /// What the workspace says; null if it has no such component.
    pub workspace: Option<String>,
}

/// Returns the flavor that an image's label names.
pub fn flavour(found: &BTreeMap<String, String>, image: &str) -> Result<Flavour, Error> {
    let name = found.get(labels::FLAVOUR);
    name.and_then(|name| Flavour::parse(name)).ok_or_else(|| {
        let message = format!("`{}` is not an image of rocmrpm's", visible(image));
        Error::new(Kind::Findings, message)
            .with_help(format!("it has no label `{}` with a known flavour", labels::FLAVOUR))
    })
}

/// Compares an image's labels with those that it would get now. Ignores labels that rocmrpm does
/// not set.
pub fn check(
    stack: &Stack<'_>,
    found: &BTreeMap<String, String>,
    image: &str,
) -> Result<(Flavour, Vec<Difference>), Error> {
    let flavour = flavour(found, image)?;
    Ok((flavour, compare(found, &wanted_labels(stack, flavour)?)))
}

fn compare(found: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> Vec<Difference> {
    let mut differences: Vec<Difference> = wanted
        .iter()
        .filter(|(label, value)| found.get(*label) != Some(value))
        .map(|(label, value)| Difference {
            label: label.clone(),
            image: found.get(label).cloned(),
            workspace: Some(value.clone()),
        })
        .collect();
    let gone =
        found.iter().filter(|(label, _)| labels::is_of_component(label) && !wanted.contains_key(*label));
    differences.extend(gone.map(|(label, value)| Difference {
        label: label.clone(),
        image: Some(value.clone()),
        workspace: None,
    }));
    differences.sort_by(|a, b| a.label.cmp(&b.label));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_compared_both_ways() {
        let labels = |list: &[(&str, &str)]| {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let found = labels(&[("a", "1"), ("io.rocmrpm.component.old.version", "1"), ("of.others", "x")]);
        let wanted = labels(&[("a", "2"), ("b", "1")]);
        let found = compare(&found, &wanted);
        let seen: Vec<_> =
            found.iter().map(|d| (d.label.as_str(), d.image.as_deref(), d.workspace.as_deref())).collect();
        assert_eq!(
            seen,
            [
                ("a", Some("1"), Some("2")),
                ("b", None, Some("1")),
                ("io.rocmrpm.component.old.version", Some("1"), None)
            ]
        );
    }
}
