//! A build as COPR describes it. Does not query COPR.

use serde::Deserialize;

/// The state of a build. Source: COPR, common/copr_common/enums.py, `StatusEnum`. COPR first builds
/// the SRPM and then the packages, with the same words; here they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
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
    /// Waits for a builder that reads its SRPM.
    SourcePending,
    /// A builder that reads its SRPM is starting.
    SourceStarting,
    /// A builder is reading its SRPM.
    SourceRunning,
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
    /// Returns the state of a build whose SRPM COPR has not read yet.
    pub(super) fn of_source(self) -> Self {
        match self {
            Self::Pending => Self::SourcePending,
            Self::Starting => Self::SourceStarting,
            Self::Running => Self::SourceRunning,
            other => other,
        }
    }

    /// Returns whether the build is finished.
    pub fn is_over(self) -> bool {
        self.is_good() || matches!(self, Self::Failed | Self::Canceled | Self::Skipped)
    }

    /// Returns whether it has packages.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Succeeded | Self::Forked)
    }

    /// Returns COPR's word for it, with `source-` while COPR reads the SRPM.
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Skipped => "skipped",
            Self::Forked => "forked",
            Self::Waiting => "waiting",
            Self::SourcePending => "source-pending",
            Self::SourceStarting => "source-starting",
            Self::SourceRunning => "source-running",
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
#[serde(from = "BuildAnswer")]
pub struct Build {
    /// Its number; later builds have higher numbers.
    pub id: u64,
    /// Its state.
    pub state: BuildState,
    /// The COPR chroots that it is for.
    pub chroots: Vec<String>,
    /// The source package.
    pub source_package: SourcePackage,
}

/// A build in COPR's answers. Source: COPR, apiv3_builds.py, `to_dict`.
#[derive(Deserialize)]
struct BuildAnswer {
    id: u64,
    state: BuildState,
    #[serde(default)]
    chroots: Vec<String>,
    #[serde(default)]
    source_package: SourcePackage,
}

impl From<BuildAnswer> for Build {
    fn from(answer: BuildAnswer) -> Self {
        let BuildAnswer { id, state, chroots, source_package } = answer;
        // COPR sets the version once it has read the SRPM (builds_logic.py,
        // `update_state_from_dict`). The name may be known before.
        let state = if source_package.version.is_some() { state } else { state.of_source() };
        Self { id, state, chroots, source_package }
    }
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

    fn state(word: &str, version: Option<&str>) -> BuildState {
        let source = serde_json::json!({"name": "k", "version": version});
        let build = serde_json::json!({"id": 7, "state": word, "source_package": source});
        serde_json::from_value::<Build>(build).unwrap().state
    }

    #[test]
    fn treats_unknown_states_as_unfinished() {
        assert_eq!(state("something new", Some("1-1")), BuildState::Unknown);
        assert!(
            !BuildState::Unknown.is_over()
                && BuildState::Canceled.is_over()
                && !BuildState::Canceled.is_good()
        );
    }

    #[test]
    fn each_state_has_its_own_word() {
        // common/copr_common/enums.py, `StatusEnum`
        let words = [
            "failed",
            "succeeded",
            "canceled",
            "running",
            "pending",
            "skipped",
            "starting",
            "importing",
            "forked",
            "waiting",
            "unknown",
        ];
        let mut seen = std::collections::BTreeMap::new();
        for word in words {
            let (source, packages) = (state(word, None), state(word, Some("1-1")));
            assert_eq!(packages.word(), word);
            let steps = matches!(word, "pending" | "starting" | "running");
            let expected = if steps { format!("source-{word}") } else { word.to_owned() };
            assert_eq!(source.word(), expected);
            for state in [source, packages] {
                assert_eq!(serde_json::to_value(state).unwrap(), state.word());
                let same = seen.insert(state.word(), state);
                assert!(same.is_none_or(|same| same == state), "{}", state.word());
            }
        }
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
