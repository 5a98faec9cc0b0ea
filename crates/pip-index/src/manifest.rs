//! The signed manifest of a published index: a serial number, an expiry date, and the digest of
//! every page and package. A client uses it to detect changed pages, a rollback and a replay, which
//! the digests on the pages themselves cannot reveal. It does not describe the contents of the
//! index.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::IndexError;
use super::page::{Project, Root};
use super::place::{IndexStorage, Page};
use super::seen::SerialRecord;
use super::view::{CHANNELS, View, package_path};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::document::Document;
use rocmrpm_rpms::signing::{Signer, is_signed_by};

/// The path below the root of the index.
pub const PATH: &str = "manifest.json";

const SCHEMA: &str = "rocmrpm/index-manifest/1";

/// The validity of a manifest: an index that is not published again within this time is stale.
const LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The signed text in `manifest.json` of a published index: the digest of every page and package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    schema: String,
    /// Counts up with every change of the index.
    pub serial: u64,
    /// When it was signed.
    date: String,
    /// When it stops being valid.
    expires: String,
    /// Every page and package, by its path below the index's root.
    pub files: BTreeMap<String, Sha256>,
    /// Pages that are about to change. A publishing that is interrupted leaves some pages old and
    /// some new; both are signed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pending: BTreeMap<String, Sha256>,
}

/// A manifest with its signature, in one file so that both change atomically.
#[derive(Serialize, Deserialize)]
struct Envelope {
    /// The manifest as JSON text, exactly the bytes that are signed.
    manifest: String,
    /// The detached signature, in ASCII armor.
    signature: String,
}

impl Document for Manifest {
    const SCHEMA: &'static str = SCHEMA;
}

impl Manifest {
    pub(super) fn new(serial: u64, now: Timestamp, files: BTreeMap<String, Sha256>) -> Self {
        let text =
            |time: Timestamp| Timestamp::from_second(time.as_second()).unwrap_or(time).to_string();
        let expires = now.checked_add(LIFETIME).unwrap_or(now);
        let schema = SCHEMA.to_owned();
        Self {
            schema,
            serial,
            date: text(now),
            expires: text(expires),
            files,
            pending: BTreeMap::new(),
        }
    }

    /// Parses a manifest and verifies its signature by this public key. `place` is for errors.
    pub fn verified(bytes: &[u8], public: &[u8], place: &str) -> Result<Self, IndexError> {
        let damaged = |reason: String| {
            let path = format!("{}/{PATH}", place.trim_end_matches('/'));
            IndexError::Manifest { path, reason }
        };
        let envelope: Envelope =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        let (text, signature) = (envelope.manifest.as_bytes(), envelope.signature.as_bytes());
        if !is_signed_by(public, text, signature)? {
            return Err(damaged("it has no valid signature by the configured key".into()));
        }
        let manifest: Self =
            serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        match manifest.schema == SCHEMA {
            true => Ok(manifest),
            false => Err(damaged(format!("its schema is not {SCHEMA}"))),
        }
    }

