//! The gate between a build and its results: inspects everything, and rejects packages with errors.
//! The rules themselves are in `inspect`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use super::component::{BuildContext, rpm_count};
use super::error::ComponentError;
use super::record::{REPORT, Results};
use super::system::{sonames, system};
use super::{Job, Stage};
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::error::{Error, IoError};
use crate::events::{Event, Step, WorkPhase};
use crate::files;
use crate::inspect::{
    self, Depth, Expectations, Finding, RULES_VERSION, Report, Severity, System, Waived,
};
use crate::process::check_stop;
use crate::stack::{KeyInputs, PlannedComponent, Stack};
use crate::workspace::{Component, Workspace};

/// Returns what a component's packages are inspected against. The libraries of the components that
/// it requires count as part of the system.
pub fn expectations(stack: &Stack<'_>, component: &Component) -> Result<Expectations, Error> {
    let workspace = stack.workspace;
    let mut system = system(workspace)?;
    for required in stack.select(&[component]).iter().filter(|other| other.name != component.name) {
        let results =
            Results::of(&workspace.build_dir_of(&required.name), Stage::Rpm, &required.name);
        if let Some(report) = results.report()?.and_then(|json| serde_json::from_slice(&json).ok())
        {
            system.add_inspected(&report);
        }
    }
    Ok(Expectations {
        gpu_targets: stack.gpu_targets(component).to_vec(),
        built: true,
        device_code: component.device_code,
        waivers: component.waivers.clone(),
        system,
        ..Expectations::default()
    })
}

/// Inspects wheels together with the RPMs that they were made from. What is accepted in an RPM is
/// accepted in its wheel; an error that only the wheel has is an error.
pub fn inspect_wheels(
    component: &Component,
    expectations: &Expectations,
    rpms: &[PathBuf],
    wheels: &[PathBuf],
) -> Result<(), Error> {
    let paths: Vec<PathBuf> = rpms.iter().chain(wheels).cloned().collect();
    // Waivers name files of RPMs; findings that the RPMs have too are filtered out below.
    let expectations = Expectations { waivers: Vec::new(), ..expectations.clone() };
    let report = inspect::inspect(&paths, &expectations, Depth::Quick)?;
    let wheels: BTreeSet<String> = wheels.iter().map(|path| path.display().to_string()).collect();
    let name = |finding: &Finding| {
        let file = finding.file.as_deref().and_then(|file| file.rsplit('/').next());
        (finding.id, file.map(str::to_owned))
    };
    let in_wheel =
        |finding: &&Finding| finding.subject.as_ref().is_some_and(|path| wheels.contains(path));
    let passed: BTreeSet<_> = report.findings.iter().filter(|f| !in_wheel(f)).map(name).collect();
    let errors =
        report.errors().filter(in_wheel).filter(|finding| !passed.contains(&name(finding)));
    let errors: Vec<Finding> = errors.cloned().collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(ComponentError::Wheels { component: Some(component.name.to_string()), errors }.into())
}

/// Inspects wheels that belong to no component as one set; rejects those with errors.
pub fn inspect_foreign_wheels(wheels: &[PathBuf]) -> Result<(), Error> {
    let expectations = Expectations { system: System::fedora(), ..Expectations::default() };
    let report = inspect::inspect(wheels, &expectations, Depth::Quick)?;
    let errors: Vec<Finding> = report.errors().cloned().collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(ComponentError::Wheels { component: None, errors }.into())
}

/// Lists everything that can change the verdict on the same packages.
pub(super) fn inputs(workspace: &Workspace, component: &Component, until: Stage) -> KeyInputs {
    let mut inputs = KeyInputs::default();
    if until > Stage::Srpm {
        inputs.add("set of rules", RULES_VERSION);
        inputs.add("promise of device code", canonical(&component.device_code));
        let Workspace { chroot, provider, .. } = workspace;
        let targets = &workspace.manifest.gpu_targets;
        let sonames: Vec<_> = sonames(provider, targets).map(|(_, one)| one).collect();
        let known =
            (&chroot.libraries, &chroot.symbol_versions, sonames, &provider.search_path_tag);
        inputs.add("table of libraries", Sha256::of_bytes(canonical(&known)));
        let waivers = component.waivers.iter();
        let waivers = waivers.map(|w| canonical(&(&w.rule, &w.file, &w.found, &w.reason)));
        inputs.add("list of waivers", waivers.collect::<String>());
    }
    inputs
}

