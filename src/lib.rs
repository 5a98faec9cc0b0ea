//! rocmrpm: version pins in, inspected RPMs, wheels, a pip index and a container
//! file out, for the ROCm stack on AMD GPUs. `docs/architecture.md` has the map.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audit;
pub mod build;
pub mod cli;
pub mod closure;
pub mod container;
pub mod copr;
pub mod digest;
pub mod duration;
pub mod error;
pub mod events;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod git;
pub mod gpu;
pub mod index;
pub mod inspect;
pub mod lint;
pub mod machine;
pub mod names;
pub mod osv;
pub mod outputs;
mod ownership;
pub mod packages;
mod parallel;
pub mod patches;
pub mod pins;
pub mod prep;
pub mod process;
pub mod proof;
pub mod publication;
pub mod report;
pub mod reproduce;
pub mod requirements;
pub mod rpms;
pub mod sources;
pub mod spec;
pub mod stack;
pub mod template;
pub mod text;
pub mod trust;
mod uv;
pub mod verify;
pub mod wheel;
pub mod workspace;
