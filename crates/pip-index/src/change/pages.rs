//! The pages of a view that a change involves: reads them, and adds those that differ to the change.

use super::Change;
use crate::IndexError;
use crate::entry::each;
use crate::links::Links;
use crate::order::required_first;
use crate::page::{self, File, Project, Root};
use crate::place::{IndexStorage, Page};
use crate::view::View;
use rocmrpm_base::digest::Sha256;
use std::collections::{BTreeMap, BTreeSet};

/// The pages of a view that a change involves, before and after.
pub(super) struct Pages {
    pub(super) view: View,
    pub(super) root: Root,
    pub(super) root_was: Option<Vec<u8>>,
    pub(super) links_was: Option<Vec<u8>>,
    pub(super) projects: BTreeMap<String, (Project, Option<Vec<u8>>)>,
}

impl Pages {
    pub(super) fn read<'a>(
        place: &dyn IndexStorage,
        view: View,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<Self, IndexError> {
        Ok(Self::read_all(place, [view], names)?.swap_remove(0))
    }

    /// Reads the pages of a view, and those of the other channels.
    pub(super) fn read_with_siblings(
        place: &dyn IndexStorage,
        view: View,
        names: &BTreeSet<String>,
    ) -> Result<(Self, Vec<Self>), IndexError> {
        let siblings = view.siblings().into_iter().filter(|other| *other != view);
        let mut all = Self::read_all(place, std::iter::once(view).chain(siblings), names)?;
        Ok((all.remove(0), all))
    }

    /// Reads the pages of several views, in a single call because calls to a server are slow.
    pub(super) fn read_all<'a>(
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

    pub(super) fn project(&mut self, name: &str) -> &mut Project {
        &mut self.projects.entry(name.to_owned()).or_insert_with(|| (Project::new(name), None)).0
    }

    pub(super) fn find(&self, distribution: &str, file: &str) -> Option<&File> {
        self.projects.get(distribution)?.0.files.iter().find(|other| other.name == file)
    }

    /// Adds the pages that differ to the change.
    pub(super) fn finish(
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
