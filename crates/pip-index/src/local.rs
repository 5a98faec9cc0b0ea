//! Writes the index of a build, with exactly these wheels, to a folder of this machine. It does not
//! determine the contents of the pages.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::IndexError;
use super::change::tracked;
use super::entry::{Foreign, IndexedFile, Input, each, requires};
use super::folder::{Folder, if_exists, replace, replace_all};
use super::links::Links;
use super::order::required_first;
use super::page::{File, Project, Root};
use super::rules;
use super::view::{CHANNELS, View, package_path};
use python_packaging::wheel::FileName;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::files;

/// The result of writing an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The folder for pip's `--index-url`.
    pub simple: PathBuf,
    /// The number of wheels of each distribution, by normalized name.
    pub distributions: BTreeMap<String, usize>,
    /// The number of wheels that the stack did not build.
    pub foreign: usize,
    /// Whether any page or package changed.
    pub changed: bool,
}

/// The page of a distribution that an earlier run wrote.
struct EarlierPage {
    project: Project,
    /// The index in `project.files` of each file.
    by_name: HashMap<String, usize>,
    /// The time at which the page was written: seconds and nanoseconds.
    written: (i64, i64),
    /// The bytes of the JSON page.
    json: Vec<u8>,
}

/// A wheel for the index.
struct IndexedWheel {
    entry: IndexedFile,
    /// What exists at the package's path; `None` if both that and the page are up to date.
    there: Option<ExistingPackage>,
}

/// What exists at the path of a package.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExistingPackage {
    Nothing,
    /// The wheel itself, or a copy of it with the same modification time.
    Same,
    /// Another file with the same bytes.
    Equal,
    /// Anything else.
    Other,
}

/// Writes the index in `index_dir` with exactly these wheels: the files to `packages/`, the pages
/// to `simple/`.
///
/// Checks every wheel first (see [`python_packaging::wheel::read`]); an invalid wheel is an error,
/// and then nothing changes. Skips wheels in the index that have not changed since. Then replaces
/// packages, pages and the root page, in this order and each atomically, and finally removes files
/// that no page refers to. A client that reads the index in the meantime, or after rocmrpm was
/// killed, finds every file on a page. Two processes that write the same index wait for each other.
pub fn write(wheels: &[PathBuf], index_dir: &Path) -> Result<Written, IndexError> {
    write_with(wheels, &[], index_dir, None)
}

/// Like [`write`], with foreign wheels; `tracks` is the root of an index whose projects this index
/// extends (PEP 708).
pub fn write_with(
    wheels: &[PathBuf],
    foreign: &[Foreign],
    index_dir: &Path,
    tracks: Option<&str>,
) -> Result<Written, IndexError> {
    let inputs = Input::all(wheels, foreign);
    // Wheels in channels must not be removed because this build does not have them.
    if CHANNELS.iter().any(|channel| index_dir.join(channel).join("simple").exists()) {
        return Err(IndexError::Mixed { root: index_dir.to_owned(), published: true });
    }
    let _lock = Folder::lock(index_dir)?;
    let mut old = old_pages(&inputs, index_dir)?;
    let taken = unique(each(&inputs, |input| take(*input, &old, index_dir))?)?;
    let mut projects: BTreeMap<&str, Vec<File>> = BTreeMap::new();
    let mut required: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for IndexedWheel { entry, .. } in &taken {
        projects.entry(&entry.distribution).or_default().push(entry.file.clone());
        let names = required.entry(entry.distribution.clone()).or_default();
        names.extend(requires(&entry.metadata));
    }
    let projects: Vec<_> = projects.into_iter().collect();
    let projects = each(&projects, |(name, files)| {
        let tracks = tracks.iter().map(|root| tracked(root, name)).collect();
        let mut project = Project { name: (*name).to_owned(), files: files.clone(), tracks };
        project.sort();
        rules::check_twins(&project)?;
        Ok((project.name.clone(), project))
    })?;
    let projects: BTreeMap<String, Project> = projects.into_iter().collect();

    let mut changed = vacate(&taken, &mut old, index_dir)?;
    for name in projects.keys() {
        fs::create_dir_all(index_dir.join("packages").join(name))?;
    }
    let fresh: Vec<_> = taken.iter().filter_map(|taken| Some((taken, taken.there?))).collect();
    changed |= fresh.iter().any(|(_, there)| *there != ExistingPackage::Same);
    each(&fresh, |(taken, there)| Ok(put(taken, *there, index_dir)?))?;
    let read: BTreeSet<&String> =
        fresh.iter().map(|(taken, _)| &taken.entry.distribution).collect();
    let mut pages = each(&required_first(&required), |name| {
        let project = &projects[name];
        let was = old.get(name).map(|page| page.json.as_slice());
        let (html, json) = (project.html(View::Local), project.json(View::Local));
        compare(index_dir, &View::Local.page(name), html, json, was, read.contains(name))
    })?;
    let root = Root(projects.keys().cloned().collect());
    let was = if_exists(fs::read(index_dir.join(View::Local.root() + ".json")))?;
    pages.push(compare(
        index_dir,
        &View::Local.root(),
        root.html(),
        root.json(),
        was.as_deref(),
        false,
    )?);
    let mut links = Links::new(View::Local);
    projects.values().for_each(|project| links.set(project));
    let (path, text) = (index_dir.join(View::Local.links()), links.html());
    if !has(&path, text.as_bytes())? {
        pages.push(vec![Pending { path, text, changed: true }]);
    }
    changed |= pages.iter().flatten().any(|page| page.changed);
    let pages: Vec<_> =
        pages.iter().flatten().map(|page| (page.path.clone(), page.text.as_bytes())).collect();
    replace_all(&pages, false)?;
    changed |= clean(index_dir, &projects)?;

    let foreign = projects.values().flat_map(|project| &project.files).filter(|file| file.foreign);
    let foreign = foreign.count();
    let distributions =
        projects.into_iter().map(|(name, project)| (name, project.files.len())).collect();
    Ok(Written { simple: index_dir.join(View::Local.simple()), distributions, foreign, changed })
}

