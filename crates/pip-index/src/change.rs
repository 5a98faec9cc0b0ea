//! Plans changes of a published index before applying them: adding, promoting, yanking and dropping
//! wheels.
//! It does not transfer files to the index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use fs_err as fs;
use jiff::Timestamp;
use pep440_rs::Version;

use super::IndexError;
use super::entry::{Foreign, IndexedFile, Input, each, requires};
use super::links::Links;
use super::manifest::{self, Signed, Signing};
use super::order::required_first;
use super::page::{self, File, Project, Root};
use super::place::{IndexStorage, Package, Page, Stored};
use super::rules::Joined;
use super::view::{CHANNELS, View, package_path};
use python_packaging::wheel;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::names::nearest;

/// A change of an index, applied in this order: packages, pages.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The packages that the index lacks.
    pub packages: Vec<Package>,
    /// The pages that change, root pages last.
    pub pages: Vec<Page>,
    /// What the change does with each wheel.
    pub notes: Vec<WheelChange>,
    /// The digests of the pages that the change is based on.
    read: Vec<(String, Option<Sha256>)>,
    /// The manifests before and after the change, for a signed index.
    signed: Option<Signed>,
    /// Holds the metadata files of `packages`.
    spool: Option<Arc<tempfile::TempDir>>,
}

/// What a change does with one wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelChange {
    /// The action on the wheel.
    pub action: Action,
    /// The file name of the wheel.
    pub file: String,
    /// The digest of the wheel.
    pub sha256: Sha256,
    /// The view that the action applies to.
    pub view: View,
    /// Whether the stack did not build the wheel.
    pub foreign: bool,
}

/// An action on a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Add the wheel to the index.
    Add,
    /// Add the wheel to the view from another view, which keeps it.
    Promote(View),
    /// Keep the wheel, which is already in the view.
    Keep,
    /// Remove the wheel from the view; its file stays in the index.
    Drop,
    /// Mark the wheel as yanked, with this reason.
    Yank(String),
    /// Remove the yank mark.
    Restore,
}

impl fmt::Display for WheelChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, file, view, foreign, .. } = self;
        let file = if *foreign { format!("{file} (foreign)") } else { file.clone() };
        match action {
            Action::Add => write!(f, "add {file} to {view}"),
            Action::Promote(from) => write!(f, "promote {file} from {from} to {view}"),
            Action::Keep => write!(f, "{file} is already in {view}"),
            Action::Drop => write!(f, "drop {file} from {view}"),
            Action::Yank(reason) if reason.is_empty() => write!(f, "yank {file} in {view}"),
            Action::Yank(reason) => write!(f, "yank {file} in {view}: {reason}"),
            Action::Restore => write!(f, "restore {file} in {view}"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        for Package { path, stored, .. } in &self.packages {
            writeln!(f, "put {path} ({} bytes)", stored.size)?;
        }
        self.pages.iter().try_for_each(|page| writeln!(f, "write {}", page.path))
    }
}

impl Change {
    /// Returns whether the change does nothing.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.pages.is_empty() && self.signed.is_none()
    }

    /// Applies the change. Fails without writing a page if another writer changed the pages while
    /// packages were sent. Packages that were put in place stay there for the next run.
    pub fn apply(&self, place: &dyn IndexStorage) -> Result<(), IndexError> {
        place.put_packages(&self.packages)?;
        let manifest = self.signed.iter().map(|signed| (manifest::PATH.to_owned(), signed.was));
        let read: Vec<(String, Option<Sha256>)> =
            self.read.iter().cloned().chain(manifest).collect();
        let paths: Vec<String> = read.iter().map(|(path, _)| path.clone()).collect();
        for ((path, was), now) in read.iter().zip(place.read(&paths)?) {
            if now.map(Sha256::of_bytes) != *was {
                return Err(IndexError::Meanwhile { page: path.clone(), place: place.name() });
            }
        }
        let Some(Signed { before, after, .. }) = &self.signed else {
            return place.put_pages(&self.pages);
        };
        // After an interruption at any point, the published manifest allows the published pages.
        place.put_pages(std::slice::from_ref(before))?;
        place.put_pages(&self.pages)?;
        place.put_pages(std::slice::from_ref(after))
    }

    /// Adds the manifests that sign the changed index to the change.
    pub fn sign(
        &mut self,
        place: &dyn IndexStorage,
        signing: &Signing<'_>,
    ) -> Result<(), IndexError> {
        self.signed = manifest::plan(place, &self.pages, signing)?;
        Ok(())
    }

    /// Returns the serial number of the manifest after the change.
    pub fn serial(&self) -> Option<u64> {
        self.signed.as_ref().map(|signed| signed.serial)
    }

    fn note(&mut self, action: Action, file: &File, view: View) {
        let (name, sha256, foreign) = (file.name.clone(), file.sha256, file.foreign);
        self.notes.push(WheelChange { action, file: name, sha256, view, foreign });
    }

    /// Adds both forms of a page: JSON last, because the next change reads it.
    fn page(&mut self, path: &str, was: Option<&[u8]>, html: String, json: String) {
        self.read.push((format!("{path}.json"), was.map(Sha256::of_bytes)));
        self.pages.push(Page {
            path: format!("{path}.html"),
            bytes: html.into(),
            media_type: page::HTML,
        });
        self.pages.push(Page {
            path: format!("{path}.json"),
            bytes: json.into(),
            media_type: page::JSON,
        });
    }
}

