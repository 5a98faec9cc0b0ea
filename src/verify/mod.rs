//! Verifies an installation, or a place where there will be one: whether dnf can
//! install what users type, whether files collide, whether modules can be imported, and a
//! checklist. Each with pass, fail or not-run; what was not run is never called passed.

mod checklist;
mod packages;
mod place;

use std::path::Path;

use packages::Packages;
use place::Place;
use serde::Serialize;

use crate::error::Error;
use crate::process::check_stop;
use crate::stack::Stack;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is as it should be.
    Pass,
    /// It is not.
    Fail,
    /// Nobody knows, for the reason that is given.
    NotRun,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// A short name.
    pub id: String,
    /// What should be so.
    pub what: String,
    /// How it went.
    pub outcome: Outcome,
    /// Why it failed or was not run; empty where it passed.
    pub detail: String,
}

/// What came of it all.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// The folder or the image.
    pub place: String,
    /// Everything that was looked at.
    pub checks: Vec<Check>,
}

impl Verified {
    /// Returns how many checks went so.
    pub fn number(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|check| check.outcome == outcome).count()
    }
}

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A folder with a system in it, or an empty one.
    Root(&'a Path),
    /// An image.
    Image(&'a str),
}

/// Verifies a stack's packages in a place.
pub fn verify(stack: &Stack<'_>, subject: Subject<'_>) -> Result<Verified, Error> {
    let place = match subject {
        Subject::Root(dir) => Place::root(dir)?,
        Subject::Image(image) => Place::image(image)?,
    };
    let mut verified = Verified { place: place.name().to_owned(), checks: Vec::new() };
    let packages = Packages::of(stack)?;
    packages.solve(&place, &mut verified)?;
    check_stop()?;
    packages.conflicts(&place, &mut verified)?;
    check_stop()?;
    imports(&packages, &place, &mut verified)?;
    check_stop()?;
    checklist::go_through(stack, &place, &mut verified)?;
    Ok(verified)
}

/// Imports every module of the packages that users install.
fn imports(packages: &Packages<'_>, place: &Place, verified: &mut Verified) -> Result<(), Error> {
    for package in &packages.names {
        let installed = Packages::is_installed(place, package)?;
        for module in packages.modules(package)? {
            let (outcome, detail) = match installed {
                false => (Outcome::NotRun, format!("{package} is not installed there")),
                true => imported(place, &module)?,
            };
            let what = format!("`import {module}` of {package} works");
            verified.checks.push(Check { id: format!("import {module}"), what, outcome, detail });
        }
    }
    Ok(())
}

fn imported(place: &Place, module: &str) -> Result<(Outcome, String), Error> {
    let ran = match place.run(&format!("cd / && python3 -c 'import {module}'"))? {
        Ok(ran) => ran,
        Err(reason) => return Ok((Outcome::NotRun, reason)),
    };
    let said = ran.last_line();
    let of_gpu = ["GPU", "HIP", "driver", "device"].iter().any(|word| said.contains(word));
    Ok(match ran.success {
        true => (Outcome::Pass, String::new()),
        false if of_gpu && !Place::has_gpu() => (Outcome::NotRun, format!("this machine has no GPU: {said}")),
        false => (Outcome::Fail, said),
    })
}
