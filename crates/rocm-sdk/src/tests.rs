//! Tests packages made from small RPMs with real libraries, which gcc links.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocmrpm_base::events::Silent;

use super::{Family, Made, Request, SdkError, build};

struct Lab {
    dir: tempfile::TempDir,
    rpms: Vec<PathBuf>,
    leave_out: Vec<String>,
}

/// A file of an RPM.
enum File<'a> {
    Text(&'a str),
    Binary(Vec<u8>),
    Link(&'a str),
}

impl Lab {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), rpms: Vec::new(), leave_out: Vec::new() }
    }

    fn rpm(&mut self, name: &str, version: &str, files: &[(&str, File<'_>)]) -> &mut Self {
        let mut builder = rpm::PackageBuilder::new(name, version, "MIT", "x86_64", "a test");
        builder.release("1.fc43");
        for (path, file) in files {
            let mode = if path.contains("/bin/") { 0o755 } else { 0o644 };
            let options = || rpm::FileOptions::new(*path).permissions(mode);
            match file {
                File::Text(text) => builder.with_file_contents(*text, options()).unwrap(),
                File::Binary(bytes) => {
                    builder.with_file_contents(bytes.clone(), options()).unwrap()
                }
                File::Link(to) => {
                    builder.with_symlink(rpm::FileOptions::symlink(*path, *to)).unwrap()
                }
            };
        }
        let path = self.dir.path().join(format!("{name}-{version}-1.fc43.x86_64.rpm"));
        builder.build().unwrap().write_file(&path).unwrap();
        self.rpms.push(path);
        self
    }

    fn link(&self, arguments: &[&str], source: &str) -> Vec<u8> {
        let dir = self.dir.path();
        fs_err::write(dir.join("a.c"), source).unwrap();
        let status = Command::new("gcc")
            .current_dir(dir)
            .args(["-o", "out", "a.c", "-L."])
            .args(arguments)
            .status()
            .unwrap();
        assert!(status.success());
        fs_err::read(dir.join("out")).unwrap()
    }

    fn library(&self, soname: &str, needs: &[&str]) -> Vec<u8> {
        let soname_option = format!("-Wl,-soname,{soname}");
        let needs: Vec<String> = needs.iter().map(|name| format!("-l:{name}")).collect();
        let mut arguments = vec!["-shared", "-fPIC", "-Wl,--no-as-needed", soname_option.as_str()];
        arguments.extend(needs.iter().map(String::as_str));
        let bytes = self.link(&arguments, "int f(void) { return 7; }\n");
        fs_err::write(self.dir.path().join(soname), &bytes).unwrap();
        bytes
    }

    /// Adds a small ROCm with a runtime, a library with data for gfx1151 and gfx90a, and a program.
    fn rocm(&mut self) -> &mut Self {
        let hsa = self.library("libhsa-runtime64.so.1", &[]);
        let hip = self.library("libamdhip64.so.7", &["libhsa-runtime64.so.1"]);
        let blas = self.library("librocblas.so.5", &["libamdhip64.so.7"]);
        let tool = self.link(
            &["-Wl,--no-as-needed", "-l:libamdhip64.so.7", "-Wl,-rpath-link,."],
            "int main(void) { return 0; }\n",
        );
        self.rpm(
            "rocm-hip",
            "7.2.4",
            &[
                ("/usr/lib64/libamdhip64.so.7", File::Link("libamdhip64.so.7.2.5")),
                ("/usr/lib64/libamdhip64.so.7.2.5", File::Binary(hip)),
                ("/usr/lib64/libhsa-runtime64.so.1", File::Binary(hsa)),
                ("/usr/bin/rocminfo", File::Binary(tool)),
                ("/usr/bin/rocm_agent_enumerator", File::Link("rocminfo")),
                ("/usr/include/hip/hip_runtime.h", File::Text("#pragma once\n")),
                ("/usr/share/licenses/rocm-hip/LICENSE", File::Text("MIT\n")),
                ("/etc/ld.so.conf.d/rocm.conf", File::Text("/x\n")),
            ],
        );
        self.rpm(
            "rocm-hip-devel",
            "7.2.4",
            &[
                ("/usr/lib64/libamdhip64.so", File::Link("libamdhip64.so.7")),
                ("/usr/lib64/cmake/hip/hip-config.cmake", File::Text("# cmake\n")),
            ],
        );
        self.rpm(
            "rocblas",
            "7.2.4",
            &[
                ("/usr/lib64/librocblas.so.5", File::Binary(blas)),
                ("/usr/lib64/rocblas/library/TensileLibrary_gfx1151.dat", File::Text("a")),
                ("/usr/lib64/rocblas/library/TensileLibrary_gfx90a.dat", File::Text("b")),
            ],
        )
    }

    fn made(&self, targets: &[&str]) -> Result<Made, SdkError> {
        let family = |name: &&str| {
            let targets = rocmrpm_base::gpu_families::targets_of(name).unwrap();
            Family { name: (*name).to_owned(), targets }
        };
        let targets: Vec<Family> = targets.iter().map(family).collect();
        build(Request {
            rpms: &self.rpms,
            out_dir: &self.out(),
            version: None,
            targets: &targets,
            system_libraries: &[],
            leave_out: &self.leave_out,
            source_date_epoch: 1_700_000_000,
            events: &Silent,
        })
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out-dir")
    }

    fn refusal(&self, targets: &[&str]) -> String {
        let error = self.made(targets).unwrap_err().to_string();
        assert!(!self.out().exists(), "{error}");
        error
    }
}

/// Returns the members of a wheel.
fn members(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = zip::ZipArchive::new(fs_err::File::open(path).unwrap()).unwrap();
    let mut members = BTreeMap::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        members.insert(member.name().unwrap().into_owned(), bytes);
    }
    members
}

