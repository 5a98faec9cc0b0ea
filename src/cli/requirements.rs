//! `rocmrpm requirements`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::closure::lock;
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::index::listing::Listing;
use crate::index::outside;
use crate::report::{Shell, Style, count};
use crate::requirements::{Open, Pinned, Set, pins, resolve, texts};
use crate::sources::shown_url;
use crate::text::file_url;

/// What `rocmrpm requirements --json` prints: pins for pip and uv.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RequirementsReport<'a> {
    schema: &'static str,
    /// The chroot.
    chroot: &'a str,
    /// The version of Python, such as `3.14`.
    python: String,
    /// The architecture.
    arch: &'a str,
    /// The index with the stack's wheels.
    index_url: &'a str,
    /// The outside indexes, without credentials.
    outside: Vec<&'a str>,
    /// The files that were written.
    files: &'a [PathBuf],
    /// The distributions that are pinned.
    pins: &'a [Pinned],
    /// Requirements from outside the stack that are not pinned.
    open: &'a [Open],
}

impl Document for RequirementsReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/requirements/1";
}

pub(super) fn run(args: &args::Requirements, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let environment = workspace.chroot.environment()?;
    let view = Listing::read(&workspace.build_dir().join("index"), None)
        .map_err(|error| context::or_elsewhere(error, &workspace, "index"))?;
    let index_url = match &args.index_url {
        Some(url) => index_url(url, shell)?,
        None => file_url(&view.simple),
    };
    let outside = outside::declared(&workspace.manifest.index.outside)?;
    let (own, mut open) = pins(&view, &environment)?;
    let mut all = own.clone();
    if args.resolve {
        shell.status(Style::Good, "Resolving", "requirements from outside the stack, with uv");
        all = resolve(
            &workspace.root,
            &view,
            &environment,
            &outside,
            &own,
            &lock::held(&workspace)?,
        )?;
        open.clear();
    }
    let folder = args.output.clone().unwrap_or_else(|| workspace.build_dir().join("requirements"));
    let folder =
        std::path::absolute(&folder).map_err(IoError::doing("find the folder to write to"))?;
    let set = Set {
        stack: &workspace.manifest.name,
        chroot: &workspace.chroot.name,
        environment: &environment,
        index_url: &index_url,
        outside: &outside,
        pins: all,
        open,
    };
    let mut written: Vec<PathBuf> = Vec::new();
    // The content was fully checked before the first file is written.
    for (name, text) in texts(&set, &folder, args.constraints) {
        let path = folder.join(name);
        files::write_if_changed(&path, text).map_err(IoError::doing("write the requirements"))?;
        written.push(path);
    }
    if args.json {
        shell.json(&RequirementsReport {
            schema: RequirementsReport::SCHEMA,
            chroot: set.chroot,
            python: environment.python(),
            arch: environment.arch(),
            index_url: &index_url,
            outside: outside.iter().map(|index| index.shown.as_str()).collect(),
            files: &written,
            pins: &set.pins,
            open: &set.open,
        })?;
    } else {
        for path in &written {
            shell.data(path.display())?;
        }
    }
    if !set.open.is_empty() {
        shell.talk(format!(
            "{} from outside the stack, not pinned:",
            count(set.open.len(), "requirement")
        ));
        for open in &set.open {
            shell.talk(format!("  {}", crate::text::visible(&open.requirement)));
        }
        shell.talk(
            "run `rocmrpm requirements --resolve` to pin them and their dependencies with uv",
        );
    }
    Ok(0)
}

/// Checks the URL of an index, and removes credentials, because the files are for others.
fn index_url(url: &str, shell: &Shell) -> Result<String, Error> {
    let known = ["https://", "http://", "file://"].iter().any(|scheme| url.starts_with(scheme));
    let clean = shown_url(url);
    if !known || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        let message = format!("`{}` is not a valid index URL", crate::text::visible(&clean));
        return Err(Error::new(Kind::Usage, message).with_help(
            "use a URL that starts with https://, http://, or file:// and has no spaces",
        ));
    }
    if clean != url {
        shell.warning(
            "the user and password of the index are not written; put them in ~/.netrc for pip and uv",
        );
    }
    Ok(clean)
}
