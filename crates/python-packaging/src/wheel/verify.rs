//! Proves that wheels are made from the files of their RPMs: plans each wheel again from the RPMs
//! and compares it with the file on disk, member by member, by digest. `report` prints the result.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;
use sha2::Digest as _;

use super::archive::{Content, Member, SHEBANG};
use super::intact::Archive;
use super::payload::Spool;
use super::provenance::Relinked;
use super::read::{Wrong, each_block, members, metadata_file, open};
use super::source::Source;
use super::{Request, WheelError, record};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::files;
use rocmrpm_base::process;
use rocmrpm_base::text::visible;

/// Upper bound on the reported lines of a changed text.
const MAX_CHANGES: usize = 200;

/// A wheel compared with its RPMs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// The wheel's file name.
    pub wheel: String,
    /// The RPMs, by file name.
    pub rpms: Vec<String>,
    /// How many members are files of the RPMs, byte for byte.
    pub identical: usize,
    /// Their size in bytes.
    pub identical_bytes: u64,
    /// The members that rocmrpm makes.
    pub made: Vec<Made>,
    /// The differences.
    pub differences: Vec<Difference>,
    /// The libraries of AMD's wheels that importing the wheel should load ([`super::preloads`]).
    #[serde(skip)]
    pub preloads: BTreeSet<String>,
}

/// A member that is not a file of an RPM, or has a different first line or search path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Made {
    /// The member's name.
    pub member: String,
    /// The lines that differ from the RPM's file, after `-` and `+`; empty if the RPM has no such
    /// file, or an identical one.
    pub changes: Vec<String>,
}

/// A difference between a wheel and its RPMs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The member's name; `None` for the file as a whole.
    pub member: Option<String>,
    /// What is wrong.
    pub what: String,
    /// The digest that it should have.
    pub expected: Option<Sha256>,
    /// The digest that it has.
    pub found: Option<Sha256>,
}

impl Difference {
    /// Describes a problem with a whole file.
    pub fn of_file(what: impl AsRef<str>, expected: Option<Sha256>, found: Option<Sha256>) -> Self {
        Self { member: None, what: visible(what.as_ref()), expected, found }
    }

    fn of_member(name: &str, what: &str, expected: Option<Sha256>, found: Option<Sha256>) -> Self {
        Self { member: Some(name.to_owned()), ..Self::of_file(what, expected, found) }
    }
}

/// Compares the wheels in `request.out_dir` with those that [`super::build`] would make from the
/// RPMs. Returns one proof for each wheel that exists or should exist, sorted. Writes nothing.
pub fn verify(request: Request<'_>) -> Result<Vec<Proof>, WheelError> {
    let folder =
        request.out_dir.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let mut spool = Spool::new(folder)?;
    let mut proofs = Vec::new();
    for plan in super::plans(request, &mut spool)? {
        process::check_stop()?;
        let path = request.out_dir.join(&plan.file_name);
        let mut proof = Proof {
            wheel: plan.file_name.clone(),
            rpms: plan.rpms.clone(),
            preloads: plan.preloads.clone(),
            ..Proof::default()
        };
        let expected = Expected {
            members: &plan.members,
            dist_info: &plan.dist_info,
            replaced: &plan.replaced,
            relinked: &plan.relinked,
            bundled: &plan.bundled,
        };
        compare(&path, expected, &spool, &mut proof)?;
        proofs.push(proof);
    }
    add_strays(request.out_dir, &mut proofs)?;
    proofs.sort_by(|a, b| a.wheel.cmp(&b.wheel));
    Ok(proofs)
}

/// Adds a failed proof for each wheel in a folder that has no proof yet.
pub fn add_strays(dir: &Path, proofs: &mut Vec<Proof>) -> io::Result<()> {
    for wheel in files::names_in(dir)?.into_iter().filter(|name| name.ends_with(".whl")) {
        if !proofs.iter().any(|proof| proof.wheel == wheel) {
            let found = Some(Sha256::of_file(&dir.join(&wheel))?.0);
            let difference =
                Difference::of_file("no RPM of the component makes this wheel", None, found);
            proofs.push(Proof { wheel, differences: vec![difference], ..Proof::default() });
        }
    }
    Ok(())
}

