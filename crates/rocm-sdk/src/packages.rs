//! Distributes the files of ROCm over the packages: libraries under their SONAME only, stubs for
//! links to programs, no links.

use std::collections::{BTreeMap, BTreeSet};

use python_packaging::wheel::{Content, Node, Relinked, Spool, Stored, Target, join};
use rocm_inspect::{ElfFacts, ElfKind};
use rocmrpm_base::events::Event;
use rocmrpm_base::process::check_stop;

use super::layout::{Home, SdkPackage, layout};
use super::release::Release;
use super::tree::Tree;
use super::{Request, SdkError, paths, stub};

/// A package: its part of ROCm, and the GPU target of a device package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub part: SdkPackage,
    pub target: Option<&'static str>,
}

/// A file of a package.
pub(super) struct PackageFile {
    pub content: Content,
    pub executable: bool,
    /// The file of an RPM that it comes from.
    pub installed: String,
    pub elf: Option<Elf>,
    /// What differs from the file of the RPM, if it has another search path.
    pub relinked: Option<Relinked>,
}

/// The linkage of a program or library.
#[derive(Clone)]
pub(super) struct Elf {
    soname: Option<String>,
    pub needed: Vec<String>,
    /// The search path that the loader uses.
    pub search_path: Vec<String>,
    /// DT_RPATH, which the loader ignores beside DT_RUNPATH.
    pub ignored_path: Vec<String>,
    pub is_program: bool,
}

/// A library that other files need.
pub(super) struct Library {
    pub part: SdkPackage,
    /// Its path in ROCm's folder.
    pub path: String,
    /// The other libraries of the packages that it needs.
    pub needed: Vec<String>,
}

