//! Verifies an installation, or a future location of one: whether dnf can install the packages,
//! files conflict, modules can be imported, image labels match the pins, wheels are intact, programs
//! can use the GPU, and a checklist passes. Each check passes, fails or is not run; a check that did not run never counts
//! as passed. It also states what this shows about the installed packages. It does not install anything.

mod checklist;
mod gpu;
mod installed;
mod packages;
mod place;
mod smoke;

use std::collections::BTreeMap;
use std::path::Path;

use packages::Packages;
use place::VerifyTarget;
use serde::Serialize;
pub use smoke::{Measured, Worse};

use crate::container::{self, Engine};
use crate::error::{Error, IoError, Kind};
use crate::evidence::ComponentEvidence;
use crate::files::names_in;
use crate::gpu_machine::GpuMachine;
use crate::outputs::stale_wheels;
use crate::process::check_stop;
use crate::stack::Stack;
use crate::text::visible;
use crate::workspace::{Component, Flavor};

/// How the checks of packages and modules are called, before their name.
const INSTALL: &str = "install ";
const IMPORT: &str = "import ";

/// The check of file conflicts.
const CONFLICTS: &str = "file-conflicts";

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The check passed.
    Pass,
    /// The check failed.
    Fail,
    /// The check could not run; `detail` has the reason.
    NotRun,
}

/// A check.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// A short name.
    pub id: String,
    /// The expected state.
    pub what: String,
    /// The outcome.
    pub outcome: Outcome,
    /// Why it failed or was not run; empty if it passed.
    pub detail: String,
}

impl Check {
    /// Returns whether it is about the stack's packages, whether they are installed or not.
    pub fn is_of_packages(&self) -> bool {
        self.id.starts_with(INSTALL) || self.id == CONFLICTS
    }
}

/// The results of a verification.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verified {
    /// The folder or the image.
    pub place: String,
    /// All checks.
    pub checks: Vec<Check>,
    /// What stack-smoke measured.
    pub measured: Vec<Measured>,
    /// What is worse than in the last run of stack-smoke.
    pub worse: Vec<Worse>,
    /// The Python modules and programs with which stack-smoke computed on a GPU.
    pub computed: Vec<String>,
    /// What this shows about the components of the installed packages.
    pub components: Vec<ComponentEvidence>,
}

/// What to verify beyond an installation: whether the stack computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smoke {
    /// Nothing.
    No,
    /// The checks of stack-smoke.
    Checks,
    /// These, and its measurements.
    Bench,
}

impl Verified {
    /// Returns whether a package was installed by dnf's solver, a module imported, or an installed package
    /// found.
    pub fn checked_packages(&self) -> bool {
        !self.components.is_empty()
            || self.checks.iter().any(|check| {
                let of_packages = check.id.starts_with(INSTALL) || check.id.starts_with(IMPORT);
                of_packages && check.outcome != Outcome::NotRun
            })
    }

    /// Returns the number of checks with this outcome.
    pub fn number(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|check| check.outcome == outcome).count()
    }
}

