//! Rules about symbols: used without linking the library that defines them, newer than the
//! system's, or not defined by any file of the set. `elf` reads the symbols.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Rule, RuleId, Severity};
use crate::closure::tree::{Elf, Root};
use crate::closure::{Closure, Link};
use crate::finding::{Finding, LibraryOrigin};
use crate::libraries::{rocm_owner, rocm_stem, vendor};
use crate::system::{System, dotted, split_version};

pub(super) const UNDERLINKED: Rule = Rule {
    id: RuleId("library-underlinked"),
    severity: Severity::Warning,
    what: "a file uses functions of a ROCm library, but neither the file nor its dependencies in the set need it \
           (DT_NEEDED)",
    why: "the file loads only if something else loaded the library before, and rpm's dependency generator does not \
          see the requirement",
    incident: "bitsandbytes' ROCm wheels: libbitsandbytes_rocm*.so calls HIP without needing libamdhip64, and \
               gets it through librocblas",
    help: "link the library (`target_link_libraries(... hip::host)`), and link with `-Wl,-z,defs` so that the \
           linker reports such errors",
};

pub(super) const UNRESOLVED: Rule = Rule {
    id: RuleId("symbols-unresolved"),
    severity: Severity::Error,
    what: "a file binds all symbols when it is loaded (BIND_NOW), and uses functions of a ROCm library that is not \
           among its direct or indirect dependencies",
    why: "the dynamic loader refuses the file with `undefined symbol`, unless the program loaded the library \
          globally before (`RTLD_GLOBAL`)",
    incident: "catboost_rs_rocm 0.1.0 uses 20 functions of HIP, needs no library of ROCm and is linked with `-z now`",
    help: "link the library (`target_link_libraries(... hip::host)`), and link with `-Wl,-z,defs` so that the \
           linker reports such errors",
};

pub(super) const TOO_NEW: Rule = Rule {
    id: RuleId("symbol-version-too-new"),
    severity: Severity::Error,
    what: "a file needs symbol versions that are newer than the system's glibc or libstdc++",
    why: "the dynamic loader refuses the file: `version 'GLIBC_2.43' not found`",
    incident: "a workflow of ROCm/vllm for gfx11 renamed its wheels from linux to manylinux_2_31, which changes \
               the file name but not the needs of the libraries in it",
    help: "build in the chroot of the oldest release that you support",
};

pub(super) const TORCH: Rule = Rule {
    id: RuleId("torch-symbol-undefined"),
    severity: Severity::Error,
    what: "a file uses symbols of c10::, at:: or torch:: that the torch in the set does not define",
    why: "the extension was built for another version of torch, whose C++ interface changes with every release: \
          importing it fails with `undefined symbol`",
    incident: "",
    help: "build the extension again with the version of torch that it runs with, and pin both together",
};

/// How many names a finding lists.
const SHOWN: usize = 3;
const MAX_NAME: usize = 120;

pub(super) fn check(closure: &Closure<'_>, system: &System) -> Vec<Finding> {
    let mut findings = underlinked(closure);
    findings.extend(closure.of_files().filter_map(|(elf, links)| too_new(elf, links, system)));
    findings.extend(torch(closure));
    findings
}

