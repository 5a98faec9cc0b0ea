//! Renders a component's template with its pin, targets, chroot and history into a spec. The output
//! is deterministic. It does not fetch or build anything.

mod dist_git;
mod edits;
mod error;
mod escape;
mod exclude;
mod exports;
mod history;
mod pinned;
mod render;
mod scope;
pub mod sections;
mod surroundings;

pub use dist_git::{PatchNote, render_dist_git};
pub use edits::edit_text;
pub use error::SpecError;
pub use exclude::requires_pattern;
pub use exports::TARGET_VARIABLES;
pub use history::{Commits, History, Release, commits_of};
pub use render::{Rendered, render};
pub use surroundings::rocm_version;
