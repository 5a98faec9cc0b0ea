//! Renders a component's template with its pin, targets, chroot and history into a spec. The output
//! is deterministic. It does not fetch or build anything.

mod dist_git;
mod exclude;
mod history;
mod pinned;
mod render;
mod scope;
pub mod sections;

pub use dist_git::{PatchNote, render_dist_git};
pub use exclude::requires_pattern;
pub use history::{Commits, History, Release, commits_of};
pub use render::{Rendered, SpecError, TARGET_VARIABLES, edit_text, render, rocm_version};