/// Reads the pages of the wheels' distributions. A damaged page only costs the time to read its
/// wheels again, because everything on it comes from them.
fn old_pages(
    inputs: &[Input<'_>],
    index_dir: &Path,
) -> Result<HashMap<String, EarlierPage>, IndexError> {
    let names = inputs.iter().filter_map(|input| FileName::of_distribution(&input.name()).ok());
    let names: BTreeSet<String> = names.map(|name| name.distribution).collect();
    let names: Vec<String> = names.into_iter().collect();
    let read = |name: &String| -> Option<EarlierPage> {
        let path = index_dir.join(View::Local.page(name) + ".json");
        let bytes = fs::read(&path).ok()?;
        let meta = fs::metadata(&path).ok()?;
        let project =
            Project::from_json(&bytes, &path.to_string_lossy(), View::Local, name).ok()?;
        let by_name =
            project.files.iter().enumerate().map(|(at, file)| (file.name.clone(), at)).collect();
        Some(EarlierPage {
            project,
            by_name,
            written: (meta.mtime(), meta.mtime_nsec()),
            json: bytes,
        })
    };
    let pages = each(&names, |name| Ok(read(name)))?;
    Ok(names.into_iter().zip(pages).filter_map(|(name, page)| Some((name, page?))).collect())
}

/// Checks a wheel, unless it is in the index and has not changed since.
fn take(
    input: Input<'_>,
    old: &HashMap<String, EarlierPage>,
    index_dir: &Path,
) -> Result<IndexedWheel, IndexError> {
    let (source, name) = (input.path(), input.name());
    let fresh = |there| Ok(IndexedWheel { entry: input.read()?, there: Some(there) });
    // Reading the wheel reports an invalid name.
    let Ok(parsed) = FileName::of_distribution(&name) else {
        return fresh(ExistingPackage::Nothing);
    };
    let target = index_dir.join(package_path(&parsed.distribution, &name));
    let Some(there) = if_exists(fs::symlink_metadata(&target))? else {
        return fresh(ExistingPackage::Nothing);
    };
    let now = fs::metadata(source)?;
    let modified = (now.mtime(), now.mtime_nsec());
    let linked = (now.dev(), now.ino()) == (there.dev(), there.ino());
    let same = linked
        || there.is_file()
            && (now.len(), modified) == (there.len(), (there.mtime(), there.mtime_nsec()));
    let page = old.get(&parsed.distribution);
    let known =
        page.and_then(|page| page.by_name.get(&name).map(|at| (page, &page.project.files[*at])));
    if let Some((page, file)) = known
        && same
        && input.fits(file)
        && file.size == now.len()
        && modified <= page.written
        && (file.metadata.is_none() || is_older(&metadata_path(&target), page.written))
    {
        let (source, distribution) = (source.to_owned(), parsed.distribution);
        let entry =
            IndexedFile { source, distribution, file: file.clone(), metadata: String::new() };
        return Ok(IndexedWheel { entry, there: None });
    }
    let entry = input.read()?;
    let there = match there.is_file() && there.len() == entry.file.size {
        _ if linked => ExistingPackage::Same,
        true if Sha256::of_file(&target)?.0 == entry.file.sha256 => {
            if same {
                ExistingPackage::Same
            } else {
                ExistingPackage::Equal
            }
        }
        _ => ExistingPackage::Other,
    };
    Ok(IndexedWheel { entry, there: Some(there) })
}

/// Returns whether METADATA was written before the page. It is never empty, but a file that lost its
/// contents in a power failure is.
fn is_older(metadata: &Path, page: (i64, i64)) -> bool {
    fs::symlink_metadata(metadata).is_ok_and(|file| {
        file.is_file() && file.len() > 0 && (file.mtime(), file.mtime_nsec()) <= page
    })
}

fn metadata_path(package: &Path) -> PathBuf {
    let mut path = package.as_os_str().to_owned();
    path.push(".metadata");
    path.into()
}

/// Removes duplicates; different wheels with the same name are an error.
fn unique(all: Vec<IndexedWheel>) -> Result<Vec<IndexedWheel>, IndexError> {
    let mut unique: BTreeMap<String, IndexedWheel> = BTreeMap::new();
    for taken in all {
        if let Some(other) = unique.get(&taken.entry.file.name) {
            if other.entry.file.sha256 != taken.entry.file.sha256 {
                let first = other.entry.source.clone();
                return Err(IndexError::SameName { first, second: taken.entry.source });
            }
        } else {
            unique.insert(taken.entry.file.name.clone(), taken);
        }
    }
    Ok(unique.into_values().collect())
}

/// Removes packages that are about to be replaced from their pages, because the digest there would
/// be wrong for a moment. Returns whether there were any.
fn vacate(
    taken: &[IndexedWheel],
    old: &mut HashMap<String, EarlierPage>,
    index_dir: &Path,
) -> Result<bool, IndexError> {
    let mut pages: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for IndexedWheel { entry, .. } in
        taken.iter().filter(|taken| taken.there == Some(ExistingPackage::Other))
    {
        pages.entry(&entry.distribution).or_default().insert(&entry.file.name);
    }
    for (name, replaced) in &pages {
        let mut project =
            old.get(*name).map_or_else(|| Project::new(name), |page| page.project.clone());
        project.files.retain(|file: &File| !replaced.contains(file.name.as_str()));
        let path = index_dir.join(View::Local.page(name));
        let (html, json) = (project.html(View::Local), project.json(View::Local));
        replace_all(
            &[
                (path.with_extension("html"), html.as_bytes()),
                (path.with_extension("json"), json.as_bytes()),
            ],
            false,
        )?;
        // The page has changed since it was read.
        old.remove(*name);
    }
    Ok(!pages.is_empty())
}

/// Puts a package and its metadata in place.
fn put(taken: &IndexedWheel, there: ExistingPackage, index_dir: &Path) -> io::Result<()> {
    let IndexedFile { source, distribution, file, metadata } = &taken.entry;
    let target = index_dir.join(package_path(distribution, &file.name));
    if there != ExistingPackage::Same {
        files::link_or_copy(source, &target)?;
    }
    if file.metadata.is_none() {
        return Ok(());
    }
    // The temporary name has the wheel's digest: wheels with the same METADATA must not share it.
    replace(&metadata_path(&target), metadata.as_bytes(), &file.sha256.to_string())
}

/// A form of a page to write.
struct Pending {
    path: PathBuf,
    text: String,
    changed: bool,
}

/// Returns the forms of a page to write, JSON last: a run that is killed in between leaves the old
/// state, and the next run writes both again. Unchanged JSON is also written if its wheels were
/// read again, so that its time is later than theirs.
fn compare(
    index_dir: &Path,
    path: &str,
    html: String,
    json: String,
    was: Option<&[u8]>,
    read: bool,
) -> Result<Vec<Pending>, IndexError> {
    let mut pages = Vec::new();
    let html_path = index_dir.join(format!("{path}.html"));
    if !has(&html_path, html.as_bytes())? {
        pages.push(Pending { path: html_path, text: html, changed: true });
    }
    let changed = was != Some(json.as_bytes());
    if changed || read {
        let path = index_dir.join(format!("{path}.json"));
        pages.push(Pending { path, text: json, changed });
    }
    Ok(pages)
}

/// Returns whether a file has exactly these bytes.
fn has(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let Some(mut file) = if_exists(fs::File::open(path))? else { return Ok(false) };
    if file.metadata()?.len() != bytes.len() as u64 {
        return Ok(false);
    }
    let mut old = Vec::with_capacity(bytes.len());
    file.read_to_end(&mut old)?;
    Ok(old == bytes)
}

/// Removes files that no page refers to, pages first. Returns whether there were any.
fn clean(index_dir: &Path, projects: &BTreeMap<String, Project>) -> Result<bool, IndexError> {
    let page = ["index.html", "index.json"];
    let (simple, packages) = (index_dir.join(View::Local.simple()), index_dir.join("packages"));
    fs::create_dir_all(&packages)?;
    let names = || projects.keys().map(String::as_str);
    let all: Vec<&Project> = projects.values().collect();
    let any = |removed: Vec<bool>| removed.contains(&true);
    let mut removed = remove_others(&simple, &names().chain(page).collect())?;
    removed |=
        any(each(&all, |project| Ok(remove_others(&simple.join(&project.name), &page.into())?))?);
    removed |= remove_others(&packages, &names().collect())?;
    removed |= any(each(&all, |project| {
        let files = project.files.iter().map(|file| file.name.as_str());
        let metadata: Vec<String> = files.clone().map(|file| format!("{file}.metadata")).collect();
        let kept = files.chain(metadata.iter().map(String::as_str)).collect();
        Ok(remove_others(&packages.join(&project.name), &kept)?)
    })?);
    Ok(removed)
}

/// Removes everything in a folder except `kept`. Returns whether there was anything to remove.
fn remove_others(folder: &Path, kept: &BTreeSet<&str>) -> io::Result<bool> {
    let mut removed = false;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !kept.contains(entry.file_name().to_string_lossy().as_ref()) {
            files::remove_if_there(&entry.path())?;
            removed = true;
        }
    }
    Ok(removed)
}
