//! rocmrpm: version pins in, inspected RPMs, wheels, a pip index and a container
//! file out, for the ROCm stack on AMD GPUs. `docs/architecture.md` has the map.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audit;
pub mod build;
pub mod cli;
pub mod closure;
pub mod container;
pub mod copr;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod git;
pub mod index;
pub mod lint;
pub mod osv;
pub mod outputs;
pub mod packages;
pub mod patches;
pub mod pins;
pub mod prep;
pub mod proof;
pub mod publication;
pub mod report;
pub mod reproduce;
pub mod requirements;
pub mod sources;
pub mod spec;
pub mod stack;
pub mod template;
mod uv;
pub mod verify;
pub mod workspace;

pub use python_packaging::wheel;
pub use rocm_inspect as inspect;
pub use rocmrpm_base::{digest, duration, error, events, files, gpu, machine, names, process, text, trust};
use rocmrpm_base::{ownership, parallel};
pub use rocmrpm_rpms as rpms;
