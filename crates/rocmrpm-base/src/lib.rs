//! What all crates of rocmrpm share: errors and their exit codes, child processes, files written in
//! one step, digests, names, GPU targets. It knows neither RPMs nor wheels nor workspaces, and it
//! writes nothing to the terminal.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod canonical;
pub mod digest;
pub mod document;
pub mod duration;
pub mod error;
pub mod events;
pub mod files;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod fuzzing;
pub mod gpu;
pub mod html;
pub mod limits;
pub mod machine;
pub mod names;
pub mod ownership;
pub mod parallel;
pub mod process;
mod stop;
pub mod style;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod trust;
