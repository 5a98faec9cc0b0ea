//! `rocmrpm inspect`.

use std::path::Path;

use super::{Done, args};
use crate::build;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::gpu::GpuTarget;
use crate::inspect::{Depth, Expectations, System, compare, inspect};
use crate::names::nearest;
use crate::report::{
    Shell, comparison_text, inspection_github, inspection_html, inspection_junit, inspection_text,
};
use crate::stack::Stack;
use crate::workspace::{Selection, Workspace, find_root};
use args::ReportFormat;

pub(super) fn run(args: &args::Inspect, dir: &Path, shell: &Shell) -> Done {
    let expectations = expectations(args, dir)?;
    let depth = if args.deep || args.component.is_some() { Depth::Deep } else { Depth::Quick };
    let report = inspect(&args.paths, &expectations, depth)?;
    if let Some(old) = &args.against {
        let old = inspect(std::slice::from_ref(old), &expectations, depth)?;
        let comparison = compare(&old, &report);
        let text = if args.json { json(&comparison)? } else { comparison_text(&comparison) };
        write(args, text, shell)?;
        return Ok(if comparison.is_empty() { 0 } else { Kind::Findings.exit_code() });
    }
    let text = match args.format {
        _ if args.json => json(&report)?,
        ReportFormat::Json => json(&report)?,
        ReportFormat::Text => inspection_text(&report, args.verbose),
        ReportFormat::Html => inspection_html(&report),
        ReportFormat::Junit => inspection_junit(&report),
        ReportFormat::Github => inspection_github(&report),
    };
    write(args, text, shell)?;
    Ok(if report.has_errors() { Kind::Findings.exit_code() } else { 0 })
}

/// What the files are held against: the workspace's word where there is one.
fn expectations(args: &args::Inspect, dir: &Path) -> Result<Expectations, Error> {
    let named = args.gpu_targets.iter().map(|name| target(name)).collect::<Result<Vec<_>, _>>()?;
    let in_workspace = args.chroot.is_some() || args.component.is_some() || find_root(dir).is_ok();
    let mut expectations = match in_workspace {
        true => {
            let selection = Selection { chroot: args.chroot.clone(), ..Selection::default() };
            of_workspace(&Workspace::load(dir, &selection)?, args.component.as_deref())?
        }
        false => Expectations { system: System::fedora(), ..Expectations::default() },
    };
    if !named.is_empty() {
        expectations.gpu_targets = named;
    }
    expectations.content_paths = args.content_paths;
    Ok(expectations)
}

fn of_workspace(workspace: &Workspace, component: Option<&str>) -> Result<Expectations, Error> {
    match component {
        Some(name) => build::expectations(&Stack::new(workspace)?, workspace.component(name)?),
        None => Ok(Expectations {
            gpu_targets: workspace.manifest.gpu_targets.clone(),
            system: build::system(workspace)?,
            ..Expectations::default()
        }),
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(value).map_err(|e| Error::new(Kind::Internal, e.to_string()))
}

fn write(args: &args::Inspect, text: String, shell: &Shell) -> Result<(), Error> {
    let Some(path) = &args.output else { return shell.data(text) };
    let text = if text.ends_with('\n') { text } else { text + "\n" };
    files::write_atomically(path, text)
        .map_err(IoError::doing(format!("write `{}`", path.display())))
        .map_err(Error::from)
}

pub(super) fn target(name: &str) -> Result<GpuTarget, Error> {
    GpuTarget::parse(name).ok_or_else(|| {
        let error = Error::new(Kind::Usage, format!("unknown GPU target `{name}`"));
        match nearest(name, GpuTarget::known()) {
            Some(near) => error.hinted(format!("did you mean `{near}`?")),
            None => error.hinted("GPU targets are LLVM's names, such as `gfx1151`"),
        }
    })
}
