//! `rocmrpm audit`.

use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::audit::Audit;
use crate::document::Document;
use crate::report::{Progress, Shell, offline_text};
use crate::sources::{Cache, Fetcher};
use crate::{audit, prep};

/// What `rocmrpm audit --json` prints: what the build of a component would download.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OfflineAudit<'a> {
    schema: &'static str,
    /// The chroot whose spec was read.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    #[serde(flatten)]
    audit: &'a Audit,
}

impl Document for OfflineAudit<'_> {
    const SCHEMA: &'static str = "rocmrpm/audit-offline/2";
}

pub(super) fn run(args: &args::Audit, dir: &Path, shell: &Shell) -> CommandResult {
    let args = args.args();
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let component = workspace.component(args.component())?;
    let stack = context::stack_to_examine(&workspace, component, shell)?;
    let prepared = prep::prepared(&stack, component, &fetcher, &progress)?;
    let audit = audit::offline(component, workspace.pin(component), &prepared)?;
    if args.json {
        shell.json(&OfflineAudit {
            schema: OfflineAudit::SCHEMA,
            chroot: &workspace.chroot.name,
            pins: &workspace.pins.name,
            audit: &audit,
        })?;
    } else {
        shell.data(offline_text(&audit, args.verbose))?;
    }
    Ok(u8::from(!audit.clean()))
}
