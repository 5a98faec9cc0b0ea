//! The index of a build: exactly these wheels, in a folder of this machine. What is on
//! its pages is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::IndexError;
use super::change::tracked;
use super::entry::{Entry, each, file_name, requires};
use super::folder::{Folder, replace, replace_all, there};
use super::order::required_first;
use super::page::{File, Project, Root};
use super::rules;
use super::view::{CHANNELS, View, package_path};
use python_packaging::wheel::FileName;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::files;

/// What an index has and what a run did to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where pip's `--index-url` points.
    pub simple: PathBuf,
    /// The distributions with the number of their wheels, by normalized name.
    pub distributions: BTreeMap<String, usize>,
    /// Whether any page or package changed.
    pub changed: bool,
}

/// The page of a distribution that an earlier run wrote.
struct Old {
    project: Project,
    /// Where a file is in `project`.
    by_name: HashMap<String, usize>,
    /// When the page was written: seconds and nanoseconds.
    written: (i64, i64),
    /// The page itself.
    json: Vec<u8>,
}

/// A wheel that will be in the index.
struct Taken {
    entry: Entry,
    /// What lies under the package's name; `None` where that and the page are as they should be.
    there: Option<There>,
}

/// What lies where a package belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    /// The wheel itself, or a copy of it.
    Same,
    /// A file with its bytes that is neither.
    Equal,
    /// Something else.
    Other,
}

/// Makes the index in `index_dir` have exactly these wheels: `packages/` with the
/// files, `simple/` with the pages.
///
/// Every wheel is checked first (see [`python_packaging::wheel::read`]); one that is wrong is an
/// error, and nothing is changed. A wheel that is in the index and has not changed since is
/// not read again. Then packages, pages and the root page are put in place in this order,
/// each in one step, and last what no page names any more is removed: whoever reads the index
/// meanwhile, or after we were killed, finds every file that a page names. Two processes that
/// write the same index wait for each other.
pub fn write(wheels: &[PathBuf], index_dir: &Path) -> Result<Written, IndexError> {
    write_tracking(wheels, index_dir, None)
}

