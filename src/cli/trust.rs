//! `rocmrpm trust`, and the prompt before every command that runs code of a workspace.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{CommandResult, args};
use crate::build::Stage;
use crate::error::{Error, IoError, Kind};
use crate::process::check_stop;
use crate::report::{Shell, Style};
use crate::text::visible;
use crate::trust::{TrustError, TrustList, check};
use crate::workspace::{Component, Workspace, WorkspaceError, find_root};
use args::{ClosureCommand, ClosureHow, Command, Copr, Patch, Pipeline, Publish};

/// The interval of checking for an interruption while the prompt waits.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Describes the workspace code that a command runs, for the prompt; `None` if it runs none.
/// docs/concepts/trust.md has the same list. Code that is not listed here fails in [`crate::process`]
/// without a prompt.
fn code_run_by(command: &Command) -> Option<&'static str> {
    match command {
        Command::Build(build) if build.until <= Stage::Spec || build.dry_run => None,
        Command::Build(_) | Command::Reproduce(_) => {
            Some("rpm runs macros and scripts of its specs, and mock runs its config")
        }
        Command::Shell(_) => {
            Some("mock runs its config, and a shell starts in a folder that it filled")
        }
        Command::Prep(prep) if prep.git => None,
        Command::Prep(_) | Command::Audit(_) => Some("rpm runs macros and `%prep` of its specs"),
        Command::Lint(_) | Command::Check(_) | Command::Patch(Patch::Compare(_)) => {
            Some("rpm runs macros of its specs")
        }
        Command::Requirements(requirements) => requirements.resolve.then_some(UV),
        Command::Pipeline(Pipeline::Run(run)) => (!run.dry_run)
            .then_some("rpm runs macros and scripts of its specs, and mock runs its config"),
        Command::Publish(Publish::Repository(_)) => Some("rpm runs macros that it defines"),
        Command::Copr(Copr::Push(push)) => {
            (!push.dry_run).then_some("rpm runs macros of its specs to make source packages")
        }
        // With a lock file, nothing is resolved; without one, `ask_to_resolve` prompts.
        Command::Closure(closure) => match &closure.command {
            None if closure.check => {
                Some("rpm runs macros of its specs, and uv runs build scripts")
            }
            None if closure.write || closure.how.upgrade.is_some() => Some(UV),
            Some(ClosureCommand::Why(why)) => why.how.upgrade.as_ref().map(|_| UV),
            None | Some(ClosureCommand::Diff(_) | ClosureCommand::Audit(_)) => None,
        },
        // `verify` checks an installation and runs no workspace code.
        Command::Verify(_) => None,
        Command::Copr(Copr::Sync(_) | Copr::Status(_) | Copr::Watch(_) | Copr::Cancel(_)) => None,
        Command::Publish(Publish::Index(_) | Publish::Promote(_) | Publish::Yank(_)) => None,
        Command::Init(_)
        | Command::Add(_)
        | Command::Lock(_)
        | Command::Pins(_)
        | Command::Patch(Patch::Status(_) | Patch::Refresh(_) | Patch::Save(_)) => None,
        Command::Pipeline(_) | Command::Evidence(_) => None,
        Command::Remove(_)
        | Command::Graph(_)
        | Command::Status(_)
        | Command::Log(_)
        | Command::Clean(_)
        | Command::Cache(_) => None,
        Command::Render(_) | Command::Plan(_) | Command::Inspect(_) | Command::Explain(_) => None,
        Command::Wheel(_) | Command::Sdk(_) | Command::Index(_) | Command::Container(_) => None,
        Command::Trust(_) | Command::Doctor(_) | Command::Completions(_) | Command::Man(_) => None,
    }
}

/// The code that uv runs.
const UV: &str = "uv runs build scripts of source distributions that it requires";

/// Prompts for permission to run the workspace's code, if this command runs any and the user does
/// not trust the workspace yet. Called before any workspace file is read.
pub(super) fn ask_for(command: &Command, dir: &Path, shell: &Shell) -> Result<(), Error> {
    let Some(what) = code_run_by(command) else { return Ok(()) };
    let root = find_root(dir)?;
    ask(&root, what, shell)?;
    let spec = match command {
        Command::Lint(args::Lint { spec: Some(spec), .. }) => fs_err::canonicalize(spec).ok(),
        Command::Patch(Patch::Compare(compare)) => spec_in(&compare.other).ok(),
        _ => None,
    };
    // The command reports a missing spec.
    if let Some(spec) = spec {
        ask(folder_of_spec(&spec, &root), &format!("rpm runs macros of {}", shown(&spec)), shell)?;
    }
    Ok(())
}

