//! The stages from a pin to an image, in order. Running them is up to `run`.

use std::fmt;

/// The last stage to run; it includes all stages before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Sources fetched and verified.
    Sources,
    /// Specs rendered.
    Spec,
    /// SRPMs made.
    Srpm,
    /// RPMs built, inspected and put into the repository.
    Rpm,
    /// Wheels made from the RPMs.
    Wheel,
    /// The pip index written.
    Index,
    /// The container file rendered.
    Container,
}

impl Stage {
    /// All stages in order.
    pub const ALL: &[Stage] = &[
        Stage::Sources,
        Stage::Spec,
        Stage::Srpm,
        Stage::Rpm,
        Stage::Wheel,
        Stage::Index,
        Stage::Container,
    ];

    /// Returns the stage's name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Sources => "sources",
            Stage::Spec => "spec",
            Stage::Srpm => "srpm",
            Stage::Rpm => "rpm",
            Stage::Wheel => "wheel",
            Stage::Index => "index",
            Stage::Container => "container",
        }
    }

    /// Parses the name of a stage.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|stage| stage.name() == name)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