/// Like [`write`]; `tracks` is the root of the index whose projects ours extend (PEP 708).
pub fn write_tracking(
    wheels: &[PathBuf],
    index_dir: &Path,
    tracks: Option<&str>,
) -> Result<Written, IndexError> {
    // What channels have must not be removed because no wheel of this build is it.
    if CHANNELS.iter().any(|channel| index_dir.join(channel).join("simple").exists()) {
        return Err(IndexError::Mixed { root: index_dir.to_owned(), published: true });
    }
    let _lock = Folder::lock(index_dir)?;
    let mut old = old_pages(wheels, index_dir)?;
    let taken = unique(each(wheels, |wheel| take(wheel, &old, index_dir))?)?;
    let mut projects: BTreeMap<&str, Vec<File>> = BTreeMap::new();
    let mut required: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Taken { entry, .. } in &taken {
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
    changed |= fresh.iter().any(|(_, there)| *there != There::Same);
    each(&fresh, |(taken, there)| Ok(put(taken, *there, index_dir)?))?;
    let read: BTreeSet<&String> = fresh.iter().map(|(taken, _)| &taken.entry.distribution).collect();
    let mut pages = each(&required_first(&required), |name| {
        let project = &projects[name];
        let was = old.get(name).map(|page| page.json.as_slice());
        let (html, json) = (project.html(View::Local), project.json(View::Local));
        compare(index_dir, &View::Local.page(name), html, json, was, read.contains(name))
    })?;
    let root = Root(projects.keys().cloned().collect());
    let was = there(fs::read(index_dir.join(View::Local.root() + ".json")))?;
    pages.push(compare(index_dir, &View::Local.root(), root.html(), root.json(), was.as_deref(), false)?);
    changed |= pages.iter().flatten().any(|page| page.changed);
    let pages: Vec<_> =
        pages.iter().flatten().map(|page| (page.path.clone(), page.text.as_bytes())).collect();
    replace_all(&pages, false)?;
    changed |= clean(index_dir, &projects)?;

    let distributions = projects.into_iter().map(|(name, project)| (name, project.files.len())).collect();
    Ok(Written { simple: index_dir.join(View::Local.simple()), distributions, changed })
}

/// Reads the pages of the wheels' distributions. A page that is damaged costs the time to read
/// its wheels again, nothing else: all that is on it comes from them.
fn old_pages(wheels: &[PathBuf], index_dir: &Path) -> Result<HashMap<String, Old>, IndexError> {
    let names = wheels.iter().filter_map(|wheel| FileName::parse(&file_name(wheel)).ok());
    let names: BTreeSet<String> = names.map(|name| name.distribution).collect();
    let names: Vec<String> = names.into_iter().collect();
    let read = |name: &String| -> Option<Old> {
        let path = index_dir.join(View::Local.page(name) + ".json");
        let bytes = fs::read(&path).ok()?;
        let meta = fs::metadata(&path).ok()?;
        let project = Project::from_json(&bytes, &path.to_string_lossy(), View::Local, name).ok()?;
        let by_name = project.files.iter().enumerate().map(|(at, file)| (file.name.clone(), at)).collect();
        Some(Old { project, by_name, written: (meta.mtime(), meta.mtime_nsec()), json: bytes })
    };
    let pages = each(&names, |name| Ok(read(name)))?;
    Ok(names.into_iter().zip(pages).filter_map(|(name, page)| Some((name, page?))).collect())
}

/// Checks a wheel, unless it is in the index and has not changed since.
fn take(source: &Path, old: &HashMap<String, Old>, index_dir: &Path) -> Result<Taken, IndexError> {
    let name = file_name(source);
    let fresh = |there| Ok(Taken { entry: Entry::read(source)?, there: Some(there) });
    // One whose name is none gets the error that it deserves.
    let Ok(parsed) = FileName::parse(&name) else { return fresh(There::Nothing) };
    let target = index_dir.join(package_path(&parsed.distribution, &name));
    let Some(there) = there(fs::symlink_metadata(&target))? else { return fresh(There::Nothing) };
    let now = fs::metadata(source)?;
    let modified = (now.mtime(), now.mtime_nsec());
    let linked = (now.dev(), now.ino()) == (there.dev(), there.ino());
    let same = linked
        || there.is_file() && (now.len(), modified) == (there.len(), (there.mtime(), there.mtime_nsec()));
    let page = old.get(&parsed.distribution);
    let known = page.and_then(|page| page.by_name.get(&name).map(|at| (page, &page.project.files[*at])));
    if let Some((page, file)) = known
        && same
        && file.size == now.len()
        && modified <= page.written
        && let Ok(metadata) = fs::symlink_metadata(metadata_path(&target))
        // A METADATA is never empty, a file that lost its bytes with the machine's power is.
        && metadata.is_file()
        && metadata.len() > 0
        && (metadata.mtime(), metadata.mtime_nsec()) <= page.written
    {
        let (source, distribution) = (source.to_owned(), parsed.distribution);
        let entry = Entry { source, distribution, file: file.clone(), metadata: String::new() };
        return Ok(Taken { entry, there: None });
    }
    let entry = Entry::read(source)?;
    let there = match there.is_file() && there.len() == entry.file.size {
        _ if linked => There::Same,
        true if Sha256::of_file(&target)?.0 == entry.file.sha256 => {
            if same {
                There::Same
            } else {
                There::Equal
            }
        }
        _ => There::Other,
    };
    Ok(Taken { entry, there: Some(there) })
}

fn metadata_path(package: &Path) -> PathBuf {
    let mut path = package.as_os_str().to_owned();
    path.push(".metadata");
    path.into()
}

/// Leaves one of every file that was given several times.
fn unique(all: Vec<Taken>) -> Result<Vec<Taken>, IndexError> {
    let mut unique: BTreeMap<String, Taken> = BTreeMap::new();
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

/// Takes packages that are about to be replaced from their pages, because the digest there
/// would be wrong for a moment. Tells whether there were any.
fn vacate(taken: &[Taken], old: &mut HashMap<String, Old>, index_dir: &Path) -> Result<bool, IndexError> {
    let mut pages: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Taken { entry, .. } in taken.iter().filter(|taken| taken.there == Some(There::Other)) {
        pages.entry(&entry.distribution).or_default().insert(&entry.file.name);
    }
    for (name, replaced) in &pages {
        let mut project = old.get(*name).map_or_else(|| Project::new(name), |page| page.project.clone());
        project.files.retain(|file: &File| !replaced.contains(file.name.as_str()));
        let path = index_dir.join(View::Local.page(name));
        let (html, json) = (project.html(View::Local), project.json(View::Local));
        replace_all(
            &[(path.with_extension("html"), html.as_bytes()), (path.with_extension("json"), json.as_bytes())],
            false,
        )?;
        // It is no longer as it was read.
        old.remove(*name);
    }
    Ok(!pages.is_empty())
}

/// Puts a package and its metadata in place.
fn put(taken: &Taken, there: There, index_dir: &Path) -> io::Result<()> {
    let Entry { source, distribution, file, metadata } = &taken.entry;
    let target = index_dir.join(package_path(distribution, &file.name));
    if there != There::Same {
        files::link_or_copy(source, &target)?;
    }
    // The digest of the wheel: two wheels with one METADATA must not meet here.
    replace(&metadata_path(&target), metadata.as_bytes(), &file.sha256.to_string())
}

/// A form of a page that is to be written.
struct Pending {
    path: PathBuf,
    text: String,
    changed: bool,
}

/// Returns the forms of a page that are to be written, JSON last: a run that is killed in between
/// finds the old state, and writes both again. JSON that stays as it was is written all the same
/// where its wheels were read again, so that its time is later than theirs.
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

/// Returns whether a file has these bytes.
fn has(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let Some(mut file) = there(fs::File::open(path))? else { return Ok(false) };
    if file.metadata()?.len() != bytes.len() as u64 {
        return Ok(false);
    }
    let mut old = Vec::with_capacity(bytes.len());
    file.read_to_end(&mut old)?;
    Ok(old == bytes)
}

/// Removes what no page names: pages first. Tells whether there was anything.
fn clean(index_dir: &Path, projects: &BTreeMap<String, Project>) -> Result<bool, IndexError> {
    let page = ["index.html", "index.json"];
    let (simple, packages) = (index_dir.join(View::Local.simple()), index_dir.join("packages"));
    fs::create_dir_all(&packages)?;
    let names = || projects.keys().map(String::as_str);
    let all: Vec<&Project> = projects.values().collect();
    let any = |removed: Vec<bool>| removed.contains(&true);
    let mut removed = remove_others(&simple, &names().chain(page).collect())?;
    removed |= any(each(&all, |project| Ok(remove_others(&simple.join(&project.name), &page.into())?))?);
    removed |= remove_others(&packages, &names().collect())?;
    removed |= any(each(&all, |project| {
        let files = project.files.iter().map(|file| file.name.as_str());
        let metadata: Vec<String> = files.clone().map(|file| format!("{file}.metadata")).collect();
        let kept = files.chain(metadata.iter().map(String::as_str)).collect();
        Ok(remove_others(&packages.join(&project.name), &kept)?)
    })?);
    Ok(removed)
}

/// Removes what is not in `kept`. Tells whether there was anything.
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
