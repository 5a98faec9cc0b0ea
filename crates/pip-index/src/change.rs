//! Plans changes of a published index before applying them: adding, promoting, yanking and dropping
//! wheels.
//! It does not transfer files to the index.

mod add;
mod channels;
mod pages;
mod selected;

use std::fmt;

pub use add::plan_add;
pub(crate) use add::tracked;
pub use channels::{plan_promote, plan_rollback, plan_yank};

use super::IndexError;
use super::manifest::{self, Signed, Signing};
use super::page::{self, File};
use super::place::{IndexStorage, Package, Page};
use super::view::View;
use rocmrpm_base::digest::Sha256;
use std::sync::Arc;

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
