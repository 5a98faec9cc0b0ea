//! Evidence: what was done with the versions of a pin set, on which machine, with which result, and
//! what that proves about each component. Records form a chain, so that none can be changed or left
//! out unnoticed. `pipeline` writes them.

mod bundle;
mod chain;
mod charts;
mod draft;
mod error;
mod page;
mod record;
mod standing;
mod status_page;
mod surroundings;
#[cfg(test)]
mod tests;

pub use crate::tier::Tier;
pub use bundle::{Bundle, Imported, import, imported};
pub use chain::{Chain, Link};
pub use draft::Draft;
pub use error::EvidenceError;
pub use page::evidence_page;
pub use record::{
    ComponentEvidence, EvidenceMachine, EvidenceRecord, OpenQuestion, Outcome, PackageEvidence,
};
pub use standing::{Standing, standings, tiers_of_wheels};
pub use status_page::{Blocked, ChrootStatus, SetStatus, status_page};

/// Returns the JSON Schemas of this module's documents.
#[cfg(feature = "schema")]
pub(crate) fn documents() -> Vec<serde_json::Value> {
    use crate::document::schema_of;
    vec![schema_of::<EvidenceRecord>(), schema_of::<Bundle>()]
}
