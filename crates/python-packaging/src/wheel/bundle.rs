//! Puts the libraries of ROCm that a wheel needs into it, with their data, from ROCm's Python
//! packages. These have the names of their SONAMEs, and search paths that lead from one package to
//! the other, so they stay as they are: the wheel has the folders of the packages below
//! `<name>.libs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::path::PathBuf;

use super::WheelError;
use super::archive::{Content, MAX_MEMBERS, Member};
use super::linkage::Elf;
use super::manylinux;
use super::payload::Spool;
use super::rocm_sdk::{CORE, LIBRARIES, Refusal, bundled_with, is_rocm};
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::names::Soname;
use rocmrpm_base::process;
use rocmrpm_base::text::covers;

const ABSENT: &str = "add the package that has it to `requirements` of the ROCm provider's \
                      `[python-packages]`, e.g. `rocm[libraries,devel]`, then run `rocmrpm lock` and \
                      `rocmrpm build`";

/// A package of ROCm that files are taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RocmWheel {
    /// The file.
    pub path: PathBuf,
    /// Its name.
    pub file: String,
    /// The name of the distribution.
    pub distribution: String,
    /// Its version.
    pub version: String,
    /// Its digest.
    pub sha256: Sha256,
}

/// What was added to a wheel.
#[derive(Debug, Default)]
pub(super) struct Bundled {
    /// The file name of the package that each member is from.
    pub members: BTreeMap<String, String>,
    /// The packages that members are from.
    pub packages: Vec<RocmWheel>,
    /// The folder of `rocm-sdk-libraries` in the wheel.
    pub libraries: String,
    /// The folder of `rocm-sdk-core` in the wheel.
    pub core: String,
}

/// The packages of ROCm, and where each of their files is.
struct Packages<'a> {
    wheels: &'a [RocmWheel],
    archives: Vec<zip::ZipArchive<std::io::BufReader<fs_err::File>>>,
    /// The package of each file, by path in site-packages.
    files: BTreeMap<String, usize>,
    /// The path of each library, by file name.
    libraries: BTreeMap<String, String>,
}

impl<'a> Packages<'a> {
    fn open(wheels: &'a [RocmWheel]) -> Result<Self, WheelError> {
        let mut all = Self {
            wheels,
            archives: Vec::new(),
            files: BTreeMap::new(),
            libraries: BTreeMap::new(),
        };
        for (at, wheel) in wheels.iter().enumerate() {
            let invalid = |reason: String| WheelError::invalid(&wheel.path, reason);
            let file = std::io::BufReader::new(fs_err::File::open(&wheel.path)?);
            let archive = zip::ZipArchive::new(file).map_err(|error| invalid(error.to_string()))?;
            if archive.len() > MAX_MEMBERS {
                return Err(invalid("it has more than a million files".into()));
            }
            let names = archive.file_names().collect::<Result<Vec<_>, _>>();
            let names = names.map_err(|error| invalid(error.to_string()))?;
            for name in names.into_iter().map(|name| name.to_string()) {
                if name.ends_with('/') || name.split('/').any(|part| part == "..") {
                    continue;
                }
                let base = name.rsplit('/').next().unwrap_or(&name).to_owned();
                let is_runtime = is_runtime(&name);
                if is_runtime && base.contains(".so") {
                    all.libraries.entry(base).or_insert_with(|| name.clone());
                }
                if is_runtime || is_license(&name) {
                    all.files.insert(name, at);
                }
            }
            all.archives.push(archive);
        }
        Ok(all)
    }

    /// Copies a file into the spool.
    fn member(&mut self, name: &str, spool: &mut Spool) -> Result<Option<Member>, WheelError> {
        let Some(at) = self.files.get(name).copied() else { return Ok(None) };
        let invalid = |reason: String| WheelError::invalid(&self.wheels[at].path, reason);
        let file = self.archives[at].by_name(name).map_err(|error| invalid(error.to_string()))?;
        let executable = file.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        let size = file.size();
        let stored = spool.append(file.take(size), executable)?;
        Ok(Some(Member { content: Content::File(stored), executable }))
    }
}

/// Returns whether a file of a package belongs to ROCm at run time.
fn is_runtime(name: &str) -> bool {
    let top = name.split('/').next().unwrap_or_default();
    top == CORE || top == LIBRARIES || top.starts_with(&format!("{LIBRARIES}_"))
}

fn is_license(name: &str) -> bool {
    name.split_once(".dist-info/").is_some_and(|(_, rest)| rest.starts_with("licenses/"))
}

