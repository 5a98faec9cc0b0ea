//! From a workspace to installed packages, by the tools of Fedora 43: rpm 6, dnf5, hipcc
//! for gfx1151, Python 3.14. All of it runs in the laboratory that `make lab` makes; see
//! CONTRIBUTING.md. One workspace is built once, and each test looks at what came of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod build;
mod closure;
mod container;
mod install;
mod lab;
mod mock;
mod mock_hermetic;
mod quickstart;
mod rust;
mod solver;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tools.rs"]
mod tools;
mod upgrade;
mod wheels;
