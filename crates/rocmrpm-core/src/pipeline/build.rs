//! The stages that build and prove: the plan, the build with its inspection, the proof that packages can
//! be installed together, and the verification of an installation.

use std::path::{Path, PathBuf};

use super::copr::project_of;
use super::stage::{self, Flow, When};
use super::{Pipeline, PipelineBuilder, PipelineStage};
use crate::build::{
    Builder as _, FileRecord, MockOptions, Outcome, Prepared, Results, Stage, build_logs,
    choose_builder, main_log, prepare, result_rpms,
};
use crate::copr::CoprBuilder;
use crate::digest::Sha256;
use crate::error::{Error, IoError, Kind};
use crate::evidence::{Chain, ComponentEvidence, Draft, PackageEvidence};
use crate::files::names_in;
use crate::machine;
use crate::names::ComponentName;
use crate::process::find_program;
use crate::production::{Order, produce};
use crate::proof::{NotInstallable, closed};
use crate::rpms::header;
use crate::stack::{KeyInputs, Stack, Verdict};
use crate::style::count;
use crate::tier::Tier;
use crate::verify::{self, Smoke, Subject, verify};
use crate::workspace::Workspace;

impl Pipeline<'_> {
    /// Renders the specs, and lists what will be built.
    pub(super) fn plan(&self, chroot: &str, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.workspace(chroot)?;
        let mut inputs = KeyInputs::default();
        inputs.add("commit", format!("git:{}", self.place.head()?));
        let always = (inputs, When::Always);
        stage::run(PipelineStage::Plan, Some(chroot), always, chain, self.events, |draft, _| {
            let stack = Stack::new(&workspace)?;
            let selected = stack.named_with_requirements(&[])?;
            let (identity, prepared) = match self.request.builder {
                PipelineBuilder::Local(asked) => {
                    let options = MockOptions::default();
                    let (builder, _) = choose_builder(&stack, asked, Stage::Rpm, options);
                    let prepared = prepare(&stack, selected, builder.as_ref(), Stage::Rpm)?;
                    (builder.identity(), prepared)
                }
                PipelineBuilder::Copr => {
                    let project = project_of(&workspace, chroot)?;
                    let client = self.client(&project)?;
                    let builder = CoprBuilder::new(&client, &project, &workspace, self.events)?;
                    (builder.identity(), prepare(&stack, selected, &builder, Stage::Rpm)?)
                }
            };
            draft.inputs.add("builder", identity);
            for step in &prepared.plan.steps {
                draft.inputs.add(format!("key of {}", step.component), step.key);
                let reasons = match &step.verdict {
                    Verdict::Fresh => continue,
                    Verdict::Inspect(reasons) | Verdict::Stale(reasons) => reasons.join(", "),
                };
                draft.details.push(format!("{}: {reasons}", step.component));
            }
            draft.components = rendered(&prepared);
            let all = count(prepared.plan.steps.len(), "component");
            draft.summary = format!("{} of {all} to build", prepared.plan.stale());
            Ok(false)
        })
    }

    /// Builds and inspects what is stale, and makes wheels and the index.
    pub(super) fn build(&self, chroot: &str, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.workspace(chroot)?;
        let stack = Stack::new(&workspace)?;
        let mut inputs = KeyInputs::default();
        inputs.add("commit", format!("git:{}", self.place.head()?));
        let always = (inputs, When::Always);
        stage::run(PipelineStage::Build, Some(chroot), always, chain, self.events, |draft, _| {
            let builder = match self.request.builder {
                PipelineBuilder::Local(asked) => asked,
                PipelineBuilder::Copr => None,
            };
            let order = Order {
                builder,
                offline: self.request.offline,
                timeout: self.request.timeout,
                ..Order::up_to(Stage::Index, Vec::new())
            };
            let fetcher = self.fetcher(&workspace, self.events)?;
            let done = match self.request.builder {
                PipelineBuilder::Local(_) => produce(&stack, &order, &fetcher, self.events)?,
                PipelineBuilder::Copr => self.produce_on_copr(&stack, &order, &fetcher)?,
            };
            let mut built = 0;
            let mut first: Option<Error> = None;
            for (name, outcome) in done.run.outcomes {
                let mut evidence = of_results(&workspace, &name)?;
                match outcome {
                    Outcome::Built(_) => built += 1,
                    Outcome::Fresh => {}
                    Outcome::Skipped(reason) => evidence.failure = Some(reason),
                    Outcome::Failed(error) => {
                        evidence.failure = Some(error.to_string());
                        evidence.tier = rejected(&workspace, &name)?;
                        draft.logs.extend(log_of(&workspace, &name)?);
                        first.get_or_insert(error);
                    }
                }
                draft.components.push(evidence);
            }
            if let Some(error) = first {
                return Err(error);
            }
            add_results(draft);
            draft.summary = format!("{built} built, {} up to date", draft.components.len() - built);
            Ok(built > 0)
        })
    }

    /// Proves from the headers of the packages that they can be installed together.
    pub(super) fn proof(&self, chroot: &str, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.workspace(chroot)?;
        let stack = Stack::new(&workspace)?;
        let components = all_results(&stack)?;
        let mut inputs = pins_of_packages(&workspace)?;
        add_packages(&mut inputs, &components);
        let changed = (inputs, When::Changed);
        stage::run(PipelineStage::Proof, Some(chroot), changed, chain, self.events, |draft, _| {
            let rpms = result_rpms(&stack, &Default::default())?;
            let findings = closed(&workspace, &rpms)?;
            NotInstallable::of(&findings, "the stack", chroot)?;
            draft.summary = format!("the requirements of {} are met", count(rpms.len(), "package"));
            Ok(true)
        })
    }

    /// Verifies that the packages can be installed into an empty root, as far as this machine can.
    pub(super) fn verify(&self, chroot: &str, chain: &mut Chain) -> Result<Flow, Error> {
        let workspace = self.workspace(chroot)?;
        let stack = Stack::new(&workspace)?;
        let components = all_results(&stack)?;
        let mut inputs = pins_of_packages(&workspace)?;
        add_packages(&mut inputs, &components);
        let dnf = ["dnf5", "dnf"].into_iter().find(|name| find_program(name).is_some());
        inputs.add("dnf", dnf.unwrap_or("none"));
        let changed = (inputs, When::Changed);
        stage::run(PipelineStage::Verify, Some(chroot), changed, chain, self.events, |draft, _| {
            let host = workspace.chroot.is_host();
            if host && !machine::packages_are_rpms() {
                draft.summary = "nothing to verify with on this machine".to_owned();
                let why = "the packages of this machine are not RPMs, so dnf cannot add to them";
                draft.details.push(format!("not run: {why}"));
                return Ok(true);
            }
            let empty = tempfile::Builder::new().prefix("rocmrpm-root-").tempdir();
            let empty = empty.map_err(IoError::doing("create an empty root"))?;
            let root = if host { Path::new("/") } else { empty.path() };
            let verified = verify(&stack, Subject::Root(root), Smoke::No, &[])?;
            let of = |outcome| verified.checks.iter().filter(move |c| c.outcome == outcome);
            let line = |check: &verify::Check| format!("{}: {}", check.id, check.detail);
            // The others are about what is installed, which is not what was built.
            let failed = of(verify::Outcome::Fail).filter(|check| check.is_of_packages());
            let failed: Vec<String> = failed.map(line).collect();
            if let Some(first) = failed.first() {
                draft.details.clone_from(&failed);
                let message = format!("{} failed; {first}", count(failed.len(), "check"));
                return Err(Error::new(Kind::Findings, message)
                    .with_help(self.correct("correct the component")));
            }
            let passed = of(verify::Outcome::Pass).count();
            draft.details.extend(
                of(verify::Outcome::NotRun).map(|check| format!("not run: {}", line(check))),
            );
            draft.summary = format!(
                "{} passed, {} not run",
                count(passed, "check"),
                of(verify::Outcome::NotRun).count()
            );
            Ok(true)
        })
    }
}

