//! Makes the other inputs of the inspection from the wheels: their unpacked files, and RPMs
//! that rpmbuild builds from them. All of them are made once and kept.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rocmrpm::process::Command;

use crate::fetch;

/// Unpacks a wheel, once.
pub fn unpacked(distribution: &str, wheel: &Path) -> PathBuf {
    let stem = wheel.file_stem().unwrap().to_str().unwrap();
    once(stem, |into| {
        eprintln!("unpacking {distribution}");
        fetch::unpack(wheel, into);
    })
}

/// Makes an RPM of everything in the unpacked wheels, once.
pub fn of_wheels(unpacked: &[PathBuf]) -> PathBuf {
    let dir = once("rpm-of-wheels", |into| {
        let copies = unpacked.iter().map(|dir| format!("cp -a '{}'/. .", dir.display()));
        rpmbuild("wheels", "/usr/lib/wheels", &copies.collect::<Vec<_>>().join("\n"), into);
    });
    dir.join("wheels.rpm")
}

/// Returns the total size of the files in a folder in bytes.
pub fn size(folder: &Path) -> u64 {
    let files =
        walkdir::WalkDir::new(folder).into_iter().map(|entry| entry.unwrap().metadata().unwrap());
    files.filter(|metadata| metadata.is_file()).map(|metadata| metadata.len()).sum()
}

/// Makes an RPM of an unpacked wheel, installed for the Python version in its name, once.
pub fn of_distribution(unpacked: &Path) -> PathBuf {
    let dir = once("rpm-of-distribution", |into| {
        let python = "/usr/lib64/python3.12/site-packages";
        rpmbuild("distribution", python, &format!("cp -a '{}'/. .", unpacked.display()), into);
    });
    dir.join("distribution.rpm")
}

/// Makes an RPM of 5,000 files of a few kilobytes, one in 50 an ELF file, once.
pub fn of_small_files(unpacked: &Path) -> PathBuf {
    let dir = once("rpm-of-small-files", |into| {
        let small = unpacked.join("onnxruntime/capi/libonnxruntime_providers_shared.so");
        let files = tempfile::tempdir_in(fetch::store("bench")).unwrap();
        for number in 0..5000 {
            let folder = files.path().join(format!("part{}", number / 100));
            fs_err::create_dir_all(&folder).unwrap();
            if number % 50 == 0 {
                fs_err::copy(&small, folder.join(format!("lib{number}.so"))).unwrap();
                continue;
            }
            let mut text = String::new();
            for line in 0..number % 100 {
                writeln!(
                    text,
                    "def function_{number}_{line}(value): return value * {line} + {number}"
                )
                .unwrap();
            }
            fs_err::write(folder.join(format!("module{number}.py")), text).unwrap();
        }
        let install = format!("cp -a '{}'/. .", files.path().display());
        rpmbuild("small-files", "/usr/lib/small-files", &install, into);
    });
    dir.join("small-files.rpm")
}

/// Returns a folder that is made atomically.
fn once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let store = fetch::store("bench");
    let folder = store.join(name);
    if !folder.exists() {
        let partial = tempfile::tempdir_in(&store).unwrap();
        make(partial.path());
        fs_err::rename(partial.keep(), &folder).unwrap();
    }
    folder
}

/// Packs the files that `install` puts into the current folder, which is `folder`. Compresses them like
/// Fedora's packages, but at a lower level, which does not change the time for reading.
fn rpmbuild(name: &str, folder: &str, install: &str, into: &Path) {
    eprintln!("making {name}.rpm");
    let spec = format!(
        "Name: {name}\nVersion: 1\nRelease: 1\nSummary: Measured\nLicense: MIT\nAutoReqProv: no\n\
         %global debug_package %{{nil}}\n%global __os_install_post %{{nil}}\n%global _build_id_links none\n\
         %global _binary_payload w3.zstdio\n%description\nMeasured.\n\
         %install\nmkdir -p %{{buildroot}}{folder}\ncd %{{buildroot}}{folder}\n{install}\n\
         %files\n{folder}\n"
    );
    let work = tempfile::tempdir_in(fetch::store("bench")).unwrap();
    let path = |name: &str| work.path().join(name);
    fs_err::write(path("measured.spec"), spec).unwrap();
    Command::new("rpmbuild")
        .args(["-bb", "--quiet", "--define"])
        .arg(format!("_topdir {}", work.path().display()))
        .args(["--define", "_rpmfilename measured.rpm"])
        .arg(path("measured.spec"))
        .runs_code_of_tests()
        .output()
        .unwrap_or_else(|error| panic!("{error}"));
    fs_err::rename(path("RPMS/measured.rpm"), into.join(format!("{name}.rpm"))).unwrap();
}