/// The pages of a view that a change involves, before and after.
struct Pages {
    view: View,
    root: Root,
    root_was: Option<Vec<u8>>,
    links_was: Option<Vec<u8>>,
    projects: BTreeMap<String, (Project, Option<Vec<u8>>)>,
}

impl Pages {
    fn read<'a>(
        place: &dyn IndexStorage,
        view: View,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<Self, IndexError> {
        Ok(Self::read_all(place, [view], names)?.swap_remove(0))
    }

    /// Reads the pages of a view, and those of the other channels.
    fn read_with_siblings(
        place: &dyn IndexStorage,
        view: View,
        names: &BTreeSet<String>,
    ) -> Result<(Self, Vec<Self>), IndexError> {
        let siblings = view.siblings().into_iter().filter(|other| *other != view);
        let mut all = Self::read_all(place, std::iter::once(view).chain(siblings), names)?;
        Ok((all.remove(0), all))
    }

    /// Reads the pages of several views, in a single call because calls to a server are slow.
    fn read_all<'a>(
        place: &dyn IndexStorage,
        views: impl IntoIterator<Item = View>,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<Vec<Self>, IndexError> {
        let names: Vec<&String> = names.into_iter().collect();
        let views: Vec<View> = views.into_iter().collect();
        let mut paths = Vec::new();
        for view in &views {
            paths.extend([format!("{}.json", view.root()), view.links()]);
            paths.extend(names.iter().map(|name| format!("{}.json", view.page(name))));
        }
        let mut read = place.read(&paths)?.into_iter().zip(&paths);
        let place = place.name();
        let shown = |path: &str| format!("{}/{path}", place.trim_end_matches('/'));
        let mut all = Vec::new();
        for view in views {
            let (root_was, path) = read.next().map_or((None, ""), |(page, path)| (page, path));
            let root = root_was
                .as_deref()
                .map_or(Ok(Root::default()), |b| Root::from_json(b, &shown(path)))?;
            let links_was = read.next().and_then(|(page, _)| page);
            let pages: Vec<_> = names.iter().zip(read.by_ref().take(names.len())).collect();
            let projects = each(&pages, |(name, (page, path))| match page {
                Some(bytes) => Project::from_json(bytes, &shown(path), view, name),
                None => Ok(Project::new(name)),
            })?;
            let projects = pages
                .into_iter()
                .zip(projects)
                .map(|((name, (page, _)), project)| ((*name).clone(), (project, page)));
            all.push(Self { view, root, root_was, links_was, projects: projects.collect() });
        }
        Ok(all)
    }

    fn project(&mut self, name: &str) -> &mut Project {
        &mut self.projects.entry(name.to_owned()).or_insert_with(|| (Project::new(name), None)).0
    }

    fn find(&self, distribution: &str, file: &str) -> Option<&File> {
        self.projects.get(distribution)?.0.files.iter().find(|other| other.name == file)
    }

