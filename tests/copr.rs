//! COPR: the server of these tests as the real copr-cli sees it, and `rocmrpm copr` with both.
//! Needs rpmbuild, createrepo_c, curl, openssl, venv, and the pip index that this machine's pip is
//! configured with.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail as the test may")]

mod support;

#[path = "copr/accepted.rs"]
mod accepted;
#[path = "copr/faults.rs"]
mod faults;
#[path = "copr/interrupted.rs"]
mod interrupted;
#[path = "copr/push.rs"]
mod push;
#[path = "copr/server_itself.rs"]
mod server_itself;
#[path = "copr/site.rs"]
mod site;
#[path = "copr/stack.rs"]
mod stack;
#[path = "copr/sync.rs"]
mod sync;
#[path = "wheel_index/tools.rs"]
mod tools;
#[path = "copr/users.rs"]
mod users;
