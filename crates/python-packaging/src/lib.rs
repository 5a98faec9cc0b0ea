//! Python packaging: names, versions, markers, tags and METADATA, and wheels, which it writes from
//! the payload of RPMs, reads back and checks. It knows nothing of pip indexes or of the workspace
//! that the wheels come from.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod environment;
pub mod needs;
pub mod sdist;
pub mod wheel;

/// Returns the JSON Schemas of the documents of this crate and of its dependencies.
#[cfg(feature = "schema")]
pub fn documents() -> Vec<serde_json::Value> {
    let mut all = rocm_inspect::documents();
    all.extend(wheel::provenance_schemas());
    all
}
