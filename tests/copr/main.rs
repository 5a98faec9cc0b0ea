//! Tests COPR: the test server against the real copr-cli, and `rocmrpm copr` against both. Needs
//! rpmbuild, createrepo_c, curl, openssl, venv, and the index configured for pip.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../support/mod.rs"]
mod support;

mod accepted;
mod faults;
mod interrupted;
mod pipeline;
mod push;
mod server_itself;
mod site;
mod stack;
mod sync;
#[path = "../support/tools.rs"]
mod tools;
mod users;