#[test]
fn distributes_files_over_packages() {
    let mut lab = Lab::new();
    let made = lab.rocm().made(&["gfx1151"]).unwrap();
    assert!(!made.split);
    let wheels: BTreeMap<&str, &Path> =
        made.wheels.iter().map(|w| (w.distribution.as_str(), w.path.as_path())).collect();
    assert_eq!(
        wheels.keys().copied().collect::<Vec<_>>(),
        ["rocm-sdk-core", "rocm-sdk-devel", "rocm-sdk-libraries-gfx1151"]
    );
    let core = members(wheels["rocm-sdk-core"]);
    let names: Vec<&str> = core.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "_rocm_sdk_core/__init__.py",
            "_rocm_sdk_core/bin/rocm_agent_enumerator",
            "_rocm_sdk_core/bin/rocminfo",
            "_rocm_sdk_core/include/hip/hip_runtime.h",
            "_rocm_sdk_core/lib/libamdhip64.so.7",
            "_rocm_sdk_core/lib/libhsa-runtime64.so.1",
            "rocm_sdk_core-7.2.4.dist-info/METADATA",
            "rocm_sdk_core-7.2.4.dist-info/RECORD",
            "rocm_sdk_core-7.2.4.dist-info/WHEEL",
            "rocm_sdk_core-7.2.4.dist-info/entry_points.txt",
            "rocm_sdk_core-7.2.4.dist-info/licenses/rocm-hip/LICENSE",
            "rocm_sdk_core-7.2.4.dist-info/rocmrpm-sdk.json",
            "rocm_sdk_core/__init__.py",
            "rocm_sdk_core/_cli.py",
            "rocm_sdk_core/_programs.py",
        ]
    );
    let runpath = |bytes: &[u8]| rocm_inspect::linkage_in(bytes).unwrap().0.runpath.join(":");
    assert_eq!(runpath(&core["_rocm_sdk_core/lib/libamdhip64.so.7"]), "$ORIGIN");
    assert_eq!(runpath(&core["_rocm_sdk_core/bin/rocminfo"]), "$ORIGIN/../lib");
    let libraries = members(wheels["rocm-sdk-libraries-gfx1151"]);
    let blas = &libraries["_rocm_sdk_libraries_gfx1151/lib/librocblas.so.5"];
    assert_eq!(runpath(blas), "$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN");
    let data: Vec<&String> = libraries.keys().filter(|name| name.ends_with(".dat")).collect();
    assert_eq!(
        data,
        ["_rocm_sdk_libraries_gfx1151/lib/rocblas/library/TensileLibrary_gfx1151.dat"]
    );
    let metadata = &libraries["rocm_sdk_libraries_gfx1151-7.2.4.dist-info/METADATA"];
    assert!(String::from_utf8_lossy(metadata).contains("Requires-Dist: rocm-sdk-core==7.2.4\n"));
}

