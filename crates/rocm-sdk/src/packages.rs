//! Distributes the files of ROCm over the packages: libraries under their SONAME only, stubs for
//! links to programs, no links. Sets search paths that cross the packages, which are next to each
//! other in site-packages.

use std::collections::{BTreeMap, BTreeSet};

use python_packaging::wheel::{Content, Node, Spool, Stored, Target};
use python_packaging::wheel::{join, manylinux_library};
use rocm_inspect::{ElfFacts, ElfKind};
use rocmrpm_base::events::Event;
use rocmrpm_base::process::check_stop;
use rocmrpm_base::text::covers;

use super::layout::{Home, Part, layout};
use super::release::Release;
use super::tree::Tree;
use super::{Request, SdkError, search_path, stub};

/// A package: its part of ROCm, and the GPU target of a device package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub part: Part,
    pub target: Option<&'static str>,
}

/// A file of a package.
pub(super) struct Entry {
    pub content: Content,
    pub executable: bool,
    elf: Option<Elf>,
}

/// The linkage of a program or library.
#[derive(Clone)]
struct Elf {
    soname: Option<String>,
    needed: Vec<String>,
    runpath: Vec<String>,
    is_program: bool,
}

/// A library that other files need.
pub(super) struct Library {
    pub part: Part,
    /// Its path in ROCm's folder.
    pub path: String,
    /// The other libraries of the packages that it needs.
    pub needed: Vec<String>,
}

/// The contents of all packages.
pub(super) struct Packages {
    /// The files, by their paths in ROCm's folder.
    pub contents: BTreeMap<Key, BTreeMap<String, Entry>>,
    /// Names in the development files for files of this or another package: their paths.
    pub aliases: BTreeMap<String, String>,
    /// Links to folders in the development files: both paths.
    pub folders: BTreeMap<String, String>,
    /// The libraries by SONAME.
    pub libraries: BTreeMap<String, Library>,
    /// The name of the folder of the libraries.
    libraries_folder: String,
}

/// Distributes the files.
pub(super) fn assign(
    request: Request<'_>,
    release: &Release,
    tree: &Tree,
    spool: &mut Spool,
) -> Result<Packages, SdkError> {
    let mut elves = BTreeMap::new();
    for path in tree.paths.values() {
        check_stop()?;
        if let Node::File(stored) = &tree.payload.nodes[path]
            && !path.ends_with(".hsaco")
            && !path.ends_with(".co")
            && let Some((facts, _)) = spool.linkage(stored)?
            && let Some(elf) = Elf::of(&facts)
        {
            elves.insert(path.as_str(), elf);
        }
    }
    let family = release.families.first().filter(|_| !release.split);
    let suffix = family.map_or(String::new(), |family| format!("_{}", family.name));
    let mut assigning = Assigning {
        release,
        tree,
        names: names(tree, &elves)?,
        elves,
        dangling: Vec::new(),
        packages: Packages {
            contents: BTreeMap::new(),
            aliases: BTreeMap::new(),
            folders: BTreeMap::new(),
            libraries: BTreeMap::new(),
            libraries_folder: format!("_rocm_sdk_libraries{}", suffix.replace('-', "_")),
        },
    };
    for (path, installed) in &tree.paths {
        match &tree.payload.nodes[installed] {
            Node::File(stored) => assigning.file(path, installed, *stored),
            Node::Link(target) => assigning.link(path, installed, target)?,
        }
    }
    if let Some(first) = assigning.dangling.first() {
        request.events.event(Event::Warning(format!(
            "no RPM has the targets of these links, which are left out: {} in total, such as {first}",
            assigning.dangling.len()
        )));
    }
    let mut packages = assigning.packages;
    packages.find_libraries();
    packages.copy_shared(spool)?;
    Ok(packages)
}

