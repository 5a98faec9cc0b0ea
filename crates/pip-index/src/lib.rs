//! A pip index of wheels (PEP 503 and 691): pages, which it replaces atomically, channels, changes,
//! which it plans before it applies them, publishing, and a server for testing. It knows nothing of
//! the workspace that the wheels come from.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod change;
pub mod check;
pub mod demands;
mod entry;
mod error;
pub mod folder;
mod links;
pub mod listing;
mod local;
pub mod manifest;
mod order;
pub mod outside;
pub mod page;
pub mod place;
pub mod publish;
mod publish_error;
mod rules;
pub mod seen;
pub mod serve;
#[cfg(test)]
mod tests;
pub mod view;
pub mod web;

pub use entry::Foreign;
pub use error::IndexError;
pub use local::{Written, write, write_with};

/// Returns the JSON Schemas of the documents of this crate and of its dependencies.
#[cfg(feature = "schema")]
pub fn documents() -> Vec<serde_json::Value> {
    use rocmrpm_base::document::schema_of;
    let mut all = python_packaging::documents();
    all.extend([schema_of::<check::Report>(), schema_of::<manifest::Manifest>()]);
    all
}
