//! Measures what `build` adds to the rpmbuild that it runs: rendering, checks of the sources and
//! results, inspection, and the local repository.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::growth::best_of_both;
use super::{rocmrpm_in, run, workspace};

/// Functions in the source: compiling it takes some seconds, as for a small package.
const FUNCTIONS: usize = 1_000;
const SPEC: &str = "Name: compiled\nVersion: <{ version }>\nRelease: <{ release }>\nSummary: A component\n\
    License: MIT\nBuildRequires: gcc\n<{ source_lines }>\n%description\nA component.\n%prep\n\
    %autosetup -p1 -n <{ source_dir }>\n%build\ngcc %{optflags} -fPIC -shared -o libcompiled.so \
    -Wl,-soname,libcompiled.so %{?build_ldflags} compiled.c\n%install\n\
    install -D -m 755 -t %{buildroot}%{_libdir} libcompiled.so\n%files\n%{_libdir}/libcompiled.so\n\
    %changelog\n<{ changelog }>\n";

/// Returns a report of both times.
pub fn measure(dir: &Path) -> String {
    eprintln!("overhead of build");
    let dir = dir.join("overhead");
    workspace::base(&dir);
    let functions = (0..FUNCTIONS).map(|at| {
        format!(
            "int f{at}(int a) {{ int s = 0; for (int i = 0; i < a; i++) s += i % {}; return s; }}\n",
            at + 1
        )
    });
    workspace::write(&dir, "src/compiled/compiled.c", &functions.collect::<String>());
    workspace::write(
        &dir,
        "pins/stable.toml",
        "[compiled]\nversion = \"1.0\"\npath = \"src/compiled\"\n",
    );
    workspace::write(&dir, "specs-templates/compiled/component.toml", "");
    workspace::write(&dir, "specs-templates/compiled/compiled.spec.tera", SPEC);

    let build = || run(rocmrpm_in(&dir).args(["build", "--chroot", "host", "--until", "rpm"]));
    build();
    let source_rpm = only(&dir, ".src.rpm");
    let nth = Cell::new(0);
    let (ours, bare) = best_of_both(
        || {
            std::fs::remove_dir_all(dir.join("build")).unwrap();
            build();
        },
        || {
            nth.set(nth.get() + 1);
            let top = format!("_topdir {}", dir.join(format!("top-{}", nth.get())).display());
            let mut rpmbuild = Command::new("rpmbuild");
            run(rpmbuild.args(["--rebuild", "--nodeps", "--define", &top]).arg(&source_rpm));
        },
    );
    line(ours, bare)
}

fn line(ours: Duration, bare: Duration) -> String {
    let (ours, bare) = (ours.as_secs_f64(), bare.as_secs_f64());
    format!(
        "build of a C library: {ours:.2} s, rpmbuild --rebuild {bare:.2} s: {:.2} s more, {:.1} %; \
         goal: at most 1 s or 2 %",
        ours - bare,
        (ours / bare - 1.0) * 100.0
    )
}

fn only(dir: &Path, end: &str) -> PathBuf {
    let mut files = walkdir::WalkDir::new(dir.join("build"))
        .into_iter()
        .map(|entry| entry.unwrap().into_path());
    let found = files.find(|path| path.to_string_lossy().ends_with(end)).unwrap();
    let kept = dir.join(found.file_name().unwrap());
    std::fs::copy(found, &kept).unwrap();
    kept
}