fn underlinked(closure: &Closure<'_>) -> Vec<Finding> {
    let elfs = &closure.tree.elfs;
    let mut users: BTreeMap<&str, Vec<(usize, Vec<&str>)>> = BTreeMap::new();
    // NVIDIA's NCCL has the same functions as RCCL.
    let foreign = closure.links.iter().filter(|link| link.origin == LibraryOrigin::Foreign);
    let foreign: HashSet<usize> = foreign
        .filter(|link| vendor(link.library.as_str()).is_some())
        .map(|link| link.from)
        .collect();
    for (index, elf) in elfs.iter().enumerate() {
        let mut used: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for symbol in elf.facts.symbols.undefined.iter().filter(|_| !foreign.contains(&index)) {
            if let Some(stem) = rocm_owner(symbol) {
                used.entry(stem).or_default().push(symbol);
            }
        }
        for (stem, symbols) in used {
            users.entry(stem).or_default().push((index, symbols));
        }
    }
    if users.is_empty() {
        return Vec::new();
    }
    let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); elfs.len()];
    let mut unknown = vec![false; elfs.len()];
    for link in &closure.links {
        match link.to {
            Some(to) => needed_by[to].push(link.from),
            // The symbols and dependencies of a missing library are unknown.
            None => unknown[link.from] |= link.origin == LibraryOrigin::Missing,
        }
    }
    let mut lacks: BTreeMap<usize, Vec<(&str, Vec<&str>)>> = BTreeMap::new();
    for (stem, files) in users {
        let has = |elf: &Elf<'_>| rocm_stem(elf.soname()) == Some(stem);
        let direct =
            closure.links.iter().filter(|link| rocm_stem(link.library.as_str()) == Some(stem));
        let start = direct
            .map(|link| link.from)
            .chain((0..elfs.len()).filter(|i| has(&elfs[*i]) || unknown[*i]));
        let reached = spread(start, &needed_by);
        for (index, symbols) in files.into_iter().filter(|(index, _)| !reached.contains(index)) {
            lacks.entry(index).or_default().push((stem, symbols));
        }
    }
    // ROCm's libraries load each other.
    let of_rocm = closure.links.iter().filter(|link| rocm_stem(link.library.as_str()).is_some());
    let with_rocm = spread(of_rocm.map(|link| link.from), &needed_by);
    let findings = lacks.into_iter().map(|(index, libraries)| {
        let used = libraries.iter().map(|(stem, symbols)| format!("{} of {stem}", names(symbols)));
        let used = used.collect::<Vec<_>>().join("; ");
        let needed: Vec<String> =
            libraries.iter().map(|(stem, _)| format!("`{stem}.so`")).collect();
        let found = format!("{used}, but no dependency in the set needs that library");
        let expected = format!("NEEDED {}", needed.join(", "));
        let now = elfs[index].facts.bind_now && !with_rocm.contains(&index);
        let symbols: Vec<&str> =
            libraries.iter().flat_map(|(_, symbols)| symbols).copied().collect();
        let rule =
            if now && lacks_symbols(closure, index, &symbols) { &UNRESOLVED } else { &UNDERLINKED };
        rule.finding(found, expected).at(elfs[index].subject, elfs[index].file)
    });
    findings.collect()
}

/// Returns whether no file of the set that a file loads can define one of these symbols. After a
/// quick inspection, which does not read the names of defined symbols, any file that defines some
/// can.
fn lacks_symbols(closure: &Closure<'_>, index: usize, symbols: &[&str]) -> bool {
    let mut loads: Vec<Vec<usize>> = vec![Vec::new(); closure.tree.elfs.len()];
    for link in &closure.links {
        loads[link.from].extend(link.to);
    }
    let mut others =
        spread([index].into_iter(), &loads).into_iter().filter(|other| *other != index);
    others.all(|other| {
        let facts = closure.tree.elfs[other].facts;
        let defined = &facts.symbols.defined;
        (facts.defined_symbols == 0 || !defined.is_empty())
            && !defined.iter().any(|name| symbols.contains(&&**name))
    })
}

/// Returns all files from which one of `start` is reachable.
fn spread(start: impl Iterator<Item = usize>, back: &[Vec<usize>]) -> HashSet<usize> {
    let mut open: Vec<usize> = start.collect();
    let mut seen: HashSet<usize> = open.iter().copied().collect();
    while let Some(index) = open.pop() {
        open.extend(back[index].iter().filter(|next| seen.insert(**next)));
    }
    seen
}

fn names(symbols: &[&str]) -> String {
    let shown: Vec<String> = symbols.iter().take(SHOWN).map(|symbol| readable(symbol)).collect();
    match symbols.len() {
        0..=SHOWN => shown.join(", "),
        n => format!("{n} symbols ({}, ...)", shown.join(", ")),
    }
}

fn too_new(elf: &Elf<'_>, links: &[Link<'_>], system: &System) -> Option<Finding> {
    let own: HashSet<&str> = links
        .iter()
        .filter(|l| l.origin == LibraryOrigin::Own)
        .map(|link| link.library.as_str())
        .collect();
    let mut found = BTreeSet::new();
    let mut expected = BTreeSet::new();
    for (library, versions) in &elf.facts.versions_needed {
        // Libraries in the set may be newer than the system's.
        if own.contains(library.as_str()) {
            continue;
        }
        for version in versions {
            let Some((kind, number)) = split_version(version) else { continue };
            let Some(newest) = system.symbol_versions.get(kind) else { continue };
            if dotted(newest).is_some_and(|newest| number > newest) {
                found.insert((kind, number, version.as_str()));
                expected.insert(format!("{kind}_{newest}"));
            }
        }
    }
    let newest: Vec<&str> = found.iter().rev().map(|(.., version)| *version).collect();
    let expected: Vec<String> = expected.into_iter().collect();
    (!newest.is_empty()).then(|| {
        let found = format!("needed symbol versions {}", names(&newest));
        let expected = format!("at most {} of {}", expected.join(" and "), system.name);
        TOO_NEW.finding(found, expected).at(elf.subject, elf.file)
    })
}

