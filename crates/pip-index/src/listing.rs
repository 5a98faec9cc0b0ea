//! Lists the contents of a view of an index in a folder: every wheel on its pages, with its entry.
//! `check` verifies the entries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fs_err as fs;
use fs_err::File;

use super::IndexError;
use super::view::View;
use python_packaging::sdist;
use python_packaging::wheel::{FileName, normalized};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::error::{Diagnose, Diagnosis, IoError, Kind};
use rocmrpm_base::files;
use rocmrpm_fetch::{self as sources, ProjectFile, SourceError};

/// The wheels on the pages of one `simple/` folder. Parsing is lenient, so that a check can report
/// every problem.
#[derive(Debug)]
pub struct Listing {
    /// The absolute root of the index.
    pub root: PathBuf,
    /// The folder of the pages.
    pub simple: PathBuf,
    /// The wheels by the normalized name of their distribution, sorted by version and file name.
    pub wheels: BTreeMap<String, Vec<Listed>>,
    /// Files that are not wheels of the page they are on: page, file, what is wrong.
    pub misfits: Vec<(String, String, String)>,
    /// Pages whose JSON and HTML forms differ.
    pub torn: Vec<String>,
    /// Whether the flat page lists other files than the pages of the distributions.
    pub stale_links: bool,
}

/// A wheel on a page.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The file name.
    pub file: String,
    /// The parsed file name.
    pub name: FileName,
    /// The path of the file; `None` if the URL leads outside the index.
    pub path: Option<PathBuf>,
    /// The rest of the entry on the page.
    pub listed: ProjectFile,
}

/// Why reading a view failed.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    /// The folder does not exist.
    #[error("there is no index in `{}`: it has no folder `{view}`", root.display())]
    Missing {
        /// The root of the index.
        root: PathBuf,
        /// The view's folder below the root.
        view: String,
        /// The existing channels.
        channels: Vec<String>,
    },
    /// A page is unreadable.
    #[error(transparent)]
    Page(#[from] SourceError),
    /// The channel does not exist.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// An I/O operation failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Diagnose for ListingError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Missing { channels, .. } if !channels.is_empty() => Kind::Usage
                .with_help(format!("choose a channel with `--channel`: {}", channels.join(", "))),
            Self::Missing { .. } => Kind::Usage
                .with_help("run `rocmrpm index` to write the index of the workspace's wheels"),
            // A page in a folder does not come from the network.
            Self::Page(SourceError::IndexPage { .. }) => Kind::Config
                .with_help("run `rocmrpm index` to write the pages of the workspace's index again"),
            Self::Page(error) => error.diagnosis(),
            Self::Index(error) => error.diagnosis(),
            Self::Io(error) => error.diagnosis(),
        }
    }
}

impl Listing {
    /// Reads the view of a channel, or of the local index if `channel` is `None`.
    pub fn read(root: &Path, channel: Option<&str>) -> Result<Self, ListingError> {
        let root = files::absolute(root).map_err(IoError::doing("find the index"))?;
        let view = View::of(channel).map_err(IndexError::from)?.simple();
        let simple = root.join(&view);
        if !simple.is_dir() {
            let channels = channels(&root);
            return Err(ListingError::Missing { root, view, channels });
        }
        let mut read = Self {
            root,
            simple,
            wheels: BTreeMap::new(),
            misfits: Vec::new(),
            torn: Vec::new(),
            stale_links: false,
        };
        for name in folders(&read.simple).map_err(IoError::doing("read the index"))? {
            let folder = read.simple.join(&name);
            let json = sources::files_of_page(&folder.join("index.json"))?;
            let html = sources::files_of_page(&folder.join("index.html"))?;
            if let (Some(json), Some(html)) = (&json, &html)
                && essence(json) != essence(html)
            {
                read.torn.push(name.clone());
            }
            // The JSON page has more information; an index of another tool may only have the HTML
            // page.
            for listed in json.or(html).unwrap_or_default() {
                read.add(&name, listed);
            }
        }
        read.compare_links(&read.root.join(View::of(channel).map_err(IndexError::from)?.links()))?;
        for wheels in read.wheels.values_mut() {
            wheels.sort_by(|a, b| (&a.name.version, &a.file).cmp(&(&b.name.version, &b.file)));
        }
        Ok(read)
    }

    /// Compares the flat page, which only an index of rocmrpm has, with the other pages.
    fn compare_links(&mut self, page: &Path) -> Result<(), ListingError> {
        let Some(links) = sources::files_of_page(page)? else { return Ok(()) };
        let of = |file: &ProjectFile| (file.name.clone(), file.sha256);
        let listed = self.wheels.values().flatten().filter(|file| !file.listed.yanked);
        let listed: BTreeSet<_> = listed.map(|file| of(&file.listed)).collect();
        if links.iter().map(of).collect::<BTreeSet<_>>() != listed {
            self.stale_links = true;
        }
        Ok(())
    }

    fn add(&mut self, page: &str, listed: ProjectFile) {
        let file = listed.name.clone();
        let name = match FileName::of_distribution(&file) {
            Ok(name) if normalized(page).as_deref() == Some(&name.distribution) => name,
            Ok(name) => {
                let wrong = format!("it belongs to `{}`", name.distribution);
                return self.misfits.push((page.to_owned(), file, wrong));
            }
            Err(wrong) => return self.misfits.push((page.to_owned(), file, wrong)),
        };
        let path = sources::path_of_url(&listed.url).filter(|path| path.starts_with(&self.root));
        self.wheels.entry(name.distribution.clone()).or_default().push(Listed {
            file,
            name,
            path,
            listed,
        });
    }
}

impl Listed {
    /// Reads the wheel's METADATA from the file beside it (PEP 658), or the PKG-INFO of an sdist. The
    /// error describes what is wrong.
    pub fn metadata(&self) -> Result<String, String> {
        let path = self.path.as_ref().ok_or("its page links to a file outside the index")?;
        if self.name.is_sdist() {
            let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
            return sdist::read(file, &self.file);
        }
        let mut name = path.clone().into_os_string();
        name.push(".metadata");
        let bytes = std::fs::read(&name)
            .map_err(|error| format!("{}: {error}", Path::new(&name).display()))?;
        if let Some(listed) = self.listed.metadata
            && listed != Sha256::of_bytes(&bytes)
        {
            return Err(format!(
                "{}: its digest differs from the one on the page",
                Path::new(&name).display()
            ));
        }
        String::from_utf8(bytes)
            .map_err(|_| format!("{}: it is not UTF-8", Path::new(&name).display()))
    }
}

/// Returns the information that both forms of a page have.
fn essence(files: &[ProjectFile]) -> BTreeSet<ProjectFile> {
    // Only JSON has sizes and upload times.
    files.iter().map(|file| ProjectFile { size: None, upload_time: None, ..file.clone() }).collect()
}

/// Returns the sorted names of the folders in a folder.
fn folders(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().is_dir() {
            names
                .extend(entry.file_name().into_string().ok().filter(|name| !name.starts_with('.')));
        }
    }
    names.sort();
    Ok(names)
}

fn channels(root: &Path) -> Vec<String> {
    let mut names = folders(root).unwrap_or_default();
    names.retain(|name| root.join(name).join("simple").is_dir());
    names
}