#[test]
fn development_files_link_to_the_other_packages() {
    let mut lab = Lab::new();
    let made = lab.rocm().made(&["gfx1151"]).unwrap();
    let devel = made.wheels.iter().find(|wheel| wheel.distribution == "rocm-sdk-devel").unwrap();
    let archive = &members(&devel.path)["rocm_sdk_devel/_devel.tar"];
    let mut tar = tar::Archive::new(&archive[..]);
    let entries = tar.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        (path, entry.link_name().unwrap().map(|to| to.to_str().unwrap().to_owned()))
    });
    let entries: BTreeMap<String, Option<String>> = entries.collect();
    for (path, to) in [
        ("lib/libamdhip64.so.7", Some("../../_rocm_sdk_core/lib/libamdhip64.so.7")),
        ("lib/libamdhip64.so.7.2.5", Some("libamdhip64.so.7")),
        ("lib/libamdhip64.so", Some("libamdhip64.so.7")),
        ("bin/rocm_agent_enumerator", Some("../../_rocm_sdk_core/bin/rocm_agent_enumerator")),
        ("lib/cmake/hip/hip-config.cmake", None),
        ("lib64", Some("lib")),
        ("__init__.py", None),
    ] {
        let found = entries[&format!("_rocm_sdk_devel/{path}")].as_deref();
        assert_eq!(found, to, "{path}");
    }
}

#[test]
fn gives_each_target_with_kpack_files_a_package() {
    let mut lab = Lab::new();
    lab.rocm().rpm(
        "rocblas-kpack",
        "7.2.4",
        &[
            ("/usr/lib64/.kpack/blas_lib_gfx1151.kpack", File::Text("a")),
            ("/usr/lib64/.kpack/blas_lib_gfx90a.kpack", File::Text("b")),
        ],
    );
    let made = lab.made(&["gfx1151", "gfx90a"]).unwrap();
    assert!(made.split);
    let names: Vec<&str> = made.wheels.iter().map(|wheel| wheel.distribution.as_str()).collect();
    assert_eq!(
        names,
        [
            "rocm-sdk-core",
            "rocm-sdk-devel",
            "rocm-sdk-device-gfx1151",
            "rocm-sdk-device-gfx90a",
            "rocm-sdk-libraries"
        ]
    );
    let device = members(&made.wheels[2].path);
    assert!(device.contains_key("_rocm_sdk_libraries/lib/.kpack/blas_lib_gfx1151.kpack"));
    let links = String::from_utf8_lossy(&device["_rocm_sdk_libraries/.devel_links/gfx1151.json"]);
    assert!(
        links.contains(
            "\"target\": \"../../../_rocm_sdk_libraries/lib/.kpack/blas_lib_gfx1151.kpack\""
        ),
        "{links}"
    );
}

#[test]
fn the_same_rpms_give_the_same_bytes() {
    let mut lab = Lab::new();
    let digests = |made: Made| {
        let wheels = made.wheels.iter().map(|wheel| wheel.sha256);
        wheels.chain([made.selector.sha256]).collect::<Vec<_>>()
    };
    let first = digests(lab.rocm().made(&["gfx1151"]).unwrap());
    lab.rpms.reverse();
    assert_eq!(digests(lab.made(&["gfx1151"]).unwrap()), first);
}

#[test]
fn leaves_files_out() {
    let mut lab = Lab::new();
    lab.rocm().leave_out = vec!["/usr/bin/*".to_owned()];
    let made = lab.made(&["gfx1151"]).unwrap();
    let core = members(&made.wheels[0].path);
    assert!(!core.keys().any(|name| name.contains("/bin/")), "{:?}", core.keys());
    lab.leave_out.push("/usr/bin/*.exe".to_owned());
    let error = lab.made(&["gfx1151"]).unwrap_err().to_string();
    assert_eq!(error, "no RPM has a file that `/usr/bin/*.exe` matches");
}

#[test]
fn rejects_rpms_of_two_releases() {
    let mut lab = Lab::new();
    lab.rocm().rpm("rocfft", "7.1.0", &[]);
    let error = lab.refusal(&["gfx1151"]);
    assert!(error.contains("is of ROCm 7.1.0, but"), "{error}");
}

#[test]
fn rejects_targets_without_gpu_code() {
    let mut lab = Lab::new();
    let error = lab.rocm().refusal(&["gfx1201"]);
    assert_eq!(error, "no RPM has GPU code for gfx1201; found: gfx1151, gfx90a");
    let error = lab.refusal(&["gfx1151", "gfx90a"]);
    assert!(error.contains("for one target or family, not for 2"), "{error}");
}

#[test]
fn rejects_two_files_with_one_path() {
    let mut lab = Lab::new();
    lab.rocm().rpm(
        "other",
        "1",
        &[("/usr/lib/cmake/hip/hip-config.cmake", File::Text("# other\n"))],
    );
    let error = lab.refusal(&["gfx1151"]);
    assert!(
        error.ends_with("and both are `lib/cmake/hip/hip-config.cmake` in ROCm's folder"),
        "{error}"
    );
}