/// Returns the paths in ROCm's folder that differ from the installed ones because the SONAME is
/// another name, by installed path.
fn names<'a>(
    tree: &'a Tree,
    elves: &BTreeMap<&'a str, Elf>,
) -> Result<BTreeMap<&'a str, String>, SdkError> {
    let mut names = BTreeMap::new();
    for (path, installed) in &tree.paths {
        let Some(elf) = elves.get(installed.as_str()) else { continue };
        let soname = elf.soname.as_deref().filter(|soname| !soname.contains('/'));
        let Some(soname) = soname.filter(|_| !elf.is_program) else { continue };
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        if file == soname || !file.contains(".so") {
            continue;
        }
        let name = format!("{folder}/{soname}");
        let other = tree.paths.get(&name);
        let same = other.is_none_or(|other| match tree.payload.follow(other) {
            Some(Target::File(end, _)) => end == *installed,
            _ => false,
        });
        match (same, other) {
            (false, Some(other)) => {
                let (one, other) = (other.clone(), installed.clone());
                return Err(SdkError::TwoFiles { one, other, path: name });
            }
            _ => drop(names.insert(installed.as_str(), name)),
        }
    }
    Ok(names)
}

impl Elf {
    /// Returns what a file for this machine's loader needs; `None` for other ELF files.
    fn of(facts: &ElfFacts) -> Option<Self> {
        let is_program = facts.kind == ElfKind::Executable || facts.interpreter.is_some();
        let loaded = is_program || facts.kind == ElfKind::Shared;
        let text = |name: &rocmrpm_base::names::Soname| name.as_str().to_owned();
        (loaded && facts.machine == "x86_64").then(|| Self {
            soname: facts.soname.as_ref().map(text),
            needed: facts.needed.iter().map(text).collect(),
            runpath: [&facts.rpath[..], &facts.runpath[..]].concat(),
            is_program,
        })
    }
}

struct Assigning<'a> {
    release: &'a Release,
    tree: &'a Tree,
    /// Names that differ from the installed ones.
    names: BTreeMap<&'a str, String>,
    elves: BTreeMap<&'a str, Elf>,
    dangling: Vec<String>,
    packages: Packages,
}

impl Assigning<'_> {
    fn key(&self, path: &str) -> Key {
        match layout().part(path) {
            // The GPU code is part of the libraries.
            (Part::Device, _) if !self.release.split => Key { part: Part::Libraries, target: None },
            (part, target) => Key { part, target },
        }
    }

    fn put(&mut self, path: &str, content: Content, executable: bool, elf: Option<Elf>) {
        let package = self.packages.contents.entry(self.key(path)).or_default();
        package.insert(path.to_owned(), Entry { content, executable, elf });
    }

    fn file(&mut self, path: &str, installed: &str, stored: Stored) {
        let elf = self.elves.get(installed).cloned();
        match self.names.get(installed).cloned() {
            Some(name) => {
                self.packages.aliases.insert(path.to_owned(), name.clone());
                self.put(&name, Content::File(stored), stored.executable, elf);
            }
            None => self.put(path, Content::File(stored), stored.executable, elf),
        }
    }

    fn link(&mut self, path: &str, installed: &str, target: &str) -> Result<(), SdkError> {
        let (end, stored) = match self.tree.payload.follow(installed) {
            Some(Target::File(end, stored)) => (end, stored),
            Some(Target::Folder(folder)) => {
                if let Home::Tree(folder) = layout().home(&folder)
                    && folder != path
                {
                    self.packages.folders.insert(path.to_owned(), folder);
                }
                return Ok(());
            }
            None => {
                let inside = join(installed, target).map(|target| layout().home(&target));
                if !matches!(inside, Some(Home::Tree(_))) {
                    let (link, target) = (installed.to_owned(), target.to_owned());
                    return Err(SdkError::LinkOutside { link, target });
                }
                self.dangling.push(installed.to_owned());
                return Ok(());
            }
        };
        let Home::Tree(home) = layout().home(&end) else {
            let (link, target) = (installed.to_owned(), target.to_owned());
            return Err(SdkError::LinkOutside { link, target });
        };
        let name = self.names.get(end.as_str()).cloned().unwrap_or(home);
        if name == path {
            return Ok(());
        }
        let elf = self.elves.get(end.as_str());
        let key = self.key(path);
        match elf {
            _ if key.part == Part::Devel => {}
            Some(elf) if elf.is_program => {
                let to = self.packages.relative(&key, path, &self.key(&name), &name);
                if to.len() <= stub::MAX_TARGET {
                    self.put(path, Content::Text(stub::stub(&to)), true, None);
                    return Ok(());
                }
            }
            // A library has one name at run time.
            Some(_) => {}
            None => {
                self.put(path, Content::File(stored), stored.executable, None);
                return Ok(());
            }
        }
        self.packages.aliases.insert(path.to_owned(), name);
        Ok(())
    }
}

