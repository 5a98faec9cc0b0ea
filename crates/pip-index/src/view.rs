//! The views of an index: the folders of their pages, and the URLs from pages to packages. It does
//! not know the contents of the pages.

use rocmrpm_base::error::{Diagnose, Diagnosis, Kind};
use rocmrpm_base::names::nearest;

/// The channels of a published index, in the order of promotion.
pub const CHANNELS: [&str; 2] = ["testing", "stable"];

/// A set of pages. All views share the packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// `simple/`, in the index of a build.
    Local,
    /// `<channel>/simple/`, in a published index.
    Channel(&'static str),
}

/// The channel does not exist.
#[derive(Debug, thiserror::Error)]
#[error("there is no channel `{channel}`")]
pub struct NoChannel {
    /// The requested channel.
    pub channel: String,
    /// A channel with a similar name.
    pub near: Option<String>,
}

impl Diagnose for NoChannel {
    fn diagnosis(&self) -> Diagnosis {
        Kind::Usage.with_help(match &self.near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("choose one of: {}", CHANNELS.join(", ")),
        })
    }
}

impl View {
    /// Returns the view of a channel, or of the local index if `channel` is `None`.
    pub fn of(channel: Option<&str>) -> Result<Self, NoChannel> {
        let Some(channel) = channel else { return Ok(Self::Local) };
        let known = CHANNELS.into_iter().find(|known| *known == channel).map(Self::Channel);
        known.ok_or_else(|| NoChannel {
            channel: channel.to_owned(),
            near: nearest(channel, CHANNELS.iter().copied()).map(str::to_owned),
        })
    }

    /// Returns the views that share wheels with this one, including itself: all channels, or the
    /// local view.
    pub fn siblings(self) -> Vec<Self> {
        match self {
            Self::Local => vec![Self::Local],
            Self::Channel(_) => CHANNELS.into_iter().map(Self::Channel).collect(),
        }
    }

    /// Returns the folder of the pages, relative to the root of the index.
    pub fn simple(self) -> String {
        match self {
            Self::Local => "simple".into(),
            Self::Channel(channel) => format!("{channel}/simple"),
        }
    }

    /// Returns the path of a distribution's page without its extension.
    pub fn page(self, distribution: &str) -> String {
        format!("{}/{distribution}/index", self.simple())
    }

    /// Returns the path of the root page without its extension.
    pub fn root(self) -> String {
        format!("{}/index", self.simple())
    }

    /// Returns the path of the flat page, which links to every file.
    pub fn links(self) -> String {
        match self {
            Self::Local => "links.html".into(),
            Self::Channel(channel) => format!("{channel}/links.html"),
        }
    }

    /// Returns the relative URL from the flat page to the root of the index.
    pub(super) fn up_from_links(self) -> &'static str {
        match self {
            Self::Local => "",
            Self::Channel(_) => "../",
        }
    }

    /// Returns the relative URL from a distribution's page to the root of the index.
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

/// Returns the path of a wheel, relative to the root of the index.
pub fn package_path(distribution: &str, file: &str) -> String {
    format!("packages/{distribution}/{file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unknown_channels() {
        assert_eq!(View::of(None).unwrap().root(), "simple/index");
        assert_eq!(View::of(Some("stable")).unwrap().page("a"), "stable/simple/a/index");
        let error = View::of(Some("stabel")).unwrap_err();
        assert!(error.to_string().contains("`stabel`"), "{error}");
        assert_eq!(rocmrpm_base::error::Diagnose::help(&error), ["did you mean `stable`?"]);
        let error = View::of(Some("nightly")).unwrap_err();
        assert_eq!(rocmrpm_base::error::Diagnose::help(&error), ["choose one of: testing, stable"]);
    }
}
