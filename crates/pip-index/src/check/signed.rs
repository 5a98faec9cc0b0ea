//! Checks an index against its signed manifest.

use jiff::Timestamp;

use super::{CheckFindings, Report};
use crate::IndexError;
use crate::manifest::{self, Manifest};
use crate::place::IndexStorage;
use crate::seen::SerialRecord;
use rocmrpm_base::severity::Severity;

/// The help for an index that differs from the signed one.
const CONTACT: &str =
    "contact the operator of the index; do not install from it until the difference is explained";

impl Report {
    /// Checks an index against its manifest: the signature by this key, the expiry date, the serial
    /// number, and every page; with `digests`, every package as well.
    pub fn check_manifest(
        &mut self,
        place: &dyn IndexStorage,
        public: &[u8],
        seen: &SerialRecord,
        now: Timestamp,
        digests: bool,
    ) -> Result<(), IndexError> {
        let read = place.read(&[manifest::PATH.to_owned()])?.pop().flatten();
        let Some(bytes) = read else {
            self.error("manifest-invalid", format!("it has no {}", manifest::PATH), CONTACT);
            return Ok(());
        };
        let manifest = match Manifest::verified(&bytes, public, &place.name()) {
            Err(error @ IndexError::Manifest { .. }) => {
                self.error("manifest-invalid", error.to_string(), CONTACT);
                return Ok(());
            }
            other => other?,
        };
        self.check_verified(place, &manifest, seen, now, digests)
    }

    /// Checks an index against a manifest with a valid signature.
    fn check_verified(
        &mut self,
        place: &dyn IndexStorage,
        manifest: &Manifest,
        seen: &SerialRecord,
        now: Timestamp,
        digests: bool,
    ) -> Result<(), IndexError> {
        let mut add = |id, found, help: &str| self.error(id, found, help);
        if !manifest.rest(now).is_some_and(|rest| rest.is_positive()) {
            let found = format!("the manifest expired on {}", manifest.expires());
            add("manifest-expired", found, "publish to the index again to sign a new manifest");
        }
        match seen.check(manifest.serial) {
            Err(error @ IndexError::Rollback { .. }) => add("rollback", error.to_string(), CONTACT),
            other => {
                other?;
                seen.remember(manifest.serial)?;
            }
        }
        for (path, wrong) in manifest::differences(manifest, &manifest::read_pages(place)?) {
            add("manifest-differs", format!("{path} {wrong}"), CONTACT);
        }
        let packages: Vec<&String> =
            manifest.files.keys().filter(|path| path.starts_with("packages/")).collect();
        for path in packages.iter().filter(|_| digests) {
            let stored = place.stored(std::slice::from_ref(*path))?.pop().flatten();
            if stored.is_none_or(|stored| !manifest.allows(path, stored.sha256)) {
                add(
                    "manifest-differs",
                    format!("{path} is missing or has another digest"),
                    CONTACT,
                );
            }
        }
        if self.wheels == 0 {
            self.wheels = packages.iter().filter(|path| path.ends_with(".whl")).count();
        }
        Ok(())
    }

    fn error(&mut self, id: &'static str, found: String, help: &str) {
        let (wheels, requirement, help) = (&[][..], None, help.to_owned());
        self.add(Severity::Error, id, CheckFindings { wheels, requirement, found, help });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use python_packaging::environment::Environment;
    use rocmrpm_base::digest::Sha256;

    #[test]
    fn checks_manifest_dates_serial_and_digests() {
        let dir = tempfile::tempdir().unwrap();
        let place = Folder::new(&dir.path().join("index"));
        let (wheel, page) = ("packages/a/a-1-py3-none-any.whl", "testing/simple/index.json");
        for (path, text) in
            [(wheel, "wheel"), (page, "{\"meta\": {\"api-version\": \"1.2\"}, \"projects\": []}")]
        {
            rocmrpm_base::files::write_atomically(&place.root().join(path), text).unwrap();
        }
        let digest = |path: &str| Sha256::of_file(&place.root().join(path)).unwrap().0;
        let right = || [wheel, page].map(|path| (path.to_owned(), digest(path)));
        let other = |path: &str| (path.to_owned(), Sha256::of_bytes("other"));
        let [whl, json] = right();
        let day = |days: i64| Timestamp::from_second(days * 86_400).unwrap();
        for (what, serial, files, days, digests, expected) in [
            ("valid", 7, right(), 89, true, &[][..]),
            ("expired", 7, right(), 90, true, &["manifest-expired"]),
            ("older", 6, right(), 89, true, &["rollback"]),
            ("page", 7, [whl.clone(), other(page)], 89, true, &["manifest-differs"]),
            ("package", 7, [other(wheel), json.clone()], 89, true, &["manifest-differs"]),
            ("package, not read", 7, [other(wheel), json.clone()], 89, false, &[]),
            (
                "missing",
                7,
                [other("packages/b/b-1-py3-none-any.whl"), json.clone()],
                89,
                true,
                &["manifest-differs"],
            ),
        ] {
            let seen = SerialRecord::of(dir.path(), what, false);
            seen.remember(7).unwrap();
            let manifest = Manifest::new(serial, Timestamp::UNIX_EPOCH, files.into());
            let environment = Environment::new("3.14", "x86_64", None).unwrap();
            let mut report = Report::empty("x".into(), &environment);
            report.check_verified(&place, &manifest, &seen, day(days), digests).unwrap();
            let found: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
            assert_eq!((found.as_slice(), report.wheels), (expected, 1), "{what}");
        }
    }

    #[test]
    fn remembers_verified_serial_number() {
        let dir = tempfile::tempdir().unwrap();
        let place = Folder::new(&dir.path().join("index"));
        let seen = SerialRecord::of(dir.path(), "x", false);
        let environment = Environment::new("3.14", "x86_64", None).unwrap();
        let mut report = Report::empty("x".into(), &environment);
        let manifest = Manifest::new(7, Timestamp::UNIX_EPOCH, [].into());
        report.check_verified(&place, &manifest, &seen, Timestamp::UNIX_EPOCH, true).unwrap();
        assert!(matches!(seen.check(6), Err(IndexError::Rollback { seen: 7, .. })));
    }
}
