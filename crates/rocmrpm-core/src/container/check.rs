//! Checks by its labels whether an image matches the pins. Does not look inside the image.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{labels, wanted_labels};
use crate::error::{Error, Kind};
use crate::stack::Stack;
use crate::text::visible;
use crate::workspace::Flavor;

/// A label that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The label.
    pub label: String,
    /// Its value in the image; null if the image has no such label.
    pub image: Option<String>,
    /// Its value in the workspace; null if it has no such component.
    pub workspace: Option<String>,
}

/// Returns the flavor that an image's label names.
pub fn flavor(found: &BTreeMap<String, String>, image: &str) -> Result<Flavor, Error> {
    let name = found.get(labels::FLAVOR);
    name.map(|name| Flavor::parse(name)).ok_or_else(|| {
        let message = format!("`{}` was not built by rocmrpm", visible(image));
        Error::new(Kind::Findings, message)
            .with_help(format!("use an image that has the label `{}`", labels::FLAVOR))
    })
}

/// Compares an image's labels with those that it would get now. Ignores labels that rocmrpm does
/// not set.
pub fn check(
    stack: &Stack<'_>,
    found: &BTreeMap<String, String>,
    image: &str,
) -> Result<(Flavor, Vec<Difference>), Error> {
    let flavor = flavor(found, image)?;
    let differences = compare(found, &wanted_labels(stack, &flavor)?);
    Ok((flavor, differences))
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
    let gone = found
        .iter()
        .filter(|(label, _)| labels::is_of_component(label) && !wanted.contains_key(*label));
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
    fn compares_labels_in_both_directions() {
        let labels = |list: &[(&str, &str)]| {
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let found =
            labels(&[("a", "1"), ("io.rocmrpm.component.old.version", "1"), ("of.others", "x")]);
        let wanted = labels(&[("a", "2"), ("b", "1")]);
        let found = compare(&found, &wanted);
        let seen: Vec<_> = found
            .iter()
            .map(|d| (d.label.as_str(), d.image.as_deref(), d.workspace.as_deref()))
            .collect();
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