impl Packages {
    /// Returns the folder in site-packages that has the files of a package.
    pub fn folder(&self, part: Part) -> &str {
        match part {
            Part::Core => "_rocm_sdk_core",
            Part::Libraries | Part::Device => &self.libraries_folder,
            Part::Profiler => "_rocm_profiler",
            Part::Devel => "_rocm_sdk_devel",
        }
    }

    /// Returns the path from the folder of a file to another path.
    fn relative(&self, from: &Key, file: &str, to: &Key, path: &str) -> String {
        let from = format!("{}/{file}", self.folder(from.part));
        relative(&from, &format!("{}/{path}", self.folder(to.part)))
    }

    fn find_libraries(&mut self) {
        for (key, entries) in &self.contents {
            for (path, entry) in entries {
                let name = path.rsplit('/').next().unwrap_or(path);
                let Some(elf) = entry.elf.as_ref().filter(|elf| !elf.is_program) else { continue };
                if key.part == Part::Devel
                    || elf.soname.as_deref().unwrap_or(name) != name
                    || !name.contains(".so")
                {
                    continue;
                }
                let library =
                    Library { part: key.part, path: path.clone(), needed: elf.needed.clone() };
                let old = self.libraries.get(name);
                // The one nearest to `lib` is the public one.
                if old.is_none_or(|old| {
                    (depth(path), path.as_str()) < (depth(&old.path), old.path.as_str())
                }) {
                    self.libraries.insert(name.to_owned(), library);
                }
            }
        }
        let known: BTreeSet<String> = self.libraries.keys().cloned().collect();
        for library in self.libraries.values_mut() {
            library.needed.retain(|name| known.contains(name));
        }
    }

    /// Gives each program and library bytes of its own, because their search paths differ.
    fn copy_shared(&mut self, spool: &mut Spool) -> Result<(), SdkError> {
        let mut seen = BTreeSet::new();
        for entry in self.contents.values_mut().flat_map(BTreeMap::values_mut) {
            if let Content::File(stored) = &mut entry.content
                && !seen.insert(stored.id())
                && entry.elf.is_some()
            {
                *stored = spool.duplicate(*stored)?;
            }
        }
        Ok(())
    }

    /// Sets the search paths of all programs and libraries. Fails if a library that one needs is
    /// in no package.
    pub fn link(&mut self, request: Request<'_>, spool: &mut Spool) -> Result<(), SdkError> {
        let mut missing: BTreeMap<String, String> = BTreeMap::new();
        let mut wanted = Vec::new();
        for (key, entries) in self.contents.iter().filter(|(key, _)| key.part != Part::Devel) {
            for (path, entry) in entries {
                let (Some(elf), Content::File(stored)) = (&entry.elf, &entry.content) else {
                    continue;
                };
                let (folders, absent) = self.folders_for(key, path, elf, request.system_libraries);
                for name in absent {
                    let by = format!("{} of {}", path, self.folder(key.part));
                    missing.entry(name).or_insert(by);
                }
                if let Some(text) = self.search_path(key, path, elf, &folders) {
                    wanted.push((key.clone(), path.clone(), *stored, text));
                }
            }
        }
        if !missing.is_empty() {
            return Err(SdkError::MissingLibraries { missing: missing.into_iter().collect() });
        }
        let mut unset = Vec::new();
        for (key, path, stored, text) in wanted {
            check_stop()?;
            match set(spool, &path, stored, &text)? {
                Some(new) => {
                    if let Some(entry) =
                        self.contents.get_mut(&key).and_then(|all| all.get_mut(&path))
                    {
                        entry.content = Content::File(new);
                    }
                }
                None if self.contents[&key][&path].elf.as_ref().is_some_and(|e| e.is_program) => {
                    return Err(SdkError::SearchPath { path, text });
                }
                None => unset.push(path),
            }
        }
        if let Some(first) = unset.first() {
            request.events.event(Event::Warning(format!(
                "these libraries load only after `rocm_sdk.initialize_process` loaded what they need, because \
                 they have no room for a search path: {} in total, such as {first}",
                unset.len()
            )));
        }
        Ok(())
    }

