//! What the build folder shows about a component's last build: accepted results, or why the build
//! failed, and its logs. `failure.json` describes a failed build; it is next to the logs and is
//! removed with them. Nothing here changes what a plan considers stale.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::record::{BuildRecord, Results, work_dir};
use super::stage::Stage;
use crate::document::Document;
use crate::error::{Error, IoError};
use crate::files;
use crate::names::ComponentName;

/// The file name of the record.
const FAILURE: &str = "failure.json";

/// The log of rpmbuild. If it is empty, an earlier step failed.
const BUILD_LOG: &str = "build.log";

/// `failure.json`: why the last build of a component failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureRecord {
    schema: String,
    /// The component.
    pub component: String,
    /// When the build failed: RFC 3339 in UTC.
    pub finished: String,
    /// The error message.
    pub error: String,
    /// Its causes, outermost first.
    pub causes: Vec<String>,
    /// How to fix it, best first.
    pub help: Vec<String>,
}

impl Document for FailureRecord {
    const SCHEMA: &'static str = "rocmrpm/failure/1";
}

impl FailureRecord {
    /// Returns the record of a build that failed now.
    fn of(component: &ComponentName, error: &Error) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            component: component.to_string(),
            finished: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            error: error.to_string(),
            causes: error.causes(),
            help: error.help().to_vec(),
        }
    }
}

/// Records why a build failed.
pub(super) fn record_failure(
    build_dir: &Path,
    component: &ComponentName,
    error: &Error,
) -> std::io::Result<()> {
    let work = work_dir(build_dir, component);
    fs_err::create_dir_all(&work)?;
    let mut json = serde_json::to_vec_pretty(&FailureRecord::of(component, error))?;
    json.push(b'\n');
    files::write_atomically(&work.join(FAILURE), json)
}

/// The last build of a component.
#[derive(Debug)]
pub enum LastBuild {
    /// It was never built here, or its results were removed.
    None,
    /// It passed. The results are accepted.
    Passed {
        /// The record of the results.
        record: Box<BuildRecord>,
        /// When the build finished, in RFC 3339, if known.
        finished: Option<String>,
        /// The seconds that the build and its inspection took, if known.
        seconds: Option<f64>,
    },
    /// It failed, or its packages did not pass inspection.
    Failed(FailureRecord),
    /// It is running, or it was stopped.
    Unfinished,
}

impl LastBuild {
    /// Reads the state of a component's last build below a chroot's build folder. Fails if a file
    /// exists but cannot be read.
    pub fn of(build_dir: &Path, component: &ComponentName) -> Result<Self, IoError> {
        let work = work_dir(build_dir, component);
        match fs_err::read(work.join(FAILURE)) {
            Ok(bytes) => {
                let record = serde_json::from_slice::<FailureRecord>(&bytes).ok();
                if let Some(record) = record.filter(|r| r.schema == FailureRecord::SCHEMA) {
                    return Ok(Self::Failed(record));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(IoError::doing("read why a build failed")(error)),
        }
        if work.exists() {
            return Ok(Self::Unfinished);
        }
        let results = Results::of(build_dir, Stage::Rpm, component);
        Ok(match results.record()? {
            None => Self::None,
            Some(record) => {
                let (build, inspection) = results.seconds();
                let seconds = build.map(|build| build + inspection.unwrap_or(0.0));
                Self::Passed { record: Box::new(record), finished: results.finished(), seconds }
            }
        })
    }
}

/// A log of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildLog {
    /// The path below the folder of logs, such as `build.log`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The size in bytes.
    pub size: u64,
    /// When something was last written to it.
    pub modified: SystemTime,
}

/// Returns the logs of a component's last build, sorted by name.
pub fn build_logs(build_dir: &Path, component: &ComponentName) -> Result<Vec<BuildLog>, IoError> {
    let work = work_dir(build_dir, component);
    let above = match work.exists() {
        // Packages that wait for their inspection have their logs with them.
        true => vec![work.join("logs"), work.join("results/logs")],
        false => [Stage::Rpm, Stage::Srpm]
            .map(|stage| Results::of(build_dir, stage, component).dir().join("logs"))
            .into(),
    };
    let mut logs = Vec::new();
    for folder in above {
        for entry in walkdir::WalkDir::new(&folder).max_depth(3) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if error.io_error().is_some_and(is_missing) => continue,
                Err(error) => return Err(IoError::doing("list logs")(error.into())),
            };
            let (path, is_log) = (entry.path(), entry.path().extension() == Some("log".as_ref()));
            if !(is_log && entry.file_type().is_file()) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            logs.push(BuildLog {
                name: path.strip_prefix(&folder).unwrap_or(path).display().to_string(),
                path: path.to_owned(),
                size: metadata.len(),
                modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            });
        }
        if !logs.is_empty() {
            break;
        }
    }
    logs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(logs)
}

