//! Looks up known libraries by name: those of Fedora, ROCm and other vendors. The names are data in
//! `libraries.toml`. It does not know which of them a system has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

/// The content of `libraries.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    /// Packages by SONAME.
    pub(super) fedora: BTreeMap<String, String>,
    /// SONAMEs by file name.
    pub(super) files: BTreeMap<String, String>,
    /// ROCm's libraries by the name before `.so`.
    pub(super) rocm: BTreeMap<String, RocmLibrary>,
    vendors: BTreeMap<String, Vec<String>>,
    /// Libraries in the wheel of each distribution, which that distribution's extension modules
    /// need.
    hosts: BTreeMap<String, Vec<String>>,
    /// Modules of each distribution with libraries that other wheels find by search paths.
    modules: BTreeMap<String, Vec<String>>,
}

/// A ROCm library.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RocmLibrary {
    /// The name that provider tables use for the part of ROCm that it belongs to.
    pub(super) capability: String,
    rocm_6: Vec<String>,
    rocm_7: Vec<String>,
    #[serde(default)]
    rocm_10: Vec<String>,
    /// Prefixes of the C functions that only this library has.
    #[serde(default)]
    symbols: Vec<String>,
}

impl RocmLibrary {
    /// Returns its SONAMEs in this major version of ROCm, or in all versions if none is given.
    pub(super) fn sonames(&self, rocm: Option<u64>) -> Vec<&str> {
        let all = [&self.rocm_6, &self.rocm_7, &self.rocm_10];
        let chosen: Vec<&Vec<String>> = match rocm {
            None => all.to_vec(),
            Some(..=6) => vec![&self.rocm_6],
            Some(10..) if !self.rocm_10.is_empty() => vec![&self.rocm_10],
            Some(_) => vec![&self.rocm_7],
        };
        chosen.into_iter().flatten().map(String::as_str).collect()
    }
}

pub(super) fn tables() -> &'static Tables {
    static TABLES: LazyLock<Tables> = LazyLock::new(|| {
        // The table is part of the program, and a test parses it.
        toml::from_str(include_str!("libraries.toml"))
            .expect("the built-in table of libraries is valid")
    });
    &TABLES
}

/// The SONAME of a ROCm library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RocmName<'a> {
    /// The name before `.so`.
    pub(super) stem: &'static str,
    /// The first component of its version.
    pub(super) major: Option<&'a str>,
}

impl RocmName<'_> {
    /// Returns the major versions of ROCm in which the library has this SONAME; empty if the table
    /// does not have it.
    pub(super) fn releases(self) -> BTreeSet<u64> {
        let library = &tables().rocm[self.stem];
        let has = |rocm: &u64| {
            library.sonames(Some(*rocm)).iter().any(|soname| major(soname) == self.major)
        };
        [6, 7, 10].into_iter().filter(has).collect()
    }
}

/// Parses the SONAME of a ROCm library, including names that auditwheel changed: it adds a digest
/// to the name and keeps the full version (`libamdhip64-1a2b3c4d.so.7.2.70204`).
pub(super) fn rocm_library(soname: &str) -> Option<RocmName<'_>> {
    let name = file_name(soname);
    let stem = name.split(".so").next().unwrap_or(name);
    let rocm = &tables().rocm;
    let found = rocm.get_key_value(stem).or_else(|| rocm.get_key_value(without_digest(stem)?));
    found.map(|(stem, _)| RocmName { stem, major: major(name) })
}

/// Returns the name before `.so` of a ROCm library.
pub(super) fn rocm_stem(soname: &str) -> Option<&'static str> {
    rocm_library(soname).map(|library| library.stem)
}

fn major(soname: &str) -> Option<&str> {
    soname.split_once(".so.").and_then(|(_, version)| version.split('.').next())
}

/// Returns a library's name without the digest that auditwheel added.
pub(super) fn without_digest(stem: &str) -> Option<&str> {
    let (plain, digest) = stem.rsplit_once('-')?;
    let hexadecimal = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    (digest.len() == 8 && digest.bytes().all(hexadecimal)).then_some(plain)
}

/// Returns the vendor of this library if it belongs to another vendor's GPU stack.
pub(super) fn vendor(soname: &str) -> Option<&'static str> {
    owner(&tables().vendors, stem(soname))
}

/// Returns the distribution whose wheel contains this library.
pub(super) fn host(soname: &str) -> Option<&'static str> {
    owner(&tables().hosts, stem(soname))
}

/// Returns the distribution whose wheel has this module with libraries.
pub(super) fn module_owner(module: &str) -> Option<&'static str> {
    owner(&tables().modules, module)
}