#[test]
fn rejects_links_out_of_the_tree() {
    for (path, to) in [("/usr/lib64/a", "/srv/a"), ("/usr/bin/b", "../../../../b")] {
        let mut lab = Lab::new();
        lab.rocm().rpm("other", "1", &[(path, File::Link(to))]);
        let error = lab.refusal(&["gfx1151"]);
        assert_eq!(error, format!("`{path}` links to `{to}`, which is outside of ROCm's folders"));
    }
}

#[test]
fn rejects_libraries_that_no_package_has() {
    let mut lab = Lab::new();
    lab.rocm();
    lab.library("libfar.so.1", &[]);
    let near = lab.library("libhiprtc.so.7", &["libfar.so.1"]);
    lab.rpm("hiprtc", "1", &[("/usr/lib64/libhiprtc.so.7", File::Binary(near))]);
    let error = lab.refusal(&["gfx1151"]);
    assert!(error.ends_with("libfar.so.1 (for lib/libhiprtc.so.7 of _rocm_sdk_core)"), "{error}");
}

#[test]
fn sets_search_paths_only_where_there_is_room() {
    let lab = Lab::new();
    lab.library("libhsa-runtime64.so.1", &[]);
    let link = |options: &[&str]| {
        let mut arguments =
            vec!["-shared", "-fPIC", "-Wl,--no-as-needed", "-l:libhsa-runtime64.so.1"];
        arguments.extend(options);
        lab.link(&arguments, "int g(void) { return 7; }\n")
    };
    let set = |bytes: &[u8], text: &str| {
        let mut spool = python_packaging::wheel::Spool::new(lab.dir.path()).unwrap();
        let stored = spool.append(bytes, false).unwrap();
        let facts = spool.linkage(&stored).unwrap().unwrap().0;
        let edits = super::search_path::edits(&spool, stored, &facts, text).unwrap()?;
        let changed: usize = edits.iter().map(|(_, bytes)| bytes.len()).sum();
        let new = spool.overwrite(stored, &edits).unwrap();
        let after = spool.linkage(&new).unwrap().unwrap();
        assert!(after.1 && after.0.header_faults == facts.header_faults);
        assert_eq!(after.0.runpath.join(":"), text);
        assert!(after.0.rpath.is_empty() && changed < text.len() + 64);
        // A linker reads the section headers, which the loader does not.
        let mut edited = Vec::new();
        spool.reader(new, 0).read_to_end(&mut edited).unwrap();
        fs_err::write(lab.dir.path().join("libedited.so"), edited).unwrap();
        lab.link(
            &["-l:libedited.so", "-Wl,-rpath-link,."],
            "int g(void); int main(void) { return g(); }\n",
        );
        Some(())
    };
    assert_eq!(set(&link(&[]), "$ORIGIN/../../a/lib"), Some(()));
    let old = ["-Wl,--disable-new-dtags,-rpath,/usr/lib64/rocm"];
    assert_eq!(set(&link(&old), "$ORIGIN/../../a/much/longer/path/lib"), Some(()));
    // Without padding, the text must fit into the old one, and nothing may share its bytes.
    let dense = filled(link(&["-Wl,-rpath,/usr/lib64/rocm/lib"]));
    assert_eq!(set(&dense, "$ORIGIN/../lib"), Some(()));
    assert_eq!(set(&dense, "$ORIGIN/../../a/much/longer/path/lib"), None);
    let shared = filled(link(&["-Wl,-rpath,/usr/lib64/rocm/g"]));
    assert_eq!(set(&shared, "$ORIGIN"), None);
}

/// Returns the ELF file without padding after its segments.
fn filled(mut bytes: Vec<u8>) -> Vec<u8> {
    let number = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
    };
    let programs = (0..usize::from(bytes[56])).map(|index| number(&bytes, 32) + index * 56);
    let loads = programs.filter(|at| bytes[*at] == 1 && bytes[*at + 1] == 0);
    let ends: Vec<usize> =
        loads.map(|at| number(&bytes, at + 8) + number(&bytes, at + 32)).collect();
    for end in ends {
        let gap = bytes[end..].iter().take(4096 - end % 4096).take_while(|byte| **byte == 0);
        let gap = end + gap.count();
        bytes[end..gap].fill(0xff);
    }
    bytes
}
