//! The chain of a pin set's records on disk: one file per record, each of which names the digest of
//! the one before. A record is written in one step and synced before the next stage starts.

use std::path::{Path, PathBuf};

use super::error::EvidenceError;
use super::record::{EvidenceRecord, Outcome};
use crate::build::FileRecord;
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::IoError;
use crate::files;

/// The folder of logs beside the records.
const LOGS: &str = "logs";

/// The most bytes of a log that are kept: its end.
const MAX_LOG: u64 = 4 << 20;

/// A record with the digest of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The record.
    pub record: EvidenceRecord,
    /// The text of its file.
    pub text: String,
    /// The digest of the file.
    pub sha256: Sha256,
}

/// The records of a pin set, oldest first.
#[derive(Debug, Clone)]
pub struct Chain {
    dir: PathBuf,
    pins: String,
    links: Vec<Link>,
}

impl Chain {
    /// Reads the chain of a pin set, which is empty if the folder is missing. Fails if a file is
    /// damaged, missing, or not the one that its successor names.
    pub fn read(dir: &Path, pins: &str) -> Result<Self, EvidenceError> {
        let names = files::names_in(dir).map_err(IoError::doing("list the records of evidence"))?;
        let names: Vec<&String> =
            names.iter().filter(|name| name.ends_with(".json") && !name.starts_with('.')).collect();
        let mut links: Vec<Link> = Vec::new();
        for (name, number) in names.into_iter().zip(1..) {
            let file = dir.join(name);
            let bytes = fs_err::read(&file).map_err(IoError::doing("read a record of evidence"))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let damaged = |why: String| EvidenceError::Damaged { file: file.clone(), why };
            if *name != file_name(number) {
                return Err(damaged(format!("`{}` is missing before it", file_name(number))));
            }
            links.push(next(&links, text, pins).map_err(damaged)?);
        }
        Ok(Self { dir: dir.to_owned(), pins: pins.to_owned(), links })
    }

    /// Returns the records with their digests, oldest first.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the records, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &EvidenceRecord> {
        self.links.iter().map(|link| &link.record)
    }

    /// Returns the newest record of a stage.
    pub fn last(&self, stage: &str, chroot: Option<&str>) -> Option<&EvidenceRecord> {
        self.records().rfind(|record| record.stage == stage && record.chroot.as_deref() == chroot)
    }

    /// Returns the folder of the logs.
    pub fn logs(&self) -> PathBuf {
        self.dir.join(LOGS)
    }

    /// Completes a record with its place in the chain, and writes it.
    pub fn append(&mut self, mut record: EvidenceRecord) -> Result<&EvidenceRecord, EvidenceError> {
        record.schema = EvidenceRecord::SCHEMA.to_owned();
        record.number = self.links.len() as u64 + 1;
        record.previous = self.links.last().map(|link| link.sha256);
        record.pins.clone_from(&self.pins);
        let text = record.text();
        let path = self.dir.join(file_name(record.number));
        files::write_durably(&path, &text).map_err(IoError::doing("write a record of evidence"))?;
        let sha256 = Sha256::of_bytes(&text);
        self.links.push(Link { record, text, sha256 });
        Ok(&self.links[self.links.len() - 1].record)
    }

    /// Copies the end of a log into the folder of logs, under the digest of what is kept.
    pub fn keep_log(&self, log: &Path) -> Result<FileRecord, EvidenceError> {
        let doing = || IoError::doing(format!("keep `{}`", log.display()));
        let bytes = end_of(log).map_err(doing())?;
        let name = log.file_name().unwrap_or_default().to_string_lossy();
        let sha256 = Sha256::of_bytes(&bytes);
        let file = format!("{}-{name}", &sha256.to_string()[..16]);
        files::write_durably(&self.logs().join(&file), &bytes).map_err(doing())?;
        Ok(FileRecord { file, sha256, size: bytes.len() as u64 })
    }

    /// Returns what is wrong with the logs and the times of the chain. A time before that of an
    /// earlier record shows that the clock was set back; the order is that of the numbers.
    pub fn remarks(&self) -> Result<Vec<String>, EvidenceError> {
        let mut remarks = Vec::new();
        for (before, record) in self.records().zip(self.records().skip(1)) {
            if record.started < before.finished {
                remarks.push(format!(
                    "record {} started at {}, before record {} ended: the clock was set back",
                    record.number, record.started, before.number
                ));
            }
        }
        for record in self.records() {
            for log in &record.logs {
                match Sha256::of_file(&self.logs().join(&log.file)) {
                    Ok((sha256, _)) if sha256 == log.sha256 => {}
                    Ok(_) => remarks.push(format!("the log `{}` has changed", log.file)),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        remarks.push(format!("the log `{}` is missing", log.file));
                    }
                    Err(error) => return Err(IoError::doing("read a log")(error).into()),
                }
            }
        }
        Ok(remarks)
    }

    /// Returns the open question of the chain, if the newest record of some stage has one.
    pub fn open_questions(&self) -> Vec<&EvidenceRecord> {
        let newest = |record: &&EvidenceRecord| {
            self.last(&record.stage, record.chroot.as_deref()) == Some(*record)
        };
        self.records().filter(|record| record.outcome == Outcome::Question).filter(newest).collect()
    }
}

/// Reads the record that follows others; the error is what is wrong with it.
pub(super) fn next(links: &[Link], text: String, pins: &str) -> Result<Link, String> {
    let record: EvidenceRecord = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let previous = links.last().map(|link| link.sha256);
    if record.schema != EvidenceRecord::SCHEMA {
        return Err(format!(
            "its schema is `{}`, not `{}`",
            crate::text::visible(&record.schema),
            EvidenceRecord::SCHEMA
        ));
    }
    if record.number != links.len() as u64 + 1 {
        return Err(format!("its number is {}, not {}", record.number, links.len() + 1));
    }
    if record.previous != previous {
        return Err("it does not follow the record before it, which has another digest".to_owned());
    }
    if record.pins != pins {
        let other = crate::text::visible(&record.pins);
        return Err(format!("it is of the pin set `{other}`, not `{pins}`"));
    }
    if record.key != record.inputs.key() {
        return Err("its key is not the digest of its inputs".to_owned());
    }
    Ok(Link { record, sha256: Sha256::of_bytes(&text), text })
}

/// Returns the file name of a record.
fn file_name(number: u64) -> String {
    format!("{number:06}.json")
}

fn end_of(log: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = fs_err::File::open(log)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_LOG)))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG).read_to_end(&mut bytes)?;
    Ok(bytes)
}
