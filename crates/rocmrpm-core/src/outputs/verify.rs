//! Verifies a whole workspace: the RPMs match `build.json`, and the wheels contain their files. It
//! does not build anything.

use std::collections::BTreeSet;

use serde::Serialize;

use super::part::{Preloads, parts, wheels_dir};
use super::pins;
use crate::build::BuildLock;
use crate::digest::Sha256;
use crate::error::{Error, IoError};
use crate::events::Silent;
use crate::files;
use crate::stack::Stack;
use crate::wheel::{self, Difference, Proof};

/// The result of verifying one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verified {
    /// The component.
    pub component: String,
    /// Its RPMs that differ from `build.json`, by file name.
    pub rpms: Vec<(String, Difference)>,
    /// Its wheels.
    pub wheels: Vec<Proof>,
}

impl Verified {
    /// Returns whether there are no differences.
    pub fn holds(&self) -> bool {
        self.rpms.is_empty() && self.wheels.iter().all(|proof| proof.differences.is_empty())
    }
}

/// Verifies the wheels of every component that has inspected RPMs, in build order, and stray wheels
/// of components without RPMs.
pub fn verify_wheels(_lock: &BuildLock, stack: &Stack<'_>) -> Result<Vec<Verified>, Error> {
    let dir = wheels_dir(stack.workspace);
    let parts = parts(stack)?;
    let pins = pins(&parts)?;
    let mut preloads = Preloads::default();
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    for part in &parts {
        seen.insert(part.component.name.to_string());
        let mut rpms = Vec::new();
        for path in &part.rpms {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (found, _) = Sha256::of_file(path).map_err(IoError::doing("read an RPM"))?;
            let recorded = part.record.outputs.iter().find(|output| output.file == name);
            let expected = recorded.map(|output| output.sha256);
            if expected != Some(found) {
                let difference = Difference::of_file(
                    "it differs from the RPM in build.json",
                    expected,
                    Some(found),
                );
                rpms.push((name, difference));
            }
        }
        let rocm = preloads.rocm(part, &Silent)?;
        let wheels = match wheel::verify(part.request(&pins, &rocm, &part.dir, &Silent)) {
            // The changed RPM explains why it cannot be read.
            Err(_) if !rpms.is_empty() => Vec::new(),
            wheels => wheels?,
        };
        // The wheel on disk may be damaged.
        wheels.iter().for_each(|proof| preloads.insert(&proof.wheel, proof.preloads.clone()));
        if !rpms.is_empty() || !wheels.is_empty() {
            all.push(Verified { component: part.component.name.to_string(), rpms, wheels });
        }
    }
    for component in files::names_in(&dir).map_err(IoError::doing("read the folder of wheels"))? {
        let mut wheels = Vec::new();
        // Names that begin with a dot failed inspection; the next run removes them.
        if !seen.contains(&component) && !component.starts_with('.') {
            wheel::add_strays(&dir.join(&component), &mut wheels)
                .map_err(IoError::doing("read a wheel"))?;
        }
        if !wheels.is_empty() {
            all.push(Verified { component, rpms: Vec::new(), wheels });
        }
    }
    Ok(all)
}
