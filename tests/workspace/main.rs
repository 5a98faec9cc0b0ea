//! Workspaces, pins, sources and specs, and the commands that show and check them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod advisories;
#[path = "../common/archive.rs"]
mod archive;
mod bad_input;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod container;
mod documents;
mod explain;
mod failures;
mod history;
mod hostile_git;
mod lint;
mod lock;
mod mechanisms;
mod pins_update;
mod pins_upstream;
mod prep;
mod quickstart;
mod real_prep;
mod real_stack;
mod specs;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tools.rs"]
mod tools;
mod trust;
mod waivers;
mod workspace_errors;
mod workspace_paths;
