//! Reads an OSV export: a zip archive or a folder with one JSON file per advisory. Its content is
//! untrusted, so sizes are limited. It does not download exports.
//!
//! Source: OSV's documentation, "Data dumps".

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use fs_err as fs;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::advisory::{Advisory, Verdict};
use super::{FoundAdvisories, Hit, OsvError, Package};
use crate::error::IoError;
use crate::machine;
use crate::parallel;
use crate::process;

/// Maximum size of an advisory, in bytes. The largest real advisories have several hundred
/// thousand.
const MAX_ADVISORY: u64 = 8 << 20;
/// Maximum number of files in an export and maximum unpacked size in bytes: several times those of
/// npm, the largest export.
const MAX_FILES: usize = 2_000_000;
const MAX_TOTAL: u64 = 8 << 30;
/// Number of bytes to buffer before parsing.
const BATCH: usize = 32 << 20;

/// Maximum age of the newest advisory, in days: half a year, in which PyPI gets several thousand
/// advisories. Older exports are rejected.
const MAX_AGE: i64 = 180;
/// Age in days above which rocmrpm warns.
const FRESH: i64 = 30;

/// The relevant content of an export.
#[derive(Debug)]
pub struct Export {
    /// The file or folder.
    pub path: PathBuf,
    /// The time of the newest change to an advisory.
    pub newest: Timestamp,
    /// The age of the newest advisory, in days.
    pub age: i64,
    /// The advisories that name a relevant package.
    advisories: Vec<Advisory>,
    /// The ecosystems that the export covers.
    ecosystems: BTreeSet<String>,
}

impl Export {
    /// Reads an export and keeps only advisories that name one of the packages. Rejects an export
    /// that is too old at the time `now`.
    pub fn read(path: &Path, packages: &[Package], now: Timestamp) -> Result<Self, OsvError> {
        let mut reading =
            Reading { path, packages, batch: Vec::new(), held: 0, bytes: 0, kept: Vec::new() };
        reading.all()?;
        let Reading { kept, .. } = reading;
        let Some(newest) = kept.iter().map(|read| read.modified).max() else {
            return Err(OsvError::export(path, "it has no JSON file"));
        };
        let age = (now.as_second() - newest.as_second()) / (24 * 60 * 60);
        if age > MAX_AGE {
            let newest = newest.to_zoned(TimeZone::UTC).date();
            return Err(OsvError::Old {
                path: path.to_owned(),
                newest,
                days: age,
                allowed: MAX_AGE,
            });
        }
        let mut ecosystems = BTreeSet::new();
        let mut advisories = Vec::new();
        for read in kept {
            ecosystems.extend(read.ecosystems);
            advisories.extend(read.advisory);
        }
        Ok(Self { path: path.to_owned(), newest, age, advisories, ecosystems })
    }

    /// Returns the date of the newest change to an advisory.
    pub fn newest_day(&self) -> Date {
        self.newest.to_zoned(TimeZone::UTC).date()
    }

    /// Returns a warning if the export is not recent.
    pub fn warning(&self) -> Option<String> {
        let day = self.newest_day();
        (self.age > FRESH).then(|| {
            format!(
                "the newest advisory in {} is from {day}, {} days ago; later ones are missing",
                self.path.display(),
                self.age
            )
        })
    }

    /// Returns whether the export covers an ecosystem; names in the export may have a suffix.
    pub fn covers(&self, ecosystem: &str) -> bool {
        self.ecosystems.iter().any(|name| name.split(':').next() == Some(ecosystem))
    }
}

/// Returns the advisories in the exports that affect the packages.
pub fn judge(exports: &[Export], packages: &[Package]) -> FoundAdvisories {
    let mut answer = FoundAdvisories::default();
    for package in packages {
        let mut hits: Vec<Hit> = Vec::new();
        for advisory in exports.iter().flat_map(|export| &export.advisories) {
            if hits.iter().any(|hit| hit.advisory.id == advisory.id) {
                continue;
            }
            match advisory.judge(package) {
                Verdict::Affected(fixed) => hits.push(Hit { advisory: advisory.clone(), fixed }),
                Verdict::Clear => {}
                Verdict::Unclear(text) => answer.unclear.push(format!(
                    "{} is about {}, but it is unclear whether {} is affected: `{}` is not a version of {}",
                    advisory.id,
                    package.name,
                    package.version,
                    crate::text::visible(&text),
                    package.ecosystem.name()
                )),
            }
        }
        answer.hits.push(hits);
    }
    answer
}

