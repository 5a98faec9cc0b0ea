//! Python: closures, wheels, the pip index, and what installers make of them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../common/archive.rs"]
mod archive;
mod closure;
mod closure_build;
#[path = "../common/mod.rs"]
mod common;
#[path = "../real_wheels/fetch.rs"]
mod fetch;
mod index_manifest;
mod install_proof;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tools.rs"]
mod tools;
mod wheel_index;
