//! Builds rocmrpm's own package from the workspace of this repository, without a network, and
//! installs it with dnf5 into an empty root. cargo vendors the crates on this machine, from the
//! registry that it is configured with.

use std::path::Path;

use super::closure::DNF;
use super::lab;
use super::support::{Workspace, ran};

const BUILD: [&str; 6] = ["build", "rocmrpm", "--chroot", "fedora-43", "--builder", "host"];

/// Settings for a fast build: the profile `dev` without optimization, and packages with the lowest
/// level of compression. A release takes several times as long, and has the same files.
const FAST: &str = "[macros]\nrocmrpm_profile = \"dev\"\nbuild_rustflags = \"-Cdebuginfo=1\"\n\
                    _binary_payload = \"w1.zstdio\"\n";

/// Packs the sources on this machine, where cargo has its configuration.
fn pack(workspace: &Workspace) {
    // The toolchain's own cargo: rustup's would need its settings in the home folder.
    let toolchain = Path::new(env!("CARGO")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(std::iter::once(toolchain).chain(std::env::split_paths(&path)));
    let mut command = workspace.command(&[&BUILD[..], &["--until", "sources"]].concat());
    ran(command.env("PATH", path.unwrap())).exits(0).reports(["crates of Cargo.lock"]);
}

#[test]
#[ignore = "compiles all crates, which takes minutes: make lab-package"]
fn own_package_builds_offline_installs_and_runs() {
    let workspace = Workspace::stack();
    workspace.replace("mock-configs/fedora-43.toml", "[macros]\n", FAST);
    pack(&workspace);
    lab::hand_over(&workspace);
    let build = format!(
        "unshare --net setpriv --reuid builder --regid builder --init-groups env HOME=/home/builder \
         {} {} --offline --until rpm",
        lab::PROGRAM,
        BUILD.join(" ")
    );
    lab::root(&workspace, &build).exits(0).reports(["Inspecting", "Finished 1 built"]);

    let script = format!(
        "{DNF} install rocmrpm rocm-inspect >&2\n\
         rpm --root $root -V rocmrpm rocm-inspect >&2\n\
         run() {{ unshare --net chroot $root env -i PATH=/usr/bin LANG=C.UTF-8 HOME=/root \"$@\"; }}\n\
         run rocmrpm --version\n\
         run rocmrpm doctor --help | head -n 1\n\
         run rocm-inspect /usr/bin/rocmrpm /usr/bin/rocm-inspect >&2\n\
         run bash -c '. /usr/share/bash-completion/completions/rocmrpm; complete -p rocmrpm'\n\
         run bash -c 'head -n 1 /usr/share/zsh/site-functions/_rocmrpm'\n\
         run bash -c 'grep -c rocmrpm /usr/share/fish/vendor_completions.d/rocmrpm.fish' >&2\n\
         rpm --root $root -q --provides rocmrpm\n\
         rpm --root $root -q --qf 'license %{{LICENSE}}\\n' rocmrpm\n\
         rpm --root $root -q rust cargo || true\n\
         cat $root$(rpm --root $root -q --licensefiles rocmrpm | grep /LICENSE.dependencies)"
    );
    let installed = lab::root(&workspace, &script);
    let version = env!("CARGO_PKG_VERSION");
    let printed = &installed.exits(0).stdout;
    assert!(printed.starts_with(&format!("rocmrpm {version}\n")), "{installed}");
    installed.prints([
        "-F _clap_complete_rocmrpm rocmrpm",
        "#compdef rocmrpm\n",
        "bundled(crate(serde)) = 1.",
        "bundled(zstd)\n",
        "license (Apache-2.0 OR ",
        "package cargo is not installed",
        "MIT OR Apache-2.0: serde v1.",
    ]);
    has_man_pages(&workspace);
}

fn has_man_pages(workspace: &Workspace) {
    let script = "rpm -qpl build/fedora-43/results/rocmrpm/rocmrpm-0*.rpm";
    lab::script(workspace, script).exits(0).prints(["/man1/rocmrpm.1", "/man1/rocmrpm-build.1"]);
}
