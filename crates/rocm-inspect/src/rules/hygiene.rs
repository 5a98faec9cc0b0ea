//! Rules about how ELF files were finalized: stripping, hardening, program headers, and paths that
//! should not be in them. Other files check their libraries and GPU code.

use super::{Rule, RuleId, Severity};
use crate::expectations::Expectations;
use crate::facts::{ElfFacts, ElfKind, FileFacts, HeaderFault, Mention, Subject, SubjectKind};
use crate::finding::Finding;

pub(super) const NOT_STRIPPED: Rule = Rule {
    id: RuleId("not-stripped"),
    severity: Severity::Warning,
    what: "an ELF file of an RPM has its full symbol table, or an ELF file of any package has its debugging \
          information",
    why: "the loader uses neither, and both can be several times the size of the code; in an RPM it also means \
          that no debuginfo package has them",
    incident: "onnxsim/onnxsim#475: changing the build type to RelWithDebInfo grew the Linux wheels from 2.9 to \
               51.8 MB; pytorch/rl#3859: a 22 MB extension module built from 72 kB of source",
    help: "strip while installing (`cmake --install --strip`, `-Wl,-s`); in an RPM, check that the file is \
           executable, because find-debuginfo skips other files, and that `__strip` is a real strip",
};

pub(super) const SYMBOLS_KEPT: Rule = Rule {
    id: RuleId("symbol-table-kept"),
    severity: Severity::Info,
    what: "files of a wheel have their full symbol table, but no debugging information",
    why: "the loader does not use it. Most wheels on PyPI have it, because auditwheel strips only with \
          `--strip`",
    incident: "",
    help: "nothing to fix; to make the wheel smaller, use `auditwheel repair --strip` or link with `-Wl,-s`",
};

pub(super) const BUILD_ID: Rule = Rule {
    id: RuleId("build-id-missing"),
    severity: Severity::Warning,
    what: "an executable or shared library in an RPM has no GNU build ID",
    why: "debuginfo packages, debuginfod and coredumpctl find a file's debugging data by its build ID; rpmbuild \
          fails without one unless `_missing_build_ids_terminate_build` is off",
    incident: "ROCm/hipSPARSELt#87: libraries without a build ID, fixed upstream",
    help: "link with `-Wl,--build-id=sha1`; it is off by default in upstream builds of lld and clang",
};

pub(super) const TEXT_RELOCATIONS: Rule = Rule {
    id: RuleId("text-relocations"),
    severity: Severity::Warning,
    what: "the loader must modify the file's code while loading it (DT_TEXTREL)",
    why: "SELinux denies that to confined programs (execmod), so the library loads on some systems only; \
          processes cannot share the modified pages",
    incident: "JuliaLang/julia#12019: `cannot restore segment prot after reloc: Permission denied`; lkl/linux#220: a \
               crash when such a file uses an ifunc",
    help: "compile everything in the file with -fPIC, including static libraries, and link with `-Wl,-z,text`, \
           which names the object file at fault",
};

pub(super) const EXECUTABLE_STACK: Rule = Rule {
    id: RuleId("executable-stack"),
    severity: Severity::Error,
    what: "the file requests an executable stack, or is an x86 library that does not state that it needs none",
    why: "since glibc 2.41, dlopen refuses such a library, and Python loads every extension module with dlopen: \
          `cannot enable executable stack as shared object requires`. Before that, the stack of the whole process \
          became executable. On x86, a missing PT_GNU_STACK means the same (glibc 2.41 NEWS; \
          sysdeps/x86_64/stackinfo.h, DEFAULT_STACK_PERMS)",
    incident: "lamikr/rocm_sdk_builder#241 (librccl), easydiffusion/easydiffusion#1921 (libamdhip64 in the wheel of \
               torch 1.13.1+rocm5.2), ROCm/clr#22 (libamdhip64 and libhiprtc up to ROCm 6.0)",
    help: "link with `-Wl,-z,noexecstack`, and end assembly files with `.section .note.GNU-stack,\"\",%progbits`",
};

