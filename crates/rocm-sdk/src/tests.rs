//! Tests packages made from small RPMs with real libraries, which gcc links.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use std::sync::Mutex;

use rocmrpm_base::error::Diagnose;
use rocmrpm_base::events::{Event, Events, Step};

use super::{Family, Made, Request, SdkError, build};

mod conflicts;
mod gate;
mod linkage;
mod output;
mod proof;
mod segments;
mod texts;

struct SdkFixture {
    dir: tempfile::TempDir,
    rpms: Vec<PathBuf>,
    license: &'static str,
    leave_out: Vec<String>,
    system_libraries: Vec<String>,
    /// The program of [`SdkFixture::rocm`].
    rocminfo: Vec<u8>,
    /// The warnings, and the steps that omit something.
    notes: Notes,
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Events for Notes {
    fn event(&self, event: Event) {
        match event {
            Event::Warning(text) => self.0.lock().unwrap().push(text),
            Event::Step { step: Step::Omitting, detail } => self.0.lock().unwrap().push(detail),
            _ => {}
        }
    }
}

/// A file of an RPM.
enum File<'a> {
    Text(&'a str),
    Binary(Vec<u8>),
    Link(&'a str),
}

impl SdkFixture {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            rpms: Vec::new(),
            license: "MIT",
            leave_out: Vec::new(),
            system_libraries: Vec::new(),
            rocminfo: Vec::new(),
            notes: Notes::default(),
        }
    }

    fn rpm(&mut self, name: &str, version: &str, files: &[(&str, File<'_>)]) -> &mut Self {
        let mut builder = rpm::PackageBuilder::new(name, version, self.license, "x86_64", "a test");
        builder.release("1.fc43");
        for (path, file) in files {
            let program = path.contains("/bin/") || path.contains("/libexec/");
            let mode = if program { 0o755 } else { 0o644 };
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
        self.rocminfo = tool.clone();
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
        self.with(targets, build)
    }

    fn with<T>(&self, targets: &[&str], work: impl FnOnce(Request<'_>) -> T) -> T {
        let family = |name: &&str| {
            let targets = rocmrpm_base::gpu_families::targets_of(name).unwrap();
            Family { name: (*name).to_owned(), targets }
        };
        let targets: Vec<Family> = targets.iter().map(family).collect();
        work(Request {
            rpms: &self.rpms,
            out_dir: &self.out(),
            version: None,
            targets: &targets,
            system_libraries: &self.system_libraries,
            leave_out: &self.leave_out,
            is_spdx: |license| license == "MIT",
            source_date_epoch: 1_700_000_000,
            events: &self.notes,
        })
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out-dir")
    }

    /// Makes the packages, and returns the members of the one with this name.
    fn wheel(&self, targets: &[&str], name: &str) -> BTreeMap<String, Vec<u8>> {
        let made = self.made(targets).unwrap();
        let wheel = made.wheels.iter().find(|wheel| wheel.distribution == name);
        members(&wheel.unwrap_or_else(|| panic!("{made:?}")).path)
    }

    fn notes(&self) -> String {
        self.notes.0.lock().unwrap().join("\n")
    }

    /// Returns the help of the error.
    fn help(&self, targets: &[&str]) -> String {
        let diagnosis = self.made(targets).unwrap_err().diagnosis();
        diagnosis.help.join("\n")
    }

    fn refusal(&self, targets: &[&str]) -> String {
        let error = self.made(targets).unwrap_err().to_string();
        assert!(!self.out().exists(), "{error}");
        error
    }
}

fn runpath(bytes: &[u8]) -> String {
    rocm_inspect::linkage_in(bytes).unwrap().0.runpath.join(":")
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
    let mut fixture = SdkFixture::new();
    let made = fixture.rocm().made(&["gfx1151"]).unwrap();
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
            "rocm_sdk_core-7.2.4.dist-info/rocmrpm.json",
            "rocm_sdk_core-7.2.4.dist-info/sboms/rocmrpm.cdx.json",
            "rocm_sdk_core/__init__.py",
            "rocm_sdk_core/_cli.py",
            "rocm_sdk_core/_programs.py",
        ]
    );
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
    let mut fixture = SdkFixture::new();
    let made = fixture.rocm().made(&["gfx1151"]).unwrap();
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
    let mut fixture = SdkFixture::new();
    fixture.rocm().rpm(
        "rocblas-kpack",
        "7.2.4",
        &[
            ("/usr/lib64/.kpack/blas_lib_gfx1151.kpack", File::Text("a")),
            ("/usr/lib64/.kpack/blas_lib_gfx90a.kpack", File::Text("b")),
        ],
    );
    let made = fixture.made(&["gfx1151", "gfx90a"]).unwrap();
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
    let mut fixture = SdkFixture::new();
    let digests = |made: Made| {
        let wheels = made.wheels.iter().map(|wheel| wheel.sha256);
        wheels.chain([made.selector.sha256]).collect::<Vec<_>>()
    };
    let first = digests(fixture.rocm().made(&["gfx1151"]).unwrap());
    fixture.rpms.reverse();
    assert_eq!(digests(fixture.made(&["gfx1151"]).unwrap()), first);
}

#[test]
fn leaves_files_out() {
    let mut fixture = SdkFixture::new();
    fixture.rocm().leave_out = vec!["/usr/bin/*".to_owned()];
    let made = fixture.made(&["gfx1151"]).unwrap();
    let core = members(&made.wheels[0].path);
    assert!(!core.keys().any(|name| name.contains("/bin/")), "{:?}", core.keys());
    fixture.leave_out.push("/usr/bin/*.exe".to_owned());
    let error = fixture.made(&["gfx1151"]).unwrap_err().to_string();
    assert_eq!(error, "no RPM has a file that `/usr/bin/*.exe` matches");
}
