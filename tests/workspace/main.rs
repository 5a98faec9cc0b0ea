//! Workspaces, pins, sources and specs, and the commands that show and check them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod add;
mod advisories;
mod bad_input;
mod broken;
mod ci;
mod circles;
mod commands;
mod completions;
mod container;
mod diagnoses;
mod documents;
mod evidence;
mod explain;
mod failures;
mod guides;
mod history;
mod hostile_git;
mod lint;
mod lock;
mod man;
mod mechanisms;
mod other_gpus;
mod overview;
mod own_package;
mod pins_manifest;
mod pins_other_stack;
mod pins_update;
mod pins_upstream;
mod prep;
mod quickstart;
mod real_prep;
mod real_stack;
mod scripts;
mod specs;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tools.rs"]
mod tools;
mod trust;
mod units;
mod waivers;
mod watch;
mod words;
mod workspace_errors;
mod workspace_paths;
