//! Plans changes of what channels contain, without new wheels: promotion, rollback and yanking.

use super::Action;
use super::Change;
use super::add::same;
use super::pages::Pages;
use super::selected::Selected;
use crate::IndexError;
use crate::entry::requires;
use crate::page::File;
use crate::place::IndexStorage;
use crate::rules::Joined;
use crate::view::{CHANNELS, View, package_path};
use rocmrpm_base::digest::Sha256;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Plans promoting wheels from one channel to another: all of them, or the selected distributions
/// (`NAME`) and versions (`NAME==VERSION`). Packages do not change.
pub fn plan_promote(
    place: &dyn IndexStorage,
    from: &str,
    to: &str,
    selection: &[String],
) -> Result<Change, IndexError> {
    let (from, to) = (View::of(Some(from))?, View::of(Some(to))?);
    if from == to {
        return Err(IndexError::SameChannel(from));
    }
    let mut selected: Vec<Selected> =
        selection.iter().map(|text| Selected::parse(text)).collect::<Result<_, _>>()?;
    if selected.is_empty() {
        let all = Pages::read(place, from, [])?.root.0;
        if all.is_empty() {
            return Err(IndexError::Empty { view: from, place: place.name() });
        }
        selected.extend(all.into_iter().map(|name| Selected { name, version: None }));
    }
    let names: BTreeSet<String> = selected.iter().map(|selected| selected.name.clone()).collect();
    let mut both = Pages::read_all(place, [to, from], &names)?;
    let (source, mut pages) = (both.remove(1), both.remove(0));
    let mut change = Change::default();
    // The requirements of each distribution's newest wheel decide the order of the pages.
    let mut newest: BTreeMap<&str, String> = BTreeMap::new();
    for selected in &selected {
        let Some((project, _)) = source.projects.get(&selected.name) else { continue };
        let mut files = project.files.iter().filter(|file| selected.has(file)).peekable();
        if files.peek().is_none() {
            let place = format!("{from} of {}", place.name());
            return Err(selected.not_there(place, std::iter::once(&source)));
        }
        let target = pages.project(&project.name);
        let there: HashMap<String, File> =
            target.files.iter().map(|file| (file.name.clone(), file.clone())).collect();
        let mut joined = Joined::of(target, to);
        for file in files {
            if let Some(there) = there.get(&file.name) {
                same(file, there, &format!("{to} of {}", place.name()))?;
                change.note(Action::Keep, file, to);
                continue;
            }
            joined.join(file)?;
            target.files.push(file.clone());
            target.tracks.clone_from(&project.tracks);
            change.note(Action::Promote(from), file, to);
            if file.metadata.is_some() {
                newest.insert(&project.name, package_path(&project.name, &file.name) + ".metadata");
            }
        }
    }
    let paths: Vec<String> = newest.values().cloned().collect();
    let mut required = BTreeMap::<String, BTreeSet<String>>::new();
    for ((name, path), metadata) in newest.iter().zip(place.read(&paths)?) {
        let gone = || IndexError::Gone { path: path.clone(), place: place.name() };
        let metadata = metadata.ok_or_else(gone)?;
        // Most of the text is the description after the headers.
        let end = metadata.windows(2).position(|two| two == b"\n\n");
        let names = requires(&String::from_utf8_lossy(&metadata[..end.unwrap_or(metadata.len())]));
        required.insert((*name).to_owned(), names.into_iter().collect());
    }
    pages.finish(place, required, &mut change)?;
    Ok(change)
}

/// Plans bringing a channel back to the wheels of an earlier publication: those of `record` join it, and
/// of all wheels that the publisher `knows`, those with other names or later versions leave it. Earlier
/// versions stay, and so do the files of all wheels.
pub fn plan_rollback(
    place: &dyn IndexStorage,
    channel: &str,
    record: &BTreeSet<Sha256>,
    knows: &BTreeSet<Sha256>,
) -> Result<Change, IndexError> {
    let view = View::of(Some(channel))?;
    let mut names = BTreeSet::new();
    for pages in Pages::read_all(place, view.siblings(), [])? {
        names.extend(pages.root.0);
    }
    let (mut pages, others) = Pages::read_with_siblings(place, view, &names)?;
    let mut change = Change::default();
    let mut missing = record.clone();
    for name in &names {
        let in_record = |file: &&File| record.contains(&file.sha256);
        let project = pages.project(name);
        let mut wanted: Vec<(Option<View>, File)> =
            project.files.iter().filter(in_record).map(|file| (None, file.clone())).collect();
        for other in &others {
            let files = other.projects.get(name).map_or(&[][..], |(project, _)| &project.files);
            for file in files.iter().filter(in_record) {
                if wanted.iter().all(|(_, there)| there.sha256 != file.sha256) {
                    wanted.push((Some(other.view), file.clone()));
                }
            }
        }
        let version = |file: &File| file.parsed().map(|name| name.version).ok();
        let newest = wanted.iter().filter_map(|(_, file)| version(file)).max();
        let leaves = |file: &File| {
            knows.contains(&file.sha256)
                && !record.contains(&file.sha256)
                && (newest.is_none() || version(file) >= newest)
        };
        for file in project.files.iter().filter(|file| leaves(file)) {
            change.note(Action::Drop, file, view);
        }
        project.files.retain(|file| !leaves(file));
        for (from, file) in wanted {
            missing.remove(&file.sha256);
            match from {
                None => change.note(Action::Keep, &file, view),
                Some(from) => {
                    change.note(Action::Promote(from), &file, view);
                    project.files.push(file);
                }
            }
        }
    }
    if let Some(sha256) = missing.first() {
        let wanted = format!("the wheel with the digest {sha256}");
        return Err(IndexError::NotThere { wanted, place: place.name(), near: None });
    }
    pages.finish(place, BTreeMap::new(), &mut change)?;
    Ok(change)
}

/// Plans marking every wheel of `NAME==VERSION` as yanked in all channels (PEP 592), or removing
/// the mark if there is no reason.
pub fn plan_yank(
    place: &dyn IndexStorage,
    name_version: &str,
    reason: Option<&str>,
) -> Result<Change, IndexError> {
    let selected = Selected::parse(name_version)?;
    if selected.version.is_none() {
        return Err(IndexError::NoVersion(name_version.to_owned()));
    }
    let views = CHANNELS.into_iter().map(View::Channel);
    let mut pages = Pages::read_all(place, views, [&selected.name])?;
    let mut change = Change::default();
    let mut found = false;
    for page in &mut pages {
        let view = page.view;
        for file in page.project(&selected.name).files.iter_mut().filter(|file| selected.has(file))
        {
            found = true;
            let action = match reason {
                _ if file.yanked.as_deref() == reason => Action::Keep,
                Some(reason) => Action::Yank(reason.to_owned()),
                None => Action::Restore,
            };
            file.yanked = reason.map(str::to_owned);
            change.note(action, file, view);
        }
    }
    if !found {
        return Err(selected.not_there(place.name(), pages.iter()));
    }
    for page in pages {
        page.finish(place, BTreeMap::new(), &mut change)?;
    }
    Ok(change)
}
