//! The core of rocmrpm: workspaces and their pins, sources and specs, builds in dependency order, the
//! Python closure, pip indexes, COPR, and the evidence that what was built can be installed. Commands
//! of the program are thin calls into it. It knows no command line and writes nothing to the
//! terminal: it reports progress as [`events`] and mistakes as [`error::Error`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audit;
pub mod build;
pub mod closure;
pub mod container;
pub mod copr;
mod git;
pub mod lint;
mod lint_rules;
mod macros;
pub mod osv;
pub mod outputs;
pub mod packages;
pub mod patches;
pub mod pins;
pub mod prep;
pub mod proof;
pub mod publication;
mod range;
pub mod reproduce;
pub mod requirements;
pub mod sources;
pub mod spec;
pub mod stack;
pub mod template;
mod uv;
pub mod verify;
pub mod workspace;

// What lies below is named as if it were part of this crate.
pub use pip_index as index;
use python_packaging::wheel;
use rocm_inspect as inspect;
use rocmrpm_base::{
    canonical, digest, document, duration, error, events, files, gpu, limits, machine, names, ownership,
    parallel, process, text,
};
use rocmrpm_rpms as rpms;

/// Returns the JSON Schemas of the documents of this crate and of those below it.
#[cfg(feature = "schema")]
pub fn documents() -> Vec<serde_json::Value> {
    use document::schema_of;
    let mut all = index::documents();
    all.extend(build::documents());
    all.extend(copr::documents());
    all.extend(outputs::documents());
    all.extend([
        schema_of::<pins::Update>(),
        schema_of::<prep::Record>(),
        schema_of::<publication::State>(),
        schema_of::<reproduce::Reproduction>(),
    ]);
    all
}
