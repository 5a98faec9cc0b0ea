//! Known libraries by name: Fedora's, ROCm's, other vendors'. The names are data in
//! `libraries.toml`; which of them a system has is not known here.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::names::Soname;

/// The tables of `libraries.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    /// SONAME and package.
    pub(super) fedora: BTreeMap<String, String>,
    /// File name and SONAME.
    pub(super) files: BTreeMap<String, String>,
    /// ROCm's libraries by the name before `.so`.
    pub(super) rocm: BTreeMap<String, RocmLibrary>,
    vendors: BTreeMap<String, Vec<String>>,
}

/// A library of ROCm.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RocmLibrary {
    /// What provider tables call the part of ROCm that it belongs to.
    pub(super) capability: String,
    rocm_6: Vec<String>,
    rocm_7: Vec<String>,
    #[serde(default)]
    rocm_10: Vec<String>,
    /// How the C functions begin that it alone has.
    #[serde(default)]
    symbols: Vec<String>,
}

impl RocmLibrary {
    /// Returns its SONAMEs in this major version of ROCm; in any where none is given.
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

/// Returns the tables.
pub(super) fn tables() -> &'static Tables {
    static TABLES: LazyLock<Tables> = LazyLock::new(|| {
        // It is part of the program, and a test reads it.
        toml::from_str(include_str!("libraries.toml")).expect("the built-in table of libraries is valid")
    });
    &TABLES
}

/// Returns the name before `.so` of a library of ROCm, also where a wheel's repair
/// added a digest to it (`libamdhip64-1a2b3c4d.so.7`, as auditwheel does).
pub(super) fn rocm_stem(soname: &str) -> Option<&'static str> {
    let soname = Soname::new(file_name(soname));
    let stem = soname.stem();
    let rocm = &tables().rocm;
    let plain = stem.rsplit_once('-').filter(|(_, digest)| {
        digest.len() == 8 && digest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    });
    let found = rocm.get_key_value(stem).or_else(|| rocm.get_key_value(plain?.0));
    found.map(|(stem, _)| stem.as_str())
}

/// Returns whose library this is, where it belongs to another vendor's GPU stack.
pub(super) fn vendor(soname: &str) -> Option<&'static str> {
    let soname = Soname::new(file_name(soname));
    let stem = soname.stem();
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(beginning) => stem.starts_with(beginning),
        None => stem == pattern,
    };
    tables().vendors.iter().find(|(_, names)| names.iter().any(fits)).map(|(vendor, _)| vendor.as_str())
}

/// Returns the name before `.so` of the ROCm library that has this C function.
pub(super) fn rocm_owner(symbol: &str) -> Option<&'static str> {
    static PREFIXES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
        let all = tables().rocm.iter().flat_map(|(stem, library)| {
            library.symbols.iter().map(move |prefix| (prefix.as_str(), stem.as_str()))
        });
        let mut all: Vec<_> = all.collect();
        // hipblasLt before hipblas before hip.
        all.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        all
    });
    // Almost all symbols are none of them.
    if symbol.starts_with("_Z") {
        return None;
    }
    let fits = |prefix: &str| {
        let rest = symbol.strip_prefix(prefix);
        rest.is_some_and(|rest| prefix.ends_with('_') || rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    PREFIXES.iter().find(|(prefix, _)| fits(prefix)).map(|(_, stem)| *stem)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let tables = tables();
        assert!(tables.fedora.len() > 200);
        assert_eq!(tables.fedora["libstdc++.so.6"], "libstdc++");
        for (stem, library) in &tables.rocm {
            assert!(!library.capability.is_empty());
            for soname in library.sonames(None) {
                assert_eq!(Soname::new(soname).stem(), stem);
                assert!(Soname::new(soname).major().is_some(), "{soname}");
                assert!(!tables.fedora.contains_key(soname) && vendor(soname).is_none(), "{soname}");
            }
        }
        for soname in tables.fedora.keys() {
            assert_eq!((rocm_stem(soname), vendor(soname)), (None, None), "{soname}");
        }
    }

    #[test]
    fn releases_have_their_own_sonames() {
        let of = |stem: &str, rocm| tables().rocm[stem].sonames(rocm);
        assert_eq!(of("libamdhip64", Some(6)), ["libamdhip64.so.6"]);
        assert_eq!(of("libamdhip64", Some(10)), ["libamdhip64.so.7"]);
        assert_eq!(of("libamd_smi", Some(7)), ["libamd_smi.so.26"]);
        assert_eq!(of("libamd_smi", Some(10)), ["libamd_smi.so.27"]);
        assert_eq!(of("libhipblas", None), ["libhipblas.so.2", "libhipblas.so.3"]);
    }

    #[test]
    fn names_tell_whose_a_library_is() {
        assert_eq!(rocm_stem("libamdhip64.so.7"), Some("libamdhip64"));
        assert_eq!(rocm_stem("/opt/rocm/lib/libamdhip64-1a2b3c4d.so.7"), Some("libamdhip64"));
        assert_eq!(rocm_stem("libamdhip64-plugin.so"), None);
        assert_eq!(vendor("libcublasLt.so.12"), Some("CUDA (NVIDIA)"));
        assert_eq!(vendor("libcuda.so.1"), Some("CUDA (NVIDIA)"));
        assert_eq!(vendor("libmkl_core.so.2"), Some("oneAPI (Intel)"));
        assert_eq!(vendor("libcudagrind.so"), None);
    }

    #[test]
    fn functions_tell_the_library_they_need() {
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
