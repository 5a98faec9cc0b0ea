//! The results folder and its records. `build.json` describes the inputs and outputs of a build and
//! is written once, next to the results. `judgement.json` describes what the results were inspected
//! against and is rewritten by every inspection. A result without a record does not count.
//! Inspecting and publishing results happens elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::stage::Stage;
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::IoError;
use crate::files;
use crate::gpu::GpuTarget;
use crate::names::ComponentName;
use crate::stack::{KeyInputs, Recorded};

/// The format of `build.json`.
pub const SCHEMA: &str = "rocmrpm/build/2";

/// The format of `times.json`.
const TIMES_SCHEMA: &str = "rocmrpm/times/1";

/// The format of `judgement.json`.
const JUDGEMENT_SCHEMA: &str = "rocmrpm/judgement/1";

/// The file name of mock's list of the packages in a build root.
pub(super) const BUILDROOT_LOCK: &str = "buildroot_lock.json";

/// The file name of the inspection's report.
pub(super) const REPORT: &str = "inspection.json";

/// `build.json`: the inputs and outputs of a component's build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuildRecord {
    /// The name and number of the schema.
    pub schema: String,
    /// The component.
    pub component: String,
    /// Its upstream version.
    pub version: String,
    /// Its Release, as in the spec.
    pub release: String,
    /// Whether there were uncommitted changes, or a pin was overridden.
    pub dirty: bool,
    /// The timestamp of the outputs, in seconds since 1970: that of the newest changelog entry.
    pub source_date_epoch: i64,
    /// The build key.
    pub key: Sha256,
    /// The inputs of the build key.
    pub inputs: KeyInputs,
    /// The chroot's name.
    pub chroot: String,
    /// The builder's name.
    pub builder: String,
    /// The last stage that was built: `srpm` or `rpm`.
    pub stage: String,
    /// The GPU targets it was built for.
    pub gpu_targets: Vec<String>,
    /// The version of ROCm that it was built with, if known.
    pub rocm: Option<String>,
    /// The source and the patches.
    pub sources: Vec<FileRecord>,
    /// The resulting files in the results folder.
    pub outputs: Vec<FileRecord>,
    /// The build root's packages, if the builder knows them.
    pub buildroot: Vec<String>,
    /// BuildRequires that could not be checked.
    pub unchecked_build_requires: Vec<String>,
}

/// `times.json`: how long a build took.
///
/// It is separate from `build.json`, whose digest is in the wheels: the same inputs give the same
/// wheels at any time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Times {
    schema: String,
    /// The seconds that each phase took.
    seconds: BTreeMap<String, f64>,
    /// When the build finished: RFC 3339 in UTC.
    finished: String,
}

impl Times {
    /// Returns the times of a build that ends now.
    pub fn until_now(seconds: BTreeMap<String, f64>) -> Self {
        let finished = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Self { schema: TIMES_SCHEMA.to_owned(), seconds, finished }
    }
}

/// `judgement.json`: what an inspection records next to its report.
///
/// It is separate from `build.json`, whose digest is in the wheels: inspecting packages again does
/// not change them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Judgement {
    schema: String,
    /// The inputs of the inspection.
    pub inspection: KeyInputs,
    /// The report.
    pub report: FileRecord,
    /// The seconds that the inspection took.
    pub seconds: f64,
}

impl Document for BuildRecord {
    const SCHEMA: &'static str = SCHEMA;
}

impl Document for Times {
    const SCHEMA: &'static str = TIMES_SCHEMA;
}

impl Document for Judgement {
    const SCHEMA: &'static str = JUDGEMENT_SCHEMA;
}

/// A file with its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileRecord {
    /// The file's name.
    pub file: String,
    /// Its digest.
    pub sha256: Sha256,
    /// Its size in bytes.
    pub size: u64,
}

impl FileRecord {
    /// Reads a file's digest and size.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let (sha256, size) = Sha256::of_file(path)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { file, sha256, size })
    }
}

/// The folder with the results of one component.
#[derive(Debug, Clone)]
pub struct Results {
    dir: PathBuf,
}

impl Results {
    /// Returns a component's results below a chroot's build folder. SRPMs that were built with
    /// `--until srpm` have a separate folder, so that building one does not remove the RPMs from
    /// the repository.
    pub fn of(build_dir: &Path, stage: Stage, component: &ComponentName) -> Self {
        let folder = if stage <= Stage::Srpm { "srpms" } else { "results" };
        Self { dir: build_dir.join(folder).join(component.as_str()) }
    }

