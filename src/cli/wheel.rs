//! `rocmrpm wheel`.

use std::path::Path;

use serde_json::json;

use super::{Done, args, context};
use crate::build::BuildLock;
use crate::error::IoError;
use crate::outputs;
use crate::report::{Progress, Shell};
use crate::stack::Stack;

pub(super) fn run(args: &args::Wheel, dir: &Path, shell: &Shell) -> Done {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let lock = BuildLock::take(&workspace)?;
    let wheels = outputs::make_wheels(&lock, &stack, &Progress::new(shell))?;
    if args.json {
        let mut list = Vec::new();
        for path in &wheels {
            let (sha256, size) =
                crate::digest::Sha256::of_file(path).map_err(IoError::doing("read a wheel"))?;
            list.push(json!({"path": path, "sha256": sha256, "size": size}));
        }
        shell.json(&json!({"schema": "rocmrpm/wheel/1", "wheels": list}))?;
        return Ok(0);
    }
    for path in &wheels {
        shell.data(path.display())?;
    }
    if wheels.is_empty() {
        shell.warning("no component has been built that has a Python distribution");
    }
    Ok(0)
}
