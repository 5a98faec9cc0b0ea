//! `rocmrpm index check`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{CommandResult, args, context};
use crate::closure::lock;
use crate::error::{Error, IoError, Kind};
use crate::foreign;
use crate::index::check::{Options, Report, check};
use crate::index::folder::Folder;
use crate::index::listing::Listing;
use crate::index::manifest;
use crate::index::outside;
use crate::index::place::IndexStorage;
use crate::index::seen::SerialRecord;
use crate::index::web::Web;
use crate::report::{Shell, count, index_check_text};
use crate::rpms::signing::Signer;
use crate::sources::Cache;
use crate::workspace::Workspace;

pub(super) fn run(args: &args::IndexCheck, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let environment = workspace.chroot.environment()?;
    let url = args.index.as_deref().filter(|index| index.contains("://"));
    let report = match url {
        Some(url) if args.closed => {
            let message =
                format!("cannot check whether {} is closed", crate::sources::shown_url(url));
            return Err(Error::new(Kind::Usage, message)
                .with_help("copy the index to a folder, and pass the folder"));
        }
        Some(url) => {
            let mut report = Report::empty(url.to_owned(), &environment);
            check_manifest(args, &workspace, &Web::at(url)?, &mut report)?;
            report
        }
        None => {
            let root = args.index.as_ref().map(PathBuf::from);
            let root = root.unwrap_or_else(|| workspace.build_dir().join("index"));
            let view = Listing::read(&root, args.channel.as_deref()).map_err(|error| match args
                .index
            {
                Some(_) => error.into(),
                None => context::or_elsewhere(error, &workspace, "index"),
            })?;
            let outside = match args.closed {
                true => Vec::new(),
                false => outside::declared(&workspace.manifest.index.outside)?,
            };
            let held = lock::held(&workspace)?;
            let options = Options {
                environment: &environment,
                outside: &outside,
                held: &held,
                offline: args.offline,
                closed: args.closed,
                digests: args.digests,
            };
            let mut report = check(&view, &options)?;
            if args.closed && !report.has_errors() {
                for unsolved in foreign::solve(&workspace.root, &view, &environment)? {
                    report.add_unsolved(&unsolved.wheel, &unsolved.reported);
                }
            }
            let place = Folder::new(&view.root);
            if args.key.is_some() || place.root().join(manifest::PATH).exists() {
                check_manifest(args, &workspace, &place, &mut report)?;
            }
            report
        }
    };
    if args.json {
        shell.json(&report)?;
    } else {
        shell.data(index_check_text(&report))?;
    }
    if report.has_errors() {
        return Ok(1);
    }
    let unreachable = report.unchecked.iter().filter(|unchecked| unchecked.unreachable).count();
    if unreachable > 0 {
        let message = format!(
            "{} could not be checked: an external index is unreachable",
            count(unreachable, "requirement")
        );
        return Err(Error::new(Kind::Network, message)
            .with_help("try again later, or pass `--offline` to check only the rest"));
    }
    Ok(0)
}

/// Checks an index against its signed manifest.
fn check_manifest(
    args: &args::IndexCheck,
    workspace: &Workspace,
    place: &dyn IndexStorage,
    report: &mut Report,
) -> Result<(), Error> {
    let public = match (&args.key, &workspace.manifest.signing_key) {
        (Some(path), _) => fs_err::read(path).map_err(IoError::doing("read the public key"))?,
        (None, Some(key)) => Signer::find(key, &workspace.manifest.name)?.public().to_vec(),
        (None, None) => {
            let message = format!("no public key is known for {}", place.name());
            return Err(Error::new(Kind::Usage, message)
                .with_help("pass the public key of the index with `--key FILE`"));
        }
    };
    let cache = Cache::from_env()?;
    let seen = SerialRecord::of(cache.dir(), &place.name(), args.allow_rollback);
    report.check_manifest(place, &public, &seen, Timestamp::now(), args.digests)?;
    Ok(())
}
