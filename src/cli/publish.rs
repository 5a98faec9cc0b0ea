//! `rocmrpm publish`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::{Done, args, context};
use crate::build::{BuildLock, inspect_foreign_wheels};
use crate::digest::Sha256;
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::index::IndexError;
use crate::index::change::{Action, Change, plan_add, plan_promote, plan_yank};
use crate::index::folder::Folder;
use crate::index::manifest::{self, Signing};
use crate::index::place::IndexStorage;
use crate::index::publish::Destination;
use crate::index::seen::Seen;
use crate::index::view::View;
use crate::outputs;
use crate::production::tracked_index;
use crate::report::{Progress, Shell, Style, count, human_size};
use crate::rpms::signing::Signer;
use crate::stack::Stack;
use crate::text::visible;
use crate::workspace::{Selection, Workspace, find_root};

/// The channel that refuses wheels of dirty builds.
const STABLE: View = View::Channel("stable");

pub(super) fn run(args: &args::Publish, dir: &Path, shell: &Shell) -> Done {
    match args {
        args::Publish::Index(args) => index(args, dir, shell),
        args::Publish::Repository(args) => super::publish_repository::run(args, dir, shell),
        args::Publish::Promote(args) => {
            let target = Target::open(&args.destination, dir)?;
            let change = plan_promote(&*target.place, &args.from, &args.to, &args.distributions)?;
            target.publish(change, shell)
        }
        args::Publish::Yank(args) => {
            let target = Target::open(&args.destination, dir)?;
            let reason = args.reason.as_deref().filter(|_| !args.undo);
            let change = plan_yank(&*target.place, &args.version, reason)?;
            target.publish(change, shell)
        }
    }
}

fn index(args: &args::PublishIndex, dir: &Path, shell: &Shell) -> Done {
    // Reports errors of the command line before making wheels.
    View::of(Some(&args.channel))?;
    let target = Target::open(&args.destination, dir)?;
    let (wheels, tracks) = match args.files.as_slice() {
        [] => of_workspace(args, dir, shell)?,
        files => (inspected(files)?, None),
    };
    let change = plan_add(
        &*target.place,
        Some(&args.channel),
        &wheels,
        Some(upload_time()?),
        tracks.as_deref(),
    )?;
    target.publish(change, shell)
}

/// Makes the workspace's wheels. Also returns the index that theirs tracks.
fn of_workspace(
    args: &args::PublishIndex,
    dir: &Path,
    shell: &Shell,
) -> Result<(Vec<PathBuf>, Option<String>), Error> {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    context::check_closures([&workspace], &[])?;
    let stack = Stack::new(&workspace)?;
    let lock = BuildLock::take(&workspace)?;
    let wheels = outputs::make_wheels(&lock, &stack, &Progress::new(shell))?;
    if wheels.is_empty() {
        let message = format!("nothing to publish: {}", super::wheel::no_wheels(&workspace));
        return Err(Error::new(Kind::Usage, message).with_help("run `rocmrpm build` first"));
    }
    Ok((wheels, tracked_index(&workspace)?))
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
struct Target<'a> {
    args: &'a args::Destination,
    destination: Destination,
    place: Box<dyn IndexStorage>,
    /// Whether the destination is a missing folder, which is only created when it is written to.
    new_folder: bool,
    seen: Seen,
    /// The folder that the command runs in, whose workspace may configure the key.
    dir: &'a Path,
}

impl<'a> Target<'a> {
    fn open(args: &'a args::Destination, dir: &'a Path) -> Result<Self, Error> {
        let destination = Destination::parse(&args.destination, args.endpoint_url.as_deref())?;
        let new_folder = destination.is_new_folder();
        let place = destination.open(!args.dry_run)?;
        let seen = context::seen(&destination, args.allow_rollback)?;
        Ok(Self { args, destination, place, new_folder, seen, dir })
    }

