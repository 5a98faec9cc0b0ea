//! Puts the wheels together from the files of each package.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use python_packaging::wheel::{Assembly, Content, Member, SourceRpm, Spool};

use super::layout::SdkPackage;
use super::licenses::Licenses;
use super::packages::{Key, PackageFile, Packages};
use super::paths::{OURS, Paths};
use super::release::Release;
use super::selector::{self, Parts};
use super::tree::Tree;
use super::{Request, SdkError, devel};

/// Returns the wheels to write. `folder` is for temporary files.
pub(super) fn assemblies(
    packages: &Packages,
    request: Request<'_>,
    release: &Release,
    tree: &Tree,
    spool: &mut Spool,
    folder: &Path,
) -> Result<Vec<Assembly>, SdkError> {
    check_requirements(packages, release)?;
    let licenses = Licenses::new(request, release, tree)?;
    let parts = |entries: Option<&BTreeMap<String, PackageFile>>| {
        let entries = entries.into_iter().flat_map(BTreeMap::values);
        let rpms = entries.map(|entry| tree.rpm(&entry.installed));
        // Files that rocmrpm adds are in no RPM.
        let rpms: BTreeSet<&Path> = rpms.filter(|rpm| !rpm.as_os_str().is_empty()).collect();
        let of_package = |rpm: &&(PathBuf, SourceRpm)| rpms.contains(rpm.0.as_path());
        let sources = release.rpms.iter().filter(of_package).map(|(_, source)| source.clone());
        let mut sources: Vec<SourceRpm> = sources.collect();
        sources.sort_by(|a, b| a.file.cmp(&b.file));
        Parts { license_fields: licenses.fields(&rpms), texts: licenses.members(), rpms: sources }
    };
    let (mut all, mut paths) = (Vec::new(), Paths::default());
    for (key, entries) in packages.contents.iter().filter(|(key, _)| key.part != SdkPackage::Devel)
    {
        let (mut members, mut relinked) = (BTreeMap::new(), BTreeMap::new());
        let folder = packages.folder(key.part);
        for (path, entry) in entries {
            relinked.extend(entry.relinked.clone().map(|of| (format!("{folder}/{path}"), of)));
            let member = Member { content: entry.content.clone(), executable: entry.executable };
            paths.add(format!("{folder}/{path}"), &entry.installed)?;
            members.insert(format!("{folder}/{path}"), member);
        }
        let (name, text) = match key.target {
            None => ("__init__.py".to_owned(), String::new()),
            Some(target) => (
                format!(".devel_links/{target}.json"),
                devel::device_links(packages, &release.version, entries.keys()),
            ),
        };
        paths.add(format!("{folder}/{name}"), OURS)?;
        members.insert(format!("{folder}/{name}"), Member::text(text));
        let parts = parts(Some(entries));
        let assembly = selector::assembly(request, release, packages, key, members, parts);
        all.push(Assembly { relinked, ..assembly });
    }
    for (name, (file, _)) in &licenses.texts {
        paths.add(format!("dist-info/licenses/{name}"), file)?;
    }
    devel_paths(packages, tree, &mut paths)?;
    paths.check()?;
    let archive = devel::archive(packages, request, spool, folder)?;
    let devel = Key { part: SdkPackage::Devel, target: None };
    let content = Content::File(archive);
    let members = [("rocm_sdk_devel/_devel.tar".to_owned(), Member { content, executable: false })];
    let parts = parts(packages.contents.get(&devel));
    all.push(selector::assembly(request, release, packages, &devel, members.into(), parts));
    Ok(all)
}

/// Adds the paths of the unpacked development files, among which are those of device packages.
fn devel_paths<'a>(
    packages: &'a Packages,
    tree: &'a Tree,
    paths: &mut Paths<'a>,
) -> Result<(), SdkError> {
    let folder = packages.folder(SdkPackage::Devel);
    paths.add(format!("{folder}/__init__.py"), OURS)?;
    for (_, entries) in packages.contents.iter().filter(|(key, _)| key.part != SdkPackage::Profiler)
    {
        for (path, entry) in entries {
            paths.add(format!("{folder}/{path}"), &entry.installed)?;
        }
    }
    for path in packages.aliases.keys() {
        paths.add(format!("{folder}/{path}"), tree.paths.get(path).map_or(OURS, String::as_str))?;
    }
    Ok(())
}

/// Fails if a package requires one that has no files.
fn check_requirements(packages: &Packages, release: &Release) -> Result<(), SdkError> {
    let has = |part| packages.contents.keys().any(|key| key.part == part);
    let core = Key { part: SdkPackage::Core, target: None };
    let mut required = vec![("rocm".to_owned(), core)];
    for key in packages.contents.keys() {
        let by = selector::distribution(release, key);
        required.extend(selector::requirement(key).map(|needed| (by, needed)));
    }
    match required.into_iter().find(|(_, key)| !has(key.part)) {
        Some((by, key)) => {
            let package = selector::distribution(release, &key);
            Err(SdkError::NoPackage { package, by })
        }
        None => Ok(()),
    }
}