pub(super) const MACHINE: Rule = Rule {
    id: RuleId("elf-machine-wrong"),
    severity: Severity::Error,
    what: "an ELF file does not match the target system's machine, word size or byte order",
    why: "the loader refuses it (`wrong ELF class`, `cannot open shared object file`); usually a prebuilt \
          upstream file was packaged for every architecture",
    incident: "aerospike/php-client#38: an ARM library in the package for x86_64; wangfenjin/simple#154: x86_64 \
               libraries in every aarch64 release",
    help: "build the file from source for this architecture, or remove it from the package",
};

pub(super) const HEADERS: Rule = Rule {
    id: RuleId("program-headers-damaged"),
    severity: Severity::Error,
    what: "program headers contradict each other or the file, so the kernel or the loader refuses or misreads it",
    why: "the program crashes before its first line, often on some systems only. Unpatched patchelf damages \
          large ROCm libraries in three known ways",
    incident: "ROCm/TheRock#6712 (patchelf 0.18.0: PT_PHDR outside of every PT_LOAD in seven libraries, `import torch` \
               crashes), #4561 (patchelf 0.17.2 after kpack moved the headers), #4271 (first PT_LOAD writable: every \
               program crashes on RHEL 8.10); NixOS/patchelf#492 (segments not aligned), jvolkman/repairwheel#33 (segments past the end of the file)",
    help: "do not edit ELF files after linking: set RPATH when linking (CMAKE_INSTALL_RPATH); if you cannot \
           avoid it, use a patchelf with the commit d0f70eea, which TheRock pins",
};

pub(super) const HEADERS_ODD: Rule = Rule {
    id: RuleId("program-headers-odd"),
    severity: Severity::Info,
    what: "no linker writes program headers like these, but loaders accept them",
    why: "the file was edited after linking (patchelf, kpack). It works today, but the next tool that edits it \
          may damage it, and old kernels are less tolerant",
    incident: "ROCm/TheRock#5430: programs whose headers kpack had moved crashed only on RHEL 8",
    help: "nothing to fix; do not edit the file with other tools",
};

pub(super) const OPT_ROCM: Rule = Rule {
    id: RuleId("opt-rocm-path"),
    severity: Severity::Warning,
    what: "a file of a package in /usr refers to /opt/rocm, but the target system has no ROCm there",
    why: "the file that it opens there is missing, or is another version that a user installed by hand, so one \
          process has two ROCm runtimes",
    incident: "ROCm/TheRock#3976 (a collection of such paths in ROCm), ROCm/legacy-rocm-build#4003 (librdc read its \
               metrics from /opt/rocm/libexec and failed), pytorch/pytorch#149805",
    help: "set ROCM_PATH and ROCM_HOME to the provider's prefix for the build, and replace the path in sources \
           that hard-code it (`sed -i 's|/opt/rocm|%{_prefix}|'` in %prep)",
};

pub(super) const BUILD_PATH: Rule = Rule {
    id: RuleId("build-path-in-content"),
    severity: Severity::Warning,
    what: "a string in the file is a path on the machine that built it",
    why: "usually it is `__FILE__` in an assertion and harmless; but the file changes with the build folder, and \
          a path that the program opens does not exist for users",
    incident: "ROCm/rocm-systems#6620: the build folder in libamdhip64 makes it irreproducible",
    help: "compile with `-ffile-prefix-map=%{_builddir}=.`, and check whether the program opens such a path",
};

pub(super) fn check(subjects: &[Subject], expectations: &Expectations) -> Vec<Finding> {
    let mut findings = Vec::new();
    for subject in subjects.iter().filter(|subject| !subject.debug) {
        findings.extend(symbols_kept(subject));
        for file in &subject.files {
            if let Some(elf) = file.elf.as_ref().filter(|elf| !elf.debug && !is_device(elf)) {
                let found = file_findings(subject, file, elf, expectations);
                findings.extend(found.into_iter().map(|finding| finding.at(subject, file)));
            }
        }
    }
    findings
}

/// Returns whether a file is code for a device instead of the host: AMDGPU, BPF (247), CUDA (190),
/// Intel GPUs (205). The numbers are from the ELF registry (`e_machine`).
fn is_device(elf: &ElfFacts) -> bool {
    matches!(elf.machine.as_str(), "amdgpu" | "bpf" | "machine 190" | "machine 205" | "machine 247")
}

