//! Operations on whole pin sets: deriving them from upstream's files, checking them, listing newer
//! releases, updating them, and converting other tools' files. `workspace` reads sets, and `sources`
//! fetches sources.

pub mod changes;
pub mod check;
pub mod derive;
mod error;
mod import;
mod import_source;
mod members;
mod outdated;
mod requirements_file;
mod set_lock;
mod set_text;
mod source_manifest;
mod update;
pub mod upstream;
mod versions_env;

pub use error::PinsError;
pub use import::{Import, apply as import};
pub use import_source::Imported;
pub use members::{MemberOutdated, outdated_members};
pub use outdated::{Outdated, OutdatedState, outdated};
pub use set_lock::{SetLock, lock_set};
pub use set_text::{Changed, SetText, write_set};
pub use source_manifest::{export as source_manifest, read as read_source_manifest};
pub use update::{Update, update};
pub use versions_env::{export as versions_env, read as read_versions_env};
