//! The core of rocmrpm: workspaces and their pins, sources and specs, builds in dependency order, the
//! Python closure, pip indexes, COPR, and checks that the results can be installed. The program's
//! commands are thin calls into it. It neither parses the command line nor writes to the terminal:
//! it reports progress as [`events`] and failures as [`error::Error`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audit;
pub mod build;
pub mod closure;
pub mod container;
pub mod copr;
pub mod delivery;
pub mod dist_git;
pub mod draft;
pub mod evidence;
pub mod foreign;
mod git;
pub mod license;
pub mod lint;
mod lint_rules;
mod macros;
pub mod osv;
pub mod outputs;
pub mod packages;
pub mod patches;
pub mod pins;
pub mod pipeline;
pub mod prep;
pub mod production;
pub mod proof;
pub mod publication;
pub mod publishing;
mod range;
pub mod removal;
pub mod rendered;
pub mod reproduce;
pub mod requirements;
pub mod rpm_version;
pub mod sources;
pub mod spec;
pub mod stack;
pub mod template;
pub mod tier;
mod uv;
pub mod verify;
pub mod watch;
pub mod workspace;

// Short names for the crates below, as if they were modules of this one.
pub use pip_index as index;
use python_packaging::wheel;
use rocm_inspect as inspect;
use rocmrpm_base::{
    canonical, digest, document, duration, error, events, files, gpu, gpu_families, gpu_machine,
    html, limits, machine, names, ownership, parallel, process, style, text, trust,
};
use rocmrpm_rpms as rpms;

/// Returns the JSON Schemas of the documents of this crate and the crates below it.
#[cfg(feature = "schema")]
pub fn documents() -> Vec<serde_json::Value> {
    use document::schema_of;
    let mut all = index::documents();
    all.extend(build::documents());
    all.extend(copr::documents());
    all.extend(evidence::documents());
    all.extend(outputs::documents());
    all.extend([
        schema_of::<patches::GitPrep>(),
        schema_of::<patches::PatchSave>(),
        schema_of::<pins::Update>(),
        schema_of::<prep::Record>(),
        schema_of::<publication::RepositoryState>(),
        schema_of::<reproduce::Reproduction>(),
    ]);
    all
}