fn file_findings(
    subject: &Subject,
    file: &FileFacts,
    elf: &ElfFacts,
    expectations: &Expectations,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let loaded = is_loaded(elf);
    let packaged = matches!(subject.kind, SubjectKind::Rpm | SubjectKind::Wheel);
    if loaded && packaged {
        findings.extend(unstripped(subject, elf));
    }
    if loaded && subject.kind == SubjectKind::Rpm && elf.build_id.is_none() {
        findings.push(BUILD_ID.finding("no build ID", "a note with a GNU build ID"));
    }
    if loaded && elf.text_relocations {
        findings.push(
            TEXT_RELOCATIONS
                .finding("relocations of code (DT_TEXTREL)", "relocations of data only"),
        );
    }
    if loaded {
        findings.extend(stack(elf, packaged));
    }
    findings.extend(machine(&file.path, elf, &expectations.system.arch));
    findings.extend(headers(&elf.header_faults));
    let prefix = &expectations.system.rocm_prefix;
    let elsewhere = !prefix.is_empty() && !prefix.starts_with(OPT);
    if subject.kind == SubjectKind::Rpm && file.path.starts_with("/usr/") && elsewhere {
        findings.extend(opt_rocm(elf, prefix));
    }
    if expectations.content_paths {
        findings.extend(build_paths(elf));
    }
    findings
}

/// Returns one finding for a whole wheel.
fn symbols_kept(subject: &Subject) -> Option<Finding> {
    let kept = |file: &&FileFacts| {
        let elf = file.elf.as_ref().filter(|elf| !elf.debug && !is_device(elf));
        elf.is_some_and(|elf| is_loaded(elf) && elf.has_symbols && !elf.has_debug_info)
    };
    let files: Vec<&FileFacts> = subject.files.iter().filter(kept).collect();
    let first = files.first().filter(|_| subject.kind == SubjectKind::Wheel)?;
    let found = match files.len() {
        1 => "a full symbol table (.symtab)".to_owned(),
        n => format!("a full symbol table (.symtab) in {n} files"),
    };
    Some(SYMBOLS_KEPT.finding(found, "stripped files").at(subject, first))
}

fn is_loaded(elf: &ElfFacts) -> bool {
    matches!(elf.kind, ElfKind::Shared | ElfKind::Executable)
}

fn unstripped(subject: &Subject, elf: &ElfFacts) -> Option<Finding> {
    let found = match (elf.has_symbols, elf.has_debug_info) {
        (false, false) => return None,
        (true, false) if subject.kind == SubjectKind::Wheel => return None,
        (true, false) => "a full symbol table (.symtab)",
        (false, true) => "debugging information (.debug_info)",
        (true, true) => "a full symbol table (.symtab) and debugging information (.debug_info)",
    };
    Some(NOT_STRIPPED.finding(found, "a stripped file"))
}

/// Judges a missing PT_GNU_STACK only in packages: intermediate linker output may lack it.
fn stack(elf: &ElfFacts, packaged: bool) -> Option<Finding> {
    let library = elf.kind == ElfKind::Shared && elf.interpreter.is_none();
    let x86 = matches!(elf.machine.as_str(), "x86_64" | "i386");
    let found = match elf.executable_stack {
        Some(true) => "PT_GNU_STACK with the flag PF_X",
        None if library && x86 && packaged => {
            "no PT_GNU_STACK, which on x86 asks for an executable stack"
        }
        None | Some(false) => return None,
    };
    Some(EXECUTABLE_STACK.finding(found, "PT_GNU_STACK without PF_X"))
}

