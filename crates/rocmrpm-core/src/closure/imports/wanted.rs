//! Finds the absolute imports in a component's source, and how each import is reached. Does not
//! check them.

use serde::{Deserialize, Serialize};

use super::python;
use crate::closure::ClosureError;
use crate::closure::roots::Edited;
use crate::digest::Sha256;
use crate::error::IoError;
use crate::sources::Fetcher;
use crate::workspace::{Component, Workspace};
use crate::{machine, parallel};

const SCRIPT: &str = include_str!("wanted.py");

/// A file that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unread {
    /// The distribution; `None` for the component.
    pub distribution: Option<String>,
    /// The file and the reason.
    pub reason: String,
}

/// The folders in which a source may have its packages.
const ROOTS: [&str; 4] = ["", "src", "lib", "python"];

/// How an import is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum How {
    /// Whenever its module is imported.
    Plain,
    /// When its module is imported, depending on a condition.
    Conditional,
    /// When a function is called.
    Lazy,
    /// In code that handles a failure.
    Optional,
    /// Only by type checkers.
    Typing,
}

/// An import of one name, or of one module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    /// The file, below the source's top folder.
    pub file: String,
    pub line: usize,
    pub module: String,
    /// The name imported from the module; `None` for the module itself.
    pub name: Option<String>,
    pub how: How,
}

/// All imports of a component.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The component's own top-level module; `None` if its source has none.
    pub own: Option<String>,
    pub imports: Vec<Import>,
    pub unread: Vec<Unread>,
}

/// A row of the script's answer: file, line, module, name, and the number for how it is reached.
type ImportRow = (String, usize, String, Option<String>, u8);

#[derive(Serialize, Deserialize)]
struct WantedImports {
    imports: Vec<ImportRow>,
    /// Files and reasons.
    unread: Vec<(String, String)>,
}

#[derive(Serialize)]
struct WantedQuery<'a> {
    limit: u64,
    files: &'a [File],
}

#[derive(Serialize)]
struct File {
    name: String,
    path: String,
    /// The text after the component's edits, if there are edits for the file.
    text: Option<String>,
}

impl Wanted {
    /// Reads the imports of a component. `distribution` is its normalized distribution name.
    pub fn of(
        workspace: &Workspace,
        component: &Component,
        distribution: &str,
        fetcher: &Fetcher<'_>,
    ) -> Result<Self, ClosureError> {
        let source = Edited { tree: fetcher.tree(workspace.pin(component))?, workspace, component };
        let own = distribution.replace('-', "_");
        let has_package =
            |root: &&str| source.tree.dir.join(root).join(&own).join("__init__.py").is_file();
        let Some(root) = ROOTS.into_iter().find(has_package) else { return Ok(Self::default()) };
        let files = files(&source, &format!("{root}/{own}"))?;
        let recipe = recipe(&source, &files);
        let known = fetcher.remembered(&recipe)?.and_then(|text| serde_json::from_str(&text).ok());
        let answer: WantedImports = match known {
            Some(answer) => answer,
            None => {
                let answer = ask(&files)?;
                // Do not cache what another version of Python may be able to parse.
                if answer.unread.is_empty() {
                    let text = serde_json::to_string(&answer);
                    fetcher.remember(
                        &recipe,
                        &text.map_err(|e| ClosureError::Python(e.to_string()))?,
                    )?;
                }
                answer
            }
        };
        let unread = answer.unread.into_iter();
        let unread = unread.map(|(file, reason)| Unread {
            distribution: None,
            reason: format!("{file}: {reason}"),
        });
        Ok(Self { own: Some(own), imports: imports(answer.imports)?, unread: unread.collect() })
    }
}

/// Returns the Python files below a folder of a source, with the component's edits applied.
fn files(source: &Edited<'_>, folder: &str) -> Result<Vec<File>, ClosureError> {
    let top = &source.tree.dir;
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(top.join(folder.trim_start_matches('/'))).sort_by_file_name()
    {
        let entry =
            entry.map_err(|error| IoError::doing("read an unpacked source")(error.into()))?;
        let path = entry.path();
        if !entry.file_type().is_file()
            || path.extension().is_none_or(|extension| extension != "py")
        {
            continue;
        }
        let (Some(name), Some(path)) =
            (path.strip_prefix(top).ok().and_then(|p| p.to_str()), path.to_str())
        else {
            continue;
        };
        let text = if source.is_edited(name) { source.text(name)? } else { None };
        files.push(File { name: name.to_owned(), path: path.to_owned(), text });
    }
    Ok(files)
}

/// Returns everything that determines the answer.
fn recipe(source: &Edited<'_>, files: &[File]) -> String {
    let script = Sha256::of_bytes(SCRIPT);
    let mut recipe = format!("imports wanted\n{script}\n{}\n", source.tree.fetched.sha256);
    for file in files {
        if let Some(text) = &file.text {
            recipe += &format!("{} {}\n", Sha256::of_bytes(text), file.name);
        }
    }
    recipe
}

/// Runs several scripts concurrently, each with a part of the files.
fn ask(files: &[File]) -> Result<WantedImports, ClosureError> {
    let cores = machine::cores();
    let parts: Vec<&[File]> = files.chunks(files.len().div_ceil(cores).max(1)).collect();
    let answers = parallel::try_map(&parts, cores, |files| {
        python::ask::<WantedImports>(SCRIPT, &WantedQuery { limit: python::MAX_FILE, files })
    })?;
    let mut all = WantedImports { imports: Vec::new(), unread: Vec::new() };
    for answer in answers {
        all.imports.extend(answer.imports);
        all.unread.extend(answer.unread);
    }
    Ok(all)
}

fn imports(rows: Vec<ImportRow>) -> Result<Vec<Import>, ClosureError> {
    let import = |(file, line, module, name, how): ImportRow| {
        let how = match how {
            0 => How::Plain,
            1 => How::Conditional,
            2 => How::Lazy,
            3 => How::Optional,
            4 => How::Typing,
            _ => return Err(ClosureError::Python(format!("`{how}` is not a way to import"))),
        };
        // `import *` binds whatever exists.
        Ok(Import { file, line, module, name: name.filter(|name| name != "*"), how })
    };
    rows.into_iter().map(import).collect()
}
