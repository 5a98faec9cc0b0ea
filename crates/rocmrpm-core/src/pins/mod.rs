//! Work on pin sets as a whole: what follows from upstream's files and what contradicts
//! them, newer releases, updates, and other tools' forms. Reading a set is
//! `workspace`'s business, fetching sources is `sources`'.

pub mod changes;
pub mod check;
pub mod derive;
mod error;
mod import;
mod members;
mod outdated;
mod requirements_file;
mod set_text;
mod source_manifest;
mod update;
pub mod upstream;
mod versions_env;

pub use error::PinsError;
pub use import::{Import, Imported, apply as import};
pub use members::{MemberOutdated, outdated_members};
pub use outdated::{Outdated, State, outdated};
pub use set_text::{Changed, SetText, write_set};
pub use source_manifest::{export as source_manifest, read as read_source_manifest};
pub use update::{Update, update};
pub use versions_env::{export as versions_env, read as read_versions_env};
