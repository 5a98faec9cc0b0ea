//! Decides which package a file of ROCm belongs to. The decisions are data in `layout.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use python_packaging::wheel::sdk_library;
use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::names::Soname;
use rocmrpm_base::text::covers;
use serde::Deserialize;

/// A package of ROCm for Python that has files of ROCm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SdkPackage {
    Core,
    Libraries,
    Device,
    Profiler,
    Devel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layout {
    release: Vec<String>,
    ignored: Vec<String>,
    licenses: Vec<String>,
    libraries: Vec<String>,
    copied: Vec<String>,
    pub optional: Vec<String>,
    pub programs: Programs,
    pub links: BTreeMap<String, String>,
    folders: BTreeMap<SdkPackage, Vec<String>>,
    prefix: Vec<Prefix>,
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Programs {
    pub devel: Vec<String>,
    pub core: Vec<String>,
    pub profiler: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prefix {
    from: String,
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    package: SdkPackage,
    paths: Vec<String>,
}

/// The place of an installed file in the folder of ROCm.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// Its path in that folder.
    Tree(String),
    /// No package has it.
    Ignored,
    /// The layout does not know its folder.
    Unknown,
}

pub(super) fn layout() -> &'static Layout {
    static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
        // The table is built in, and a test parses it.
        toml::from_str(include_str!("layout.toml")).expect("the built-in layout is valid")
    });
    &LAYOUT
}

impl Layout {
    /// Returns whether the version of the package with this name is ROCm's.
    pub fn has_release(&self, package: &str) -> bool {
        self.release.iter().any(|pattern| covers(pattern, package))
    }

    /// Returns whether an absolute path is that of a license text.
    pub fn is_license(&self, path: &str) -> bool {
        self.licenses.iter().any(|pattern| covers(pattern, path))
    }

    /// Returns whether a link to a library becomes a copy of it.
    pub fn is_copied(&self, path: &str) -> bool {
        self.copied.iter().any(|pattern| covers(pattern, path))
    }

    /// Returns whether AMD's packages have a library of this path.
    pub fn is_known_library(&self, path: &str) -> bool {
        self.library(path).is_some()
    }

    /// Returns the place of an absolute path.
    pub fn home(&self, path: &str) -> Home {
        if self.ignored.iter().any(|pattern| covers(pattern, path)) {
            return Home::Ignored;
        }
        self.places(path).next().map_or(Home::Unknown, |(place, _)| Home::Tree(place))
    }

    /// Returns the folder that programs expect where one of the distribution was moved from, and its
    /// place: Debian's `/usr/lib/llvm-22`, which is `lib/llvm`, is searched for as `lib/llvm-22`.
    pub fn moved_folder<'a>(&'a self, path: &str) -> Option<(String, &'a str)> {
        let mut places = self.places(path);
        let (place, to) = places.next().filter(|(_, to)| !to.is_empty())?;
        let rest = place.strip_prefix(to)?;
        let expected = places.next()?.0.strip_suffix(rest)?.to_owned();
        (expected != to).then_some((expected, to))
    }

    /// Returns the places that the prefixes give a path, and their folders.
    fn places<'a>(&'a self, path: &str) -> impl Iterator<Item = (String, &'a str)> {
        let parts: Vec<&str> = path.split('/').collect();
        self.prefix.iter().filter_map(move |Prefix { from, to }| {
            let from: Vec<&str> = from.split('/').collect();
            let matches = from.iter().zip(&parts).all(|(pattern, part)| covers(pattern, part));
            (matches && parts.len() > from.len()).then(|| {
                let rest = parts[from.len()..].join("/");
                (if to.is_empty() { rest } else { format!("{to}/{rest}") }, to.as_str())
            })
        })
    }

    /// Returns the package of a file in the folder of ROCm, and the GPU target of a file for one.
    pub fn part(&self, path: &str) -> (SdkPackage, Option<&'static str>) {
        if let Some(part) = self.library(path) {
            return (part, None);
        }
        for rule in &self.rule {
            if !rule.paths.iter().any(|pattern| covers(pattern, path)) {
                continue;
            }
            match rule.package {
                SdkPackage::Device => match processor(path) {
                    Some(target) => return (SdkPackage::Device, Some(target)),
                    None => continue,
                },
                part => return (part, None),
            }
        }
        (SdkPackage::Devel, None)
    }

    /// Returns the package of a library in `lib` by its name.
    fn library(&self, path: &str) -> Option<SdkPackage> {
        let name = path.strip_prefix("lib/").filter(|name| !name.contains('/'))?;
        let soname = Soname::new(name);
        if !name.contains(".so") || processor(name).is_some() {
            return None;
        }
        if self.libraries.iter().any(|pattern| covers(pattern, soname.stem())) {
            return Some(SdkPackage::Libraries);
        }
        let known = sdk_library(soname.stem())?;
        Some(if known.core { SdkPackage::Core } else { SdkPackage::Libraries })
    }

    /// Returns the folders of libraries that the files of a package search, as package and folder.
    pub fn folders(&self, part: SdkPackage) -> impl Iterator<Item = (SdkPackage, &str)> {
        self.folders.get(&part).into_iter().flatten().filter_map(|folder| {
            let (part, folder) = folder.split_once(':')?;
            let part = match part {
                "core" => SdkPackage::Core,
                "libraries" => SdkPackage::Libraries,
                "profiler" => SdkPackage::Profiler,
                _ => return None,
            };
            Some((part, folder))
        })
    }
}

