//! A build as COPR describes it. Does not query COPR.

use serde::Deserialize;

/// The state of a build. Source: COPR, common/copr_common/enums.py, `StatusEnum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BuildState {
    /// Built.
    Succeeded,
    /// Failed.
    Failed,
    /// Canceled.
    Canceled,
    /// Skipped because the spec excludes the chroot's architecture.
    Skipped,
    /// Copied from another project.
    Forked,
    /// Waits for another batch.
    Waiting,
    /// COPR is importing its source.
    Importing,
    /// Waits for a builder.
    Pending,
    /// A builder is starting it.
    Starting,
    /// Running.
    Running,
    /// A state that rocmrpm does not know.
    #[serde(other)]
    Unknown,
}

impl BuildState {
    /// Parses the word that copr-cli prints.
    pub fn parse(word: &str) -> Self {
        serde_json::from_value(serde_json::Value::from(word)).unwrap_or(Self::Unknown)
    }

    /// Returns whether the build is finished.
    pub fn is_over(self) -> bool {
        self.is_good() || matches!(self, Self::Failed | Self::Canceled | Self::Skipped)
    }

    /// Returns whether it has packages.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Succeeded | Self::Forked)
    }

    /// Returns COPR's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Skipped => "skipped",
            Self::Forked => "forked",
            Self::Waiting => "waiting",
            Self::Importing => "importing",
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Unknown => "unknown",
        }
    }
}

/// One build of a project.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Build {
    /// Its number; later builds have higher numbers.
    pub id: u64,
    /// Its state.
    pub state: BuildState,
    /// The COPR chroots that it is for.
    #[serde(default)]
    pub chroots: Vec<String>,
    /// The source package.
    #[serde(default)]
    pub source_package: SourcePackage,
}

/// The source package of a build, once COPR has read the SRPM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct SourcePackage {
    /// The package's name.
    #[serde(default)]
    pub name: Option<String>,
    /// Its version and release, with the epoch if it has one.
    #[serde(default)]
    pub version: Option<String>,
}

impl Build {
    /// Returns whether this is a build of the package.
    pub fn is_called(&self, package: &str) -> bool {
        self.source_package.name.as_deref() == Some(package)
    }

    /// Returns the version and release, with the epoch if there is one; empty if COPR does not know
    /// them yet.
    pub fn version(&self) -> &str {
        self.source_package.version.as_deref().unwrap_or_default()
    }

    /// Returns whether the build has this version and release. COPR usually omits the dist tag,
    /// because one build may be for several releases (rpmbuild/copr_rpmbuild: `dist` is nil there).
    pub fn is_of(&self, version_release: &str, dist: &str) -> bool {
        let version = self.version().split_once(':').map_or(self.version(), |(_, rest)| rest);
        version == version_release || Some(version) == version_release.strip_suffix(dist)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_states_and_treats_unknown_ones_as_unfinished() {
        assert_eq!(BuildState::parse("succeeded"), BuildState::Succeeded);
        assert_eq!(BuildState::parse("something new"), BuildState::Unknown);
        assert!(
            !BuildState::Unknown.is_over()
                && BuildState::Canceled.is_over()
                && !BuildState::Canceled.is_good()
        );
    }

    #[test]
    fn matches_builds_by_version_and_release() {
        let json = r#"{"id": 7, "state": "running", "chroots": [], "extra": 1,
                       "source_package": {"name": "k", "version": "1:2-3", "url": null}}"#;
        let build: Build = serde_json::from_str(json).unwrap();
        assert!(
            build.is_of("2-3.fc43", ".fc43")
                && build.is_of("2-3", "")
                && !build.is_of("2-4.fc43", ".fc43")
        );
    }
}