/// The namespaces of torch and the libraries that define their symbols. A namespace can only be
/// judged if the set has one of its libraries.
const NAMESPACES: [(&str, &[&str]); 3] = [
    ("3c10", &["libc10.so"]),
    ("2at", &["libtorch_cpu.so", "libtorch.so"]),
    ("5torch", &["libtorch_cpu.so", "libtorch.so"]),
];

fn torch(closure: &Closure<'_>) -> Vec<Finding> {
    let elfs = &closure.tree.elfs;
    // The torch libraries in each root whose symbols were read.
    let mut present: HashSet<(Root, &str)> = HashSet::new();
    for elf in elfs.iter().filter(|elf| !elf.facts.symbols.defined.is_empty()) {
        present.insert((elf.root, elf.soname()));
    }
    let judged = |root: Root, symbol: &str| {
        let namespace = namespace(symbol)?;
        let (_, libraries) = NAMESPACES.iter().find(|(name, _)| *name == namespace)?;
        libraries.iter().any(|library| present.contains(&(root, *library))).then_some(())
    };
    let mut defined: HashSet<(Root, &str)> = HashSet::new();
    let torch = elfs.iter().any(|elf| present.contains(&(elf.root, "libc10.so")))
        || elfs.iter().any(|elf| present.contains(&(elf.root, "libtorch_cpu.so")))
        || elfs.iter().any(|elf| present.contains(&(elf.root, "libtorch.so")));
    if !torch {
        return Vec::new();
    }
    for elf in elfs {
        let symbols = elf.facts.symbols.defined.iter().filter(|symbol| namespace(symbol).is_some());
        defined.extend(symbols.map(|symbol| (elf.root, &**symbol)));
    }
    let findings = closure.of_files().filter_map(|(elf, links)| {
        // If part of torch is outside of the set, its symbols are unknown.
        let elsewhere = |link: &Link<'_>| {
            let name = link.library.as_str();
            (name.starts_with("libtorch") || name.starts_with("libc10"))
                && link.origin != LibraryOrigin::Own
        };
        if links.iter().any(elsewhere) {
            return None;
        }
        let undefined = elf.facts.symbols.undefined.iter().map(|symbol| &**symbol);
        let lost: Vec<&str> = undefined
            .filter(|symbol| {
                judged(elf.root, symbol).is_some() && !defined.contains(&(elf.root, *symbol))
            })
            .collect();
        (!lost.is_empty()).then(|| {
            let found = format!("undefined {}", names(&lost));
            TORCH
                .finding(found, "symbols that the torch in the set defines")
                .at(elf.subject, elf.file)
        })
    });
    findings.collect()
}

/// Returns torch's namespace of a mangled name, including the length prefix. Source: Itanium C++
/// ABI, 5.1: `_Z`, for virtual tables and the like `T` and a letter, for thunks also offsets, `GV`
/// for guards, then `N`, qualifiers, and the names.
fn namespace(symbol: &str) -> Option<&'static str> {
    let rest = nested(symbol)?;
    let fits = |name: &&str| {
        rest.strip_prefix(*name).is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_alphabetic())
        })
    };
    NAMESPACES.iter().map(|(name, _)| *name).find(fits)
}

/// Returns the part of a mangled nested name after `N` and its qualifiers.
fn nested(symbol: &str) -> Option<&str> {
    let mut rest = symbol.strip_prefix("_Z")?;
    if let Some(thunk) = rest.strip_prefix("Th").or_else(|| rest.strip_prefix("Tv")) {
        let offset = |text: &'_ str| text.find('_').filter(|at| *at < 24).map(|at| at + 1);
        let after = &thunk[offset(thunk)?..];
        rest = if rest.starts_with("Tv") { &after[offset(after)?..] } else { after };
    } else if let Some(other) =
        ["TV", "TI", "TS", "TT", "TW", "TH", "GV", "GR"].iter().find_map(|p| rest.strip_prefix(*p))
    {
        rest = other;
    }
    let names = rest.strip_prefix('N')?;
    Some(names.trim_start_matches(['r', 'V', 'K']).trim_start_matches(['R', 'O']))
}

