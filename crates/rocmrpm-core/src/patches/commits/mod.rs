//! Shows a component's sources, patches, and edits as commits of a git repository, and saves what a
//! developer changed there as patches.

mod checkout;
mod create;
mod message;
mod names;
mod save;
mod series;

pub use checkout::PatchCommit;
pub use create::{GitPrep, Stopped, prepare_git};
pub use save::{PatchChange, PatchSave, SavedPatch, save};
