//! A handwritten report for tests that contains everything. Compiled only for tests.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test may panic, and names its fixtures")]

use std::collections::BTreeMap;

use super::facts::*;
use super::finding::{Depth, Finding, Judgement, LibraryOrigin, Need, Waived};
use super::report::Report;
use super::testing::subject;
use rocmrpm_base::digest::Sha256;
use rocmrpm_base::gpu::GpuTarget;
use rocmrpm_base::names::Soname;

/// Returns a report that contains every kind of value that a report can have, and names with
/// special characters.
pub fn sample() -> Report {
    let gpu = |name: &str| Target::Gpu(GpuTarget::parse(name).unwrap());
    let code = |target: Target, storage: Storage, count: u64, kernels: Option<u64>| DeviceCode {
        target,
        storage,
        compression: None,
        version: Some(5),
        count,
        bytes: count * 1_200_000,
        kernels,
        kernel_code: kernels.map(|kernels| KernelCode { bytes: kernels * 200, empty: 0 }),
    };
    let ccob = |version: u16, method: &'static str| Some(Compression { version, method });
    let fat = FileFacts {
        path: "demo/lib/libdemo_hip.so".into(),
        size: 48_200_000,
        elf: Some(ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            kind: ElfKind::Shared,
            soname: Some(Soname::new("libdemo_hip.so")),
            needed: [
                "libamdhip64.so.7",
                "libdemo_core.so",
                "libstdc++.so.6",
                "libc.so.6",
                "libmagic_sauce.so.3",
            ]
            .map(Soname::new)
            .into(),
            runpath: vec!["$ORIGIN".into(), "/opt/rocm/lib".into()],
            versions_needed: BTreeMap::from([(
                "libc.so.6".into(),
                vec!["GLIBC_2.17".into(), "GLIBC_2.34".into()],
            )]),
            versions_provided: vec!["DEMO_1.0".into()],
            build_id: Some("8f2c1de07a4e5b6690aa".into()),
            has_sections: true,
            executable_stack: Some(false),
            relro: Relro::Partial,
            dlopen_notes: vec!["libroctx64.so.4".into()],
            mentioned_libraries: vec!["librocprofiler-register.so.0".into()],
            mentioned_paths: vec![Mention {
                path: "/builddir/build/BUILD/demo/kernel.hip".into(),
                section: ".rodata".into(),
                offset: 8192,
            }],
            defined_symbols: 1204,
            undefined_symbols: 311,
            ..ElfFacts::default()
        }),
        bundles: 95,
        device: vec![
            DeviceCode {
                compression: ccob(3, "zstd"),
                ..code(gpu("gfx1100"), Storage::HipFatbin, 95, Some(2204))
            },
            DeviceCode {
                compression: ccob(3, "zstd"),
                ..code(gpu("gfx1151"), Storage::HipFatbin, 91, Some(1810))
            },
            DeviceCode {
                compression: ccob(2, "zlib"),
                version: Some(6),
                ..code(gpu("gfx11-generic"), Storage::OtherSection, 2, Some(40))
            },
            code(Target::Spirv, Storage::OffloadBinary, 1, None),
        ],
        mismatches: vec![Mismatch {
            id: "hipv4-amdgcn-amd-amdhsa--gfx1151".into(),
            flags: "gfx1100".into(),
            count: 2,
            offset: 4096,
        }],
        wrong_hashes: vec![WrongHash {
            offset: 8192,
            stated: "0123456789abcdef".into(),
            computed: "fedcba9876543210".into(),
        }],
        ..FileFacts::default()
    };
    let core = FileFacts {
        path: "demo/lib/libdemo_core.so".into(),
        size: 1_310_000,
        elf: Some(ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            kind: ElfKind::Shared,
            soname: Some(Soname::new("libdemo_core.so")),
            needed: ["libcudart.so.12", "libc.so.6"].map(Soname::new).into(),
            rpath: vec!["/builddir/build/lib".into(), String::new()],
            has_symbols: true,
            has_debug_info: true,
            has_sections: true,
            text_relocations: true,
            executable_stack: None,
            header_faults: vec![HeaderFault {
                offset: 64,
                what: "PT_PHDR is in no PT_LOAD".into(),
                fatal: true,
            }],
            ..ElfFacts::default()
        }),
        device: ["gfx906", "gfx942"].map(|t| code(gpu(t), Storage::Embedded, 1, None)).into(),
        damage: vec![Damage {
            elf: true,
            offset: 1_048_576,
            what: "a section is beyond the end".into(),
        }],
        ..FileFacts::default()
    };
    let hostile = FileFacts {
        path: "demo/<script>alert('x')</script>\u{202e}\"&\u{1b}[31m,50%:\n::error::.so".into(),
        size: 4096,
        elf: Some(ElfFacts {
            bits: 32,
            big_endian: true,
            machine: "machine 2".into(),
            kind: ElfKind::Relocatable,
            relro: Relro::Full,
            interpreter: Some("/lib/ld.so.1".into()),
            debug: true,
            debug_link: Some("x.debug".into()),
            ..ElfFacts::default()
        }),
        device: vec![code(Target::Unknown("gfx9999".into()), Storage::StaticArchive, 1, None)],
        ..FileFacts::default()
    };
    let split = FileFacts {
        path: "demo/lib/libdemo_fft.so.0".into(),
        size: 2_400_000,
        elf: Some(ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            kind: ElfKind::Executable,
            ..ElfFacts::default()
        }),
        kpack_reference: Some(KpackReference {
            kernel_name: "lib/libdemo_fft.so.0".into(),
            search_paths: vec!["../.kpack/demo_lib_@GFXARCH@.kpack".into()],
            pieces: 3,
        }),
        device: vec![code(Target::Unread, Storage::Kpack, 3, None)],
        ..FileFacts::default()
    };
    let archive = FileFacts {
        path: "demo/.kpack/demo_lib_gfx1151.kpack".into(),
        size: 9_100_000,
        kpack: Some(KpackArchive {
            group: "demo_lib".into(),
            targets: vec![gpu("gfx1151")],
            compression: "zstd-per-kernel".into(),
            entries: 3,
            table: BTreeMap::new(),
        }),
        device: vec![code(gpu("gfx1151"), Storage::Kpack, 3, Some(96))],
        ..FileFacts::default()
    };
    let mut library = Vec::new();
    for target in ["gfx1100", "gfx1151"] {
        for n in 0..40 {
            let (ending, storage) = match n % 4 {
                0 => ("dat", Storage::DataFile),
                1 => ("co", Storage::Bundle),
                2 => ("hsaco", Storage::CodeObject),
                _ => ("kdb", Storage::KernelFile),
            };
            let version = (storage != Storage::DataFile).then_some(4);
            let code = DeviceCode { version, ..code(gpu(target), storage, 1, None) };
            library.push(FileFacts {
                path: format!("demo/lib/library/Kernels_{n:02}_{target}.{ending}"),
                size: 310_000,
                bundles: u64::from(storage == Storage::Bundle),
                device: vec![code],
                ..FileFacts::default()
            });
        }
    }
    let wheel = "dist/demo-1.2-cp313-cp313-linux_x86_64.whl";
    let files = [vec![archive, hostile, core, split, fat], library].concat();
    let mut wheel_subject = subject(wheel, files);
    wheel_subject.name = "demo-1.2-cp313-cp313-linux_x86_64.whl".into();
    wheel_subject.package = Some("demo".into());
    wheel_subject.size = Some(61_200_000);
    wheel_subject.sha256 = Some(Sha256::of_bytes("demo"));
    let mut debug = subject("rpms/demo-debuginfo-1.2-1.fc43.x86_64.rpm", Vec::new());
    debug.name = "demo-debuginfo-1.2-1.fc43.x86_64".into();
    debug.size = Some(5_000);
    let kinds = [SubjectKind::Tar, SubjectKind::Folder, SubjectKind::File].map(|kind| Subject {
        kind,
        package: None,
        ..subject(&format!("other/{kind:?}"), Vec::new())
    });
    let need = |file: &str, library: &str, origin, by: Option<&str>| Need {
        subject: wheel.into(),
        file: file.into(),
        library: library.into(),
        origin,
        by: by.map(str::to_owned),
    };
    let (hip, core) = ("demo/lib/libdemo_hip.so", "demo/lib/libdemo_core.so");
    let needs = vec![
        need(hip, "libamdhip64.so.7", LibraryOrigin::Provided, Some("rocm-hip")),
        need(hip, "libdemo_core.so", LibraryOrigin::Own, Some(core)),
        need(hip, "libstdc++.so.6", LibraryOrigin::Provided, Some("libstdc++")),
        need(hip, "libc.so.6", LibraryOrigin::Provided, Some("glibc")),
        need(hip, "libmagic_sauce.so.3", LibraryOrigin::Missing, None),
        need(core, "libcudart.so.12", LibraryOrigin::Foreign, Some("CUDA")),
        need(core, "libc.so.6", LibraryOrigin::Provided, Some("glibc")),
    ];
    let found = |id: &str, file: Option<&str>, found: &str, expected: &str| {
        let rule = super::rule(id).unwrap();
        Finding {
            severity: rule.severity,
            subject: file.map(|_| wheel.to_owned()),
            file: file.map(str::to_owned),
            id: rule.id,
            found: found.into(),
            expected: expected.into(),
            help: rule.help.into(),
        }
    };
    let mut findings = vec![
        found(
            "gpu-target-missing",
            None,
            "GPU code for gfx1100, gfx1151 in 3 files",
            "GPU code for gfx1201",
        ),
        found("rpath-in-build-folder", Some(core), "/builddir/build/lib", "$ORIGIN, or no RPATH"),
        found("rpath-relative", Some(core), "an empty entry", "$ORIGIN"),
        found(
            "bundle-id-mismatch",
            Some(hip),
            "2 code objects for gfx1100",
            "code objects for gfx1151",
        ),
        found(
            "gpu-target-generic",
            None,
            "gfx1150 is served by gfx11-generic",
            "GPU code for gfx1150",
        ),
    ];
    for n in (1..40).step_by(4) {
        let file = format!("demo/lib/library/Kernels_{n:02}_gfx1100.co");
        findings.push(found(
            "gpu-target-unexpected",
            Some(&file),
            "1 code object for gfx1100",
            "gfx1151 only",
        ));
    }
    let hostile = "demo/<script>alert('x')</script>\u{202e}\"&\u{1b}[31m,50%:\n::error::.so";
    findings.push(found(
        "elf-damaged",
        Some(hostile),
        "a <b>name</b> & 100 % of \"it\"",
        "an ELF file",
    ));
    let waived = Waived {
        finding: found("needed-absolute", Some(core), "/usr/lib/libz.so", "libz.so"),
        reason: "the vendor's loader wants it <so>".into(),
        place: "specs-templates/demo/component.toml".into(),
    };
    let gpu_targets =
        ["gfx1151", "gfx1150", "gfx1201"].map(|t| GpuTarget::parse(t).unwrap()).into();
    let judgement =
        Judgement { gpu_targets, system: "fedora-43".into(), findings, waived: vec![waived] };
    let mut subjects = vec![wheel_subject, debug];
    subjects.extend(kinds);
    Report::new(Depth::Deep, subjects, needs, judgement)
}
