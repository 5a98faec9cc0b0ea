//! Entry points for fuzzing; see `src/fuzzing.rs` of the program.

use super::service::Batch;
use super::{Advisory, Ecosystem, Package};

pub fn advisory(bytes: &[u8]) -> bool {
    let Ok(advisory) = Advisory::read(bytes) else { return false };
    for ecosystem in [Ecosystem::PyPi, Ecosystem::CratesIo, Ecosystem::Npm, Ecosystem::Go] {
        let package = Package { ecosystem, name: "a".into(), version: "1.2.3".into() };
        advisory.judge(&package);
        advisory.fixed(&package);
    }
    true
}

pub fn batch(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Batch>(bytes).is_ok()
}