/// What a wheel should contain.
#[derive(Clone, Copy)]
pub(super) struct Expected<'a> {
    /// The members, except for RECORD.
    pub members: &'a BTreeMap<String, Member>,
    /// The name of the dist-info folder.
    pub dist_info: &'a str,
    /// The texts of the RPMs' files that rocmrpm regenerates, by member.
    pub replaced: &'a BTreeMap<String, String>,
    /// The members that differ from the RPMs' files in their search paths.
    pub relinked: &'a BTreeMap<String, Relinked>,
    /// The members that are from a package of ROCm, each with the file name of that package.
    pub bundled: &'a BTreeMap<String, String>,
}

/// Compares a wheel with what it should contain, and adds the result to `proof`.
pub(super) fn compare(
    path: &Path,
    expected: Expected<'_>,
    spool: &Spool,
    proof: &mut Proof,
) -> Result<(), WheelError> {
    let file = match fs_err::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            proof.differences.push(Difference::of_file("the wheel is missing", None, None));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    match compare_members(&Source::new(file)?, expected, spool, proof) {
        Err(Wrong::Content(reason)) => {
            let found = Some(Sha256::of_file(path)?.0);
            proof.differences.push(Difference::of_file(reason, None, found));
            Ok(())
        }
        Err(Wrong::Io(error)) => Err(error.into()),
        Err(Wrong::Stopped(error)) => Err(error.into()),
        Ok(()) => Ok(()),
    }
}

fn compare_members(
    file: &Source,
    plan: Expected<'_>,
    spool: &Spool,
    proof: &mut Proof,
) -> Result<(), Wrong> {
    let mut archive = open(file)?;
    let there = members(&archive)?;
    let record_name = format!("{}/RECORD", plan.dist_info);
    let mut listed = BTreeMap::new();
    for (name, member) in plan.members {
        let (expected, size) = digest(&member.content, spool).map_err(Wrong::Io)?;
        listed.insert(
            name.clone(),
            (format!("sha256={}", record::base64(expected.as_bytes())), size.to_string()),
        );
        let Some(at) = there.get(name) else {
            proof.differences.push(Difference::of_member(
                name,
                "it is missing",
                Some(expected),
                None,
            ));
            continue;
        };
        let found = match hash(&mut archive, *at, name) {
            Err(Wrong::Content(reason)) => {
                proof.differences.push(Difference::of_member(name, &reason, Some(expected), None));
                continue;
            }
            found => found?,
        };
        let mode = archive.by_index_data(*at).ok().and_then(|entry| entry.unix_mode()).unwrap_or(0);
        if found != expected {
            let what = match &member.content {
                Content::File(_) => "it differs from the RPM's file",
                Content::Script(..) | Content::Text(_) => {
                    "it differs from what rocmrpm makes from the RPMs"
                }
            };
            proof.differences.push(Difference::of_member(name, what, Some(expected), Some(found)));
        } else if (mode & 0o111 != 0) != member.executable {
            let what = if member.executable { "it is not executable" } else { "it is executable" };
            proof.differences.push(Difference::of_member(name, what, Some(expected), Some(found)));
        } else {
            match made(name, member, plan, spool).map_err(Wrong::Io)? {
                Some(made) => proof.made.push(made),
                None => {
                    proof.identical += 1;
                    proof.identical_bytes += size;
                }
            }
        }
    }
    let record = there.get(&record_name).copied();
    for (name, at) in &there {
        if !plan.members.contains_key(name) && Some(*at) != record {
            process::check_stop()?;
            let found = hash(&mut archive, *at, name).ok();
            let what = "no file in the RPMs corresponds to it";
            proof.differences.push(Difference::of_member(name, what, None, found));
        }
    }
    listed.insert(record_name.clone(), (String::new(), String::new()));
    let Some(at) = record else {
        proof.differences.push(Difference::of_member(&record_name, "it is missing", None, None));
        return Ok(());
    };
    match compare_record(&metadata_file(&mut archive, plan.dist_info, "RECORD"), &listed) {
        None => proof.made.push(Made { member: record_name, changes: Vec::new() }),
        Some(what) => {
            let found = hash(&mut archive, at, &record_name).ok();
            proof.differences.push(Difference::of_member(&record_name, &what, None, found));
        }
    }
    Ok(())
}