    /// Adds the pages that differ to the change.
    fn finish(
        self,
        place: &dyn IndexStorage,
        requires: BTreeMap<String, BTreeSet<String>>,
        change: &mut Change,
    ) -> Result<(), IndexError> {
        let Self { view, mut root, root_was, links_was, mut projects } = self;
        projects.values_mut().for_each(|(project, _)| project.sort());
        let mut links = match links_was.as_deref().and_then(|page| Links::parse(view, page)) {
            Some(links) => links,
            None => {
                let others = root.0.iter().filter(|name| !projects.contains_key(*name));
                let others = Self::read(place, view, others)?.projects.into_values();
                let mut links = Links::new(view);
                others.for_each(|(project, _)| links.set(&project));
                links
            }
        };
        projects.values().for_each(|(project, _)| links.set(project));
        let mut all: BTreeMap<_, _> =
            projects.keys().map(|name| (name.clone(), BTreeSet::new())).collect();
        all.extend(requires);
        let order = required_first(&all);
        let pages = each(&order, |name| {
            let Some((project, was)) = projects.get(name) else { return Ok(None) };
            let json = project.json(view);
            let same = was.as_deref() == Some(json.as_bytes())
                || was.is_none() && project.files.is_empty();
            Ok((!same).then(|| (project.html(view), json)))
        })?;
        for (name, page) in order.into_iter().zip(pages) {
            if let Some((html, json)) = page {
                let was = projects.get(&name).and_then(|(_, was)| was.as_deref());
                change.page(&view.page(&name), was, html, json);
            }
            if projects.get(&name).is_some_and(|(project, _)| !project.files.is_empty()) {
                root.0.insert(name);
            }
        }
        let json = root.json();
        if root_was.as_deref() != Some(json.as_bytes()) {
            change.page(&view.root(), root_was.as_deref(), root.html(), json);
        }
        let html = links.html();
        if links_was.as_deref() != Some(html.as_bytes()) && !root.0.is_empty() {
            change.read.push((view.links(), links_was.map(Sha256::of_bytes)));
            let bytes = html.into();
            change.pages.push(Page { path: view.links(), bytes, media_type: page::HTML });
        }
        Ok(())
    }
}

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

fn same(new: &File, there: &File, place: &str) -> Result<(), IndexError> {
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
pub(super) fn tracked(root: &str, distribution: &str) -> String {
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

/// `NAME` or `NAME==VERSION`.
struct Selected {
    name: String,
    version: Option<Version>,
}

impl Selected {
    fn parse(text: &str) -> Result<Self, IndexError> {
        let wrong = || IndexError::Selection(text.to_owned());
        let (name, version) = match text.split_once("==") {
            None => (text, None),
            Some((name, version)) => {
                (name, Some(Version::from_str(version.trim()).map_err(|_| wrong())?))
            }
        };
        Ok(Self { name: wheel::normalized(name.trim()).ok_or_else(wrong)?, version })
    }

    fn has(&self, file: &File) -> bool {
        let Some(version) = &self.version else { return true };
        file.parsed().is_ok_and(|name| name.version == *version)
    }

    /// Returns the error for a selection that `pages` do not have.
    fn not_there<'a>(&self, place: String, pages: impl Iterator<Item = &'a Pages>) -> IndexError {
        let (mut roots, mut versions) = (BTreeSet::new(), BTreeSet::new());
        for page in pages {
            roots.extend(page.root.0.iter().map(String::as_str));
            versions
                .extend(page.projects.get(&self.name).iter().flat_map(|(page, _)| page.versions()));
        }
        let (wanted, near) = match &self.version {
            Some(version) if roots.contains(self.name.as_str()) => {
                let wanted = version.to_string();
                // Users often omit the label, however long it is.
                let labelled =
                    versions.iter().rfind(|v| v.split('+').next() == Some(wanted.as_str()));
                let near = labelled.map(String::as_str);
                let near = near.or_else(|| nearest(&wanted, versions.iter().map(String::as_str)));
                (
                    format!("{}=={version}", self.name),
                    near.map(|near| format!("{}=={near}", self.name)),
                )
            }
            _ => (self.name.clone(), nearest(&self.name, roots.iter().copied()).map(str::to_owned)),
        };
        IndexError::NotThere { wanted: format!("`{wanted}`"), place, near }
    }
}

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
