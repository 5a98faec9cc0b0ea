//! `rocmrpm wheel`.

use std::path::Path;

use serde_json::json;

use super::{Done, args, context};
use crate::build::BuildLock;
use crate::error::{IoError, Kind};
use crate::outputs::{self, Verified};
use crate::process::own_program;
use crate::report::{Progress, Shell, Style, proof_summary, proof_text};
use crate::stack::Stack;
use crate::workspace::Workspace;

/// What there is to say where nothing has Python in it.
pub(super) fn none(workspace: &Workspace) -> String {
    format!("no component has been built for {} that has a Python distribution", workspace.chroot.name)
}

pub(super) fn run(args: &args::Wheel, dir: &Path, shell: &Shell) -> Done {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let lock = BuildLock::take(&workspace)?;
    if args.verify {
        return verify(args, &lock, &stack, shell);
    }
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
        shell.warning(none(&workspace));
    }
    Ok(0)
}

fn verify(args: &args::Wheel, lock: &BuildLock, stack: &Stack<'_>, shell: &Shell) -> Done {
    let all = outputs::verify_wheels(lock, stack)?;
    let holds = all.iter().all(Verified::holds);
    if args.json {
        shell.json(&document(&all, holds))?;
    } else if all.is_empty() {
        shell.warning(none(stack.workspace));
    } else {
        shell.data(proof_text(&all))?;
        let (style, word) = if holds { (Style::Good, "Verified") } else { (Style::Bad, "Differs") };
        shell.status(style, word, proof_summary(&all));
        if !holds {
            let help = format!(
                "remove what differs: `{0} wheel` makes wheels anew, and `{0} build` RPMs",
                own_program()
            );
            shell.talk(format!("{} {help}", Style::Note.paint("help:")));
        }
    }
    Ok(if holds { 0 } else { Kind::Findings.exit_code() })
}

fn document(all: &[Verified], holds: bool) -> serde_json::Value {
    let components: Vec<_> = all
        .iter()
        .map(|verified| {
            let rpms = verified.rpms.iter().map(|(file, difference)| {
                json!({"file": file, "what": difference.what, "expected": difference.expected,
                    "found": difference.found})
            });
            json!({"component": verified.component, "rpm_differences": rpms.collect::<Vec<_>>(),
                "wheels": verified.wheels})
        })
        .collect();
    json!({"schema": "rocmrpm/wheel-verify/1", "identical": holds, "components": components})
}
