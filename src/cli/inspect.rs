//! `rocmrpm inspect`.

use std::path::Path;

use super::{Done, args};
use crate::error::{Error, Kind};
use crate::gpu::GpuTarget;
use crate::inspect::{Depth, Expectations, inspect};
use crate::names::nearest;
use crate::report::{Shell, inspection_text};
use crate::workspace::{Selection, Workspace, find_root};

pub(super) fn run(args: &args::Inspect, dir: &Path, shell: &Shell) -> Done {
    let gpu_targets = match args.gpu_targets.as_slice() {
        [] if find_root(dir).is_ok() => Workspace::load(dir, &Selection::default())?.manifest.gpu_targets,
        named => named.iter().map(|name| target(name)).collect::<Result<_, _>>()?,
    };
    let expectations = Expectations { gpu_targets, ..Expectations::default() };
    let report = inspect(&args.paths, &expectations, Depth::Deep)?;
    if args.json {
        shell.json(&report)?;
    } else {
        shell.data(inspection_text(&report, false))?;
    }
    Ok(if report.has_errors() { Kind::Findings.exit_code() } else { 0 })
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