    fn signed(&self, signer: &Signer) -> Result<Vec<u8>, IndexError> {
        let manifest = serde_json::to_string(self).map_err(std::io::Error::from)?;
        let signature = String::from_utf8_lossy(&signer.sign(manifest.as_bytes())?).into_owned();
        let mut bytes =
            serde_json::to_vec(&Envelope { manifest, signature }).map_err(std::io::Error::from)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Returns whether the manifest allows a file with this digest.
    pub fn allows(&self, path: &str, sha256: Sha256) -> bool {
        [&self.files, &self.pending].iter().any(|files| files.get(path) == Some(&sha256))
    }

    /// Returns the remaining validity; `None` if the expiry date is malformed.
    pub fn rest(&self, now: Timestamp) -> Option<SignedDuration> {
        Some(self.expires.parse::<Timestamp>().ok()?.duration_since(now))
    }

    /// Returns the expiry date.
    pub fn expires(&self) -> &str {
        &self.expires
    }
}

/// The pages of all channels of an index, by path.
pub type AllPages = BTreeMap<String, Vec<u8>>;

/// Reads all pages of a published index.
pub fn read_pages(place: &dyn IndexStorage) -> Result<AllPages, IndexError> {
    let forms = |path: String| ["json", "html"].map(|form| format!("{path}.{form}"));
    let mut pages = AllPages::new();
    let read = |paths: Vec<String>| -> Result<Vec<(String, Vec<u8>)>, IndexError> {
        let found = place.read(&paths)?;
        Ok(paths.into_iter().zip(found).filter_map(|(path, bytes)| Some((path, bytes?))).collect())
    };
    let views = || CHANNELS.into_iter().map(View::Channel);
    let roots = views().flat_map(|view| forms(view.root()));
    pages.extend(read(roots.chain(views().map(View::links)).collect())?);
    let mut paths = Vec::new();
    for view in views() {
        let root = format!("{}.json", view.root());
        if let Some(bytes) = pages.get(&root) {
            paths.extend(
                Root::from_json(bytes, &root)?.0.iter().flat_map(|name| forms(view.page(name))),
            );
        }
    }
    pages.extend(read(paths)?);
    Ok(pages)
}

/// Returns the digests of pages and of the packages that they list.
fn digests(pages: &AllPages) -> Result<BTreeMap<String, Sha256>, IndexError> {
    let mut files = BTreeMap::new();
    for (path, bytes) in pages {
        files.insert(path.clone(), Sha256::of_bytes(bytes));
    }
    for view in CHANNELS.into_iter().map(View::Channel) {
        let root = format!("{}.json", view.root());
        let names =
            pages.get(&root).map_or(Ok(Root::default()), |bytes| Root::from_json(bytes, &root))?;
        for name in &names.0 {
            let path = format!("{}.json", view.page(name));
            let Some(bytes) = pages.get(&path) else { continue };
            for file in Project::from_json(bytes, &path, view, name)?.files {
                let path = package_path(name, &file.name);
                if let Some(metadata) = file.metadata {
                    files.insert(format!("{path}.metadata"), metadata);
                }
                files.insert(path, file.sha256);
            }
        }
    }
    Ok(files)
}

/// The parameters for signing an index.
pub struct Signing<'a> {
    /// The signing key.
    pub signer: &'a Signer,
    /// The highest serial number that this machine has seen.
    pub seen: &'a SerialRecord,
    /// The time of signing.
    pub now: Timestamp,
}

/// The manifests of a change: one to publish before the pages, and one after.
#[derive(Debug, Clone)]
pub struct Signed {
    pub(super) before: Page,
    pub(super) after: Page,
    /// The digest of the manifest that both are based on.
    pub(super) was: Option<Sha256>,
    /// The serial number of the manifest after the change.
    pub serial: u64,
}

/// Plans the manifests for a change of these pages; `None` if the manifest can stay.
///
/// Fails if the published state is older than one that this machine has seen, or was changed
/// without a signature, because the new signature would cover that change too.
pub(super) fn plan(
    place: &dyn IndexStorage,
    changed: &[Page],
    signing: &Signing<'_>,
) -> Result<Option<Signed>, IndexError> {
    let bytes = place.read(&[PATH.to_owned()])?.pop().flatten();
    let public = signing.signer.public();
    let old = bytes
        .as_deref()
        .map(|bytes| Manifest::verified(bytes, public, &place.name()))
        .transpose()?;
    signing.seen.check(old.as_ref().map_or(0, |old| old.serial))?;
    let mut pages = read_pages(place)?;
    if let Some(old) = &old {
        check_pages(old, &pages, &place.name())?;
    }
    let current = digests(&pages)?;
    pages.extend(changed.iter().map(|page| (page.path.clone(), page.bytes.clone())));
    let files = digests(&pages)?;
    let fresh = |old: &Manifest| old.rest(signing.now).is_some_and(|rest| rest > LIFETIME / 2);
    if old.as_ref().is_some_and(|old| old.files == files && old.pending.is_empty() && fresh(old)) {
        return Ok(None);
    }
    let serial = old.map_or(0, |old| old.serial);
    let mut before = Manifest::new(serial + 1, signing.now, current);
    before.pending =
        changed.iter().map(|page| (page.path.clone(), Sha256::of_bytes(&page.bytes))).collect();
    let after = Manifest::new(serial + 2, signing.now, files);
    let page = |manifest: &Manifest| {
        let bytes = manifest.signed(signing.signer)?;
        Ok::<_, IndexError>(Page { path: PATH.to_owned(), bytes, media_type: "application/json" })
    };
    let (before, serial) = (page(&before)?, after.serial);
    Ok(Some(Signed { before, after: page(&after)?, was: bytes.map(Sha256::of_bytes), serial }))
}