/// Returns the name in the wheel of a package's file. Installers take each folder `.dist-info` for a
/// distribution.
fn member_name(top: &str, name: &str) -> String {
    format!("{top}/{}", name.replace(".dist-info/licenses/", "/licenses/"))
}

/// Adds what the files of a wheel need of ROCm to its members. `stem` is the name of the distribution
/// as wheels write it. Fails if a library is in no package.
pub(super) fn bundle(
    wheels: &[RocmWheel],
    stem: &str,
    members: &mut BTreeMap<String, Member>,
    elfs: &mut BTreeMap<String, Elf>,
    spool: &mut Spool,
) -> Result<Result<Bundled, Refusal>, WheelError> {
    let mut packages = Packages::open(wheels)?;
    let top = format!("{stem}.libs");
    let has = |soname: &str, members: &BTreeMap<String, Member>| {
        members.keys().any(|name| name.rsplit('/').next() == Some(soname))
    };
    // Each library with the file that needs it.
    let mut queue: VecDeque<(String, String)> = VecDeque::new();
    for (name, elf) in elfs.iter() {
        let needed = elf.needed().chain(elf.opens());
        let needed =
            needed.filter(|soname| is_rocm(&Soname::new(*soname)) && !has(soname, members));
        queue.extend(needed.map(|soname| (soname.to_owned(), name.clone())));
    }
    let (mut taken, mut stems) = (BTreeSet::new(), BTreeSet::new());
    while let Some((soname, by)) = queue.pop_front() {
        process::check_stop()?;
        let Some(path) = packages.libraries.get(&soname).cloned() else {
            let is_needed =
                !elfs.get(&by).is_some_and(|elf| elf.opens().any(|name| name == soname));
            // Every distribution has these, and libraries that are only opened may be missing.
            if manylinux::library(&soname).is_some() || !is_needed {
                continue;
            }
            let reason = format!("needs {soname}, which no locked package of ROCm has");
            return Ok(Err(Refusal::File(by, reason, ABSENT)));
        };
        if !taken.insert(path.clone()) {
            continue;
        }
        let Some(member) = packages.member(&path, spool)? else { continue };
        let name = format!("{top}/{path}");
        if let Content::File(stored) = &member.content
            && let Some(elf) =
                spool.linkage(stored)?.and_then(|(facts, sound)| Elf::new(facts, sound))
        {
            let needed = elf.needed().chain(elf.opens());
            queue.extend(needed.map(|soname| (soname.to_owned(), name.clone())));
            elfs.insert(name.clone(), elf);
        }
        members.insert(name, member);
        let stem = Soname::new(&soname).stem().to_owned();
        for opened in bundled_with(&stem).iter().flat_map(|bundle| &bundle.opens) {
            let is_it = |name: &&String| Soname::new(name.as_str()).stem() == opened;
            let found = packages.libraries.keys().filter(is_it);
            queue.extend(found.map(|name| (name.clone(), path.clone())));
        }
        stems.insert(stem);
    }
    let bundles = stems.iter().filter_map(|stem| bundled_with(stem));
    let patterns: Vec<&str> = bundles.flat_map(|bundle| &bundle.data).map(String::as_str).collect();
    let matches = |name: &str| {
        let below = name.split_once('/').map_or("", |(_, rest)| rest);
        patterns.iter().any(|pattern| covers(pattern, below))
    };
    let data: Vec<String> = packages
        .files
        .keys()
        .filter(|name| is_runtime(name) && !taken.contains(*name))
        .filter(|name| matches(name))
        .cloned()
        .collect();
    taken.extend(data.iter().cloned());
    let used: BTreeSet<usize> =
        taken.iter().filter_map(|name| packages.files.get(name)).copied().collect();
    let licenses =
        packages.files.iter().filter(|(name, at)| is_license(name) && used.contains(*at));
    let licenses: Vec<String> = licenses.map(|(name, _)| name.clone()).collect();
    for name in data.iter().chain(&licenses) {
        process::check_stop()?;
        if let Some(member) = packages.member(name, spool)? {
            members.insert(member_name(&top, name), member);
        }
    }
    let from = |name: &String| {
        Some((member_name(&top, name), wheels[*packages.files.get(name)?].file.clone()))
    };
    let libraries = taken.iter().find(|name| name.starts_with(LIBRARIES));
    let libraries = libraries.and_then(|name| name.split('/').next()).unwrap_or(LIBRARIES);
    Ok(Ok(Bundled {
        libraries: format!("{top}/{libraries}"),
        core: format!("{top}/{CORE}"),
        members: taken.iter().chain(&licenses).filter_map(from).collect(),
        packages: used.into_iter().map(|at| wheels[at].clone()).collect(),
    }))
}
