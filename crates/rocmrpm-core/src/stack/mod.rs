//! Orders a workspace's components, determines which are stale and why, and calculates build keys.
//! It does not build; `build` does.

mod graph;
mod key;
mod plan;

pub use graph::{Stack, StackError};
pub use key::KeyInputs;
pub use plan::{Earlier, Inputs, Plan, PlannedComponent, REQUIRED, Recorded, SPEC, Verdict};