/// The relevant content of one file.
struct Kept {
    modified: Timestamp,
    ecosystems: BTreeSet<String>,
    /// `None` if the advisory names no relevant package.
    advisory: Option<Advisory>,
}

struct Reading<'a> {
    path: &'a Path,
    packages: &'a [Package],
    /// Name and content of files to parse.
    batch: Vec<(String, Vec<u8>)>,
    /// Size of `batch`, in bytes.
    held: usize,
    /// Total number of bytes read.
    bytes: u64,
    kept: Vec<Kept>,
}

impl Reading<'_> {
    fn all(&mut self) -> Result<(), OsvError> {
        match fs::metadata(self.path) {
            Ok(about) if about.is_dir() => self.folder()?,
            Ok(_) => self.zip()?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(OsvError::export(self.path, "it does not exist"));
            }
            Err(error) => return Err(IoError::doing("read an export of OSV")(error).into()),
        }
        self.parse()
    }

    fn folder(&mut self) -> Result<(), OsvError> {
        let path = self.path;
        for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
            let entry = entry.map_err(|error| OsvError::export(path, error.to_string()))?;
            if !entry.file_type().is_file()
                || entry.path().extension().is_none_or(|end| end != "json")
            {
                continue;
            }
            let name =
                entry.path().strip_prefix(path).unwrap_or(entry.path()).display().to_string();
            let file =
                fs::File::open(entry.path()).map_err(IoError::doing("read an export of OSV"))?;
            self.take(name, file)?;
        }
        Ok(())
    }

    fn zip(&mut self) -> Result<(), OsvError> {
        let path = self.path;
        let file = fs::File::open(path).map_err(IoError::doing("read an export of OSV"))?;
        let mut archive = zip::ZipArchive::new(std::io::BufReader::new(file))
            .map_err(|error| OsvError::export(path, format!("it is not a zip archive: {error}")))?;
        if archive.len() > MAX_FILES {
            let wrong = format!("it has {} files, more than {MAX_FILES}", archive.len());
            return Err(OsvError::export(path, wrong));
        }
        for at in 0..archive.len() {
            let damaged =
                |error| OsvError::export(path, format!("file {} is damaged: {error}", at + 1));
            let member = archive.by_index(at).map_err(damaged)?;
            let name = member.name().map_err(damaged)?.into_owned();
            if member.is_file() && name.ends_with(".json") {
                self.take(name, member)?;
            }
        }
        Ok(())
    }

    /// Reads a file with a size limit that does not rely on the declared size.
    fn take(&mut self, name: String, file: impl Read) -> Result<(), OsvError> {
        let mut bytes = Vec::new();
        let read = file.take(MAX_ADVISORY + 1).read_to_end(&mut bytes);
        read.map_err(|error| OsvError::member(self.path, &name, error.to_string()))?;
        if bytes.len() as u64 > MAX_ADVISORY {
            let wrong = format!("it has more than {MAX_ADVISORY} bytes");
            return Err(OsvError::member(self.path, &name, wrong));
        }
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_TOTAL {
            return Err(OsvError::export(
                self.path,
                format!("it unpacks to more than {MAX_TOTAL} bytes"),
            ));
        }
        self.held += bytes.len();
        self.batch.push((name, bytes));
        if self.held > BATCH { self.parse() } else { Ok(()) }
    }

    fn parse(&mut self) -> Result<(), OsvError> {
        process::check_stop()?;
        let (path, packages) = (self.path, self.packages);
        let batch = std::mem::take(&mut self.batch);
        self.held = 0;
        let kept = parallel::try_map(&batch, machine::cores(), |(name, bytes)| {
            let advisory =
                Advisory::read(bytes).map_err(|wrong| OsvError::member(path, name, wrong))?;
            let ecosystems = advisory.ecosystems().map(str::to_owned).collect();
            let names = |package: &Package| {
                advisory.names(package.ecosystem).any(|name| name == package.name)
            };
            let wanted = !advisory.withdrawn && packages.iter().any(names);
            Ok::<_, OsvError>(Kept {
                modified: advisory.modified,
                ecosystems,
                advisory: wanted.then_some(advisory),
            })
        })?;
        self.kept.extend(kept);
        Ok(())
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
