//! Shared by all crates of rocmrpm: errors and their exit codes, child processes, atomic file
//! writes, digests, names, GPU targets. It does not know RPMs, wheels, or workspaces, and it does
//! not write to the terminal.

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
pub mod gpu_families;
pub mod gpu_machine;
pub mod html;
pub mod limits;
pub mod machine;
pub mod names;
pub mod ownership;
pub mod parallel;
pub mod process;
pub mod severity;
mod stop;
pub mod style;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod trust;
