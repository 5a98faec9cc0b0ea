//! The views of an index: where their pages lie, and how their URLs lead to the
//! packages. Not what is on the pages.

use super::IndexError;
use rocmrpm_base::names::nearest;

/// The channels of a published index, in the order in which a wheel passes them.
pub const CHANNELS: [&str; 2] = ["testing", "stable"];

/// One set of pages over the packages that all views share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// `simple/`, of the index that a build makes.
    Local,
    /// `<channel>/simple/`, of a published index.
    Channel(&'static str),
}

impl View {
    /// Returns the view of a channel, or of the local index where none is named.
    pub fn of(channel: Option<&str>) -> Result<Self, IndexError> {
        let Some(channel) = channel else { return Ok(Self::Local) };
        let known = CHANNELS.into_iter().find(|known| *known == channel).map(Self::Channel);
        known.ok_or_else(|| IndexError::NoChannel {
            channel: channel.to_owned(),
            near: nearest(channel, CHANNELS.iter().copied()).map(str::to_owned),
        })
    }

    /// Returns the views that can have what this one has: all channels, or the local one.
    pub fn siblings(self) -> Vec<Self> {
        match self {
            Self::Local => vec![Self::Local],
            Self::Channel(_) => CHANNELS.into_iter().map(Self::Channel).collect(),
        }
    }

    /// Returns the folder of the pages, below the index's root.
    pub fn simple(self) -> String {
        match self {
            Self::Local => "simple".into(),
            Self::Channel(channel) => format!("{channel}/simple"),
        }
    }

    /// Returns the path of a distribution's page without its ending.
    pub fn page(self, distribution: &str) -> String {
        format!("{}/{distribution}/index", self.simple())
    }

    /// Returns the path of the root page without its ending.
    pub fn root(self) -> String {
        format!("{}/index", self.simple())
    }

    /// Returns what leads from a distribution's page to the index's root.
    pub(super) fn up(self) -> &'static str {
        match self {
            Self::Local => "../../",
            Self::Channel(_) => "../../../",
        }
    }
}

impl std::fmt::Display for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("the local index"),
            Self::Channel(channel) => f.write_str(channel),
        }
    }
}

/// Returns the path of a wheel below the index's root.
pub fn package_path(distribution: &str, file: &str) -> String {
    format!("packages/{distribution}/{file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_those_that_exist() {
        assert_eq!(View::of(None).unwrap().root(), "simple/index");
        assert_eq!(View::of(Some("stable")).unwrap().page("a"), "stable/simple/a/index");
        let error = View::of(Some("stabel")).unwrap_err();
        assert!(error.to_string().contains("`stabel`"), "{error}");
        assert_eq!(rocmrpm_base::error::Diagnose::help(&error), ["did you mean `stable`?"]);
        let error = View::of(Some("nightly")).unwrap_err();
        assert_eq!(rocmrpm_base::error::Diagnose::help(&error), ["there is: testing, stable"]);
    }
}