/// The contents of all packages.
pub(super) struct Packages {
    /// The files, by their paths in ROCm's folder.
    pub contents: BTreeMap<Key, BTreeMap<String, PackageFile>>,
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
            && let Some(elf) = Elf::of(facts)
        {
            elves.insert(path.as_str(), elf);
        }
    }
    let names = names(tree, &elves)?;
    let family = release.families.first().filter(|_| !release.split);
    let suffix = family.map_or(String::new(), |family| format!("_{}", family.name));
    let mut assigning = Assigning {
        release,
        tree,
        spool: &*spool,
        moved: moved(tree, &elves, &names),
        names,
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
        if let Some((expected, folder)) = layout().moved_folder(installed) {
            assigning.packages.folders.insert(expected, folder.to_owned());
        }
        match &tree.payload.nodes[installed] {
            Node::File(stored) => assigning.file(path, installed, *stored)?,
            Node::Link(target) => assigning.link(path, installed, target)?,
        }
    }
    assigning.usual_names()?;
    if let Some(first) = assigning.dangling.first() {
        request.events.event(Event::Warning(format!(
            "these links lead to files that no RPM has, or that are left out: {} in total, such as {first}",
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
        // A link of this name must lead to the file, or to a copy of it.
        if let Some(other) = tree.paths.get(&name)
            && let Node::File(stored) = &tree.payload.nodes[installed]
            && !matches!(tree.payload.follow(other), Some(Target::File(_, end)) if end.sha256 == stored.sha256)
        {
            let (one, other) = (other.clone(), installed.clone());
            return Err(SdkError::TwoFiles { one, other, path: name });
        }
        names.insert(installed.as_str(), name);
    }
    Ok(names)
}

/// Returns the paths in ROCm's folder of files that belong in the package of the libraries although
/// others in their folders are in `core`, because they need one of the libraries.
fn moved(
    tree: &Tree,
    elves: &BTreeMap<&str, Elf>,
    names: &BTreeMap<&str, String>,
) -> BTreeSet<String> {
    let files = || {
        tree.paths.iter().filter_map(|(path, installed)| {
            let elf = elves.get(installed.as_str())?;
            Some((names.get(installed.as_str()).unwrap_or(path), elf))
        })
    };
    // Whether all libraries of a name are in the package of the libraries.
    let mut libraries: BTreeMap<&str, bool> = BTreeMap::new();
    for (path, _) in files().filter(|(_, elf)| !elf.is_program) {
        let there = matches!(layout().part(path).0, SdkPackage::Libraries | SdkPackage::Device);
        *libraries.entry(file_name(path)).or_insert(true) &= there;
    }
    let mut moved = BTreeSet::new();
    loop {
        let before = moved.len();
        for (path, elf) in files() {
            let needs = |name: &String| libraries.get(name.as_str()) == Some(&true);
            if layout().part(path).0 == SdkPackage::Core
                && !layout().is_known_library(path)
                && elf.needed.iter().any(needs)
                && moved.insert(path.clone())
                && !elf.is_program
            {
                libraries.insert(file_name(path), true);
            }
        }
        if moved.len() == before {
            return moved;
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Elf {
    /// Returns what a file for this machine's loader needs; `None` for other ELF files.
    fn of(facts: ElfFacts) -> Option<Self> {
        let is_program = facts.kind == ElfKind::Executable || facts.interpreter.is_some();
        let loaded = is_program || facts.kind == ElfKind::Shared;
        let text = |name: &rocmrpm_base::names::Soname| name.as_str().to_owned();
        let (search_path, ignored_path) = match facts.runpath.is_empty() {
            true => (facts.rpath, Vec::new()),
            false => (facts.runpath, facts.rpath),
        };
        (loaded && facts.machine == "x86_64").then(|| Self {
            soname: facts.soname.as_ref().map(text),
            needed: facts.needed.iter().map(text).collect(),
            search_path,
            ignored_path,
            is_program,
        })
    }
}

struct Assigning<'a> {
    release: &'a Release,
    tree: &'a Tree,
    spool: &'a Spool,
    /// Names that differ from the installed ones.
    names: BTreeMap<&'a str, String>,
    elves: BTreeMap<&'a str, Elf>,
    /// Paths in the package of the libraries that the layout assigns to another.
    moved: BTreeSet<String>,
    dangling: Vec<String>,
    packages: Packages,
}

impl Assigning<'_> {
    fn key(&self, path: &str) -> Key {
        match layout().part(path) {
            _ if self.moved.contains(path) => Key { part: SdkPackage::Libraries, target: None },
            // The GPU code is part of the libraries.
            (SdkPackage::Device, _) if !self.release.split => {
                Key { part: SdkPackage::Libraries, target: None }
            }
            (part, target) => Key { part, target },
        }
    }

    /// Adds a file. Fails if another one has its path.
    fn put(
        &mut self,
        path: &str,
        installed: &str,
        content: Content,
        elf: Option<Elf>,
    ) -> Result<(), SdkError> {
        let executable = match &content {
            Content::File(stored) | Content::Script(stored, _) => stored.executable,
            Content::Text(_) => true,
        };
        let entry = PackageFile {
            content,
            executable,
            installed: installed.to_owned(),
            elf,
            relinked: None,
        };
        let package = self.packages.contents.entry(self.key(path)).or_default();
        match package.get_mut(path) {
            None => drop(package.insert(path.to_owned(), entry)),
            Some(old) => match (&old.content, &entry.content) {
                (Content::File(one), Content::File(other)) if one.sha256 == other.sha256 => {
                    old.executable |= executable;
                }
                _ => {
                    let (one, other) = (old.installed.clone(), entry.installed);
                    return Err(SdkError::TwoFiles { one, other, path: path.to_owned() });
                }
            },
        }
        Ok(())
    }

    fn file(&mut self, path: &str, installed: &str, stored: Stored) -> Result<(), SdkError> {
        let elf = self.elves.get(installed).cloned();
        let name = self.names.get(installed).cloned();
        if let Some(name) = &name {
            self.packages.aliases.insert(path.to_owned(), name.clone());
        }
        self.put(name.as_deref().unwrap_or(path), installed, Content::File(stored), elf)
    }

    fn link(&mut self, path: &str, installed: &str, target: &str) -> Result<(), SdkError> {
        let outside = || {
            let (link, target) = (installed.to_owned(), target.to_owned());
            Err(SdkError::LinkOutside { link, target })
        };
        let (end, stored) = match self.tree.payload.follow(installed) {
            Some(Target::File(end, stored)) => (end, stored),
            Some(Target::Folder(folder)) => {
                // The folder itself has no place, such as that of LLVM.
                let home = layout().home(&format!("{folder}/x"));
                if let Home::Tree(file) = home
                    && let folder = file.strip_suffix("/x").unwrap_or_default()
                    && folder != path
                {
                    self.packages.folders.insert(path.to_owned(), folder.to_owned());
                }
                return Ok(());
            }
            None => {
                let inside = join(installed, target).map(|target| layout().home(&target));
                if !matches!(inside, Some(Home::Tree(_))) {
                    return outside();
                }
                self.dangling.push(installed.to_owned());
                return Ok(());
            }
        };
        let Home::Tree(home) = layout().home(&end) else { return outside() };
        // Copies of a file in two folders have one path.
        let end = self.tree.paths.get(&home).cloned().unwrap_or(end);
        let name = self.names.get(end.as_str()).cloned().unwrap_or(home);
        if name == path {
            return Ok(());
        }
        if self.moved.contains(&name) {
            self.moved.insert(path.to_owned());
        }
        let elf = self.elves.get(end.as_str());
        let key = self.key(path);
        let is_program = match elf {
            Some(elf) => elf.is_program,
            None => stored.executable && in_bin(path) && self.is_script(stored)?,
        };
        if key.part != SdkPackage::Devel {
            let to = self.packages.relative(&key, path, &self.key(&name), &name);
            if is_program && to.len() <= stub::MAX_TARGET {
                return self.put(path, installed, Content::Text(stub::stub(&to)), None);
            }
            // A library has one name at run time, unless programs load it by another.
            if elf.is_none() || layout().is_copied(path) {
                let elf = elf.cloned();
                return self.put(path, installed, Content::File(stored), elf);
            }
        }
        self.packages.aliases.insert(path.to_owned(), name);
        Ok(())
    }

    /// Adds the names that programs have in AMD's packages.
    fn usual_names(&mut self) -> Result<(), SdkError> {
        let core = Key { part: SdkPackage::Core, target: None };
        for (path, to) in layout().links.iter().filter(|(path, _)| in_bin(path)) {
            let has = |path: &String| {
                self.packages.contents.get(&core).is_some_and(|files| files.contains_key(path))
            };
            if has(to) && !has(path) {
                let to = self.packages.relative(&core, path, &core, to);
                self.put(path, paths::OURS, Content::Text(stub::stub(&to)), None)?;
            }
        }
        Ok(())
    }

    /// Returns whether the kernel runs a file with an interpreter. A stub keeps the folder of such a
    /// program, in which it may find its other files; a copy would not.
    fn is_script(&self, stored: Stored) -> Result<bool, SdkError> {
        let mut start = [0; 2];
        let length = self.spool.read_at(&stored, 0, &mut start)?;
        Ok(start[..length] == *b"#!")
    }
}

/// Returns whether users run the files of this folder. Others may be read, such as a Python module.
fn in_bin(path: &str) -> bool {
    path.rsplit('/').nth(1) == Some("bin")
}

impl Packages {
    /// Returns the folder in site-packages that has the files of a package.
    pub fn folder(&self, part: SdkPackage) -> &str {
        match part {
            SdkPackage::Core => "_rocm_sdk_core",
            SdkPackage::Libraries | SdkPackage::Device => &self.libraries_folder,
            SdkPackage::Profiler => "_rocm_profiler",
            SdkPackage::Devel => "_rocm_sdk_devel",
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
                let name = file_name(path);
                let Some(elf) = entry.elf.as_ref().filter(|elf| !elf.is_program) else { continue };
                if key.part == SdkPackage::Devel
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
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
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
