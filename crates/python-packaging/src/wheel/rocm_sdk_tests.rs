//! Tests the link modes on synthetic ELF files.

use super::*;
use crate::wheel::linkage;
use rocm_inspect::{ElfFacts, ElfKind};

fn elf(needed: &[&str], runpath: &[&str], opens: &[&str]) -> Elf {
    let facts = ElfFacts {
        machine: "x86_64".to_owned(),
        kind: ElfKind::Shared,
        needed: needed.iter().map(|name| Soname::new(*name)).collect(),
        runpath: runpath.iter().map(|entry| (*entry).to_owned()).collect(),
        dlopen_notes: opens.iter().map(|name| (*name).to_owned()).collect(),
        ..ElfFacts::default()
    };
    Elf::new(facts, true).unwrap()
}

const IMPORTS: &str = "try:\n    from . import _rocm_init\nexcept ModuleNotFoundError:\n    pass\nelse:\n    _rocm_init.initialize()\n";

fn sdk(version: &str) -> Rocm {
    let preloaded =
        [("torch".to_owned(), ["amdhip64".to_owned(), "hipblas".to_owned()].into())].into();
    Rocm::Sdk { version: version.to_owned(), preloaded, options: SdkOptions::default() }
}

fn resolve(
    rocm: &Rocm,
    init: &str,
    requires: &str,
    elfs: &[(&str, Elf)],
) -> Result<Outcome, Refusal> {
    let elfs: BTreeMap<String, Elf> =
        elfs.iter().map(|(path, elf)| ((*path).to_owned(), elf.clone())).collect();
    let mut members: BTreeMap<String, ()> = elfs.keys().map(|name| (name.clone(), ())).collect();
    members.insert("p/__init__.py".to_owned(), ());
    let loads = linkage::follow(&elfs);
    let linking = Linking {
        members: &members,
        elfs: &elfs,
        loads: loads.as_deref(),
        metadata: &format!("Name: p\n{requires}\n\nRequires-Dist: not-this\n"),
        targets: &["gfx942:xnack+".to_owned(), "gfx1151".to_owned(), "gfx11-generic".to_owned()],
        text: &|_| Ok(Some(init.to_owned())),
    };
    linking.resolve(rocm)
}

