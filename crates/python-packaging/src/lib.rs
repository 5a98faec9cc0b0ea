//! Python packaging: names, versions, markers, tags and METADATA, and wheels: written from the payload
//! of RPMs, read back and checked. It does not know pip indexes, nor the workspace that wheels come
//! from.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod environment;
pub mod needs;
pub mod wheel;

/// Returns the JSON Schemas of the documents of this crate and of those below it.
#[cfg(feature = "schema")]
pub fn documents() -> Vec<serde_json::Value> {
    let mut all = rocm_inspect::documents();
    all.push(wheel::provenance_schema());
    all
}
