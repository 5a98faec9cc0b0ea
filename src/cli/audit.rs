//! `rocmrpm audit`.

use std::path::Path;

use serde_json::json;

use super::{Done, args, context};
use crate::error::{Error, Kind};
use crate::report::{Progress, Shell, offline_text};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;
use crate::{audit, prep};

pub(super) fn run(args: &args::Audit, dir: &Path, shell: &Shell) -> Done {
    let args::Audit::Offline(args) = args;
    let mut workspace = context::workspace(dir, &args.choice, &args.pin.overrides)?;
    let progress = Progress::new(shell);
    let root = workspace.root.clone();
    let fetcher = Fetcher::new(Cache::from_env()?, &root, &progress).offline(args.offline);
    context::resolve_overrides(&mut workspace, &fetcher)?;
    let stack = Stack::new(&workspace)?;
    let component = workspace.component(&args.component)?;
    let prepared = prep::prepared(&stack, component, &fetcher, &progress)?;
    let audit = audit::offline(component, workspace.pin(component), &prepared)?;
    if args.json {
        let mut value =
            serde_json::to_value(&audit).map_err(|e| Error::new(Kind::Internal, e.to_string()))?;
        value["schema"] = json!("rocmrpm/audit-offline/2");
        value["chroot"] = json!(workspace.chroot.name);
        value["pins"] = json!(workspace.pins.name);
        shell.json(&value)?;
    } else {
        shell.data(offline_text(&audit, args.verbose))?;
    }
    Ok(u8::from(!audit.clean()))
}