fn machine(path: &str, elf: &ElfFacts, arch: &str) -> Option<Finding> {
    // Firmware is for the processor of a device.
    if arch.is_empty() || path.contains("/firmware/") {
        return None;
    }
    // RPM architectures and the corresponding ELF names.
    let (machines, bits, big_endian): (&[&str], u8, bool) = match arch {
        "i386" | "i486" | "i586" | "i686" => (&["i386", "i686"], 32, false),
        "ppc64le" => (&["ppc64", "ppc64le"], 64, false),
        "riscv64" => (&["riscv", "riscv64"], 64, false),
        "s390x" => (&["s390x"], 64, true),
        other => (&[other], 64, false),
    };
    let fits = machines.contains(&elf.machine.as_str())
        && elf.bits == bits
        && elf.big_endian == big_endian;
    let order = |big: bool| if big { "big" } else { "little" };
    (!fits).then(|| {
        let found = format!(
            "code for {}, {} bits, {}-endian",
            elf.machine,
            elf.bits,
            order(elf.big_endian)
        );
        MACHINE
            .finding(found, format!("code for {arch}, {bits} bits, {}-endian", order(big_endian)))
    })
}

fn headers(faults: &[HeaderFault]) -> Vec<Finding> {
    let list = |fatal: bool| {
        let faults = faults.iter().filter(|fault| fault.fatal == fatal);
        let texts = faults.map(|fault| format!("at byte {} {}", fault.offset, fault.what));
        some(texts.collect())
    };
    let damaged = list(true).map(|found| {
        HEADERS.finding(found, "program headers that agree with the file and each other")
    });
    let odd = list(false)
        .map(|found| HEADERS_ODD.finding(found, "program headers that a linker could write"));
    damaged.into_iter().chain(odd).collect()
}

const OPT: &str = "/opt/rocm";

fn opt_rocm(elf: &ElfFacts, prefix: &str) -> Option<Finding> {
    let entries = [("RPATH", &elf.rpath), ("RUNPATH", &elf.runpath)];
    let entries = entries.into_iter().flat_map(|(name, entries)| {
        let entries = entries.iter().filter(|entry| entry.starts_with(OPT));
        entries.map(move |entry| format!("{name} entry `{entry}`"))
    });
    let mentions =
        elf.mentioned_paths.iter().filter(|mention| mention.path.starts_with(OPT)).map(mentioned);
    let found = some(entries.chain(mentions).collect())?;
    Some(OPT_ROCM.finding(found, format!("paths below {prefix}")))
}

fn build_paths(elf: &ElfFacts) -> Option<Finding> {
    let mentions = elf.mentioned_paths.iter().filter(|mention| !mention.path.starts_with(OPT));
    let found = some(mentions.map(mentioned).collect())?;
    Some(BUILD_PATH.finding(found, "no path on the machine that built it"))
}

fn mentioned(mention: &Mention) -> String {
    format!("`{}` at byte {} ({})", mention.path, mention.offset, mention.section)
}

