//! Builds on COPR: applies `copr/project.toml` to the project, sends builds, fetches their results,
//! and reads their states. It uses the official copr-cli with the user's own configuration, and
//! curl without credentials for what copr-cli does not print. `build` decides whether a result is
//! accepted.

mod builder;
mod choose;
mod client;
mod error;
mod explain;
mod macros;
mod parcel;
mod project;
mod project_chroot;
mod publish;
mod queries;
mod ready;
mod record;
mod repositories;
mod results;
mod sending;
mod settings;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod texts;

pub use builder::CoprBuilder;
pub use client::Client;
pub use error::CoprError;
pub use macros::MacrosPackage;
pub use project::Sync;
pub use project_chroot::ProjectChroot;
pub use publish::{Obstacle, Published, publish, unaccepted};
pub use ready::get_ready;
pub use record::Sent;
pub use settings::Change;
pub use state::{Build, BuildState};
pub use status::{StatusRow, package, rows};
pub use texts::rendered;

/// Returns the JSON Schemas of this module's documents.
#[cfg(feature = "schema")]
pub(crate) fn documents() -> Vec<serde_json::Value> {
    use crate::document::schema_of;
    vec![schema_of::<record::Sent>(), schema_of::<publish::CoprOrigin>()]
}
