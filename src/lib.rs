//! rocmrpm: version pins in, inspected RPMs, wheels, a pip index and a container
//! file out, for the ROCm stack on AMD GPUs. This crate has the command line and the
//! terminal output; everything else is in `crates/`. `docs/contributing/architecture.md` has an
//! overview.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cli;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod report;

pub use python_packaging::wheel;
pub use rocm_inspect as inspect;
pub use rocmrpm_base::{
    digest, document, duration, error, events, files, gpu, gpu_families, gpu_machine, html,
    machine, names, process, style, table, text, trust,
};
pub use rocmrpm_core::{
    audit, build, closure, container, copr, delivery, dist_git, draft, evidence, foreign, index,
    lint, osv, outputs, packages, patches, pins, pipeline, prep, production, proof, publication,
    publishing, removal, rendered, reproduce, requirements, rpm_version, sources, spec, stack,
    template, verify, watch, workspace,
};
pub use rocmrpm_rpms as rpms;