/// States that the specs were rendered.
fn rendered(prepared: &Prepared<'_, '_>) -> Vec<ComponentEvidence> {
    let workspace = prepared.stack.workspace;
    let evidence = |component: &&crate::workspace::Component| {
        let spec = prepared.specs.get(&component.name)?;
        Some(ComponentEvidence {
            component: component.name.to_string(),
            version: workspace.pin(component).version.clone(),
            release: without_dist(&spec.release.release),
            tier: Some(Tier::Rendered),
            ..ComponentEvidence::default()
        })
    };
    prepared.selected.iter().filter_map(evidence).collect()
}

/// Returns what the results of a component show.
fn of_results(workspace: &Workspace, name: &ComponentName) -> Result<ComponentEvidence, Error> {
    let component = workspace.component(name.as_str())?;
    let mut evidence = ComponentEvidence {
        component: name.to_string(),
        version: workspace.pin(component).version.clone(),
        ..ComponentEvidence::default()
    };
    let results = Results::of(&workspace.build_dir_of(name), Stage::Rpm, name);
    let Some((record, rpms)) = results.accepted()? else { return Ok(evidence) };
    if record.version != evidence.version {
        // Those of an earlier version, which the failed build did not replace.
        return Ok(evidence);
    }
    evidence.release = without_dist(&record.release);
    evidence.gpu_targets = record.gpu_targets;
    // Results are accepted only after their inspection.
    evidence.tier = Some(Tier::Inspected);
    evidence.seconds = results.seconds().0;
    for rpm in &rpms {
        let header = header(rpm)?;
        let size = fs_err::metadata(rpm).map_err(IoError::doing("read a package"))?.len();
        let file = rpm.file_name().unwrap_or_default().to_string_lossy().into_owned();
        evidence.packages.push(PackageEvidence { file, header: header.content, size });
    }
    let wheels = workspace.build_dir().join("wheels").join(name.as_str());
    for wheel in names_in(&wheels).map_err(IoError::doing("list wheels"))? {
        if wheel.ends_with(".whl") {
            let file = FileRecord::of(&wheels.join(wheel));
            evidence.wheels.push(file.map_err(IoError::doing("read a wheel"))?);
        }
    }
    Ok(evidence)
}

