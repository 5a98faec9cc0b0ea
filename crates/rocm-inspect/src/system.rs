//! The target system on which files have to load: which libraries it has, the packages they are
//! from, and their versions. It does not check whether a set of files is compatible with it.

use std::collections::BTreeMap;
use std::path::Path;

use super::finding::Depth;
use super::{elf, image, libraries};
use rocmrpm_base::canonical::Canonical;
use rocmrpm_base::names::Soname;
use rocmrpm_base::process::{Command, ProcessError, find_program};

/// The tag for search paths in ELF files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchPathTag {
    /// `DT_RPATH`: searched before `LD_LIBRARY_PATH`, and also for the dependencies of its libraries.
    Rpath,
    /// `DT_RUNPATH`: searched after `LD_LIBRARY_PATH`, and only for the file's own needs.
    Runpath,
}

impl Canonical for SearchPathTag {
    fn write(&self, text: &mut String) {
        text.push_str(match self {
            Self::Rpath => "Rpath",
            Self::Runpath => "Runpath",
        });
    }
}

/// The ROCm installation of a system.
#[derive(Debug, Clone, Default)]
pub struct Rocm {
    /// Where it is installed, such as `/usr` or `/opt/rocm/core-7.14`.
    pub prefix: String,
    /// Its major version, if known.
    pub major: Option<u64>,
    /// The search path tag of its own files; `None` for either.
    pub search_path_tag: Option<SearchPathTag>,
    /// For each capability, the package that programs need and the SONAME.
    pub capabilities: BTreeMap<String, (Option<String>, Option<Soname>)>,
}

/// What is known about the target system. By default nothing is known, and then no library counts
/// as missing.
#[derive(Debug, Clone, Default)]
pub struct System {
    /// Its name, such as `fedora-43` or `this machine`.
    pub name: String,
    /// Its libraries: package by SONAME.
    pub libraries: BTreeMap<String, String>,
    /// Its ROCm libraries: package by SONAME.
    pub rocm: BTreeMap<String, String>,
    /// Where its ROCm is installed, such as `/usr` or `/opt/rocm/core-7.14`.
    pub rocm_prefix: String,
    /// Its newest symbol version of each kind: `GLIBC`, `GLIBCXX` or `CXXABI`, and the number, such
    /// as `2.42`.
    pub symbol_versions: BTreeMap<String, String>,
    /// The machine as an RPM architecture, such as `x86_64`; empty for any.
    pub arch: String,
    /// The search path tag of ROCm's own files; `None` for either.
    pub search_path_tag: Option<SearchPathTag>,
    /// Whether the list of libraries is complete, so that libraries not in it are missing.
    /// Otherwise it comes from a table, which may have gaps.
    pub complete: bool,
}

/// Where programs and packages find libraries by default.
pub(super) const DEFAULT_FOLDERS: [&str; 4] = ["/usr/lib64", "/usr/lib", "/lib64", "/lib"];

impl System {
    /// Returns a release of Fedora with the libraries of the built-in table, and the given ROCm.
    /// `arch` is an RPM architecture, and `python` is a version such as `3.14`.
    pub fn release(name: &str, arch: &str, python: &str, rocm: &Rocm) -> Self {
        let mut system = Self {
            name: name.to_owned(),
            libraries: libraries::tables().fedora.clone(),
            arch: arch.to_owned(),
            ..Self::default()
        };
        // Programs that embed Python need it; extension modules do not.
        let python = format!("libpython{python}.so.1.0");
        system.libraries.insert(python, "python3-libs".to_owned());
        system.libraries.insert("libpython3.so".to_owned(), "python3-libs".to_owned());
        system.add_rocm(rocm);
        // For libraries that are not in the provider's table, use the SONAMEs of that version of
        // ROCm.
        for (stem, library) in &libraries::tables().rocm {
            if system.rocm.keys().any(|soname| libraries::rocm_stem(soname) == Some(stem)) {
                continue;
            }
            let capability = rocm.capabilities.get(&library.capability);
            let package = capability.and_then(|(package, _)| package.as_deref()).unwrap_or("ROCm");
            for soname in library.sonames(rocm.major) {
                system.rocm.insert(soname.to_owned(), package.to_owned());
            }
        }
        system
    }

