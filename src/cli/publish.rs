//! `rocmrpm publish`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::build::{BuildLock, inspect_foreign_wheels};
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::foreign;
use crate::index::Foreign;
use crate::index::change::{Action, Change, plan_add, plan_promote, plan_yank};
use crate::index::publish::Destination;
use crate::index::view::View;
use crate::pipeline::check_tier;
use crate::production::tracked_index;
use crate::publishing::{Target, apply_wheels, check_dirty, made_wheels, sign_wheels, upload_time};
use crate::report::{Progress, Shell, Style, count, human_size};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;
use crate::text::visible;
use crate::workspace::{PipelineSettings, Selection, Workspace, find_root};

pub(super) fn run(args: &args::Publish, dir: &Path, shell: &Shell) -> CommandResult {
    match args {
        args::Publish::Index(args) => index(args, dir, shell),
        args::Publish::Repository(args) => super::publish_repository::run(args, dir, shell),
        args::Publish::Promote(args) => {
            let target = PublishTarget::open(&args.destination, dir)?;
            let place = target.target.place();
            let change = plan_promote(place, &args.from, &args.to, &args.distributions)?;
            require_tier(args, &change, dir)?;
            target.publish(change, shell)
        }
        args::Publish::Yank(args) => {
            let target = PublishTarget::open(&args.destination, dir)?;
            let reason = args.reason.as_deref().filter(|_| !args.undo);
            let change = plan_yank(target.target.place(), &args.version, reason)?;
            target.publish(change, shell)
        }
    }
}

/// Refuses to promote wheels that evidence does not prove to be of the required tier.
fn require_tier(args: &args::PublishPromote, change: &Change, dir: &Path) -> Result<(), Error> {
    let workspace = match find_root(dir) {
        Ok(_) => Some(Workspace::load(dir, &Selection::default())?),
        Err(_) => None,
    };
    let tier = match (args.tier, &workspace) {
        (Some(tier), _) => tier.tier(),
        (None, Some(workspace)) => PipelineSettings::load(&workspace.root)?.promote,
        (None, None) => None,
    };
    match (tier, workspace) {
        (None, _) => Ok(()),
        (Some(tier), Some(Workspace { root, manifest, .. })) => {
            check_tier(&root, &manifest.name, change, tier)
        }
        (Some(_), None) => {
            let message = "`--tier` needs the workspace whose evidence proves it";
            Err(Error::new(Kind::Usage, message)
                .with_help("run the command in the workspace, or pass `-C DIR`"))
        }
    }
}

fn index(args: &args::PublishIndex, dir: &Path, shell: &Shell) -> CommandResult {
    // Reports errors of the command line before making wheels.
    View::of(Some(&args.channel))?;
    let target = PublishTarget::open(&args.destination, dir)?;
    let Files { wheels, foreign, tracks } = match args.files.as_slice() {
        [] => of_workspace(args, dir, shell)?,
        files => Files { wheels: inspected(files)?, foreign: Vec::new(), tracks: None },
    };
    let change = plan_add(
        target.target.place(),
        Some(&args.channel),
        &wheels,
        &foreign,
        Some(upload_time()?),
        tracks.as_deref(),
    )?;
    target.publish(change, shell)
}

/// What is published.
struct Files {
    /// The stack's own wheels.
    wheels: Vec<PathBuf>,
    /// The wheels that they require and the stack did not build.
    foreign: Vec<Foreign>,
    /// The index that the published one extends.
    tracks: Option<String>,
}

/// Makes the workspace's wheels.
fn of_workspace(args: &args::PublishIndex, dir: &Path, shell: &Shell) -> Result<Files, Error> {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let lock = BuildLock::take(&workspace)?;
    let progress = Progress::new(shell);
    let wheels = made_wheels(&lock, &stack, &progress)?;
    if wheels.is_empty() {
        let message = format!("nothing to publish: {}", super::wheel::no_wheels(&workspace));
        return Err(Error::new(Kind::Usage, message).with_help("run `rocmrpm build` first"));
    }
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, &progress);
    let foreign = foreign::wheels(&workspace, &wheels, &fetcher, &progress)?;
    Ok(Files { wheels, foreign, tracks: tracked_index(&workspace)? })
}

/// Returns the files, unless they are not wheels and sdists, or inspection finds errors in the wheels.
fn inspected(files: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let is = |file: &Path, end: &str| file.to_string_lossy().ends_with(end);
    if let Some(other) = files.iter().find(|file| !is(file, ".whl") && !is(file, ".tar.gz")) {
        let message = format!("`{}` is not a wheel or an sdist", visible(&other.to_string_lossy()));
        return Err(Error::new(Kind::Usage, message).with_help("pass `.whl` and `.tar.gz` files"));
    }
    let wheels: Vec<PathBuf> = files.iter().filter(|file| is(file, ".whl")).cloned().collect();
    inspect_foreign_wheels(&wheels)?;
    Ok(files.to_vec())
}