/// Returns what the results of all components show.
pub(super) fn all_results(stack: &Stack<'_>) -> Result<Vec<ComponentEvidence>, Error> {
    let of =
        |component: &&crate::workspace::Component| of_results(stack.workspace, &component.name);
    stack.order().iter().map(of).collect()
}

/// Adds the digest of each package and wheel to the inputs.
pub(super) fn add_packages(inputs: &mut KeyInputs, components: &[ComponentEvidence]) {
    for component in components {
        for package in &component.packages {
            inputs.add(format!("header of {}", package.file), &package.header);
        }
        for wheel in &component.wheels {
            inputs.add(&wheel.file, format!("sha256:{}", wheel.sha256));
        }
    }
}

fn add_results(draft: &mut Draft) {
    let mut inputs = std::mem::take(&mut draft.inputs);
    add_packages(&mut inputs, &draft.components);
    draft.inputs = inputs;
}

/// Returns the digests of what decides which packages a chroot has.
fn pins_of_packages(workspace: &Workspace) -> Result<KeyInputs, Error> {
    let mut inputs = KeyInputs::default();
    inputs.add("chroot", Sha256::of_bytes(&workspace.chroot.file.text));
    inputs.add("provider", Sha256::of_bytes(&workspace.provider.file.text));
    let tables = workspace.chroot.packages.iter().chain(&workspace.provider.packages);
    for table in tables {
        let path = format!("mock-configs/packages/{}.tsv", table.value);
        let digest = Sha256::of_file(
            &workspace.root.join(format!("mock-configs/packages/{}.tsv", table.value)),
        );
        if let Ok((digest, _)) = digest {
            inputs.add(path, digest);
        }
    }
    Ok(inputs)
}

/// Returns the tier of a component that failed: its packages may be built and not have passed the
/// inspection.
fn rejected(workspace: &Workspace, name: &ComponentName) -> Result<Option<Tier>, Error> {
    let component = workspace.component(name.as_str())?;
    let record = Results::rejected(&workspace.build_dir_of(name), name).record()?;
    let same = record.is_some_and(|record| record.version == workspace.pin(component).version);
    Ok(same.then_some(Tier::Built))
}

/// Returns the log of a failed build that shows why.
fn log_of(workspace: &Workspace, name: &ComponentName) -> Result<Option<PathBuf>, Error> {
    let logs = build_logs(&workspace.build_dir_of(name), name)?;
    Ok(main_log(&logs).map(|log| log.path.clone()))
}

fn without_dist(release: &str) -> String {
    release.replace("%{?dist}", "")
}
