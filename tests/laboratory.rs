//! From a workspace to installed packages, by the tools of Fedora 43: rpm 6, dnf5, hipcc
//! for gfx1151, Python 3.14. All of it runs in the laboratory that `make lab` makes; see
//! CONTRIBUTING.md. One workspace is built once, and each test looks at what came of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

#[path = "laboratory/build.rs"]
mod build;
#[path = "laboratory/closure.rs"]
mod closure;
#[path = "laboratory/container.rs"]
mod container;
#[path = "laboratory/install.rs"]
mod install;
#[path = "laboratory/lab.rs"]
mod lab;
#[path = "laboratory/mock.rs"]
mod mock;
#[path = "laboratory/mock_hermetic.rs"]
mod mock_hermetic;
#[path = "laboratory/quickstart.rs"]
mod quickstart;
#[path = "laboratory/rust.rs"]
mod rust;
#[path = "laboratory/solver.rs"]
mod solver;
mod support;
#[path = "wheel_index/tools.rs"]
mod tools;
#[path = "laboratory/upgrade.rs"]
mod upgrade;
#[path = "laboratory/wheels.rs"]
mod wheels;
