//! A static package index of wheels (PEP 503 and 691), written so that a reader never
//! sees half of it. Not which wheels belong in it.

pub mod change;
pub mod check;
pub mod demands;
mod entry;
mod error;
pub mod folder;
pub mod listing;
mod local;
pub mod manifest;
mod order;
pub mod outside;
pub mod page;
pub mod place;
pub mod publish;
mod rules;
pub mod seen;
pub mod serve;
#[cfg(test)]
mod tests;
pub mod view;
pub mod web;

pub use error::IndexError;
pub use local::{Written, write, write_tracking};
