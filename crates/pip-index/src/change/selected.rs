//! The distributions and versions that a user names.

use super::pages::Pages;
use crate::IndexError;
use crate::page::File;
use std::str::FromStr;

use pep440_rs::Version;
use python_packaging::wheel;
use rocmrpm_base::names::nearest;
use std::collections::BTreeSet;

/// `NAME` or `NAME==VERSION`.
pub(super) struct Selected {
    pub(super) name: String,
    pub(super) version: Option<Version>,
}

impl Selected {
    pub(super) fn parse(text: &str) -> Result<Self, IndexError> {
        let wrong = || IndexError::Selection(text.to_owned());
        let (name, version) = match text.split_once("==") {
            None => (text, None),
            Some((name, version)) => {
                (name, Some(Version::from_str(version.trim()).map_err(|_| wrong())?))
            }
        };
        Ok(Self { name: wheel::normalized(name.trim()).ok_or_else(wrong)?, version })
    }

    pub(super) fn has(&self, file: &File) -> bool {
        let Some(version) = &self.version else { return true };
        file.parsed().is_ok_and(|name| name.version == *version)
    }

    /// Returns the error for a selection that `pages` do not have.
    pub(super) fn not_there<'a>(
        &self,
        place: String,
        pages: impl Iterator<Item = &'a Pages>,
    ) -> IndexError {
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
