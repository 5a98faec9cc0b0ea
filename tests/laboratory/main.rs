//! Tests the path from a workspace to installed packages with the tools of Fedora 43: rpm 6, dnf5,
//! hipcc for gfx1151, Python 3.14. All tests run in the laboratory created by `make lab`; see
//! CONTRIBUTING.md. They share one workspace that is built once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod build;
mod closure;
mod container;
mod device_packages;
mod install;
mod lab;
mod mock;
mod mock_hermetic;
mod mock_shell;
mod own_package;
mod quickstart;
mod rust;
mod smoke;
mod solver;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tools.rs"]
mod tools;
mod upgrade;
mod wheels;
