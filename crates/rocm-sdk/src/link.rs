//! Sets the search paths of all programs and libraries, so that they find those in other packages,
//! which are next to each other in site-packages.

use std::collections::{BTreeMap, BTreeSet};

use python_packaging::wheel::search_path::{self, Set};
use python_packaging::wheel::{Content, Relinked, Spool, Stored, join, manylinux_library};
use rocmrpm_base::events::Event;
use rocmrpm_base::process::check_stop;
use rocmrpm_base::text::covers;

use super::layout::{SdkPackage, layout};
use super::packages::{Elf, Key, PackageFile, Packages, relative};
use super::tree::Tree;
use super::{Request, SdkError};

/// What the loader has to find for a file.
#[derive(Default)]
struct Needs {
    /// The folders with the libraries that it needs.
    folders: BTreeSet<(SdkPackage, String)>,
    /// The libraries that neither the packages nor every system has.
    absent: Vec<String>,
    /// The libraries in packages that may not be installed with this one.
    unreachable: Vec<(String, SdkPackage)>,
}

/// A file that gets another search path.
struct Change {
    key: Key,
    path: String,
    stored: Stored,
    /// The search path.
    text: String,
    /// Whether it does not find its libraries without it.
    necessary: bool,
}

impl Packages {
    /// Sets the search paths of all programs and libraries. Fails if a library that one needs is
    /// in no package.
    pub fn link(
        &mut self,
        request: Request<'_>,
        tree: &Tree,
        spool: &mut Spool,
    ) -> Result<(), SdkError> {
        let changes = self.changes(request)?;
        let (mut lost, mut late, mut outside) = (Vec::new(), Vec::new(), Vec::new());
        for Change { key, path, stored, text, necessary } in changes {
            check_stop()?;
            let Some(entry) = self.contents.get_mut(&key).and_then(|all| all.get_mut(&path)) else {
                continue;
            };
            let Some(elf) = &entry.elf else { continue };
            if let Some(new) = set(spool, entry, stored, &text, tree)? {
                let (file, old) = (entry.installed.clone(), elf.search_path.join(":"));
                let sha256 = stored.sha256;
                entry.relinked = Some(Relinked { file, sha256, old, new: text });
                entry.content = Content::File(new);
                continue;
            }
            if necessary && elf.is_program {
                lost.push(entry.installed.clone());
                continue;
            }
            let kept = [&elf.search_path[..], &elf.ignored_path].concat().join(":");
            let shown = if kept.is_empty() { path } else { format!("{path} with `{kept}`") };
            if necessary { late.push(shown) } else { outside.push(shown) }
        }
        if !lost.is_empty() {
            return Err(SdkError::SearchPath { files: lost });
        }
        warn(
            request,
            &late,
            "these libraries load only after `rocm_sdk.initialize_process` loaded what they \
             need, because they have no room for a search path",
        );
        warn(
            request,
            &outside,
            "these files keep a search path that leads out of the packages, because they \
             have no room for another",
        );
        Ok(())
    }

    /// Returns the files with a search path that is missing or wrong.
    fn changes(&self, request: Request<'_>) -> Result<Vec<Change>, SdkError> {
        let mut missing: BTreeMap<String, String> = BTreeMap::new();
        let mut changes = Vec::new();
        for (key, entries) in self.contents.iter().filter(|(key, _)| key.part != SdkPackage::Devel)
        {
            for (path, entry) in entries {
                let (Some(elf), Content::File(stored)) = (&entry.elf, &entry.content) else {
                    continue;
                };
                let needs = self.needs(key, path, elf, request.system_libraries);
                for name in needs.absent {
                    let by = format!("{} of {}", path, self.folder(key.part));
                    missing.entry(name).or_insert(by);
                }
                if let Some((library, part)) = needs.unreachable.into_iter().next() {
                    return Err(SdkError::Unreachable {
                        file: entry.installed.clone(),
                        package: self.folder(key.part).to_owned(),
                        library,
                        holder: self.folder(part).to_owned(),
                    });
                }
                if let Some((text, necessary)) = self.search_path(key, path, elf, &needs.folders) {
                    let (key, path, stored) = (key.clone(), path.clone(), *stored);
                    changes.push(Change { key, path, stored, text, necessary });
                }
            }
        }
        if !missing.is_empty() {
            return Err(SdkError::MissingLibraries { missing: missing.into_iter().collect() });
        }
        let elves =
            self.contents.values().flat_map(BTreeMap::values).filter_map(|e| e.elf.as_ref());
        let needed: BTreeSet<&String> = elves.flat_map(|elf| &elf.needed).collect();
        let idle = |pattern: &&String| !needed.iter().any(|name| covers(pattern, name));
        let idle: Vec<String> = request.system_libraries.iter().filter(idle).cloned().collect();
        warn(
            request,
            &idle,
            "no file needs a library that these patterns of `--system-library` match",
        );
        Ok(changes)
    }