/// The destination of a command, and its options.
struct PublishTarget<'a> {
    args: &'a args::Destination,
    target: Target,
    /// The folder that the command runs in, whose workspace may configure the key.
    dir: &'a Path,
}

impl<'a> PublishTarget<'a> {
    fn open(args: &'a args::Destination, dir: &'a Path) -> Result<Self, Error> {
        let destination = Destination::parse(&args.destination, args.endpoint_url.as_deref())?;
        let target = Target::open(destination, !args.dry_run, args.allow_rollback)?;
        Ok(Self { args, target, dir })
    }

    /// Shows a change, applies it unless `--dry-run` is set, and reports the result.
    fn publish(&self, mut change: Change, shell: &Shell) -> CommandResult {
        for file in check_dirty(&change)? {
            shell.warning(format!("{file} comes from a dirty build, which no one else can repeat"));
        }
        let dry_run = self.args.dry_run;
        let manifest = match find_root(self.dir) {
            Ok(_) => Some(Workspace::load(self.dir, &Selection::default())?.manifest),
            Err(_) => None,
        };
        sign_wheels(&self.target, &mut change, manifest.as_ref())?;
        let change = &change;
        if !self.args.json {
            show(change, dry_run, shell)?;
        }
        if !dry_run {
            apply_wheels(&self.target, change)?;
        }
        if self.args.json {
            shell.json(&self.document(change))?;
        }
        let place = self.target.place().name();
        match (dry_run, change.is_empty()) {
            (_, true) => shell.status(Style::Good, "Unchanged", place),
            (true, _) => shell.talk("dry run: no changes made"),
            (false, _) => {
                let pages = count(change.pages.len(), "page");
                let what = match change.packages.len() {
                    0 => pages,
                    packages => format!("{} and {pages}", count(packages, "file")),
                };
                shell.status(Style::Good, "Published", format!("{what} to {place}"));
            }
        }
        Ok(0)
    }

    fn document<'c>(&self, change: &'c Change) -> PublishReport<'c> {
        let wheels = change.notes.iter().map(|note| WheelChange {
            action: word(&note.action).to_lowercase(),
            file: &note.file,
            channel: note.view.to_string(),
            foreign: note.foreign,
        });
        let packages = change.packages.iter().map(|package| StoredPackage {
            path: &package.path,
            size: package.stored.size,
            sha256: package.stored.sha256,
        });
        PublishReport {
            schema: PublishReport::SCHEMA,
            destination: self.target.place().name(),
            dry_run: self.args.dry_run,
            wheels: wheels.collect(),
            packages: packages.collect(),
            pages: change.pages.iter().map(|page| page.path.as_str()).collect(),
        }
    }
}

/// What all `rocmrpm publish ... --json` commands of an index print: what changes in it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PublishReport<'a> {
    schema: &'static str,
    /// The index.
    destination: String,
    /// Whether nothing was written, because of `--dry-run`.
    dry_run: bool,
    /// Changes of wheels.
    wheels: Vec<WheelChange<'a>>,
    /// Files that are uploaded.
    packages: Vec<StoredPackage<'a>>,
    /// Pages that are written, by their paths below the index.
    pages: Vec<&'a str>,
}

/// A change of a wheel.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WheelChange<'a> {
    /// `add`, `promote`, `keep`, `yank` or `restore`.
    action: String,
    /// The wheel's file name.
    file: &'a str,
    /// The channel.
    channel: String,
    /// Whether the stack did not build it.
    foreign: bool,
}

/// A file of the index.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StoredPackage<'a> {
    /// Its path below the index.
    path: &'a str,
    /// Its size in bytes.
    size: u64,
    /// Its digest.
    sha256: Sha256,
}

impl Document for PublishReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/publish/1";
}

/// Returns the word for an action in output.
pub(super) fn word(action: &Action) -> &'static str {
    match action {
        Action::Add => "Add",
        Action::Promote(_) => "Promote",
        Action::Keep => "Keep",
        Action::Drop => "Drop",
        Action::Yank(_) => "Yank",
        Action::Restore => "Restore",
    }
}

/// Prints the parts of a change, to stdout for a dry run.
fn show(change: &Change, dry_run: bool, shell: &Shell) -> Result<(), Error> {
    let wheels = change.notes.iter().map(|note| {
        let preposition =
            if matches!(note.action, Action::Add | Action::Promote(_)) { "to" } else { "in" };
        let foreign = if note.foreign { " (foreign)" } else { "" };
        (word(&note.action), format!("{} {preposition} {}{foreign}", note.file, note.view))
    });
    let packages = change.packages.iter().map(|package| {
        ("Upload", format!("{} ({})", package.path, human_size(package.stored.size)))
    });
    // Otherwise the number of pages is printed at the end.
    let pages = change.pages.iter().filter(|_| dry_run).map(|page| ("Write", page.path.clone()));
    for (word, text) in wheels.chain(packages).chain(pages) {
        if dry_run {
            shell.data(format!("{word:>12} {text}"))?;
        } else {
            shell.status(Style::Good, word, text);
        }
    }
    Ok(())
}