/// Fails if any page differs from the manifest.
pub fn check_pages(manifest: &Manifest, pages: &AllPages, place: &str) -> Result<(), IndexError> {
    match differences(manifest, pages).first() {
        None => Ok(()),
        Some((path, _)) => {
            Err(IndexError::Tampered { path: path.clone(), place: place.to_owned() })
        }
    }
}

/// Returns the pages that differ from a manifest, each with what is wrong.
pub fn differences(manifest: &Manifest, pages: &AllPages) -> Vec<(String, &'static str)> {
    let mut wrong = Vec::new();
    for (path, bytes) in pages {
        if !manifest.allows(path, Sha256::of_bytes(bytes)) {
            let listed = manifest.files.contains_key(path) || manifest.pending.contains_key(path);
            wrong.push((
                path.clone(),
                if listed { "has another digest" } else { "is not in the manifest" },
            ));
        }
    }
    let page = |path: &&String| path.ends_with("/index.json") || path.ends_with("/index.html");
    let missing = manifest.files.keys().filter(page).filter(|path| !pages.contains_key(*path));
    wrong.extend(missing.map(|path| (path.clone(), "is missing")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(list: &[(&str, &str)]) -> AllPages {
        list.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
    }

    fn manifest(list: &[(&str, &str)]) -> Manifest {
        let files =
            list.iter().map(|(path, text)| ((*path).to_owned(), Sha256::of_bytes(text))).collect();
        Manifest::new(1, Timestamp::UNIX_EPOCH, files)
    }

    #[test]
    fn lists_changed_missing_and_added_pages() {
        let signed = manifest(&[("a/index.json", "1"), ("b/index.json", "2"), ("packages/x", "3")]);
        assert_eq!(
            differences(&signed, &pages(&[("a/index.json", "1"), ("b/index.json", "2")])),
            []
        );
        let found = differences(&signed, &pages(&[("a/index.json", "x"), ("c/index.json", "2")]));
        let expected = [
            ("a/index.json", "has another digest"),
            ("c/index.json", "is not in the manifest"),
            ("b/index.json", "is missing"),
        ];
        assert_eq!(found, expected.map(|(path, wrong)| (path.to_owned(), wrong)));
    }

    #[test]
    fn accepts_old_and_new_pages_while_pending() {
        let mut signed = manifest(&[("a/index.json", "1"), ("b/index.json", "1")]);
        signed.pending = manifest(&[("b/index.json", "2")]).files;
        for now in ["1", "2"] {
            assert_eq!(
                differences(&signed, &pages(&[("a/index.json", "1"), ("b/index.json", now)])),
                []
            );
        }
        let other = differences(&signed, &pages(&[("a/index.json", "2"), ("b/index.json", "1")]));
        assert_eq!(other, [("a/index.json".to_owned(), "has another digest")]);
    }

    #[test]
    fn manifest_expires_after_90_days() {
        let signed = manifest(&[]);
        let day = |days: i64| Timestamp::from_second(days * 86_400).unwrap();
        assert!(signed.rest(day(89)).unwrap().is_positive());
        assert!(!signed.rest(day(90)).unwrap().is_positive());
        assert_eq!(signed.expires(), "1970-04-01T00:00:00Z");
    }
}
