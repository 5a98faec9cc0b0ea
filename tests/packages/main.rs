//! Tests packages from the build to the user: gates, repositories, publishing, upgrades.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod add;
mod add_crate;
mod evidence;
mod gate;
mod pipeline;
mod publish;
mod repository;
mod reproduce;
mod required;
mod resume;
#[path = "../support/mod.rs"]
mod support;
mod truth;
mod upgrades;
mod verify;