/// Lists a few texts and the number of remaining ones; `None` if there are none.
fn some(texts: Vec<String>) -> Option<String> {
    const SHOWN: usize = 5;
    let more = texts.len().saturating_sub(SHOWN);
    let shown = texts.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    match (texts.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, more) => Some(format!("{shown}; and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;
    use crate::testing::subject;

    /// A stripped library for x86_64 as in a Fedora package.
    fn good() -> ElfFacts {
        ElfFacts {
            bits: 64,
            machine: "x86_64".into(),
            kind: ElfKind::Shared,
            build_id: Some("5e7c".into()),
            has_sections: true,
            executable_stack: Some(false),
            ..ElfFacts::default()
        }
    }

    fn findings(
        subject_name: &str,
        path: &str,
        elf: ElfFacts,
        expectations: &Expectations,
    ) -> Vec<String> {
        let file = FileFacts { path: path.into(), elf: Some(elf), ..FileFacts::default() };
        let found = check(&[subject(subject_name, vec![file])], expectations);
        assert!(found.iter().all(|f| f.file.as_deref() == Some(path)));
        found.into_iter().map(|f| format!("{}: {}", f.id, f.found)).collect()
    }

    fn fedora() -> Expectations {
        let system =
            System { rocm_prefix: "/usr".into(), arch: "x86_64".into(), ..System::default() };
        Expectations { system, ..Expectations::default() }
    }

    /// Returns the findings for a library in a Fedora RPM.
    fn in_rpm(elf: ElfFacts) -> Vec<String> {
        findings("k-1-1.x86_64.rpm", "/usr/lib64/libk.so", elf, &fedora())
    }

    const NOTHING: [String; 0] = [];

    #[test]
    fn accepts_a_correct_library() {
        assert_eq!(in_rpm(good()), NOTHING);
        let mut all = fedora();
        all.content_paths = true;
        assert_eq!(findings("k-1.whl", "k/libk.so", good(), &all), NOTHING);
    }

    #[test]
    fn reports_symbols_and_debugging_information() {
        let symbols = || ElfFacts { has_symbols: true, ..good() };
        assert_eq!(in_rpm(symbols()), ["not-stripped: a full symbol table (.symtab)"]);
        let debug = ElfFacts { has_debug_info: true, ..good() };
        let found = findings("k-1.whl", "k/libk.so", debug, &Expectations::default());
        assert_eq!(found, ["not-stripped: debugging information (.debug_info)"]);
        let wheel = subject(
            "k-1.whl",
            ["a", "b"]
                .map(|path| FileFacts {
                    path: path.into(),
                    elf: Some(symbols()),
                    ..FileFacts::default()
                })
                .into(),
        );
        let found = check(&[wheel], &Expectations::default());
        let found: Vec<String> = found.iter().map(|f| format!("{} {}", f.id, f.found)).collect();
        assert_eq!(found, ["symbol-table-kept a full symbol table (.symtab) in 2 files"]);
        // Not in debugging packages, separate debugging data, build folders, or object files.
        assert_eq!(
            findings("k-debuginfo-1.rpm", "/usr/lib/debug/k", symbols(), &fedora()),
            NOTHING
        );
        assert_eq!(in_rpm(ElfFacts { debug: true, ..symbols() }), NOTHING);
        assert_eq!(findings("build", "k.so", symbols(), &fedora()), NOTHING);
        assert_eq!(in_rpm(ElfFacts { kind: ElfKind::Relocatable, ..symbols() }), NOTHING);
        assert_eq!(in_rpm(ElfFacts { machine: "amdgpu".into(), ..symbols() }), NOTHING);
    }

    #[test]
    fn requires_a_build_id_in_rpms() {
        let without = || ElfFacts { build_id: None, ..good() };
        assert_eq!(in_rpm(without()), ["build-id-missing: no build ID"]);
        assert_eq!(findings("k-1.whl", "k/libk.so", without(), &fedora()), NOTHING);
        assert_eq!(in_rpm(ElfFacts { kind: ElfKind::Relocatable, ..without() }), NOTHING);
    }

    #[test]
    fn reports_text_relocations() {
        let elf = ElfFacts { text_relocations: true, ..good() };
        assert_eq!(in_rpm(elf), ["text-relocations: relocations of code (DT_TEXTREL)"]);
    }

    #[test]
    fn reports_executable_stacks_even_by_default() {
        let with = |stack, machine: &str, interpreter: Option<&str>| ElfFacts {
            executable_stack: stack,
            machine: machine.into(),
            interpreter: interpreter.map(str::to_owned),
            ..good()
        };
        let any = Expectations::default();
        let in_wheel = |elf| findings("k-1.whl", "k/k.so", elf, &any);
        assert_eq!(
            in_wheel(with(Some(true), "aarch64", None)),
            ["executable-stack: PT_GNU_STACK with the flag PF_X"]
        );
        assert_eq!(
            in_wheel(with(None, "x86_64", None)),
            ["executable-stack: no PT_GNU_STACK, which on x86 asks for an executable stack"]
        );
        // Not on machines with another default, for programs, or before packaging.
        assert_eq!(in_wheel(with(None, "aarch64", None)), NOTHING);
        assert_eq!(in_wheel(with(None, "x86_64", Some("/lib64/ld-linux-x86-64.so.2"))), NOTHING);
        assert_eq!(findings("build", "k.so", with(None, "x86_64", None), &any), NOTHING);
    }

    #[test]
    fn requires_the_machine_of_the_system() {
        let with = |machine: &str, bits, big_endian| ElfFacts {
            machine: machine.into(),
            bits,
            big_endian,
            ..good()
        };
        let noarch = |elf| findings("k-1-1.noarch.rpm", "/usr/share/k/k.so", elf, &fedora());
        assert_eq!(
            noarch(with("aarch64", 64, false)),
            ["elf-machine-wrong: code for aarch64, 64 bits, little-endian"]
        );
        assert_eq!(
            in_rpm(with("x86_64", 32, false)),
            ["elf-machine-wrong: code for x86_64, 32 bits, little-endian"]
        );
        assert_eq!(
            in_rpm(with("x86_64", 64, true)),
            ["elf-machine-wrong: code for x86_64, 64 bits, big-endian"]
        );
        let object = ElfFacts { kind: ElfKind::Relocatable, ..with("aarch64", 64, false) };
        assert_eq!(in_rpm(object).len(), 1, "object files too");
        for device in ["amdgpu", "bpf", "machine 247", "machine 190"] {
            assert_eq!(in_rpm(with(device, 64, false)), NOTHING, "{device}");
        }
        let any = Expectations::default();
        assert_eq!(
            findings("k.rpm", "/usr/k.so", with("aarch64", 64, false), &any),
            NOTHING,
            "system unknown"
        );
        let firmware =
            findings("k.rpm", "/usr/lib/firmware/k", with("machine 94", 32, false), &fedora());
        assert_eq!(firmware, NOTHING);
        for (arch, machine, bits, big) in [
            ("ppc64le", "ppc64", 64, false),
            ("i686", "i386", 32, false),
            ("s390x", "s390x", 64, true),
            ("aarch64", "aarch64", 64, false),
        ] {
            assert_eq!(
                super::machine("/usr/k.so", &with(machine, bits, big), arch),
                None,
                "{arch}"
            );
        }
    }

    #[test]
    fn groups_header_faults_by_severity() {
        let fault = |offset, fatal| HeaderFault { offset, what: "is wrong".into(), fatal };
        let elf = ElfFacts {
            header_faults: vec![fault(64, true), fault(120, false), fault(176, true)],
            ..good()
        };
        assert_eq!(
            in_rpm(elf),
            [
                "program-headers-damaged: at byte 64 is wrong; at byte 176 is wrong",
                "program-headers-odd: at byte 120 is wrong"
            ]
        );
        let many = (0..65_535).map(|n| fault(n, true)).collect();
        let found = in_rpm(ElfFacts { header_faults: many, ..good() });
        assert!(found[0].ends_with("at byte 4 is wrong; and 65530 more"), "{found:?}");
    }

    fn with_paths(paths: &[&str]) -> ElfFacts {
        let mentions = paths.iter().map(|path| Mention {
            path: (*path).to_owned(),
            section: ".rodata".into(),
            offset: 4096,
        });
        ElfFacts { mentioned_paths: mentions.collect(), ..good() }
    }

    #[test]
    fn reports_opt_rocm_on_systems_with_rocm_in_usr() {
        let elf = || ElfFacts {
            runpath: vec!["/opt/rocm/lib".into()],
            ..with_paths(&["/opt/rocm/llvm", "/home/x"])
        };
        assert_eq!(
            in_rpm(elf()),
            [
                "opt-rocm-path: RUNPATH entry `/opt/rocm/lib`; `/opt/rocm/llvm` at byte 4096 (.rodata)"
            ]
        );
        let in_usr = "/usr/lib64/libk.so";
        assert_eq!(
            findings("k.whl", in_usr, elf(), &fedora()),
            NOTHING,
            "wheels have their own paths"
        );
        assert_eq!(
            findings("k.rpm", "/opt/k/libk.so", elf(), &fedora()),
            NOTHING,
            "a package in /opt"
        );
        for prefix in ["", "/opt/rocm/core-7.14"] {
            let mut amd = fedora();
            amd.system.rocm_prefix = prefix.into();
            assert_eq!(findings("k.rpm", in_usr, elf(), &amd), NOTHING, "{prefix}");
        }
    }

    #[test]
    fn reports_build_paths_on_request() {
        let elf = || with_paths(&["/builddir/build/BUILD/x.c", "/opt/rocm"]);
        let mut expectations = Expectations::default();
        assert_eq!(findings("k.whl", "k.so", elf(), &expectations), NOTHING);
        expectations.content_paths = true;
        assert_eq!(
            findings("k.whl", "k.so", elf(), &expectations),
            ["build-path-in-content: `/builddir/build/BUILD/x.c` at byte 4096 (.rodata)"]
        );
    }
}
