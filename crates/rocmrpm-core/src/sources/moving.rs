//! Which pins that follow a branch move to its newest commit.

/// Which branches move to their newest commit. The others stay at the commit in the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Moving<'m> {
    /// No branch.
    #[default]
    Nothing,
    /// All branches.
    All,
    /// The branch of this component.
    Only(&'m str),
}

impl Moving<'_> {
    /// Returns whether the branch of this component moves.
    pub(super) fn includes(self, component: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Only(name) => name == component,
        }
    }
}