    /// Returns the folders with the libraries that a file needs, and the names of libraries that
    /// neither the packages nor every system has.
    fn folders_for(
        &self,
        key: &Key,
        path: &str,
        elf: &Elf,
        system: &[String],
    ) -> (BTreeSet<(Part, String)>, Vec<String>) {
        let reachable = |part: Part| match key.part {
            Part::Core => part == Part::Core,
            Part::Profiler => matches!(part, Part::Core | Part::Profiler),
            _ => matches!(part, Part::Core | Part::Libraries | Part::Device),
        };
        let (mut folders, mut absent) = (BTreeSet::new(), Vec::new());
        for name in &elf.needed {
            let library = self.libraries.get(name).filter(|library| reachable(library.part));
            // A library may be next to the file under a name that is not public.
            let beside = format!("{}/{name}", path.rsplit_once('/').map_or("", |(at, _)| at));
            match library {
                _ if self.contents[key].contains_key(&beside) => {
                    let folder = beside.rsplit_once('/').map_or("", |(at, _)| at);
                    folders.insert((key.part, folder.to_owned()));
                }
                // Every distribution has it, in a version that its other libraries work with.
                _ if manylinux_library(name).is_some() => {}
                Some(library) => {
                    let folder = library.path.rsplit_once('/').map_or("", |(at, _)| at);
                    folders.insert((library.part, folder.to_owned()));
                }
                None if system.iter().any(|pattern| covers(pattern, name)) => {}
                None => absent.push(name.clone()),
            }
        }
        (folders, absent)
    }

    /// Returns the search path that a file should get; `None` if it needs none or its own is right.
    fn search_path(
        &self,
        key: &Key,
        path: &str,
        elf: &Elf,
        needed: &BTreeSet<(Part, String)>,
    ) -> Option<String> {
        if needed.is_empty() {
            return None;
        }
        let file = format!("{}/{path}", self.folder(key.part));
        let text = |part: Part, folder: &str| {
            let to = relative(&file, &format!("{}/{folder}", self.folder(part)));
            if to == "." { "$ORIGIN".to_owned() } else { format!("$ORIGIN/{to}") }
        };
        let own = |entry: &String| resolved(&file, entry);
        let current: BTreeSet<Option<String>> = elf.runpath.iter().map(own).collect();
        let has = |(part, folder): &(Part, String)| {
            current.contains(&Some(format!("{}/{folder}", self.folder(*part))))
        };
        if needed.iter().all(has) && !current.contains(&None) {
            return None;
        }
        // Libraries that are loaded by name at run time are in these.
        let usual = layout().folders(key.part).map(|(part, folder)| text(part, folder));
        let mut all: Vec<String> = Vec::new();
        for entry in needed.iter().map(|(part, folder)| text(*part, folder)).chain(usual) {
            if !all.contains(&entry) {
                all.push(entry);
            }
        }
        Some(all.join(":"))
    }
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Sets the search path of a file, if it has room, and checks that nothing else changed.
fn set(
    spool: &mut Spool,
    path: &str,
    stored: Stored,
    text: &str,
) -> Result<Option<Stored>, SdkError> {
    let Some((mut before, _)) = spool.linkage(&stored)? else { return Ok(None) };
    let Some(edits) = search_path::edits(spool, stored, &before, text)? else { return Ok(None) };
    let new = spool.overwrite(stored, &edits)?;
    let after = spool.linkage(&new)?;
    before.rpath = Vec::new();
    before.runpath = text.split(':').map(str::to_owned).collect();
    let same =
        |after: &ElfFacts| serde_json::to_value(after).ok() == serde_json::to_value(&before).ok();
    match after {
        Some((after, true)) if same(&after) => Ok(Some(new)),
        _ => Err(SdkError::Damaged { path: path.to_owned() }),
    }
}

/// Returns the path from the folder of `file` to another path of site-packages.
pub(super) fn relative(file: &str, to: &str) -> String {
    let mut from: Vec<&str> = file.split('/').collect();
    from.pop();
    let to: Vec<&str> = to.split('/').filter(|part| !part.is_empty()).collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", from.len() - common);
    let parts: Vec<&str> = up.chain(to[common..].iter().copied()).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

/// Returns the folder in site-packages that an entry of a search path of `file` names; `None` if it
/// is not below site-packages.
fn resolved(file: &str, entry: &str) -> Option<String> {
    let rest = entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}"))?;
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    join("/", &format!("/{folder}{rest}")).map(|path| path.trim_start_matches('/').to_owned())
}