impl BuildContext<'_> {
    /// Inspects the packages in the folder `waiting` and stores the report there. An error stops
    /// the component.
    pub(super) fn inspect(
        &self,
        job: &Job<'_>,
        step: &PlannedComponent,
        waiting: &Results,
    ) -> Result<(), Error> {
        check_stop()?;
        let component = job.component;
        let started = Instant::now();
        let rpms = waiting.rpms()?;
        self.repository.check_names(&component.name, &rpms)?;
        self.phase(component, WorkPhase::Inspecting, &rpm_count(rpms.len()));
        let expectations = Expectations {
            build_roots: self.builder.build_roots(job),
            previous_kernels: self.last_kernels(component)?,
            ..expectations(self.stack, component)?
        };
        let report = inspect::inspect(&rpms, &expectations, Depth::Deep)?;
        for finding in
            report.findings.iter().filter(|finding| finding.severity == Severity::Warning)
        {
            self.events.event(Event::Warning(format!("{}: {finding}", component.name)));
        }
        for Waived { finding, reason, .. } in &report.waived {
            let detail = format!("{}: {finding}, because: {reason}", component.name);
            self.events.event(Event::Step { step: Step::Waived, detail });
        }
        if !report.has_errors() {
            // Before the verdict is recorded: dependencies that are missing today may exist
            // tomorrow.
            self.repository.exclusively(|| (self.installable)(self.stack, component, &rpms))?;
        }
        let seconds = (started.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        keep(waiting, &report, step, seconds).map_err(IoError::doing(format!("write {REPORT}")))?;
        if !report.has_errors() {
            return Ok(());
        }
        Err(ComponentError::Findings {
            component: component.name.to_string(),
            report: Box::new(report),
            path: waiting.dir().join(REPORT),
            logs: waiting.dir().join("logs"),
        }
        .into())
    }

    /// Returns the number of kernels for each target in the current results; empty if there are
    /// none to compare with.
    fn last_kernels(&self, component: &Component) -> Result<BTreeMap<String, u64>, IoError> {
        let build_dir = self.workspace.build_dir_of(&component.name);
        let results = Results::of(&build_dir, self.until, &component.name);
        Ok(results.report()?.map(|json| inspect::kernels_in(&json)).unwrap_or_default())
    }
}

