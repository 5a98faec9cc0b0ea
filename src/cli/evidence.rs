//! `rocmrpm evidence`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{CommandResult, args};
use crate::document::Document;
use crate::error::{Error, IoError};
use crate::evidence::{Bundle, EvidenceError, EvidenceRecord, Outcome, evidence_page, import};
use crate::files;
use crate::pipeline::{self, evidence_folder};
use crate::report::{Shell, Style, Table, count};
use crate::rpms::signing::Signer;
use crate::workspace::{Selection, Workspace};

pub(super) fn run(command: &args::Evidence, dir: &Path, shell: &Shell) -> CommandResult {
    match command {
        args::Evidence::Show(command) => show(command, dir, shell),
        args::Evidence::Check(command) => check(command, dir, shell),
        args::Evidence::Export(command) => export(command, dir, shell),
        args::Evidence::Import(command) => add(command, dir, shell),
    }
}

/// What `rocmrpm evidence show --json` prints: the records of a pin set.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EvidenceReport<'a> {
    schema: &'static str,
    /// The pin set.
    pins: &'a str,
    /// The records, oldest first.
    records: Vec<&'a EvidenceRecord>,
}

impl Document for EvidenceReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/evidence-list/1";
}

fn show(args: &args::EvidenceShow, dir: &Path, shell: &Shell) -> CommandResult {
    let (root, pins, stack) = pipeline::locate(dir, args.pins.as_deref())?;
    let (chain, imported) = pipeline::read(&root, &stack, &pins)?;
    if let (true, Some(chroot)) = (args.html, &args.chroot) {
        shell.data(evidence_page(&chain, &imported, &stack, &pins, chroot))?;
        return Ok(0);
    }
    let concerns = |record: &&EvidenceRecord| {
        let of = (record.chroot.as_ref(), args.chroot.as_ref());
        matches!(of, (None, _) | (_, None)) || of.0 == of.1
    };
    let records: Vec<&EvidenceRecord> = chain.records().filter(concerns).collect();
    if args.json {
        shell.json(&EvidenceReport { schema: EvidenceReport::SCHEMA, pins: &pins, records })?;
        return Ok(0);
    }
    if records.is_empty() {
        shell.talk(format!("no records of `{pins}`; `rocmrpm pipeline run` writes them"));
        return Ok(0);
    }
    let mut table = Table::new(&["record", "stage", "chroot", "result", "finished", "summary"]);
    for record in records {
        let style = match record.outcome {
            Outcome::Passed | Outcome::Accepted => Style::Good,
            Outcome::Question => Style::Warning,
            Outcome::Failed => Style::Bad,
        };
        table.styled_row(vec![
            (None, record.number.to_string()),
            (None, record.stage.clone()),
            (None, record.chroot.clone().unwrap_or_default()),
            (Some(style), record.outcome.name().to_owned()),
            (Some(Style::Dim), record.finished.clone()),
            (None, record.summary.clone()),
        ]);
    }
    shell.data(table.text())?;
    Ok(0)
}

/// What `rocmrpm evidence check --json` prints: whether the evidence of a pin set is whole.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EvidenceCheckReport<'a> {
    schema: &'static str,
    /// The pin set.
    pins: &'a str,
    /// The number of records, all of which follow each other.
    records: usize,
    /// The number of imported files, all with valid signatures.
    imported: usize,
    /// What is missing or doubtful: logs, and times that show that the clock was set back.
    remarks: &'a [String],
}

impl Document for EvidenceCheckReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/evidence-check/1";
}

fn check(args: &args::EvidenceCheck, dir: &Path, shell: &Shell) -> CommandResult {
    let (root, pins, stack) = pipeline::locate(dir, args.pins.as_deref())?;
    let (chain, imported) = pipeline::read(&root, &stack, &pins)?;
    let (imported, records, remarks) = (imported.len(), chain.links().len(), chain.remarks()?);
    if args.json {
        let schema = EvidenceCheckReport::SCHEMA;
        let (pins, remarks) = (pins.as_str(), remarks.as_slice());
        shell.json(&EvidenceCheckReport { schema, pins, records, imported, remarks })?;
        return Ok(0);
    }
    remarks.iter().for_each(|remark| shell.warning(remark));
    let all = count(records, "record");
    let others = count(imported, "imported file");
    shell.status(Style::Good, "Checked", format!("{all} of {pins}, {others}"));
    Ok(0)
}

fn export(args: &args::EvidenceExport, dir: &Path, shell: &Shell) -> CommandResult {
    let (root, pins, stack) = pipeline::locate(dir, args.pins.as_deref())?;
    let (chain, _) = pipeline::read(&root, &stack, &pins)?;
    let bytes = Bundle::of(&chain, &stack, &pins).bytes();
    let manifest = Workspace::load(&root, &Selection::default())?.manifest;
    let signature = match (&manifest.signing_key, args.unsigned) {
        (_, true) => None,
        (None, false) => return Err(EvidenceError::NoKey.into()),
        (Some(key), false) => Some(Signer::find(key, &manifest.name)?.sign(&bytes)?),
    };
    let mut name = args.file.clone().into_os_string();
    name.push(".asc");
    let write = |path: &Path, bytes: &[u8]| -> Result<(), Error> {
        let written = files::write_durably(path, bytes);
        Ok(written.map_err(IoError::doing(format!("write `{}`", path.display())))?)
    };
    if let Some(signature) = &signature {
        write(&PathBuf::from(name), signature)?;
    }
    write(&args.file, &bytes)?;
    let records = count(chain.links().len(), "record");
    shell.status(Style::Good, "Exported", format!("{records} to {}", args.file.display()));
    Ok(0)
}

fn add(args: &args::EvidenceImport, dir: &Path, shell: &Shell) -> CommandResult {
    let (root, pins, stack) = pipeline::locate(dir, args.pins.as_deref())?;
    let folder = evidence_folder(&root, &pins);
    let imported = import(&args.file, &args.key, &folder, &stack, &pins)?;
    let records = count(imported.links.len(), "record");
    shell.status(Style::Good, "Imported", format!("{records} signed by {}", imported.key));
    Ok(0)
}