fn refused(rocm: &Rocm, init: &str, requires: &str, elfs: &[(&str, Elf)]) -> (String, String) {
    match resolve(rocm, init, requires, elfs).unwrap_err() {
        Refusal::File(file, reason, _) => (file, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn built_in_table_is_valid() {
    let table = table();
    let names: BTreeSet<&str> = table.library.iter().filter_map(|l| l.name.as_deref()).collect();
    for library in &table.library {
        assert!(
            library.through.as_deref().is_none_or(|through| names.contains(through)),
            "{library:?}"
        );
        assert!(
            library.since.as_deref().is_none_or(|since| Version::parse(since).is_some()),
            "{library:?}"
        );
        assert!(table.folders[&library.wheel].contains(&library.folder), "{library:?}");
    }
    assert!(names.len() > 20 && Version::parse(&table.first) < Version::parse(&table.devices));
}

#[test]
fn rejects_versions_with_fewer_than_two_numbers() {
    assert_eq!(Version::parse("7.14"), Some(Version(7, 14)));
    assert_eq!(Version::parse("10.1.0"), Some(Version(10, 1)));
    for bad in ["", "7", "7.", "7.x", "7.14.0rc1", "+7.1"] {
        assert_eq!(Version::parse(bad), None, "{bad}");
        assert!(matches!(resolve(&sdk(bad), "", "", &[]), Err(Refusal::Version(_))), "{bad}");
    }
}

#[test]
fn loads_libraries_in_dependency_order() {
    let files = [
        (
            "p/_C.so",
            elf(
                &["librocblas.so.5", "libamdhip64.so.7", "libp.so", "libc.so.6"],
                &["$ORIGIN/../p.libs"],
                &[],
            ),
        ),
        (
            "p.libs/libp.so",
            elf(&["libamd_comgr.so.3"], &[], &["librccl.so.1", "libelsewhere.so.1"]),
        ),
    ];
    let outcome = resolve(&sdk("7.14"), IMPORTS, "", &files).unwrap();
    assert_eq!(
        outcome.requirement.as_deref(),
        Some("rocm[device-gfx1151,device-gfx942,libraries]==7.14.*")
    );
    let text = &outcome.generated["p/_rocm_init.py"];
    assert_eq!(listed(text), ["amd_comgr", "amdhip64", "hipblas", "rccl"]);
    assert!(text.contains("check_version=\"7.14.*\""), "{text}");
    assert_eq!(outcome, resolve(&sdk("7.14"), IMPORTS, "", &files).unwrap());
    let before = resolve(&sdk("7.12.1"), IMPORTS, "", &files).unwrap();
    assert_eq!(before.requirement.as_deref(), Some("rocm[libraries]==7.12.*"));
    assert_eq!(resolve(&Rocm::System, IMPORTS, "", &files).unwrap(), Outcome::default());
}

#[test]
fn a_wheel_without_rocm_needs_nothing() {
    let files = [("p/_C.so", elf(&["libc.so.6"], &["$ORIGIN"], &[]))];
    assert_eq!(resolve(&sdk("7.14"), IMPORTS, "", &files).unwrap(), Outcome::default());
    assert_eq!(resolve(&sdk("6.4"), "", "", &files).unwrap(), Outcome::default());
}

#[test]
fn finds_libraries_by_runpath_or_other_distributions() {
    let hip = &["libamdhip64.so.7"][..];
    let found = elf(
        &["libamdhip64.so.7", "libhipblas.so.3"],
        &["$ORIGIN/../_rocm_sdk_core/lib", "$ORIGIN/../_rocm_sdk_libraries/lib"],
        &[],
    );
    let family = elf(&["libhipblas.so.3"], &["$ORIGIN/_rocm_sdk_libraries_gfx1151/lib"], &[]);
    for (requires, files) in [
        ("", vec![("p/_C.so", found)]),
        ("", vec![("_C.so", family)]),
        ("Requires-Dist: Torch (==2.11)", vec![("p/_C.so", elf(hip, &[], &[]))]),
        (
            "Requires-Dist: torch>=2; python_version > '3'",
            vec![("_C.so", elf(&["librocblas.so.5"], &[], &[]))],
        ),
    ] {
        let outcome = resolve(&sdk("7.14"), "", requires, &files).unwrap();
        assert!(
            outcome.requirement.is_some() && outcome.generated.is_empty(),
            "{requires} {files:?}"
        );
    }
}

#[test]
fn rejects_files_that_do_not_support_the_mode() {
    let rocm = &sdk("7.14");
    let hip = || elf(&["libamdhip64.so.7"], &[], &[]);
    let path = |entry| elf(&["libamdhip64.so.7"], &[entry], &[]);
    for (rocm, init, requires, file, elf, reason) in [
        (
            rocm,
            "# import _rocm_init\n",
            "",
            "p/_C.so",
            hip(),
            "p/__init__.py does not import _rocm_init",
        ),
        (rocm, IMPORTS, "", "_C.so", hip(), "not in a package"),
        (rocm, IMPORTS, "", "n/_C.so", hip(), "not in a package"),
        (
            rocm,
            "",
            "Requires-Dist: torch; extra == 'x'",
            "p/_C.so",
            hip(),
            "nothing loads it (`amdhip64`)",
        ),
        (
            rocm,
            "",
            "Requires-Dist: torch",
            "p/_C.so",
            elf(&["librccl.so.1"], &[], &[]),
            "nothing loads it (`rccl`)",
        ),
        (
            rocm,
            IMPORTS,
            "",
            "p/_C.so",
            elf(&["libamdhip64.so.6"], &[], &[]),
            "have libamdhip64.so.7",
        ),
        (
            rocm,
            IMPORTS,
            "",
            "p/_C.so",
            elf(&["libmigraphx_c.so.3"], &[], &[]),
            "no rocm-sdk wheel has",
        ),
        (
            rocm,
            IMPORTS,
            "",
            "p/_C.so",
            elf(&["libamd_smi.so.26"], &[], &[]),
            "does not load that library by name",
        ),
        (
            &sdk("7.2"),
            IMPORTS,
            "",
            "p/_C.so",
            hip(),
            "no rocm-sdk wheels for ROCm 7.2; the first are for 7.9",
        ),
        (
            rocm,
            IMPORTS,
            "",
            "p/_C.so",
            path("/opt/rocm/lib"),
            "`/opt/rocm/lib` is an absolute path",
        ),
        (rocm, IMPORTS, "", "p/_C.so", path("$ORIGIN/../../x"), "leads out of site-packages"),
        (rocm, IMPORTS, "", "p/_C.so", path("$ORIGIN/../torch/lib"), "in neither this wheel"),
        (
            rocm,
            IMPORTS,
            "",
            "p/_C.so",
            path("$ORIGIN/../_rocm_sdk_devel/lib"),
            "in neither this wheel",
        ),
        (rocm, IMPORTS, "", "p/_C.so", path(""), "to a fixed folder"),
        (
            &Rocm::System,
            "",
            "",
            "p/_C.so",
            path("$ORIGIN/../_rocm_sdk_core/lib"),
            "AMD's rocm-sdk wheels",
        ),
        (&Rocm::System, "", "", "p/_rocm_init.py", hip(), "AMD's rocm-sdk wheels"),
    ] {
        let (named, text) = refused(rocm, init, requires, &[(file, elf)]);
        assert!(named == file && text.contains(reason), "{file} {reason}: {named}: {text}");
    }
    assert!(
        resolve(
            rocm,
            IMPORTS,
            "Requires-Dist: torch",
            &[("p/_C.so", path("$ORIGIN/../torch/lib"))]
        )
        .is_ok()
    );
}

#[test]
fn recognizes_imports() {
    for (source, expected) in [
        ("from . import _rocm_init\n", true),
        ("    from ._rocm_init import initialize\n", true),
        ("import p._rocm_init as r\n", true),
        ("from . import _a, _rocm_init  # x\n", true),
        ("# from . import _rocm_init\n", false),
        ("from . import _rocm_initial\n", false),
        ("x = '_rocm_init'\n", false),
    ] {
        assert_eq!(imports_init(source), expected, "{source}");
    }
}

#[test]
fn generated_list_round_trips() {
    assert_eq!(
        listed(&init(["hipblas", "amdhip64"].into(), Version(7, 14), &SdkOptions::default())),
        ["amdhip64", "hipblas"]
    );
    assert_eq!(
        listed("initialize_process(preload_shortnames=['a', 'b-c'],\n check_version='1')"),
        ["a", "b-c"]
    );
    assert_eq!(listed("preload_shortnames=["), Vec::<String>::new());
    let default = init(["amdhip64"].into(), Version(7, 14), &SdkOptions::default());
    assert!(!default.contains("rtld_global") && !default.contains("fail_on_version_mismatch"));
    let options = SdkOptions { fails: true, local: true, ..SdkOptions::default() };
    let strict = init(["amdhip64"].into(), Version(7, 14), &options);
    for line in ["rtld_global=False,", "fail_on_version_mismatch=True,"] {
        assert!(strict.contains(line), "{strict}");
    }
}
