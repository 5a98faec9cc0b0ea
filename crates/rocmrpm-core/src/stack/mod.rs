//! The stack: the components of a workspace in the order in which they must be
//! built, what is stale and why, and the build keys that decide it. Building is
//! `build`'s business.

mod graph;
mod key;
mod plan;

pub use graph::{Stack, StackError};
pub use key::KeyInputs;
pub use plan::{Earlier, Inputs, Plan, REQUIRED, Recorded, Step, Verdict};
