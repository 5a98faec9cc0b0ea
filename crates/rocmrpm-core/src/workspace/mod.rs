//! The workspace: parses and validates its TOML files and reports the position of every mistake.
//! Does not fetch, render or build.

mod check;
pub mod chroot;
pub mod closure;
pub mod component;
pub mod copr;
mod delivery;
pub mod document;
pub mod edit;
mod environment;
mod error;
#[cfg(test)]
mod examples_tests;
mod experiment;
pub mod flavor;
#[cfg(any(test, fuzzing, feature = "testing"))]
#[doc(hidden)]
pub mod fuzzing;
mod generated;
mod index;
mod installation_check;
pub mod keys;
mod layout;
mod load;
pub mod lock;
pub mod manifest;
pub mod names;
mod noted_keys;
pub mod offline;
pub mod patch;
mod path_error;
mod paths;
pub mod pin;
pub mod pins;
pub mod pipeline;
mod provider;
mod read;
mod releases;
mod rocm_lock;
#[cfg(test)]
pub(crate) mod testing;
mod unwritten;
pub mod upstreams;
pub mod watch;

pub use crate::index::outside::IndexSource;
pub use crate::range::{VersionRange, compare};
pub use chroot::{Chroot, HOST, Repository};
pub use closure::{
    AcceptRule, BuiltFrom, ClosureRules, ImportRule, MemberPlace, MemberRule, WrittenClosure,
    YANKED,
};
pub use component::Component;
pub use copr::{CoprChroot, CoprProject};
pub use delivery::{Artifacts, Delivery, PREFIX_MACRO};
pub use edit::Edit;
pub use error::WorkspaceError;
pub use experiment::parse_folder_name;
pub use flavor::{Container, Containers, Flavor, ForeignImage, PackagesFrom};
pub use index::{ForeignDecision, ForeignRule, IndexRules};
pub use installation_check::InstallationCheck;
pub use layout::{CLOSURE_FILE, GENERATED, GENERATED_PINS, MANIFEST, PIPELINE, UPSTREAMS, WATCH};
pub use load::{Selection, Workspace, find_root};
pub use lock::{Lock, source_name};
pub use manifest::{Manifest, PublishedRepository, RocmSource, SdkRules};
pub use offline::{Offline, SatisfiedBy};
pub use patch::Patch;
pub use path_error::PathError;
pub use paths::check_inputs;
pub use pin::{Follows, LockEntry, Pin, Source};
pub use pins::{Generated, Overrides, PinSet};
pub use pipeline::{PipelineSettings, ReleasePage, ReleasesOf};
pub use provider::{AptSource, Capability, PackageName, Provider, RocmVersion};
pub use releases::today;
pub use rocm_lock::{RocmFile, RocmLock};
pub use unwritten::closure_not_written;
pub use upstreams::Upstreams;
pub use watch::{WatchEntry, WatchKind, WatchList, WatchState, WatchSubject};
