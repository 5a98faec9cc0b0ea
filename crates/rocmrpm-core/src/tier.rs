//! Tiers: how much is proved about the packages of a component.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is proved about a component's packages. Each tier includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The spec was rendered.
    Rendered,
    /// `%prep` succeeded, with all patches and edits.
    Prepared,
    /// The packages were built.
    Built,
    /// The packages passed the inspection of their files.
    Inspected,
    /// The packages were installed, and each of their modules was imported.
    Installed,
    /// A program of the packages computed on a GPU of a target that they were built for.
    Ran,
}

impl Tier {
    /// All tiers, lowest first.
    pub const ALL: [Self; 6] =
        [Self::Rendered, Self::Prepared, Self::Built, Self::Inspected, Self::Installed, Self::Ran];

    /// Returns the name of the tier in files, options, and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rendered => "rendered",
            Self::Prepared => "prepared",
            Self::Built => "built",
            Self::Inspected => "inspected",
            Self::Installed => "installed",
            Self::Ran => "ran",
        }
    }

    /// Returns the tier with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_ordered_and_named() {
        assert!(Tier::ALL.is_sorted());
        for tier in Tier::ALL {
            assert_eq!(Tier::parse(tier.name()), Some(tier));
            assert_eq!(serde_json::to_value(tier).unwrap(), tier.name());
        }
        assert_eq!(Tier::parse("Built"), None);
    }
}
