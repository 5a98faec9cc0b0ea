//! Checks the paths of all files that installers unpack into site-packages.

use std::collections::BTreeMap;

use python_packaging::wheel::check_path;

use super::SdkError;

/// The name of rocmrpm's files in errors.
pub(super) const OURS: &str = "a file that rocmrpm adds";

/// The paths below site-packages, each with the file of an RPM that gets it.
#[derive(Default)]
pub(super) struct Paths<'a>(BTreeMap<String, &'a str>);

impl<'a> Paths<'a> {
    /// Adds a path. Fails if another file has it, or if no system can unpack it.
    pub fn add(&mut self, path: String, installed: &'a str) -> Result<(), SdkError> {
        if let Err(reason) = check_path(&format!("/{path}")) {
            return Err(SdkError::Path { file: installed.to_owned(), path, reason });
        }
        match self.0.insert(path.clone(), installed) {
            Some(one) => {
                Err(SdkError::TwoFiles { one: one.to_owned(), other: installed.to_owned(), path })
            }
            None => Ok(()),
        }
    }

    /// Fails if a file has the path of a folder.
    pub fn check(&self) -> Result<(), SdkError> {
        for (path, file) in &self.0 {
            for (at, _) in path.match_indices('/') {
                if let Some(other) = self.0.get(&path[..at]) {
                    return Err(SdkError::FileAndFolder {
                        file: (*other).to_owned(),
                        below: (*file).to_owned(),
                        path: path[..at].to_owned(),
                    });
                }
            }
        }
        Ok(())
    }
}