    /// Shows a change, applies it unless `--dry-run` is set, and reports the result.
    fn publish(&self, mut change: Change, shell: &Shell) -> Done {
        check_dirty(&change, shell)?;
        let dry_run = self.args.dry_run;
        if let Some(signer) = self.signer()? {
            let signing = Signing { signer: &signer, seen: &self.seen, now: Timestamp::now() };
            change.sign(&*self.place, &signing)?;
        }
        let change = &change;
        if !self.args.json {
            show(change, dry_run, shell)?;
        }
        match &self.destination {
            _ if dry_run || change.is_empty() => {}
            Destination::Folder(path) if self.new_folder => change.apply(&Folder::lock(path)?)?,
            _ => change.apply(&*self.place)?,
        }
        if let Some(serial) = change.serial().filter(|_| !dry_run) {
            self.seen.remember(serial)?;
        }
        if self.args.json {
            shell.json(&self.document(change))?;
        }
        let place = self.place.name();
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

    /// Returns the signing key of the current workspace. Without a key, a signed index cannot be
    /// changed.
    fn signer(&self) -> Result<Option<Signer>, Error> {
        if find_root(self.dir).is_ok() {
            let manifest = Workspace::load(self.dir, &Selection::default())?.manifest;
            if let Some(key) = &manifest.signing_key {
                return Ok(Some(Signer::find(key, &manifest.name)?));
            }
        }
        match self.place.read(&[manifest::PATH.to_owned()])?.into_iter().flatten().next() {
            Some(_) => Err(IndexError::NoKey { place: self.place.name() }.into()),
            None => Ok(None),
        }
    }

    fn document<'c>(&self, change: &'c Change) -> PublishReport<'c> {
        let wheels = change.notes.iter().map(|note| WheelChange {
            action: word(&note.action).to_lowercase(),
            file: &note.file,
            channel: note.view.to_string(),
        });
        let packages = change.packages.iter().map(|package| StoredPackage {
            path: &package.path,
            size: package.stored.size,
            sha256: package.stored.sha256,
        });
        PublishReport {
            schema: PublishReport::SCHEMA,
            destination: self.place.name(),
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

fn word(action: &Action) -> &'static str {
    match action {
        Action::Add => "Add",
        Action::Promote(_) => "Promote",
        Action::Keep => "Keep",
        Action::Yank(_) => "Yank",
        Action::Restore => "Restore",
    }
}

/// Prints the parts of a change, to stdout for a dry run.
fn show(change: &Change, dry_run: bool, shell: &Shell) -> Result<(), Error> {
    let wheels = change.notes.iter().map(|note| {
        let preposition =
            if matches!(note.action, Action::Add | Action::Promote(_)) { "to" } else { "in" };
        (word(&note.action), format!("{} {preposition} {}", note.file, note.view))
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

/// Refuses wheels of dirty builds in the stable channel, because they cannot be rebuilt.
fn check_dirty(change: &Change, shell: &Shell) -> Result<(), Error> {
    for note in &change.notes {
        let joins = matches!(note.action, Action::Add | Action::Promote(_));
        if !joins || !is_dirty(&note.file) {
            continue;
        }
        if note.view == STABLE {
            let message = format!(
                "{} comes from a dirty build, which the channel `stable` does not accept",
                note.file
            );
            return Err(Error::new(Kind::Usage, message).with_help(
                "commit the changes and build again, or publish it with `--channel testing`",
            ));
        }
        shell.warning(format!(
            "{} comes from a dirty build, which no one else can repeat",
            note.file
        ));
    }
    Ok(())
}

/// Returns whether a wheel's local version label contains `dirty`.
fn is_dirty(file: &str) -> bool {
    // Source: Binary distribution format, "File name convention": the version is the second part.
    let label = file.split('-').nth(1).and_then(|version| version.split_once('+'));
    label.is_some_and(|(_, label)| label.split(['.', '_']).any(|part| part == "dirty"))
}

/// Returns the time of publication: SOURCE_DATE_EPOCH, or now.
fn upload_time() -> Result<Timestamp, Error> {
    Ok(source_date_epoch()?.unwrap_or_else(Timestamp::now))
}

/// Returns the time in SOURCE_DATE_EPOCH, if it is set.
pub(super) fn source_date_epoch() -> Result<Option<Timestamp>, Error> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let time = text.trim().parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map(Some).ok_or_else(|| {
        let message = format!(
            "SOURCE_DATE_EPOCH is `{}`, not a number of seconds",
            crate::text::visible(&text)
        );
        Error::new(Kind::Usage, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_dirty_wheels_by_their_label() {
        assert!(is_dirty("a-1.0+rocm7.14.gfx1151.dirty.3-py3-none-any.whl"));
        assert!(is_dirty("a-1.0+rocm7_14.dirty-py3-none-any.whl"));
        assert!(!is_dirty("dirty-1.0+rocm7.14-py3-none-any.whl"));
        assert!(!is_dirty("a-1.0+rocm7.14.gfx1151-1.dirty-py3-none-any.whl"));
        assert!(!is_dirty("a-1.0-py3-none-any.whl"));
    }
}
