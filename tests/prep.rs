//! Preparing sources, patches and the offline audit, with small sources made here and
//! the real rpmbuild, patch and git.

// Helpers outside of test functions may unwrap as well.
#![allow(clippy::unwrap_used)]

#[path = "prep/audit.rs"]
mod audit;
#[path = "common/mod.rs"]
mod common;
#[path = "prep/demo.rs"]
mod demo;
#[path = "prep/patches.rs"]
mod patches;
#[path = "prep/refresh.rs"]
mod refresh;
#[path = "prep/unpack.rs"]
mod unpack;
