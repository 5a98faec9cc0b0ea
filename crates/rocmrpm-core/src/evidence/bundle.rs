//! Exported evidence: a whole chain in one file, with a detached signature. Evidence of another machine
//! is imported only with a valid signature, and is kept apart from the own chain.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::chain::{Chain, Link, next};
use super::error::EvidenceError;
use crate::document::Document;
use crate::error::IoError;
use crate::files;
use crate::rpms::signing::{fingerprint_of, is_signed_by};

/// The folder of imported evidence, beside the records.
const FOLDER: &str = "imported";

/// The most bytes of exported evidence.
const MAX_SIZE: u64 = 256 << 20;

/// A file of `rocmrpm evidence export`, which published folders also contain: all records of a pin
/// set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// The name and number of the schema.
    pub schema: String,
    /// The name of the stack.
    pub stack: String,
    /// The pin set.
    pub pins: String,
    /// The text of each record, byte for byte: the digest of one is in the next.
    pub records: Vec<String>,
}

impl Document for Bundle {
    const SCHEMA: &'static str = "rocmrpm/evidence-bundle/1";
}

impl Bundle {
    /// Returns all records of a chain.
    pub fn of(chain: &Chain, stack: &str, pins: &str) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            stack: stack.to_owned(),
            pins: pins.to_owned(),
            records: chain.links().iter().map(|link| link.text.clone()).collect(),
        }
    }

    /// Returns the file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Reads a file; the error is what is wrong with it. It must be of this stack and pin set.
    fn parse(bytes: &[u8], stack: &str, pins: &str) -> Result<Vec<Link>, String> {
        let bundle: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let visible = crate::text::visible;
        if bundle.schema != Self::SCHEMA {
            return Err(format!("its schema is `{}`", visible(&bundle.schema)));
        }
        if bundle.stack != stack {
            return Err(format!("it is of the stack `{}`, not `{stack}`", visible(&bundle.stack)));
        }
        if bundle.pins != pins {
            return Err(format!("it is of the pin set `{}`, not `{pins}`", visible(&bundle.pins)));
        }
        let mut links = Vec::new();
        for (text, number) in bundle.records.into_iter().zip(1..) {
            let link = next(&links, text, pins);
            links.push(link.map_err(|why| format!("record {number}: {why}"))?);
        }
        Ok(links)
    }
}

/// The chain of another machine, with the key that signed it.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The fingerprint of the key.
    pub key: String,
    /// The records, oldest first.
    pub links: Vec<Link>,
}

/// Verifies exported evidence with a public key, and keeps it below the folder of a chain. A later
/// export of the same key replaces an earlier one that it continues. Returns the evidence.
pub fn import(
    file: &Path,
    key: &Path,
    dir: &Path,
    stack: &str,
    pins: &str,
) -> Result<Imported, EvidenceError> {
    let read = |path: &Path| {
        let size = fs_err::metadata(path).map(|metadata| metadata.len());
        let size = size.map_err(IoError::doing("import evidence"))?;
        match size > MAX_SIZE {
            true => Err(EvidenceError::NotEvidence {
                file: path.to_owned(),
                why: "it is larger than 256 MiB".to_owned(),
            }),
            false => Ok(fs_err::read(path).map_err(IoError::doing("import evidence"))?),
        }
    };
    let (bytes, public) = (read(file)?, read(key)?);
    let signature = read(&beside(file, ".asc"))?;
    if !is_signed_by(&public, &bytes, &signature)? {
        return Err(EvidenceError::Unsigned { file: file.to_owned(), key: key.to_owned() });
    }
    let not = |why| EvidenceError::NotEvidence { file: file.to_owned(), why };
    let links = Bundle::parse(&bytes, stack, pins).map_err(not)?;
    let imported = Imported { key: fingerprint_of(&public)?, links };
    let start = imported.links.first().map(|link| link.sha256.to_string()).unwrap_or_default();
    for name in names(dir)? {
        let path = dir.join(FOLDER).join(&name);
        let old = read_one(&path, stack, pins)?;
        let of_same = old.key == imported.key && old.links.first() == imported.links.first();
        if of_same && old.links.len() > imported.links.len() {
            let why = format!(
                "it has {} records, and the imported evidence of this key {}",
                imported.links.len(),
                old.links.len()
            );
            return Err(not(why));
        }
        if of_same && !imported.links.starts_with(&old.links) {
            return Err(not("it does not continue the imported evidence of this key".to_owned()));
        }
    }
    let name = format!("{}-{}", &imported.key, start.get(..16).unwrap_or("empty"));
    let path = dir.join(FOLDER).join(format!("{name}.json"));
    let write = |path: &Path, bytes: &[u8]| {
        files::write_durably(path, bytes).map_err(IoError::doing("keep imported evidence"))
    };
    write(&beside(&path, ".key"), &public)?;
    write(&beside(&path, ".asc"), &signature)?;
    // The file that counts is written last.
    write(&path, &bytes)?;
    Ok(imported)
}

/// Returns the imported evidence below the folder of a chain, after verifying its signatures again.
pub fn imported(dir: &Path, stack: &str, pins: &str) -> Result<Vec<Imported>, EvidenceError> {
    let read = |name: String| {
        let file = dir.join(FOLDER).join(name);
        verify(&file)?;
        read_one(&file, stack, pins)
    };
    names(dir)?.into_iter().map(read).collect()
}

/// Verifies the signature of imported evidence. An interrupted import can leave an older file with a newer
/// signature; importing again corrects that, and therefore does not verify what is there.
fn verify(file: &Path) -> Result<(), EvidenceError> {
    let key = beside(file, ".key");
    let read = |path: &Path| fs_err::read(path).map_err(IoError::doing("read evidence"));
    if !is_signed_by(&read(&key)?, &read(file)?, &read(&beside(file, ".asc"))?)? {
        return Err(EvidenceError::Unsigned { file: file.to_owned(), key });
    }
    Ok(())
}

fn names(dir: &Path) -> Result<Vec<String>, EvidenceError> {
    let names = files::names_in(&dir.join(FOLDER));
    let mut names = names.map_err(IoError::doing("list imported evidence"))?;
    names.retain(|name| name.ends_with(".json") && !name.starts_with('.'));
    Ok(names)
}

fn read_one(file: &Path, stack: &str, pins: &str) -> Result<Imported, EvidenceError> {
    let read = |path: &Path| fs_err::read(path).map_err(IoError::doing("read evidence"));
    let damaged = |why| EvidenceError::Damaged { file: file.to_owned(), why };
    let links = Bundle::parse(&read(file)?, stack, pins).map_err(damaged)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let key = name.split('-').next().unwrap_or_default().to_owned();
    Ok(Imported { key, links })
}

/// Returns a path with a further extension.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(extension);
    name.into()
}
