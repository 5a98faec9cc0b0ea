//! Entry points for fuzzing; see `src/fuzzing.rs` of the program.

use std::collections::BTreeMap;

use super::lock::Lock;
use super::{pylock, sbom};
use python_packaging::environment::Environment;
use rocmrpm_base::fuzzing::text;

pub fn lock(bytes: &[u8]) -> bool {
    let Ok(lock) = Lock::parse(&text(bytes)) else { return false };
    assert_eq!(Lock::parse(&lock.text()).expect("its own text is valid"), lock);
    true
}

pub fn pylock(bytes: &[u8]) -> bool {
    let environment =
        Environment::new("3.14", "x86_64", Some((2, 42))).expect("the environment is valid");
    pylock::read(&text(bytes), &BTreeMap::new(), &environment).is_ok()
}

pub fn sbom(bytes: &[u8]) -> bool {
    sbom::read(&text(bytes)).is_ok()
}