fn is_missing(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// Returns the log that a user wants to see first: that of rpmbuild, or if it did not start, the one
/// that was written last.
pub fn main_log(logs: &[BuildLog]) -> Option<&BuildLog> {
    let filled = || logs.iter().filter(|log| log.size > 0);
    filled().find(|log| log.name == BUILD_LOG).or_else(|| filled().max_by_key(|log| log.modified))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn name() -> ComponentName {
        ComponentName::parse("demo").unwrap()
    }

    #[test]
    fn shows_a_failure_until_its_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(LastBuild::of(dir.path(), &name()).unwrap(), LastBuild::None));
        fs_err::create_dir_all(work_dir(dir.path(), &name())).unwrap();
        assert!(matches!(LastBuild::of(dir.path(), &name()).unwrap(), LastBuild::Unfinished));
        let error = Error::new(Kind::Build, "`demo` failed in %build").with_help("install gcc");
        record_failure(dir.path(), &name(), &error).unwrap();
        let LastBuild::Failed(record) = LastBuild::of(dir.path(), &name()).unwrap() else {
            panic!("not failed");
        };
        assert_eq!(
            (&*record.error, record.help),
            ("`demo` failed in %build", vec!["install gcc".into()])
        );
        let path = work_dir(dir.path(), &name()).join(FAILURE);
        fs_err::write(&path, "{").unwrap();
        assert!(matches!(LastBuild::of(dir.path(), &name()).unwrap(), LastBuild::Unfinished));
        fs_err::remove_file(&path).unwrap();
        // A folder of that name exists but cannot be read as a file, not even by root.
        fs_err::create_dir(&path).unwrap();
        LastBuild::of(dir.path(), &name()).unwrap_err();
    }

    #[test]
    fn prefers_the_log_of_rpmbuild_unless_it_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(build_logs(dir.path(), &name()).unwrap(), []);
        let logs = work_dir(dir.path(), &name()).join("logs");
        fs_err::create_dir_all(logs.join("srpm")).unwrap();
        for (file, text) in [("build.log", ""), ("srpm/root.log", "b"), ("notes.txt", "c")] {
            fs_err::write(logs.join(file), text).unwrap();
        }
        let found = build_logs(dir.path(), &name()).unwrap();
        let names: Vec<&str> = found.iter().map(|log| log.name.as_str()).collect();
        assert_eq!(names, ["build.log", "srpm/root.log"]);
        assert_eq!(main_log(&found).unwrap().name, "srpm/root.log");
        fs_err::write(logs.join("build.log"), "a").unwrap();
        assert_eq!(main_log(&build_logs(dir.path(), &name()).unwrap()).unwrap().name, "build.log");
    }

    #[test]
    fn finds_the_logs_of_accepted_results() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Results::of(dir.path(), Stage::Rpm, &name()).dir().join("logs");
        fs_err::create_dir_all(&logs).unwrap();
        fs_err::write(logs.join("build.log"), "a").unwrap();
        assert_eq!(build_logs(dir.path(), &name()).unwrap()[0].path, logs.join("build.log"));
    }
}
