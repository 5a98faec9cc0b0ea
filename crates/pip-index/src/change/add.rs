//! Plans adding wheels to a view of an index.

use super::Action;
use super::Change;
use super::pages::Pages;
use crate::IndexError;
use crate::entry::{Foreign, IndexedFile, Input, each, requires};
use crate::page::File;
use crate::place::{IndexStorage, Package, Stored};
use crate::rules::Joined;
use crate::view::{View, package_path};
use fs_err as fs;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Plans adding wheels to a view of an index: to a channel, or to the local index.
///
/// Checks all wheels. They get this upload time, or their own if it is `None`, unless another view
/// already has them. `foreign` are wheels that the stack did not build. `tracks` is the root of an
/// index whose projects this index extends (PEP 708); the operator of the index is responsible for
/// that claim.
pub fn plan_add(
    place: &dyn IndexStorage,
    channel: Option<&str>,
    wheels: &[PathBuf],
    foreign: &[Foreign],
    upload_time: Option<Timestamp>,
    tracks: Option<&str>,
) -> Result<Change, IndexError> {
    let view = View::of(channel)?;
    let entries = unique(each(&Input::all(wheels, foreign), |input| input.read())?)?;
    let names: BTreeSet<String> = entries.iter().map(|entry| entry.distribution.clone()).collect();
    let (mut pages, others) = Pages::read_with_siblings(place, view, &names)?;

    let mut change = Change::default();
    let (mut required, mut new) = (BTreeMap::<String, BTreeSet<String>>::new(), Vec::new());
    let mut joined = BTreeMap::new();
    for entry in &entries {
        let IndexedFile { distribution, file, .. } = entry;
        required.entry(distribution.clone()).or_default().extend(requires(&entry.metadata));
        if let Some(tracks) = tracks {
            pages.project(distribution).tracks = vec![tracked(tracks, distribution)];
        }
        if let Some(there) = pages.find(distribution, &file.name) {
            same(file, there, &format!("{view} of {}", place.name()))?;
            change.note(Action::Keep, file, view);
            continue;
        }
        let elsewhere = others
            .iter()
            .find_map(|other| Some((other.view, other.find(distribution, &file.name)?)));
        let file = match elsewhere {
            Some((other, there)) => {
                same(file, there, &format!("{other} of {}", place.name()))?;
                there.clone()
            }
            None => {
                new.push(entry);
                let second =
                    |time: Timestamp| Timestamp::from_second(time.as_second()).unwrap_or(time);
                File {
                    upload_time: second(upload_time.unwrap_or(file.upload_time)),
                    ..file.clone()
                }
            }
        };
        let project = pages.project(distribution);
        joined.entry(distribution).or_insert_with(|| Joined::of(project, view)).join(&file)?;
        change.note(Action::Add, &file, view);
        project.files.push(file);
    }
    add_packages(place, &new, &mut change)?;
    pages.finish(place, required, &mut change)?;
    Ok(change)
}

/// Removes duplicates and sorts older versions first, so that they do not end up below newer ones
/// added with them.
fn unique(entries: Vec<IndexedFile>) -> Result<Vec<IndexedFile>, IndexError> {
    let mut unique: BTreeMap<String, IndexedFile> = BTreeMap::new();
    for entry in entries {
        if let Some(other) = unique.get(&entry.file.name) {
            if other.file.sha256 != entry.file.sha256 {
                return Err(IndexError::SameName {
                    first: other.source.clone(),
                    second: entry.source,
                });
            }
        } else {
            unique.insert(entry.file.name.clone(), entry);
        }
    }
    let mut unique: Vec<IndexedFile> = unique.into_values().collect();
    unique.sort_by_cached_key(|entry| {
        (entry.distribution.clone(), entry.file.parsed().map(|name| name.version).ok())
    });
    Ok(unique)
}

pub(super) fn same(new: &File, there: &File, place: &str) -> Result<(), IndexError> {
    if new.sha256 == there.sha256 {
        return Ok(());
    }
    let (file, place) = (new.name.clone(), place.to_owned());
    Err(IndexError::OtherDigest { file, place, there: there.sha256, new: new.sha256 })
}

/// Adds the packages of new wheels, except those that an interrupted run already put in place.
/// Wheels come first, then their metadata.
fn add_packages(
    place: &dyn IndexStorage,
    new: &[&IndexedFile],
    change: &mut Change,
) -> Result<(), IndexError> {
    if new.is_empty() {
        return Ok(());
    }
    let spool = tempfile::tempdir()?;
    let mut packages = Vec::with_capacity(new.len() * 2);
    for IndexedFile { source, distribution, file, .. } in new {
        let stored = Stored { size: file.size, sha256: file.sha256 };
        let path = package_path(distribution, &file.name);
        packages.push(Package { path, file: source.clone(), stored });
    }
    for (at, IndexedFile { distribution, file, metadata, .. }) in new.iter().enumerate() {
        let Some(sha256) = file.metadata else { continue };
        let path = package_path(distribution, &file.name) + ".metadata";
        let spooled = spool.path().join(at.to_string());
        fs::write(&spooled, metadata)?;
        let stored = Stored { size: metadata.len() as u64, sha256 };
        packages.push(Package { path, file: spooled, stored });
    }
    let found = place.compare(&packages)?;
    for (package, there) in packages.into_iter().zip(found) {
        match there {
            None => change.packages.push(package),
            Some(there) if there.sha256 == package.stored.sha256 => {}
            Some(there) => {
                let (file, place, new) = (package.path, place.name(), package.stored.sha256);
                return Err(IndexError::OtherDigest { file, place, there: there.sha256, new });
            }
        }
    }
    change.spool = Some(Arc::new(spool));
    Ok(())
}

/// Returns the page that a distribution's page tracks: the page of the same name at `root`, without
/// the credentials that the root may have (PEP 708, "Repository Tracks Metadata").
pub(crate) fn tracked(root: &str, distribution: &str) -> String {
    let root = root.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let public = match root.split_once("://") {
        None => root.to_owned(),
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
    };
    format!("{public}/{distribution}/")
}