    /// Returns Fedora with any version of ROCm, for inspections without a workspace.
    pub fn fedora() -> Self {
        let tables = libraries::tables();
        let rocm = tables.rocm.values().flat_map(|library| {
            let named =
                |soname: &str| (soname.to_owned(), format!("ROCm ({})", library.capability));
            library.sonames(None).into_iter().map(named).collect::<Vec<_>>()
        });
        Self {
            name: "fedora".to_owned(),
            libraries: tables.fedora.clone(),
            rocm: rocm.collect(),
            rocm_prefix: "/opt/rocm".to_owned(),
            ..Self::default()
        }
    }

    /// Returns the libraries of this machine: those in the dynamic loader's cache, and those in
    /// ROCm's table and folders.
    pub fn this_machine(rocm: &Rocm) -> Result<Self, ProcessError> {
        // Not every user has the sbin folders in PATH.
        let places = ["/sbin/ldconfig", "/usr/sbin/ldconfig"];
        let found = places.into_iter().find(|place| Path::new(place).exists());
        let program = if find_program("ldconfig").is_some() {
            "ldconfig"
        } else {
            found.unwrap_or("ldconfig")
        };
        let list = Command::new(program).arg("-p").text()?;
        let mut system = Self {
            name: "this machine".to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            complete: true,
            ..Self::default()
        };
        for (soname, path) in listed(&list, &system.arch) {
            system.add(soname, path);
        }
        system.add_rocm(rocm);
        system.add_folders(&rocm.prefix);
        // The loader itself is never listed, but always exists.
        for loader in ["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"] {
            system.libraries.entry(loader.to_owned()).or_insert_with(|| "glibc".to_owned());
        }
        for (library, kinds) in
            [("libc.so.6", &["GLIBC"][..]), ("libstdc++.so.6", &["GLIBCXX", "CXXABI"])]
        {
            let path = system.libraries.get(library).cloned().unwrap_or_default();
            system.add_versions(Path::new(&path), kinds);
        }
        Ok(system)
    }

    /// Adds a library from a package that will be installed together with the inspected set, such
    /// as another component's.
    pub fn add(&mut self, soname: &str, package: &str) {
        let libraries = match libraries::rocm_stem(soname) {
            Some(_) => &mut self.rocm,
            None => &mut self.libraries,
        };
        libraries.entry(soname.to_owned()).or_insert_with(|| package.to_owned());
    }

    /// Adds the libraries that an earlier inspection found in other packages, from its JSON
    /// document. Ignores any other document.
    pub fn add_inspected(&mut self, report: &serde_json::Value) {
        let list = |value: &serde_json::Value, key: &str| {
            value.get(key).and_then(|list| list.as_array()).cloned().unwrap_or_default()
        };
        for subject in list(report, "subjects") {
            let text = |key: &str| subject.get(key).and_then(|text| text.as_str());
            let package = text("package").or(text("name")).unwrap_or_default().to_owned();
            for file in list(&subject, "files") {
                if let Some(soname) = file.pointer("/elf/soname").and_then(|soname| soname.as_str())
                {
                    self.add(soname, &package);
                }
            }
        }
    }

    /// Returns whether enough is known to report missing libraries.
    pub fn is_known(&self) -> bool {
        !self.libraries.is_empty()
    }

    /// Returns the package that has this library, given its SONAME or its file name.
    pub fn package(&self, name: &str) -> Option<&str> {
        let file = || self.package_of_soname(libraries::tables().files.get(name)?);
        self.package_of_soname(name).or_else(file)
    }

    /// Returns the package that provides this SONAME.
    pub fn package_of_soname(&self, soname: &str) -> Option<&str> {
        self.rocm.get(soname).or_else(|| self.libraries.get(soname)).map(String::as_str)
    }

    /// Returns the newest symbol version of the same kind as `version`, such as `GLIBC_2.42`, and
    /// whether `version` is not newer; `None` if unknown.
    pub fn newest(&self, version: &str) -> Option<(String, bool)> {
        let (kind, wanted) = split_version(version)?;
        let newest = self.symbol_versions.get(kind)?;
        Some((format!("{kind}_{newest}"), wanted <= dotted(newest)?))
    }

    /// Returns the folders with its ROCm libraries, unless the loader searches them by default.
    pub(super) fn rocm_folders(&self) -> Vec<String> {
        match self.rocm_prefix.as_str() {
            "" | "/usr" => Vec::new(),
            prefix => vec![format!("{prefix}/lib"), format!("{prefix}/lib64")],
        }
    }

