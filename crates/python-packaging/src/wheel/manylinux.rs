//! Finds the manylinux policy (PEP 600) that allows what an ELF file expects of the system, from
//! the data in `manylinux.toml`. `linkage` finds out where libraries come from.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use rocm_inspect::ElfFacts;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    policies: Vec<u32>,
    libraries: BTreeMap<String, u32>,
    private: BTreeMap<String, BTreeMap<String, u32>>,
    /// By architecture, symbol family and policy.
    versions: BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<String>>>>,
}

struct Table {
    policies: Vec<u32>,
    libraries: BTreeMap<String, u32>,
    private: BTreeMap<String, BTreeMap<String, u32>>,
    /// The first policy of each version, by architecture and symbol family.
    versions: BTreeMap<String, BTreeMap<String, BTreeMap<String, u32>>>,
}

fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        // The table is built in, and a test parses it.
        let Tables { policies, libraries, private, versions } =
            toml::from_str(include_str!("manylinux.toml"))
                .expect("the built-in table of policies is valid");
        let turned = |by_policy: BTreeMap<String, Vec<String>>| {
            let mut versions = BTreeMap::new();
            for (policy, names) in by_policy {
                let policy: u32 = policy.parse().expect("a policy is a number");
                versions.extend(names.into_iter().map(|name| (name, policy)));
            }
            versions
        };
        let versions = versions.into_iter().map(|(arch, families)| {
            (
                arch,
                families
                    .into_iter()
                    .map(|(family, by_policy)| (family, turned(by_policy)))
                    .collect(),
            )
        });
        Table { policies, libraries, private, versions: versions.collect() }
    });
    &TABLE
}

/// Returns the first policy that exists for an architecture.
pub(super) fn first(arch: &str) -> Option<u32> {
    let families = table().versions.get(arch)?;
    families.values().flat_map(BTreeMap::values).min().copied()
}

/// Returns the first policy that lets this library come from the system.
pub fn library(soname: &str) -> Option<u32> {
    // The loader itself, whose versions are those of glibc.
    if is_loader(soname) {
        table().policies.first().copied()
    } else {
        table().libraries.get(soname).copied()
    }
}

/// Returns the first policy that allows the symbols and the instruction set of a file; `None` if no
/// policy does.
pub(super) fn symbols(arch: &str, facts: &ElfFacts) -> Option<u32> {
    // Policies exclude extensions of the x86-64 baseline, and symbols that Python removed from its
    // API.
    const FPE: [&str; 3] = ["PyFPE_jbuf", "PyFPE_dummy", "PyFPE_counter"];
    let undefined =
        |name: &str| facts.symbols.undefined.binary_search_by(|its| (**its).cmp(name)).is_ok();
    if facts.x86_isa_needed & !1 != 0 || FPE.into_iter().any(undefined) {
        return None;
    }
    let table = table();
    let families = table.versions.get(arch)?;
    let mut policy = first(arch)?;
    let versions = facts.versions_needed.iter().filter(|(library, _)| !is_loader(library));
    for version in versions.flat_map(|(_, versions)| versions) {
        let (family, number) = version.split_once('_').unwrap_or((version, ""));
        // Versions of other families belong to libraries that the wheel bundles.
        if let Some(known) = families.get(family) {
            policy = policy.max(*known.get(number)?);
        }
    }
    let needed = facts.needed.iter().filter_map(|soname| table.private.get(soname.as_str()));
    for (symbol, allowed) in needed.flatten() {
        if undefined(symbol) {
            policy = policy.max(Some(*allowed).filter(|allowed| *allowed > 0)?);
        }
    }
    Some(policy)
}

fn is_loader(soname: &str) -> bool {
    soname.starts_with("ld-linux") || matches!(soname, "ld64.so.1" | "ld64.so.2")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocmrpm_base::names::Soname;

    fn facts(versions: &[&str]) -> ElfFacts {
        let versions = versions.iter().map(|version| (*version).to_owned()).collect();
        ElfFacts {
            versions_needed: [("libc.so.6".to_owned(), versions)].into(),
            needed: vec![Soname::new("libc.so.6")],
            ..ElfFacts::default()
        }
    }

    #[test]
    fn built_in_table_is_valid() {
        let table = table();
        assert!(table.policies.is_sorted() && table.policies.len() > 10);
        let policies =
            table.libraries.values().chain(table.private.values().flat_map(BTreeMap::values));
        let versions =
            table.versions.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        for policy in policies.chain(versions) {
            assert!(*policy == 0 || table.policies.contains(policy), "{policy}");
        }
        assert_eq!((first("x86_64"), first("aarch64"), first("sparc")), (Some(5), Some(17), None));
    }

    #[test]
    fn the_highest_version_decides() {
        for (arch, versions, expected) in [
            ("x86_64", &[][..], Some(5)),
            ("x86_64", &["GLIBC_2.2.5", "GLIBC_2.17"], Some(17)),
            ("x86_64", &["GLIBC_2.34", "CXXABI_1.3.9"], Some(34)),
            ("x86_64", &["CXXABI_1.3.15"], Some(39)),
            ("x86_64", &["GCC_12.0.0"], Some(35)),
            ("x86_64", &["GLIBC_2.99"], None),
            ("x86_64", &["GLIBC_PRIVATE"], None),
            ("x86_64", &["hip_4.2"], Some(5)),
            ("aarch64", &["GLIBC_2.17"], Some(17)),
            ("aarch64", &["GLIBC_2.28"], Some(28)),
            ("riscv64", &[], None),
        ] {
            assert_eq!(symbols(arch, &facts(versions)), expected, "{arch} {versions:?}");
        }
    }

    #[test]
    fn checks_symbols_and_processors() {
        let with = |library: &str, symbol: &str| {
            let mut facts = facts(&[]);
            facts.needed = vec![Soname::new(library)];
            facts.symbols.undefined = vec![symbol.into()];
            symbols("x86_64", &facts)
        };
        assert_eq!(with("libc.so.6", "__cxa_thread_atexit_impl"), Some(24));
        assert_eq!(with("libz.so.1", "uncompress2"), Some(34));
        assert_eq!(with("libz.so.1", "zcalloc"), None);
        assert_eq!(with("libc.so.6", "zcalloc"), Some(5));
        assert_eq!(with("libc.so.6", "PyFPE_jbuf"), None);
        assert_eq!(symbols("x86_64", &ElfFacts { x86_isa_needed: 1, ..facts(&[]) }), Some(5));
        assert_eq!(symbols("x86_64", &ElfFacts { x86_isa_needed: 5, ..facts(&[]) }), None);
    }

    #[test]
    fn only_listed_libraries_come_from_the_system() {
        assert_eq!(library("libc.so.6"), Some(5));
        assert_eq!(library("libmvec.so.1"), Some(24));
        assert_eq!(library("ld-linux-x86-64.so.2"), Some(5));
        assert_eq!((library("libpython3.14.so.1.0"), library("libamdhip64.so.7")), (None, None));
    }
}