/// The location to verify.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// The root folder of a system; it may be empty.
    Root(&'a Path),
    /// The name of an image.
    Image(&'a str),
}

/// Verifies a stack's packages at a location. `known` is the evidence that names packages, oldest first;
/// what the verification shows about those that are installed is added to it.
pub fn verify(
    stack: &Stack<'_>,
    subject: Subject<'_>,
    smoke: Smoke,
    known: &[ComponentEvidence],
) -> Result<Verified, Error> {
    let mut checks = Vec::new();
    let (place, flavor) = match subject {
        Subject::Root(dir) => (VerifyTarget::root(dir)?, Flavor::Fedora),
        Subject::Image(image) => {
            let engine = Engine::to_look_inside()?;
            let (check, flavor) = labels(stack, &engine.labels(image)?, image)?;
            checks.push(check);
            (VerifyTarget::image(engine, image)?, flavor.unwrap_or(Flavor::Fedora))
        }
    };
    let place_name = place.name().to_owned();
    let mut verified = Verified {
        place: place_name,
        checks,
        measured: Vec::new(),
        worse: Vec::new(),
        computed: Vec::new(),
        components: Vec::new(),
    };
    let packages = Packages::of(stack, flavor)?;
    if packages.are_rpms() {
        packages.solve(&place, &mut verified)?;
        check_stop()?;
        packages.conflicts(&place, &mut verified)?;
        check_stop()?;
    }
    imports(&packages, &place, &mut verified)?;
    check_stop()?;
    verified.checks.push(wheels(stack)?);
    // A container uses the kernel and the devices of the machine that starts it.
    if let Subject::Root(root) = subject
        && checklist::uses_rocm(stack)?
    {
        verified.checks.extend(gpu::checks(root));
    }
    checklist::run_all(stack, &place, &mut verified)?;
    if smoke != Smoke::No {
        check_stop()?;
        let workspace = stack.workspace;
        let key = format!("{} {}", workspace.manifest.name, workspace.chroot.name);
        smoke::run(&place, smoke == Smoke::Bench, &key, &mut verified)?;
    }
    if let (Subject::Root(root), false) = (subject, known.is_empty()) {
        check_stop()?;
        let machine = GpuMachine::read(root, |name| std::env::var_os(name));
        verified.components = installed::evidence(&place, known, &machine, &mut verified)?;
    }
    Ok(verified)
}

/// Compares an image's labels with the current ones, and returns its flavor if it belongs to this
/// workspace.
fn labels(
    stack: &Stack<'_>,
    found: &BTreeMap<String, String>,
    image: &str,
) -> Result<(Check, Option<Flavor>), Error> {
    let compared = container::check(stack, found, image);
    let flavor = compared.as_ref().ok().map(|(flavor, _)| flavor.clone());
    let (outcome, detail) = match compared {
        Ok((_, differences)) if differences.is_empty() => (Outcome::Pass, String::new()),
        Ok((_, differences)) => {
            let labels: Vec<String> = differences.iter().map(|d| visible(&d.label)).collect();
            let help = "run `rocmrpm container check` to compare them";
            (Outcome::Fail, format!("{} differ; {help}", labels.join(", ")))
        }
        // The image is not ours, or the workspace has no image of this flavor.
        Err(error) if matches!(error.kind(), Kind::Findings | Kind::Config) => {
            (Outcome::NotRun, error.to_string())
        }
        Err(error) => return Err(error),
    };
    let what = format!("the image's labels match the pin set `{}`", stack.workspace.pins.name);
    Ok((Check { id: "labels".into(), what, outcome, detail }, flavor))
}

/// Checks that the wheels were built from the current RPMs.
fn wheels(stack: &Stack<'_>) -> Result<Check, Error> {
    let dir = stack.workspace.build_dir().join("wheels");
    let made = |component: &&Component| {
        let names =
            names_in(&dir.join(component.name.as_str())).map_err(IoError::doing("list wheels"));
        Ok::<_, Error>(names?.iter().any(|name| name.ends_with(".whl")))
    };
    let made: Vec<bool> = stack.order().iter().map(made).collect::<Result<_, _>>()?;
    let stale = stale_wheels(stack)?;
    let (outcome, detail) = match stale.keys().next() {
        _ if !made.contains(&true) => {
            (Outcome::NotRun, "no wheels found; run `rocmrpm wheel` to create them".to_owned())
        }
        None => (Outcome::Pass, String::new()),
        Some(name) => {
            (Outcome::Fail, format!("the wheels of {name} are out of date; run `rocmrpm wheel`"))
        }
    };
    let what = format!("the wheels in {} match the current packages", dir.display());
    Ok(Check { id: "wheels".into(), what, outcome, detail })
}

/// Imports every module of the packages that users install.
fn imports(
    packages: &Packages<'_>,
    place: &VerifyTarget,
    verified: &mut Verified,
) -> Result<(), Error> {
    for package in &packages.names {
        let missing = packages.missing(place, package)?;
        for module in packages.modules(package)? {
            verified.checks.push(match &missing {
                Some(reason) => import(&module, package, (Outcome::NotRun, reason.clone())),
                None => import_check(place, &module, package)?,
            });
        }
    }
    Ok(())
}

/// Returns the ID of the check that imports a module.
fn import_id(module: &str) -> String {
    format!("{IMPORT}{module}")
}

fn import(module: &str, package: &str, (outcome, detail): (Outcome, String)) -> Check {
    let what = format!("`import {module}` of {package} works");
    Check { id: import_id(module), what, outcome, detail }
}

/// Imports a module of an installed package.
fn import_check(place: &VerifyTarget, module: &str, package: &str) -> Result<Check, Error> {
    Ok(import(module, package, imported(place, module)?))
}

fn imported(place: &VerifyTarget, module: &str) -> Result<(Outcome, String), Error> {
    let ran = match place.run(&format!("cd / && python3 -c 'import {module}'"))? {
        Ok(ran) => ran,
        Err(reason) => return Ok((Outcome::NotRun, reason)),
    };
    let message = ran.last_line();
    // A missing or invalid module also fails with a GPU.
    let broken = ["ImportError", "ModuleNotFoundError", "SyntaxError"];
    let of_gpu = !broken.iter().any(|error| message.starts_with(error))
        && ["GPU", "HIP", "driver", "device"].iter().any(|word| message.contains(word));
    Ok(match ran.success {
        true => (Outcome::Pass, String::new()),
        false if of_gpu && !VerifyTarget::has_gpu() => {
            (Outcome::NotRun, format!("this machine has no GPU: {message}"))
        }
        false => (Outcome::Fail, message),
    })
}