    fn add_rocm(&mut self, rocm: &Rocm) {
        self.rocm_prefix.clone_from(&rocm.prefix);
        self.search_path_tag = rocm.search_path_tag;
        for (name, (package, soname)) in &rocm.capabilities {
            if let Some(soname) = soname {
                let package = package.as_ref().unwrap_or(name);
                self.rocm.entry(soname.to_string()).or_insert_with(|| package.clone());
            }
        }
    }

    fn add_folders(&mut self, prefix: &str) {
        if prefix == "/usr" {
            return;
        }
        for folder in ["lib", "lib64"] {
            let Ok(entries) = std::fs::read_dir(Path::new(prefix).join(folder)) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("lib") && name.contains(".so") {
                    self.add(&name, &entry.path().to_string_lossy());
                }
            }
        }
    }

    fn add_versions(&mut self, library: &Path, kinds: &[&str]) {
        let Ok(Some((bytes, _))) = image::on_disk(library, "") else { return };
        let Ok(host) = elf::read(&bytes, Depth::Quick) else { return };
        for kind in kinds {
            let versions = host.facts.versions_provided.iter().filter_map(|version| {
                let (of, number) = split_version(version)?;
                (of == *kind).then_some(number)
            });
            if let Some(newest) = versions.max() {
                let text: Vec<String> = newest.iter().map(u64::to_string).collect();
                self.symbol_versions.insert((*kind).to_owned(), text.join("."));
            }
        }
    }
}

/// Splits a symbol version such as `GLIBC_2.42` into its kind and its number. Returns `None` for
/// versions that name a feature: `GLIBC_PRIVATE`, `GLIBC_ABI_DT_RELR`.
pub(super) fn split_version(version: &str) -> Option<(&str, Vec<u64>)> {
    let (kind, number) = version.rsplit_once('_')?;
    Some((kind, dotted(number)?))
}

/// Returns the parts of a dotted number; `None` if a part is not a number.
pub(super) fn dotted(number: &str) -> Option<Vec<u64>> {
    number.split('.').map(|part| part.parse().ok()).collect()
}

/// Returns SONAMEs and paths from the output of `ldconfig -p`, which has lines such as `libz.so.1
/// (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1`.
fn listed<'a>(list: &'a str, arch: &str) -> Vec<(&'a str, &'a str)> {
    // Source: glibc, sysdeps/unix/sysv/linux and elf/cache.c, print_entry.
    let flag = match arch {
        "x86_64" => "x86-64",
        "aarch64" => "AArch64",
        _ => "libc6",
    };
    let lines = list.lines().filter_map(|line| {
        let (head, path) = line.trim().split_once(" => ")?;
        let (soname, flags) = head.split_once(" (")?;
        flags.contains(flag).then_some((soname, path))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_loaders_list_for_one_machine() {
        let list = "3 libs found in cache `/etc/ld.so.cache'\n\
                    \tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1\n\
                    \tlibz.so.1 (libc6) => /lib/i386-linux-gnu/libz.so.1\n\
                    \tliba.so (libc6,AArch64, hwcap: \"x\") => /lib/liba.so\nCache generated by: ldconfig\n";
        assert_eq!(listed(list, "x86_64"), [("libz.so.1", "/lib/x86_64-linux-gnu/libz.so.1")]);
        assert_eq!(listed(list, "aarch64"), [("liba.so", "/lib/liba.so")]);
    }

    #[test]
    fn adds_libraries_of_other_components() {
        let report = serde_json::json!({"subjects": [{"name": "t-1-1.x86_64", "package": "t", "files": [
            {"elf": {"soname": "libtorch.so"}}, {"elf": {"soname": null}}, {"elf": null}, {}]}]});
        let mut system = System::fedora();
        system.add_inspected(&report);
        system.add_inspected(&serde_json::json!({"subjects": 7}));
        assert_eq!(system.package("libtorch.so"), Some("t"));
    }

    #[test]
    fn compares_versions_as_numbers() {
        assert_eq!(split_version("GLIBCXX_3.4.9"), Some(("GLIBCXX", vec![3, 4, 9])));
        assert!(dotted("3.4.30") > dotted("3.4.9"));
        for none in [
            "GLIBC_PRIVATE",
            "GLIBC_ABI_DT_RELR",
            "x",
            "GLIBC_",
            "GLIBC_2.",
            "GLIBC_9999999999999999999999",
        ] {
            assert_eq!(split_version(none), None, "{none}");
        }
    }
}
