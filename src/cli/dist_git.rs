//! `rocmrpm render --for dist-git`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context, user};
use crate::dist_git::{self, DistGitPackage};
use crate::document::Document;
use crate::report::{Progress, Shell, Style};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;
use crate::workspace::{Selection, Workspace};

/// What `rocmrpm render --for dist-git --json` prints: packages to submit to Fedora.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DistGitReport<'a> {
    schema: &'static str,
    /// The chroot.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// The ROCm provider.
    provider: &'a str,
    /// The packages.
    packages: &'a [DistGitPackage],
}

impl Document for DistGitReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/render-dist-git/1";
}

pub(super) fn run(args: &args::Render, dir: &Path, shell: &Shell) -> CommandResult {
    let selection = Selection {
        overrides: args.pin.overrides.iter().cloned().collect(),
        own_rocm: true,
        ..user::selection(&args.choice)?
    };
    let mut workspace = Workspace::load(dir, &selection)?;
    dist_git::check_chroot(&workspace)?;
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let stack = Stack::new(&workspace)?;
    let mut packages = Vec::new();
    for component in stack.named(&args.components)? {
        let package = dist_git::write(&stack, component, &fetcher)?;
        let folder = package.folder.strip_prefix(&root).unwrap_or(&package.folder);
        let (sources, patches) = (package.sources.len(), package.patches.len());
        let what = format!("{} (sources {sources}, patches {patches})", folder.display());
        shell.status(Style::Good, "Rendered", what);
        for remark in &package.remarks {
            shell.warning(format!("{}: {remark}", package.component));
        }
        packages.push(package);
    }
    if args.json {
        shell.json(&DistGitReport {
            schema: DistGitReport::SCHEMA,
            chroot: &workspace.chroot.name,
            pins: &workspace.pins.name,
            provider: &workspace.provider.name,
            packages: &packages,
        })?;
    }
    Ok(0)
}