/// Returns the key under which a table lists a name.
fn owner(table: &'static BTreeMap<String, Vec<String>>, name: &str) -> Option<&'static str> {
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    table.iter().find(|(_, names)| names.iter().any(fits)).map(|(owner, _)| owner.as_str())
}

/// Returns the name before `.so` of the ROCm library that contains this C function.
pub(super) fn rocm_owner(symbol: &str) -> Option<&'static str> {
    static PREFIXES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
        let all = tables().rocm.iter().flat_map(|(stem, library)| {
            library.symbols.iter().map(move |prefix| (prefix.as_str(), stem.as_str()))
        });
        let mut all: Vec<_> = all.collect();
        // Longest prefix first: hipblasLt before hipblas before hip.
        all.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        all
    });
    // C++ symbols, which are the vast majority, never match.
    if symbol.starts_with("_Z") {
        return None;
    }
    let fits = |prefix: &str| {
        let rest = symbol.strip_prefix(prefix);
        rest.is_some_and(|rest| {
            prefix.ends_with('_') || rest.starts_with(|c: char| c.is_ascii_uppercase())
        })
    };
    PREFIXES.iter().find(|(prefix, _)| fits(prefix)).map(|(_, stem)| *stem)
}

/// Returns the name of a library before `.so`.
fn stem(soname: &str) -> &str {
    let name = file_name(soname);
    name.split_once(".so").map_or(name, |(stem, _)| stem)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use rocmrpm_base::names::Soname;

    use super::*;

    #[test]
    fn keeps_the_tables_consistent() {
        let tables = tables();
        assert!(tables.fedora.len() > 200);
        assert_eq!(tables.fedora["libstdc++.so.6"], "libstdc++");
        for (stem, library) in &tables.rocm {
            assert!(!library.capability.is_empty());
            for soname in library.sonames(None) {
                assert_eq!(Soname::new(soname).stem(), stem);
                assert!(Soname::new(soname).major().is_some(), "{soname}");
                assert!(
                    !tables.fedora.contains_key(soname) && vendor(soname).is_none(),
                    "{soname}"
                );
            }
        }
        for soname in tables.fedora.keys() {
            assert_eq!((rocm_stem(soname), vendor(soname)), (None, None), "{soname}");
        }
    }

    #[test]
    fn maps_releases_to_sonames() {
        let of = |stem: &str, rocm| tables().rocm[stem].sonames(rocm);
        assert_eq!(of("libamdhip64", Some(6)), ["libamdhip64.so.6"]);
        assert_eq!(of("libamdhip64", Some(10)), ["libamdhip64.so.7"]);
        assert_eq!(of("libamd_smi", Some(7)), ["libamd_smi.so.26"]);
        assert_eq!(of("libamd_smi", Some(10)), ["libamd_smi.so.27"]);
        assert_eq!(of("libhipblas", None), ["libhipblas.so.2", "libhipblas.so.3"]);
        let releases = |soname| Vec::from_iter(rocm_library(soname).unwrap().releases());
        assert_eq!(releases("libhipblas.so.2"), [6]);
        assert_eq!(releases("libamdhip64-1a2b3c4d.so.7.2.70204"), [7, 10]);
        assert_eq!(releases("libhipfft.so.0"), [6, 7, 10]);
        assert_eq!(releases("libamdhip64.so.5"), [0; 0]);
    }

    #[test]
    fn identifies_the_vendor_by_name() {
        assert_eq!(rocm_stem("libamdhip64.so.7"), Some("libamdhip64"));
        assert_eq!(rocm_stem("/opt/rocm/lib/libamdhip64-1a2b3c4d.so.7"), Some("libamdhip64"));
        assert_eq!(rocm_stem("libamdhip64-plugin.so"), None);
        let named = rocm_library("libamdhip64-f1043337.so.7.2.70204").unwrap();
        assert_eq!((named.stem, named.major), ("libamdhip64", Some("7")));
        assert_eq!(rocm_library("libamdhip64.so").unwrap().major, None);
        assert_eq!(vendor("libc.musl-x86_64.so.1"), Some("musl, another C library than glibc"));
        assert_eq!(host("libtorch_cpu.so"), Some("torch"));
        assert_eq!((host("libtorch_cuda.so"), host("libtorchvision.so")), (None, None));
        assert_eq!(vendor("libcublasLt.so.12"), Some("CUDA (NVIDIA)"));
        assert_eq!(vendor("libcuda.so.1"), Some("CUDA (NVIDIA)"));
        assert_eq!(vendor("libmkl_core.so.2"), Some("oneAPI (Intel)"));
        assert_eq!(vendor("libcudagrind.so"), None);
        assert_eq!(module_owner("_rocm_sdk_core"), Some("rocm-sdk-core"));
        assert_eq!(module_owner("_rocm_sdk_libraries_gfx1151"), Some("rocm-sdk-libraries"));
        assert_eq!(module_owner("_rocm_sdk_core2"), None);
    }

    #[test]
    fn identifies_libraries_by_function_name() {
        assert_eq!(rocm_owner("hipMalloc"), Some("libamdhip64"));
        assert_eq!(rocm_owner("__hipRegisterFatBinary"), Some("libamdhip64"));
        assert_eq!(rocm_owner("hipblasSgemm"), Some("libhipblas"));
        assert_eq!(rocm_owner("hipblasLtMatmul"), Some("libhipblaslt"));
        assert_eq!(rocm_owner("ncclSend"), Some("librccl"));
        assert_eq!(rocm_owner("hsa_init"), Some("libhsa-runtime64"));
        for other in ["hipster", "hippo_init", "_ZN3hip4LoadEv", "malloc", "hip"] {
            assert_eq!(rocm_owner(other), None, "{other}");
        }
    }
}
