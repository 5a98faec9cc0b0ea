//! A pip index of wheels (PEP 503 and 691): pages written so that no reader sees half of one, channels,
//! changes that are worked out before they are made, publishing, and a server for trying it out. It
//! does not know the workspace that wheels come from.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

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

/// Returns the JSON Schemas of the documents of this crate and of those below it.
#[cfg(feature = "schema")]
pub fn documents() -> Vec<serde_json::Value> {
    use rocmrpm_base::document::schema_of;
    let mut all = python_packaging::documents();
    all.extend([schema_of::<check::Report>(), schema_of::<manifest::Manifest>()]);
    all
}
