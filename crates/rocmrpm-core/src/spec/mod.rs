//! Specs: the template of a component rendered with its pin, targets, chroot and
//! history. The same inputs give the same bytes; nothing is fetched or built.

mod exclude;
mod history;
mod render;
mod scope;
pub mod sections;

pub use exclude::requires_pattern;
pub use history::{Commits, History, Release, commits_of};
pub use render::{Rendered, SpecError, TARGET_VARIABLES, edit_text, render, rocm_version};