/// Returns a symbol in a searchable form: the plain names of a nested one, followed by its mangled
/// name.
fn readable(symbol: &str) -> String {
    let short: String = symbol.chars().take(MAX_NAME).collect();
    let Some(mut rest) = nested(symbol) else { return short };
    let mut names: Vec<&str> = Vec::new();
    while names.len() < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(length) = rest[..digits].parse::<usize>().ok().filter(|length| *length > 0) else {
            break;
        };
        let Some(name) = rest[digits..].get(..length) else { break };
        names.push(name);
        rest = &rest[digits + length..];
    }
    match names.is_empty() || names.iter().map(|name| name.len()).sum::<usize>() > MAX_NAME {
        true => short,
        false => format!("{} ({short})", names.join("::")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ElfFacts, FileFacts, Subject, Symbols};
    use crate::testing::subject;
    use rocmrpm_base::names::Soname;

    fn library(path: &str, needed: &[&str], defined: &[&str], undefined: &[&str]) -> FileFacts {
        let owned = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        let elf = ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            needed: needed.iter().map(|n| Soname::new(*n)).collect(),
            symbols: Symbols { defined: owned(defined), undefined: owned(undefined) },
            ..ElfFacts::default()
        };
        FileFacts { path: path.into(), elf: Some(elf), ..FileFacts::default() }
    }

    fn system() -> System {
        let mut system = System { name: "fedora-43".into(), ..System::default() };
        for soname in ["libc.so.6", "libstdc++.so.6", "libamdhip64.so.7", "librocblas.so.5"] {
            system.add(soname, "p");
        }
        for (kind, version) in [("GLIBC", "2.42"), ("GLIBCXX", "3.4.34")] {
            system.symbol_versions.insert(kind.into(), version.into());
        }
        system
    }

    fn found(subjects: &[Subject]) -> Vec<String> {
        let system = system();
        let findings = check(&Closure::new(subjects, &system), &system);
        findings
            .iter()
            .map(|f| format!("{} {}: {}", f.file.as_deref().unwrap(), f.id, f.found))
            .collect()
    }

    #[test]
    fn reports_rocm_functions_without_their_library() {
        let hip = &["__hipRegisterFatBinary", "hipMalloc", "malloc"];
        let through = library("a/through.so", &["librocblas.so.5"], &[], hip);
        assert_eq!(
            found(&[subject("a-1.whl", vec![through])]),
            [
                "a/through.so library-underlinked: __hipRegisterFatBinary, hipMalloc of libamdhip64, but no dependency in \
              the set needs that library"
            ]
        );
        let both = library("a/both.so", &[], &[], &["hipMalloc", "rocblas_create_handle"]);
        assert_eq!(
            found(&[subject("a-1.whl", vec![both])]),
            [
                "a/both.so library-underlinked: hipMalloc of libamdhip64; rocblas_create_handle of librocblas, but no \
              dependency in the set needs that library"
            ]
        );
        // A file with immediate binding cannot be loaded if nothing that it needs defines them.
        let now = |needed: &[&str]| {
            let mut file = library("a/now.so", needed, &[], hip);
            file.elf.as_mut().unwrap().bind_now = true;
            file
        };
        let ids = |files: Vec<FileFacts>| -> Vec<String> {
            let system = system();
            let subjects = [subject("a-1.whl", files)];
            let findings = check(&Closure::new(&subjects, &system), &system);
            findings.iter().map(|finding| format!("{} {}", finding.severity, finding.id)).collect()
        };
        assert_eq!(ids(vec![now(&["libc.so.6"])]), ["error symbols-unresolved"]);
        assert_eq!(ids(vec![now(&["librocblas.so.5"])]), ["warning library-underlinked"]);
        let shim = |defined: &[&str], count| {
            let mut shim = library("a/libshim.so", &[], defined, &[]);
            shim.elf.as_mut().unwrap().defined_symbols = count;
            vec![now(&["libshim.so"]), shim]
        };
        assert_eq!(ids(shim(&["hipMalloc"], 1)), ["warning library-underlinked"]);
        assert_eq!(ids(shim(&[], 1)), ["warning library-underlinked"], "its names were not read");
        assert_eq!(ids(shim(&["other"], 1)), ["error symbols-unresolved"]);
        // NVIDIA's library has the same functions as ROCm's.
        let nvidia = library("a/nvidia.so", &["libnccl.so.2"], &[], &["ncclAllReduce"]);
        assert!(
            found(&[subject("a-1.whl", vec![nvidia])]).iter().all(|f| !f.contains("underlinked"))
        );
        let good = [
            library("a/direct.so", &["libamdhip64.so.7"], &[], hip),
            library("a/indirect.so", &["direct.so"], &[], hip),
            library("a/unknown.so", &["libnobody.so"], &[], hip),
            library("a/libamdhip64.so.7", &[], hip, &["hipInternal"]),
            library("a/none.so", &[], &[], &["malloc", "_ZN3hip4LoadEv"]),
        ];
        assert_eq!(found(&[subject("a-1.whl", good.to_vec())]), [""; 0]);
    }

    fn versions(path: &str, needed: &[&str], versions: &[(&str, &str)]) -> FileFacts {
        let mut file = library(path, needed, &[], &[]);
        for (library, version) in versions {
            let elf = file.elf.as_mut().unwrap();
            elf.versions_needed.entry((*library).into()).or_default().push((*version).into());
        }
        file
    }

    #[test]
    fn rejects_symbol_versions_newer_than_the_system() {
        let new = versions(
            "a/new.so",
            &["libc.so.6"],
            &[
                ("libc.so.6", "GLIBC_2.43"),
                ("libc.so.6", "GLIBC_2.99"),
                ("libc.so.6", "GLIBC_2.5"),
                ("libstdc++.so.6", "GLIBCXX_3.4.35"),
            ],
        );
        assert_eq!(
            found(&[subject("a-1.whl", vec![new])]),
            [
                "a/new.so symbol-version-too-new: needed symbol versions GLIBCXX_3.4.35, GLIBC_2.99, GLIBC_2.43"
            ]
        );
        let good = versions(
            "a/good.so",
            &["libc.so.6"],
            &[
                ("libc.so.6", "GLIBC_2.42"),
                ("libc.so.6", "GLIBC_PRIVATE"),
                ("libstdc++.so.6", "GLIBCXX_3.4.9"),
                ("libx.so", "X_9.9"),
            ],
        );
        let own = versions("b/own.so", &["libmine.so"], &[("libmine.so", "GLIBC_2.99")]);
        assert_eq!(
            found(&[subject("a-1.whl", vec![good, own, library("b/libmine.so", &[], &[], &[])])]),
            [""; 0]
        );
    }

    const GONE: &str = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs";

    #[test]
    fn reports_symbols_that_torch_does_not_define() {
        let torch = || {
            subject(
                "torch-2.whl",
                vec![
                    library("torch/lib/libc10.so", &[], &["_ZN3c105ErrorC1Ev"], &[]),
                    library(
                        "torch/lib/libtorch_cpu.so",
                        &["libc10.so"],
                        &["_ZN2at5emptyEv"],
                        &["_ZN3c105ErrorC1Ev"],
                    ),
                ],
            )
        };
        let bad = library(
            "x/_C.so",
            &["libc10.so"],
            &[],
            &[GONE, "_ZN2at5emptyEv", "_ZNSt6vectorIN2at6TensorEE"],
        );
        assert_eq!(
            found(&[torch(), subject("x-1.whl", vec![bad.clone()])]),
            [format!(
                "x/_C.so torch-symbol-undefined: undefined c10::detail::torchCheckFail ({GONE})"
            )]
        );
        // Without torch, or with only a part of it, there is no result.
        assert_eq!(found(&[subject("x-1.whl", vec![bad])]), [""; 0]);
        let hip = library("x/_D.so", &["libtorch_hip.so"], &[], &["_ZN2at3hip4syncEv"]);
        let good = library(
            "x/_E.so",
            &["libc10.so"],
            &["_ZN5torch4mineEv"],
            &["_ZN3c105ErrorC1Ev", "_ZN5torch4mineEv"],
        );
        assert_eq!(found(&[torch(), subject("x-1.whl", vec![hip, good])]), [""; 0]);
    }

    #[test]
    fn reads_namespaces_from_mangled_names() {
        for (symbol, expected) in [
            ("_ZN3c105ErrorC1Ev", Some("3c10")),
            ("_ZNK2at6Tensor3dimEv", Some("2at")),
            ("_ZNKR5torch1XEv", Some("5torch")),
            ("_ZTVN3c105ErrorE", Some("3c10")),
            ("_ZTIN5torch3jit6ModuleE", Some("5torch")),
            ("_ZThn16_N2at1XD0Ev", Some("2at")),
            ("_ZTv0_n24_N2at1XD0Ev", Some("2at")),
            ("_ZN3c10lsERSoNS_6DeviceE", Some("3c10")),
            ("_ZN3c11X", None),
            ("_ZNSt6vectorIN2at6TensorEE", None),
            ("_ZN10torchaudio1XEv", None),
            ("_ZThn", None),
            ("_ZTv_", None),
            ("_ZN", None),
            ("at", None),
        ] {
            assert_eq!(namespace(symbol), expected, "{symbol}");
            // Truncated names must not panic.
            (0..symbol.len()).for_each(|length| {
                drop((namespace(&symbol[..length]), readable(&symbol[..length])))
            });
        }
        assert_eq!(readable("_ZN99999999999999999999999a"), "_ZN99999999999999999999999a");
        assert_eq!(readable("_ZN9é"), "_ZN9é");
    }
}
