//! `rocmrpm reproduce`.

use std::path::Path;

use super::{CommandResult, args, context};
use crate::build::{BuildLock, BuilderName, MockOptions, Stage, check_locks, choose_builder};
use crate::error::{Error, Kind};
use crate::report::{Progress, Shell, Style, reproduction_text};
use crate::reproduce::{Subject, reproduce};
use crate::sources::Cache;
use crate::stack::Stack;

pub(super) fn run(args: &args::Reproduce, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let component = workspace.component(&args.component)?;
    let lock = BuildLock::take(&workspace)?;
    let subject = Subject::new(&stack, component)?;
    let name = match subject.record.builder.as_str() {
        "host" => BuilderName::Host,
        "mock" => BuilderName::Mock,
        other => {
            let message = format!(
                "`{component}` was built by `{other}`, which cannot repeat a build",
                component = component.name
            );
            return Err(Error::new(Kind::Config, message)
                .with_help("build it on this machine with `--builder mock`, then reproduce it"));
        }
    };
    let hermetic = Some((Cache::from_env()?, args.offline));
    if name == BuilderName::Mock {
        check_locks(&workspace.build_dir(), [&component.name])?;
    }
    let options = MockOptions { hermetic, ..MockOptions::default() };
    let (builder, _) = choose_builder(&stack, Some(name), Stage::Rpm, options);
    let progress = Progress::new(shell);
    let done = reproduce(&lock, &stack, &subject, builder.as_ref(), &progress)?;
    drop(progress);
    if !done.inputs_changed.is_empty() {
        shell.warning(format!("changed since the build: {}", done.inputs_changed.join(", ")));
    }
    let (removed, added) = (done.buildroot_removed.len(), done.buildroot_added.len());
    if removed + added > 0 {
        let text = "the build root packages differ from those of the build";
        shell.warning(format!("{text}: {removed} removed or changed, {added} added or changed"));
    }
    if args.json {
        shell.json(&done)?;
    } else {
        shell.data(reproduction_text(&done))?;
    }
    let (style, word) =
        if done.identical { (Style::Good, "Reproduced") } else { (Style::Bad, "Differs") };
    shell.status(style, word, format!("{} {}", done.component, done.version));
    Ok(if done.identical { 0 } else { Kind::Findings.exit_code() })
}
