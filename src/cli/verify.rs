//! `rocmrpm verify`.

use std::path::Path;

use serde_json::json;

use super::{Done, args, context};
use crate::error::Kind;
use crate::report::{Shell, verify_text};
use crate::stack::Stack;
use crate::verify::{Outcome, Subject, verify};

pub(super) fn run(args: &args::Verify, dir: &Path, shell: &Shell) -> Done {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let subject = match (&args.root, &args.container) {
        (_, Some(image)) => Subject::Image(image),
        (root, None) => Subject::Root(root.as_deref().unwrap_or(Path::new("/"))),
    };
    let verified = verify(&stack, subject)?;
    if args.json {
        shell.json(&json!({
            "schema": "rocmrpm/verify/1",
            "place": verified.place,
            "chroot": workspace.chroot.name,
            "passed": verified.number(Outcome::Pass),
            "failed": verified.number(Outcome::Fail),
            "not_run": verified.number(Outcome::NotRun),
            "checks": verified.checks,
        }))?;
    } else {
        shell.data(verify_text(&verified).trim_end())?;
    }
    Ok(if verified.number(Outcome::Fail) == 0 { 0 } else { Kind::Findings.exit_code() })
}