/// Describes what is wrong with a RECORD that should list exactly these members, each with its
/// digest and size.
fn compare_record(
    text: &Result<String, Wrong>,
    expected: &BTreeMap<String, (String, String)>,
) -> Option<String> {
    let text = match text {
        Ok(text) => text,
        Err(Wrong::Content(reason)) => return Some(reason.clone()),
        Err(Wrong::Io(error)) => return Some(error.to_string()),
        Err(Wrong::Stopped(error)) => return Some(error.to_string()),
    };
    if text.lines().count() > expected.len() {
        return Some("it has more lines than the wheel has members".into());
    }
    let lines = match record::parse(text) {
        Ok(lines) => lines,
        Err(reason) => return Some(reason),
    };
    let mut seen = BTreeSet::new();
    for line in &lines {
        let recorded = (line.digest.clone(), line.size.clone());
        if expected.get(&line.member) != Some(&recorded) || !seen.insert(&line.member) {
            return Some(format!("its line for `{}` does not match the RPM's file", line.member));
        }
    }
    let missing = expected.keys().find(|name| !seen.contains(name))?;
    Some(format!("it has no line for `{missing}`"))
}

fn hash(archive: &mut Archive<'_>, at: usize, name: &str) -> Result<Sha256, Wrong> {
    let size = archive.by_index_data(at).map_or(0, |entry| entry.size());
    let mut hasher = Sha256::hasher();
    // At most the size stated in the archive; the sum of these sizes is limited.
    match each_block(archive, at, size.saturating_add(1), name, |block| hasher.update(block))? {
        length if length == size => Ok(hasher.into()),
        _ => Err(format!("`{}` does not have the stated size", name.escape_debug()).into()),
    }
}

/// Returns the digest and size that a member has once it is written.
fn digest(content: &Content, spool: &Spool) -> io::Result<(Sha256, u64)> {
    match content {
        Content::File(stored) => Ok((stored.sha256, stored.size)),
        Content::Script(stored, skip) => {
            Sha256::of_reader(SHEBANG.chain(spool.reader(*stored, *skip)))
        }
        Content::Text(bytes) => Ok((Sha256::of_bytes(bytes), bytes.len() as u64)),
    }
}

/// Describes how rocmrpm made a member; `None` for a file of the RPM.
fn made(
    name: &str,
    member: &Member,
    plan: Expected<'_>,
    spool: &Spool,
) -> io::Result<Option<Made>> {
    let changes = match &member.content {
        Content::File(_) => match plan.relinked.get(name) {
            Some(Relinked { old, new, .. }) => {
                vec![format!("-RUNPATH {old}"), format!("+RUNPATH {new}")]
            }
            None => match plan.bundled.get(name) {
                Some(package) => vec![format!("+from {package}")],
                None => return Ok(None),
            },
        },
        Content::Script(stored, skip) => {
            let mut line = Vec::new();
            spool.reader(*stored, 0).take(*skip).read_to_end(&mut line)?;
            let old = String::from_utf8_lossy(&line).trim_end().to_owned();
            vec![format!("-{old}"), format!("+{}", String::from_utf8_lossy(SHEBANG).trim_end())]
        }
        Content::Text(bytes) => match plan.replaced.get(name) {
            Some(old) => changes(old, &String::from_utf8_lossy(bytes)),
            None => Vec::new(),
        },
    };
    Ok(Some(Made {
        member: name.to_owned(),
        changes: changes.iter().map(|line| visible(line)).collect(),
    }))
}

/// Returns the lines in which two texts differ, with a leading `-` or `+`.
fn changes(old: &str, new: &str) -> Vec<String> {
    let diff = similar::TextDiff::from_lines(old, new);
    let changed =
        diff.iter_all_changes().filter(|change| change.tag() != similar::ChangeTag::Equal);
    changed
        .take(MAX_CHANGES)
        .map(|change| format!("{}{}", change.tag(), change.value().trim_end()))
        .collect()
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