/// Returns the processor that the last part of a path with one names, such as that of
/// `TensileLibrary_gfx1151.dat`, `library/gfx90a/x.dat` or `gfx942130.db.txt`, in which the number of
/// compute units follows.
pub(super) fn processor(path: &str) -> Option<&'static str> {
    path.rmatch_indices("gfx").find_map(|(at, _)| {
        let names = GpuTarget::known().filter(|name| path[at..].starts_with(name));
        names.max_by_key(|name| name.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_place_of_installed_files() {
        let home = |path| match layout().home(path) {
            Home::Tree(path) => path,
            Home::Ignored => "ignored".into(),
            Home::Unknown => "unknown".into(),
        };
        for (path, expected) in [
            ("/opt/rocm/core-7.14/lib/libamdhip64.so.7", "lib/libamdhip64.so.7"),
            ("/opt/rocm-6.4.0/bin/hipcc", "bin/hipcc"),
            ("/usr/lib64/rocm/llvm/bin/clang", "lib/llvm/bin/clang"),
            ("/usr/lib/llvm-22/bin/clang", "lib/llvm/bin/clang"),
            ("/usr/lib64/libhsa-runtime64.so.1", "lib/libhsa-runtime64.so.1"),
            ("/usr/lib/.build-id/ab/cd", "ignored"),
            ("/usr/bin", "unknown"),
            ("/srv/x", "unknown"),
        ] {
            assert_eq!(home(path), expected, "{path}");
        }
    }

    #[test]
    fn finds_folders_that_programs_expect_elsewhere() {
        for (path, expected) in [
            ("/usr/lib/llvm-22/bin/clang", Some(("lib/llvm-22", "lib/llvm"))),
            ("/usr/lib64/rocm/llvm/bin/clang", Some(("lib/rocm/llvm", "lib/llvm"))),
            ("/usr/lib64/libhsa-runtime64.so.1", None),
            ("/opt/rocm-7.2.4/lib/llvm/bin/clang", None),
        ] {
            let found = layout().moved_folder(path);
            assert_eq!(
                found.as_ref().map(|(one, other)| (one.as_str(), *other)),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn assigns_files_to_packages() {
        for (path, part, target) in [
            ("lib/libamdhip64.so.7", SdkPackage::Core, None),
            ("lib/libz3.so.4", SdkPackage::Core, None),
            ("lib/librocblas.so.5", SdkPackage::Libraries, None),
            ("lib/libhipfftw.so.0", SdkPackage::Libraries, None),
            ("lib/rocblas/library/TensileManifest.txt", SdkPackage::Libraries, None),
            ("lib/rocblas/library/TensileLibrary_gfx1151.dat", SdkPackage::Device, Some("gfx1151")),
            ("share/miopen/db/gfx90878.HIP.fdb.txt", SdkPackage::Device, Some("gfx908")),
            ("lib/hipblaslt/library/gfx90a/x.dat", SdkPackage::Device, Some("gfx90a")),
            (".kpack/blas_lib_gfx1151.kpack", SdkPackage::Device, Some("gfx1151")),
            ("lib/libMIOpenCKGroupedConv_gfx1201.so", SdkPackage::Device, Some("gfx1201")),
            ("lib/librocblas.a", SdkPackage::Devel, None),
            ("include/hip/hip_runtime.h", SdkPackage::Core, None),
            ("include/rocblas/rocblas.h", SdkPackage::Devel, None),
            ("lib/cmake/hip/hip-config.cmake", SdkPackage::Devel, None),
            ("bin/rocprof-sys-run", SdkPackage::Profiler, None),
            ("bin/rocprofv3", SdkPackage::Core, None),
            ("share/modulefiles/x", SdkPackage::Devel, None),
        ] {
            assert_eq!(layout().part(path), (part, target), "{path}");
        }
    }
}
