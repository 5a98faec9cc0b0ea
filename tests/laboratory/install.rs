//! Tests that dnf5 installs the built packages into an empty root, that they run there, and that
//! dnf5 reports an unavailable HIP runtime.

use super::build::{Small, small};
use super::lab;
use super::support::Workspace;

/// dnf5 for an empty root with only the given repositories.
const DNF: &str = "root=/mnt/root\n\
     install() { repositories=$1; shift; dnf5 -y --installroot=$root --releasever=43 --use-host-config \
     --setopt=reposdir=/nonexistent --setopt=install_weak_deps=0 --setopt=cachedir=/mnt/cache \
     --repofrompath=fedora,file://$repositories --setopt=fedora.gpgcheck=0 \
     --repofrompath=stack,file://$PWD/build/fedora-43/repository --setopt=stack.gpgcheck=$signed --setopt=stack.repo_gpgcheck=$signed \
     --setopt=stack.gpgkey=file://$PWD/build/fedora-43/repository/RPM-GPG-KEY-vecsum-stack install \"$@\"; }\n";

#[test]
fn dnf5_installs_working_packages_into_an_empty_root() {
    let Small { workspace, .. } = small();
    assert_installs_and_runs(workspace, true);
}

/// Installs the small workspace's packages into an empty root and runs their programs.
pub fn assert_installs_and_runs(workspace: &Workspace, signed: bool) {
    let signed = u8::from(signed);
    let script = format!(
        "signed={signed}\n{DNF}install /lab/fedora python3-vecsum-report >&2\n\
         rpm --root $root -q vecsum python3-vecsum python3-vecsum-report rocm-hip >&2\n\
         for package in vecsum python3-vecsum python3-vecsum-report; do \
             key=$(rpm --root $root -q --qf '%{{OPENPGP}}' $package)\n\
             if ((signed)); then test \"$key\" != '(none)'; else test \"$key\" = '(none)'; fi; done\n\
         rpm --root $root -V vecsum python3-vecsum python3-vecsum-report >&2\n\
         ! rpm --root $root -q vecsum-devel hipcc gcc >&2\n\
         chroot $root ldd /usr/lib64/libvecsum.so.1\n\
         chroot $root python3 -c 'import vecsum; print(vecsum.__file__, vecsum.library_version())'\n\
         chroot $root vecsum-report || echo ended with $?"
    );
    let ran = lab::root(workspace, &script);
    let output = &ran.exits(0).stdout;
    assert!(output.contains("libamdhip64.so.6 => /") && !output.contains("not found"), "{output}");
    assert!(
        output.contains("/usr/lib64/python3.14/site-packages/vecsum/__init__.py 1.2.0"),
        "{output}"
    );
    let report = "library 1.2.0 1.2.0\nvecsum 0.3.0\nvecsum-report 2.0.1\n";
    if std::path::Path::new("/dev/kfd").exists() {
        // With a GPU, possibly with other kernels, it also answers.
        assert!(
            output.contains(&format!("{report}GPUs ")) || output.contains("HIP error "),
            "{output}"
        );
    } else {
        let end = "HIP error 100: no ROCm-capable device is detected\nended with 3\n";
        assert!(output.ends_with(&format!("{report}{end}")), "{output}");
    }
}

#[test]
fn dnf5_reports_a_missing_hip_runtime() {
    let Small { workspace, .. } = small();
    // All dependencies except the package with libamdhip64.so.6.
    let script = format!(
        "mkdir /mnt/repository\n\
         for rpm in /lab/fedora/*.rpm /lab/fedora/*/*.rpm; do case $rpm in *'*'* | */rocm-hip-[0-9]*) ;; \
             *) ln -s \"$rpm\" /mnt/repository/ ;; esac; done\n\
         createrepo_c -q /mnt/repository\nsigned=1\n{DNF}install /mnt/repository python3-vecsum-report"
    );
    let ran = lab::root(workspace, &script);
    assert_ne!(ran.code, Some(0), "{ran}");
    let output = format!("{}{}", ran.stdout, ran.stderr);
    for part in
        ["nothing provides libamdhip64.so.6()(64bit)", "needed by vecsum-1.2.0-1.fc43.x86_64"]
    {
        assert!(output.contains(part), "{part}: {output}");
    }
}
