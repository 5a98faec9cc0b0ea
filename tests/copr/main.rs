//! COPR: the server of these tests as the real copr-cli sees it, and `rocmrpm copr` with both.
//! Needs rpmbuild, createrepo_c, curl, openssl, venv, and the pip index that this machine's pip is
//! configured with.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail as the test may")]

#[path = "../support/mod.rs"]
mod support;

mod accepted;
mod faults;
mod interrupted;
mod push;
mod server_itself;
mod site;
mod stack;
mod sync;
#[path = "../support/tools.rs"]
mod tools;
mod users;
