//! Tests Python: closures, wheels, the pip index, and their use by installers.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod closed_index;
mod closure;
mod closure_build;
mod device_packages;
#[path = "../real_wheels/fetch.rs"]
mod fetch;
mod index_manifest;
mod install_proof;
mod rocm_provider;
mod sdk;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tools.rs"]
mod tools;
mod wheel_index;
