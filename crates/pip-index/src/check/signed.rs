//! The check of an index by its signed manifest.

use jiff::Timestamp;

use super::{Found, Report};
use crate::IndexError;
use crate::manifest::{self, Manifest};
use crate::place::Place;
use crate::seen::Seen;
use rocm_inspect::Severity;

/// What to do about an index that is not the one that was signed.
const ASK: &str = "ask who operates the index; install nothing from it until it is explained";

impl Report {
    /// Checks an index by its manifest: that this key signed it, that it is neither expired nor
    /// older than one seen before, and that every page is as it says; with `digests`, every package.
    pub fn check_manifest(
        &mut self,
        place: &dyn Place,
        public: &[u8],
        seen: &Seen,
        now: Timestamp,
        digests: bool,
    ) -> Result<(), IndexError> {
        let mut add = |id, found: String, remedy: &str| {
            let (wheels, requirement, remedy) = (&[][..], None, remedy.to_owned());
            self.add(Severity::Error, id, Found { wheels, requirement, found, remedy });
        };
        let read = place.read(&[manifest::PATH.to_owned()])?.pop().flatten();
        let Some(bytes) = read else {
            add("manifest-invalid", format!("it has no {}", manifest::PATH), ASK);
            return Ok(());
        };
        let manifest = match Manifest::verified(&bytes, public, &place.name()) {
            Err(error @ IndexError::Manifest { .. }) => {
                add("manifest-invalid", error.to_string(), ASK);
                return Ok(());
            }
            other => other?,
        };
        if !manifest.rest(now).is_some_and(|rest| rest.is_positive()) {
            let found = format!("the manifest expired on {}", manifest.expires());
            add("manifest-expired", found, "publish to the index again, which signs a new manifest");
        }
        match seen.check(manifest.serial) {
            Err(error @ IndexError::Rollback { .. }) => add("rollback", error.to_string(), ASK),
            other => {
                other?;
                seen.remember(manifest.serial)?;
            }
        }
        for (path, wrong) in manifest::differences(&manifest, &manifest::read_pages(place)?) {
            add("manifest-differs", format!("{path} {wrong}"), ASK);
        }
        let packages: Vec<&String> =
            manifest.files.keys().filter(|path| path.starts_with("packages/")).collect();
        for path in packages.iter().filter(|_| digests) {
            let stored = place.stored(std::slice::from_ref(*path))?.pop().flatten();
            if stored.is_none_or(|stored| !manifest.allows(path, stored.sha256)) {
                add("manifest-differs", format!("{path} is missing or has another digest"), ASK);
            }
        }
        if self.wheels == 0 {
            self.wheels = packages.iter().filter(|path| path.ends_with(".whl")).count();
        }
        Ok(())
    }
}
