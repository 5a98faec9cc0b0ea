//! The files that follow from a workspace without building anything: its specs, and its container files.

use std::path::PathBuf;

use crate::container;
use crate::error::{Error, IoError, Problems};
use crate::files;
use crate::spec::{self, History};
use crate::stack::Stack;
use crate::workspace::Workspace;

/// A file with its expected text.
#[derive(Debug)]
pub struct RenderedFile {
    /// The path.
    pub path: PathBuf,
    /// The text.
    pub text: String,
    /// Whether the file belongs in the workspace's history.
    pub committed: bool,
}

/// All files that follow from a workspace.
#[derive(Debug)]
pub struct RenderedFiles {
    /// The files: specs in build order, and container files.
    pub files: Vec<RenderedFile>,
    /// What is wrong with the history, from which releases and changelogs are derived.
    pub warning: Option<String>,
}

/// Renders all files of a stack. Reports the mistakes in all of its templates at once.
pub fn all(stack: &Stack<'_>) -> Result<RenderedFiles, Error> {
    let workspace = stack.workspace;
    let history = History::read(workspace)?;
    let mut files = Vec::new();
    let mut problems = Problems::default();
    for component in stack.order() {
        match spec::render(stack, component, &history) {
            Ok(rendered) => files.push(RenderedFile {
                path: workspace.build_dir().join("specs").join(&rendered.file_name),
                text: rendered.text,
                committed: false,
            }),
            Err(error) => problems.absorb(error)?,
        }
    }
    if !problems.0.is_empty() {
        return Err(problems.into());
    }
    let committed = !workspace.pins.pins.values().any(|at| at.value.overridden);
    let containers = container::wanted(workspace)?.into_iter();
    files.extend(containers.map(|(path, text)| RenderedFile { path, text, committed }));
    Ok(RenderedFiles { files, warning: history.warning })
}

impl RenderedFile {
    /// Returns its current text; empty if it does not exist.
    pub fn old(&self) -> String {
        fs_err::read_to_string(&self.path).unwrap_or_default()
    }

    /// Returns its path as messages show it.
    pub fn shown(&self, workspace: &Workspace) -> String {
        self.path.strip_prefix(&workspace.root).unwrap_or(&self.path).display().to_string()
    }

    /// Writes it if it is out of date, and returns whether it was.
    pub fn write(&self, workspace: &Workspace) -> Result<bool, Error> {
        let action = IoError::doing(format!("write `{}`", self.shown(workspace)));
        Ok(files::write_if_changed(&self.path, &self.text).map_err(action)?)
    }
}
