//! COPR as a place to build in: the project made what `copr/project.toml` says, builds sent
//! there and brought back, their states read. All through the official copr-cli and the
//! user's own configuration of it; what copr-cli does not print is read by curl, without
//! credentials. What passes and what does not is `build`'s business.

mod builder;
mod choose;
mod client;
mod error;
mod explain;
mod macros;
mod parcel;
mod project;
mod publish;
mod record;
mod repositories;
mod results;
mod sending;
mod state;
mod status;
#[cfg(test)]
mod tests;

pub use builder::CoprBuilder;
pub use client::Client;
pub use error::CoprError;
pub use macros::MacrosPackage;
pub use project::{Change, Place, Sync, rendered};
pub use publish::{Obstacle, Published, publish, unaccepted};
pub use record::Sent;
pub use state::{Build, State};
pub use status::{Row, package, rows};

/// Returns the JSON Schemas of its documents.
#[cfg(feature = "schema")]
pub(crate) fn documents() -> Vec<serde_json::Value> {
    use crate::document::schema_of;
    vec![schema_of::<record::Sent>(), schema_of::<publish::Origin>()]
}
