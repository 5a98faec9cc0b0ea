//! Tests examples/quickstart in the laboratory with the single command of its README. Needs the
//! index configured for pip, for the source of amdsmi.

use super::lab;
use super::support::{Workspace, names_in};

#[test]
fn quickstart_builds_installs_and_runs() {
    let workspace = Workspace::quickstart(&["amdsmi", "rocm-smoke"]);
    // After this, the laboratory's user needs no network.
    workspace.run(&["build", "--chroot", "host", "--until", "sources"]).exits(0);
    lab::hand_over(&workspace);
    let ran = lab::rocmrpm(&workspace, &["build", "--chroot", "host", "--offline"]);
    ran.exits(0).reports([
        "Built amdsmi 1 RPM",
        "Built rocm-smoke 1 RPM",
        "Indexed 2 distributions",
    ]);
    let files = names_in(&workspace.built("results/rocm-smoke"));
    let rpm = files.iter().find(|file| file.ends_with(".x86_64.rpm")).unwrap();
    let report =
        lab::rocmrpm(&workspace, &["inspect", &format!("build/host/results/rocm-smoke/{rpm}")]);
    for part in ["gfx1151", "libamdhip64.so.6", "no findings"] {
        assert!(report.exits(0).stdout.contains(part), "{report}");
    }
    let script = "root=/mnt/root\n\
         dnf5 -y --installroot=$root --releasever=43 --use-host-config --setopt=install_weak_deps=0 \
             --setopt=reposdir=/nonexistent --setopt=cachedir=/mnt/cache \
             --repofrompath=fedora,file:///lab/fedora --setopt=fedora.gpgcheck=0 \
             --repofrompath=stack,file://$PWD/build/host/repository --setopt=stack.gpgcheck=0 \
             install python3-rocm-smoke python3-amdsmi-rocm >&2\n\
         chroot $root rocm-smoke --list-targets\n\
         chroot $root python3 -c 'import importlib.metadata as m; print(m.version(\"amdsmi\"))'\n\
         chroot $root rocm-smoke || echo ended with $?";
    let ran = lab::root(&workspace, script);
    let output = &ran.exits(0).stdout;
    assert!(output.starts_with("gfx1151\n7.0.2\n"), "{ran}");
    if !std::path::Path::new("/dev/kfd").exists() {
        assert!(output.ends_with("ended with 3\n"), "{ran}");
        ran.reports(["error: no GPU found"]);
    }
}