    fn needs(&self, key: &Key, path: &str, elf: &Elf, system: &[String]) -> Needs {
        let reachable = |part: SdkPackage| match key.part {
            SdkPackage::Core => part == SdkPackage::Core,
            SdkPackage::Profiler => matches!(part, SdkPackage::Core | SdkPackage::Profiler),
            _ => matches!(part, SdkPackage::Core | SdkPackage::Libraries | SdkPackage::Device),
        };
        let mut needs = Needs::default();
        for name in &elf.needed {
            // A library may be next to the file under a name that is not public.
            let own = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let library = self.libraries.get(name);
            if self.contents[key].contains_key(&format!("{own}/{name}")) {
                needs.folders.insert((key.part, own.to_owned()));
            } else if manylinux_library(name).is_some() {
                // Every distribution has it, in a version that its other libraries work with.
            } else if let Some(library) = library.filter(|library| reachable(library.part)) {
                let folder = library.path.rsplit_once('/').map_or("", |(folder, _)| folder);
                needs.folders.insert((library.part, folder.to_owned()));
            } else if system.iter().any(|pattern| covers(pattern, name)) {
            } else if let Some(library) = library {
                needs.unreachable.push((name.clone(), library.part));
            } else {
                needs.absent.push(name.clone());
            }
        }
        needs
    }

    /// Returns the search path that a file gets, and whether it does not find its libraries with its
    /// own; `None` if that is right.
    fn search_path(
        &self,
        key: &Key,
        path: &str,
        elf: &Elf,
        needed: &BTreeSet<(SdkPackage, String)>,
    ) -> Option<(String, bool)> {
        let file = format!("{}/{path}", self.folder(key.part));
        let text = |part: SdkPackage, folder: &str| {
            let to = relative(&file, &format!("{}/{folder}", self.folder(part)));
            if to == "." { "$ORIGIN".to_owned() } else { format!("$ORIGIN/{to}") }
        };
        let own = |entry: &String| resolved(&file, entry);
        let current: BTreeSet<Option<String>> = elf.search_path.iter().map(own).collect();
        let has = |(part, folder): &(SdkPackage, String)| {
            current.contains(&Some(format!("{}/{folder}", self.folder(*part))))
        };
        let necessary = !needed.iter().all(has);
        let mut entries = elf.search_path.iter().chain(&elf.ignored_path);
        if !necessary && entries.all(|entry| own(entry).is_some()) {
            return None;
        }
        let needed = needed.iter().map(|(part, folder)| text(*part, folder));
        // Libraries that are loaded by name at run time are in these.
        let usual = layout().folders(key.part).map(|(part, folder)| text(part, folder));
        let mut all: Vec<String> = Vec::new();
        for entry in needed.chain(usual) {
            if !all.contains(&entry) {
                all.push(entry);
            }
        }
        Some((all.join(":"), necessary))
    }
}

fn warn(request: Request<'_>, found: &[String], what: &str) {
    if let Some(first) = found.first() {
        let text = format!("{what}: {} in total, such as {first}", found.len());
        request.events.event(Event::Warning(text));
    }
}

/// Sets the search path of a file, and checks that nothing else changed. `None` if it has no room.
fn set(
    spool: &mut Spool,
    entry: &PackageFile,
    stored: Stored,
    text: &str,
    tree: &Tree,
) -> Result<Option<Stored>, SdkError> {
    let damaged = |reason: String| {
        let (rpm, file) = (tree.rpm(&entry.installed).to_owned(), entry.installed.clone());
        SdkError::Elf { rpm, file, reason }
    };
    match search_path::set(spool, stored, text)? {
        Set::New(new) => Ok(Some(new)),
        Set::NoRoom => Ok(None),
        Set::Unreadable(reason) => Err(damaged(reason)),
        Set::Damaged => Err(SdkError::Damaged { file: entry.installed.clone() }),
    }
}

/// Returns the folder in site-packages that an entry of a search path of `file` names; `None` if it
/// is not below site-packages.
fn resolved(file: &str, entry: &str) -> Option<String> {
    let rest = entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}"))?;
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    join("/", &format!("/{folder}{rest}")).map(|path| path.trim_start_matches('/').to_owned())
}