    /// Returns a component's results that are not accepted: not inspected yet, or with errors. They
    /// are in the folder where the component is built.
    pub fn rejected(build_dir: &Path, component: &ComponentName) -> Self {
        Self { dir: work_dir(build_dir, component).join("results") }
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the record, if there is a complete one in the current format. Fails if a file exists
    /// but cannot be read: an existing result must not count as missing.
    pub fn record(&self) -> Result<Option<BuildRecord>, IoError> {
        let record: Option<BuildRecord> = self.read_json("build.json")?;
        Ok(record.filter(|record| record.schema == SCHEMA))
    }

    /// Returns the inspection's report, if there is one.
    pub(super) fn report(&self) -> Result<Option<Vec<u8>>, IoError> {
        self.read(REPORT)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, IoError> {
        match fs_err::read(self.dir.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error)),
        }
    }

    fn read_json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, IoError> {
        let bytes = self.read(name)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    fn judgement(&self) -> Result<Option<Judgement>, IoError> {
        let judgement: Option<Judgement> = self.read_json("judgement.json")?;
        Ok(judgement.filter(|judgement| judgement.schema == JUDGEMENT_SCHEMA))
    }

    /// Returns the seconds that the build and its inspection took. They are only used for
    /// estimates, so values that cannot be read count as unknown.
    pub fn seconds(&self) -> (Option<f64>, Option<f64>) {
        let times: Option<Times> = self.read_json("times.json").unwrap_or_default();
        let judgement = self.judgement().unwrap_or_default();
        let build =
            times.filter(|times| times.schema == TIMES_SCHEMA).map(|t| t.seconds.values().sum());
        let plain = |seconds: &f64| seconds.is_finite() && *seconds >= 0.0;
        (build.filter(plain), judgement.map(|judgement| judgement.seconds).filter(plain))
    }

    /// Returns when the build finished, in RFC 3339, if that is known.
    pub(super) fn finished(&self) -> Option<String> {
        let times: Option<Times> = self.read_json("times.json").unwrap_or_default();
        times.filter(|times| times.schema == TIMES_SCHEMA).map(|times| times.finished)
    }

    /// Returns what a plan compares with, if there is a record. Checks the presence and size of
    /// files; their digests are checked where the files are used.
    pub fn recorded(&self) -> Result<Option<Recorded>, IoError> {
        let Some(record) = self.record()? else { return Ok(None) };
        let damaged = self.damage(&record)?;
        let inspection = self.judgement()?.map(|judgement| judgement.inspection);
        Ok(Some(Recorded { inputs: record.inputs, inspection, damaged }))
    }

    fn damage(&self, record: &BuildRecord) -> Result<Option<String>, IoError> {
        let report = self.judgement()?.map(|judgement| judgement.report);
        for output in record.outputs.iter().chain(&report) {
            match fs_err::metadata(self.dir.join(&output.file)) {
                Ok(metadata) if metadata.len() == output.size => {}
                Ok(_) => return Ok(Some(format!("{} changed on disk", output.file))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Ok(Some(format!("{} is missing", output.file)));
                }
                Err(error) => return Err(unreadable(error)),
            }
        }
        Ok(None)
    }

    /// Returns the record and the binary RPMs of the results; `None` if a result is damaged, so
    /// that a repository can be made without it.
    pub fn accepted(&self) -> Result<Option<(BuildRecord, Vec<PathBuf>)>, IoError> {
        let Some(record) = self.record()? else { return Ok(None) };
        if self.damage(&record)?.is_some() {
            return Ok(None);
        }
        let mut rpms: Vec<PathBuf> = record
            .outputs
            .iter()
            .filter(|o| is_binary_rpm(&o.file))
            .map(|o| self.dir.join(&o.file))
            .collect();
        rpms.sort();
        Ok(Some((record, rpms)))
    }

    /// Returns the binary RPMs of accepted results.
    pub fn rpms(&self) -> Result<Vec<PathBuf>, IoError> {
        Ok(self.accepted()?.map(|(_, rpms)| rpms).unwrap_or_default())
    }

    /// Writes how long the build took, and then the record, which makes the results count.
    pub(super) fn write(&self, record: &BuildRecord, times: &Times) -> std::io::Result<()> {
        self.write_json("times.json", times)?;
        self.write_json("build.json", record)
    }

    /// Records what the packages were inspected against, and the resulting report.
    pub(super) fn judge(&self, inspection: &KeyInputs, seconds: f64) -> std::io::Result<()> {
        let report = FileRecord::of(&self.dir.join(REPORT))?;
        let schema = JUDGEMENT_SCHEMA.to_owned();
        let judgement = Judgement { schema, inspection: inspection.clone(), report, seconds };
        self.write_json("judgement.json", &judgement)
    }

    fn write_json(&self, name: &str, document: &impl Serialize) -> std::io::Result<()> {
        let mut json = serde_json::to_vec_pretty(document)?;
        json.push(b'\n');
        files::write_atomically(&self.dir.join(name), json)
    }

    /// Replaces the old results with a folder of new ones, including their record. A process that
    /// is killed in between leaves either the old or the new results.
    pub fn replace_with(&self, new: &Path) -> std::io::Result<()> {
        fs_err::create_dir_all(self.dir.parent().unwrap_or(Path::new(".")))?;
        files::exchange(new, &self.dir)
    }
}

fn unreadable(error: std::io::Error) -> IoError {
    IoError::doing("read the results of a build")(error)
}

/// Returns whether a file name is that of a binary RPM.
pub(super) fn is_binary_rpm(name: &str) -> bool {
    name.ends_with(".rpm") && !name.ends_with(".src.rpm")
}

/// Returns the folder in which a component is built.
pub(super) fn work_dir(build_dir: &Path, component: &ComponentName) -> PathBuf {
    build_dir.join("work").join(component.as_str())
}

/// Returns the folder that a builder builds a component in.
pub fn build_folder(build_dir: &Path, component: &ComponentName) -> PathBuf {
    work_dir(build_dir, component).join("build")
}

/// Returns target names as they are written in records.
pub fn target_names(targets: &[GpuTarget]) -> Vec<String> {
    targets.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(dir: &Path) -> Results {
        Results::of(dir, Stage::Rpm, &ComponentName::parse("demo").unwrap())
    }

    #[test]
    fn fails_on_an_unreadable_record() {
        let dir = tempfile::tempdir().unwrap();
        let results = results(dir.path());
        assert!(results.record().unwrap().is_none() && results.recorded().unwrap().is_none());
        assert!(results.accepted().unwrap().is_none() && results.rpms().unwrap().is_empty());
        // A folder of that name exists but cannot be read as a file, not even by root.
        fs_err::create_dir_all(results.dir().join("build.json")).unwrap();
        for error in [
            results.record().unwrap_err(),
            results.recorded().map(drop).unwrap_err(),
            results.accepted().map(drop).unwrap_err(),
            results.rpms().map(drop).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), "cannot read the results of a build");
        }
    }

    #[test]
    fn treats_a_damaged_record_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        let results = results(dir.path());
        fs_err::create_dir_all(results.dir()).unwrap();
        fs_err::write(results.dir().join("build.json"), "{").unwrap();
        assert!(results.record().unwrap().is_none());
    }

    #[test]
    fn ignores_times_and_judgements_of_another_schema() {
        let dir = tempfile::tempdir().unwrap();
        let results = results(dir.path());
        fs_err::create_dir_all(results.dir()).unwrap();
        let write = |name: &str, json: serde_json::Value| {
            fs_err::write(results.dir().join(name), json.to_string()).unwrap();
        };
        let file = serde_json::json!({ "file": "report.json", "sha256": Sha256::of_bytes("x"), "size": 1 });
        for (times, judgement, expected) in [
            (TIMES_SCHEMA, JUDGEMENT_SCHEMA, (Some(3.0), Some(0.5))),
            ("rocmrpm/times/0", JUDGEMENT_SCHEMA, (None, Some(0.5))),
            (TIMES_SCHEMA, "rocmrpm/judgement/0", (Some(3.0), None)),
        ] {
            let seconds = serde_json::json!({ "build": 1.0, "install": 2.0 });
            write(
                "times.json",
                serde_json::json!({ "schema": times, "seconds": seconds, "finished": "" }),
            );
            let judgement = serde_json::json!({
                "schema": judgement, "inspection": {}, "report": file, "seconds": 0.5
            });
            write("judgement.json", judgement);
            assert_eq!(results.seconds(), expected);
        }
        write(
            "times.json",
            serde_json::json!({ "schema": TIMES_SCHEMA, "seconds": { "build": -1.0 }, "finished": "" }),
        );
        assert_eq!(results.seconds().0, None, "a negative time");
    }

    #[test]
    fn source_packages_have_their_own_folder() {
        let demo = ComponentName::parse("demo").unwrap();
        for (stage, folder) in [
            (Stage::Spec, "b/srpms/demo"),
            (Stage::Srpm, "b/srpms/demo"),
            (Stage::Rpm, "b/results/demo"),
        ] {
            assert_eq!(
                Results::of(Path::new("b"), stage, &demo).dir(),
                Path::new(folder),
                "{stage:?}"
            );
        }
    }

    #[test]
    fn source_packages_are_not_binary_rpms() {
        assert!(is_binary_rpm("a-1-1.noarch.rpm"));
        assert!(!is_binary_rpm("a-1-1.src.rpm"));
        assert!(!is_binary_rpm("build.json"));
    }

    #[test]
    fn targets_are_recorded_by_name() {
        let targets = ["gfx1151", "gfx90a"].map(|name| GpuTarget::parse(name).unwrap());
        assert_eq!(target_names(&targets), ["gfx1151", "gfx90a"]);
    }

    #[test]
    fn accepts_results_until_a_file_is_missing_or_changes() {
        let dir = tempfile::tempdir().unwrap();
        let results = results(dir.path());
        fs_err::create_dir_all(results.dir()).unwrap();
        let write = |name: &str, text: &str| fs_err::write(results.dir().join(name), text).unwrap();
        let outputs = ["b.rpm", "a.rpm", "a.src.rpm", "a.log"].map(|name| {
            write(name, "x");
            FileRecord::of(&results.dir().join(name)).unwrap()
        });
        let record = BuildRecord {
            schema: SCHEMA.into(),
            component: "demo".into(),
            version: "1".into(),
            release: "1".into(),
            dirty: false,
            source_date_epoch: 0,
            key: Sha256::of_bytes("x"),
            inputs: KeyInputs::default(),
            chroot: "host".into(),
            builder: "host".into(),
            stage: "rpm".into(),
            gpu_targets: Vec::new(),
            rocm: None,
            sources: Vec::new(),
            outputs: outputs.to_vec(),
            buildroot: Vec::new(),
            unchecked_build_requires: Vec::new(),
        };
        results.write(&record, &Times::until_now(BTreeMap::new())).unwrap();
        write(REPORT, "{}");
        results.judge(&KeyInputs::default(), 1.0).unwrap();
        let rpms = || {
            results
                .rpms()
                .unwrap()
                .iter()
                .map(|p| p.strip_prefix(results.dir()).unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let damage = || results.recorded().unwrap().unwrap().damaged;
        assert_eq!((rpms(), damage()), (vec!["a.rpm".into(), "b.rpm".into()], None));
        for (name, original) in [("a.log", "x"), (REPORT, "{}")] {
            write(name, "longer");
            assert_eq!((rpms(), damage()), (vec![], Some(format!("{name} changed on disk"))));
            fs_err::remove_file(results.dir().join(name)).unwrap();
            assert_eq!((rpms(), damage()), (vec![], Some(format!("{name} is missing"))));
            write(name, original);
            assert_eq!(damage(), None);
        }
        let other = BuildRecord { schema: "rocmrpm/build/1".into(), ..record };
        results.write_json("build.json", &other).unwrap();
        assert!(results.record().unwrap().is_none());
    }

    /// Wheels contain the digest of this file, and are rebuilt if it changes.
    #[test]
    fn the_bytes_of_a_record_are_pinned() {
        let sha256 = Sha256::of_bytes("x");
        let file = FileRecord { file: "a.rpm".into(), sha256, size: 1 };
        let mut inputs = KeyInputs::default();
        inputs.add("spec", "y");
        let record = BuildRecord {
            schema: SCHEMA.into(),
            component: "demo".into(),
            version: "1".into(),
            release: "2".into(),
            dirty: false,
            source_date_epoch: 3,
            key: sha256,
            inputs,
            chroot: "host".into(),
            builder: "mock".into(),
            stage: "rpm".into(),
            gpu_targets: vec!["gfx1151".into()],
            rocm: None,
            sources: vec![file.clone()],
            outputs: vec![file],
            buildroot: vec!["bash-5".into()],
            unchecked_build_requires: vec!["c".into()],
        };
        let file = format!(r#"[{{"file":"a.rpm","sha256":"{sha256}","size":1}}]"#);
        let expected = format!(
            "{{{}{},{},{}{file}{}{file}{}}}",
            r#""schema":"rocmrpm/build/2","component":"demo","version":"1","release":"2","dirty":false,"#,
            format_args!(r#""source_date_epoch":3,"key":"{sha256}""#),
            r#""inputs":{"spec":"y"},"chroot":"host","builder":"mock","stage":"rpm""#,
            r#""gpu_targets":["gfx1151"],"rocm":null,"sources":"#,
            r#","outputs":"#,
            r#","buildroot":["bash-5"],"unchecked_build_requires":["c"]"#
        );
        assert_eq!(serde_json::to_string(&record).unwrap(), expected);
    }
}