/// Writes the report, and next to it what the packages were inspected against.
fn keep(
    waiting: &Results,
    report: &Report,
    step: &PlannedComponent,
    seconds: f64,
) -> std::io::Result<()> {
    // A report is plain data: strings, numbers, lists and maps with string keys.
    let mut json = serde_json::to_vec_pretty(report).unwrap_or_default();
    json.push(b'\n');
    files::write_atomically(&waiting.dir().join(REPORT), json)?;
    waiting.judge(&step.inspection, seconds)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use super::*;
    use crate::error::Kind;
    use crate::inspect::testing::HostElf;
    use crate::workspace::Provider;
    use crate::workspace::document::File;
    use crate::workspace::testing::sample;

    fn rpm(dir: &Path, library: &[u8]) -> PathBuf {
        let mut builder = rpm::PackageBuilder::new("k", "1", "MIT", "x86_64", "test");
        let options = rpm::FileOptions::new("/usr/lib/python3.14/site-packages/k/libk.so");
        builder.with_file_contents(library, options).unwrap();
        let path = dir.join("k.rpm");
        builder.build().unwrap().write_file(&path).unwrap();
        path
    }

    fn wheel(dir: &Path, library: &[u8]) -> PathBuf {
        let path = dir.join("k-1-py3-none-any.whl");
        let mut zip = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
        zip.start_file("k/libk.so", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(library).unwrap();
        zip.finish().unwrap();
        path
    }

    #[test]
    fn rejects_a_wheel_only_for_errors_that_its_rpm_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("k");
        fs_err::create_dir(&component).unwrap();
        fs_err::write(component.join("component.toml"), "").unwrap();
        fs_err::write(component.join("k.spec.tera"), "").unwrap();
        let component = Component::read(&component, "k", &mut Vec::new()).unwrap().unwrap();
        let whole = HostElf::new().needed("libc.so.6").build();
        let outcome = |in_rpm: &[u8], in_wheel: &[u8]| {
            let (rpm, wheel) = (rpm(dir.path(), in_rpm), wheel(dir.path(), in_wheel));
            let error =
                inspect_wheels(&component, &Expectations::default(), &[rpm], &[wheel]).err()?;
            Some((error.to_string(), error.kind(), error.details().concat()))
        };
        let cut = &whole[..whole.len() - 100];
        assert_eq!(outcome(&whole, &whole), None);
        let (text, kind, details) = outcome(&whole, cut).unwrap();
        assert_eq!(
            (text.as_str(), kind),
            ("the wheels of `k` did not pass inspection", Kind::Findings)
        );
        assert!(
            details.contains("k/libk.so: found") && details.contains("[elf-damaged]"),
            "{details}"
        );
        // Accepted in the RPM, possibly through a waiver.
        assert_eq!(outcome(cut, cut), None);
    }

    #[test]
    fn inspects_packages_again_when_inspection_inputs_change() {
        let dir = tempfile::tempdir().unwrap();
        let mut workspace = sample(dir.path(), "fedora-43");
        let component = |text: &str| {
            fs_err::write(dir.path().join("specs-templates/one/component.toml"), text).unwrap();
            Component::read(&dir.path().join("specs-templates/one"), "one", &mut Vec::new())
                .unwrap()
                .unwrap()
        };
        let plain = component("");
        let before = inputs(&workspace, &plain, Stage::Rpm);
        for (text, expected) in [
            ("[inspect]\ndevice-code = false\n", "promise of device code"),
            ("[[inspect.waive]]\nrule = \"elf-damaged\"\nreason = \"x\"\n", "list of waivers"),
        ] {
            let after = inputs(&workspace, &component(text), Stage::Rpm);
            assert_eq!(after.changed_since(&before), [expected], "{text}");
        }
        workspace.chroot.libraries.insert("liba.so.1".into(), "a".into());
        let after = inputs(&workspace, &plain, Stage::Rpm);
        assert_eq!(after.changed_since(&before), ["table of libraries"]);
        workspace.chroot.symbol_versions.insert("GLIBC".into(), "2.42".into());
        let again = inputs(&workspace, &plain, Stage::Rpm);
        assert_eq!(again.changed_since(&after), ["table of libraries"]);
        // A source package is not inspected.
        assert_eq!(inputs(&workspace, &plain, Stage::Srpm), KeyInputs::default());
    }

    #[test]
    fn inspection_inputs_are_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let mut workspace = sample(dir.path(), "fedora-43");
        workspace.chroot.libraries.insert("liba.so.1".into(), "a".into());
        workspace.chroot.symbol_versions.insert("GLIBC".into(), "2.42".into());
        let text = "prefix = \"/usr\"\nversion = \"7.1\"\nsearch-path-tag = \"runpath\"\n\
                    [capabilities.hip]\nruntime = \"rocm-hip\"\nsoname = \"libamdhip64.so.7\"\n";
        let file = File { name: "p.toml".into(), text: text.into() };
        workspace.provider = Provider::read("p", file, &mut Vec::new());
        let text = "[inspect]\ndevice-code = true\n[[inspect.waive]]\nrule = \"elf-damaged\"\n\
                    file = \"*/a.so\"\nreason = \"it is \\\"so\\\"\"\n";
        let folder = dir.path().join("specs-templates/one");
        fs_err::write(folder.join("component.toml"), text).unwrap();
        let component = Component::read(&folder, "one", &mut Vec::new()).unwrap().unwrap();
        let known = r#"({"liba.so.1": "a"}, {"GLIBC": "2.42"}, [(Some("rocm-hip"), Some(Soname("libamdhip64.so.7")))], Some(Runpath))"#;
        let expected = [
            (
                "list of waivers".to_owned(),
                r#"("elf-damaged", Some("*/a.so"), None, "it is \"so\"")"#.to_owned(),
            ),
            ("promise of device code".to_owned(), "Some(true)".to_owned()),
            ("set of rules".to_owned(), RULES_VERSION.to_string()),
            ("table of libraries".to_owned(), Sha256::of_bytes(known).to_string()),
        ];
        let found = inputs(&workspace, &component, Stage::Rpm);
        let found: Vec<_> =
            found.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        similar_asserts::assert_eq!(found, expected);
    }
}