/// Shows the same prompt before uv resolves the closure of a component without a lock file.
pub(super) fn ask_to_resolve(
    workspace: &Workspace,
    component: &Component,
    how: &ClosureHow,
    shell: &Shell,
) -> Result<(), Error> {
    let locked = component.closure.is_some() && workspace.closure_lock().exists();
    if how.offline || locked { Ok(()) } else { ask(&workspace.root, UV, shell) }
}

/// Returns the folder that must be trusted for a spec: the workspace that contains it, else its
/// parent folder.
pub(super) fn folder_of_spec<'p>(spec: &'p Path, root: &'p Path) -> &'p Path {
    if spec.starts_with(root) { root } else { spec.parent().unwrap_or(root) }
}

/// Returns the spec at a path, which is a spec or a folder with one; absolute.
pub(super) fn spec_in(path: &Path) -> Result<PathBuf, Error> {
    let action = || IoError::doing(format!("read `{}`", path.display()));
    let whole = fs_err::canonicalize(path).map_err(action())?;
    if !whole.is_dir() {
        return Ok(whole);
    }
    let mut specs = Vec::new();
    for entry in fs_err::read_dir(&whole).map_err(action())? {
        let file = entry.map_err(action())?.path();
        if file.extension().is_some_and(|extension| extension == "spec") {
            specs.push(file);
        }
    }
    match specs.as_slice() {
        [spec] => Ok(spec.clone()),
        found => {
            let message = format!("`{}` has {} specs, not 1", path.display(), found.len());
            Err(Error::new(Kind::Usage, message).with_help("name the spec with `--with FILE`"))
        }
    }
}

fn ask(folder: &Path, what: &str, shell: &Shell) -> Result<(), Error> {
    let untrusted = match check(folder) {
        Err(error @ TrustError::Untrusted { .. }) => error,
        other => return Ok(other?),
    };
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(untrusted.into());
    }
    shell.line(format!("This command runs code from {} as you: {what}.", shown(folder)));
    if !is_yes(&answer(&format!("Trust {}? [y/N] ", shown(folder)))?) {
        return Err(untrusted.into());
    }
    Ok(TrustList::of_user()?.add(folder)?)
}

/// Shows a prompt and returns the line that the user types. An interruption ends the wait.
fn answer(question: &str) -> Result<String, Error> {
    let action = || IoError::doing("read an answer from the terminal");
    let mut out = std::io::stderr();
    write!(out, "{question}").and_then(|()| out.flush()).map_err(action())?;
    let input = std::io::stdin();
    loop {
        check_stop()?;
        let mut watched = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut watched, Some(&POLL_INTERVAL)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(action()(error.into()).into()),
        }
    }
    let mut line = String::new();
    input.lock().read_line(&mut line).map_err(action())?;
    Ok(line)
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

fn shown(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

pub(super) fn run(args: &args::Trust, dir: &Path, shell: &Shell) -> CommandResult {
    let list = TrustList::of_user()?;
    if args.list {
        for folder in list.folders()? {
            shell.data(shown(&folder))?;
        }
        return Ok(0);
    }
    let folder = args.folder.as_deref().unwrap_or(dir);
    if args.remove {
        let folder = match find_root(folder) {
            Ok(root) => root,
            // It may have been deleted, or it may no longer be a workspace.
            Err(_) => std::path::absolute(folder).map_err(IoError::doing("find the folder"))?,
        };
        if !list.remove(&folder)? {
            let message = format!("`{}` is not in the list of trusted folders", shown(&folder));
            return Err(Error::new(Kind::Usage, message)
                .with_help("run `rocmrpm trust --list` to print the list"));
        }
        shell.status(Style::Good, "Removed", shown(&folder));
        return Ok(0);
    }
    let folder = to_trust(folder, args.folder.is_some())?;
    list.add(&folder)?;
    shell.status(Style::Good, "Trusted", shown(&folder));
    Ok(0)
}

/// Returns the workspace that contains a folder. Without a workspace, returns the folder itself if
/// the user named it, for `lint --spec`. Refuses a workspace of another user, like all commands.
fn to_trust(folder: &Path, named: bool) -> Result<PathBuf, Error> {
    match find_root(folder) {
        Err(WorkspaceError::NotFound { start }) if named && start.is_dir() => Ok(start),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_yes() {
        assert!(["y\n", "Y", " yes\n", "YES"].iter().all(|answer| is_yes(answer)));
        assert!(["", "\n", "n", "yy", "yes please", "no"].iter().all(|answer| !is_yes(answer)));
    }

    #[test]
    fn specs_outside_the_workspace_need_separate_trust() {
        let root = Path::new("/ws");
        assert_eq!(folder_of_spec(Path::new("/ws/a/b.spec"), root), root);
        assert_eq!(folder_of_spec(Path::new("/ws2/b.spec"), root), Path::new("/ws2"));
    }
}
