//! Tests dnf5's choice of a component's GPU targets, with packages that rpm 6 builds.

use super::lab;
use super::support::{Workspace, device};

#[test]
fn dnf5_installs_the_chosen_targets() {
    let workspace = Workspace::small("laboratory-device");
    device::add(&workspace);
    lab::hand_over(&workspace);
    lab::rocmrpm(&workspace, &["build", "k", "--chroot", "fedora-43", "--builder", "host"])
        .exits(0);
    let script = "solve() { dnf5 --assumeno --installroot=/tmp/root --releasever=43 --use-host-config \
         --setopt=reposdir=/nonexistent --setopt=cachedir=/tmp/cache --setopt=gpgcheck=0 \
         --repofrompath=fedora,file:///lab/fedora \
         --repofrompath=stack,file://$PWD/build/fedora-43/repository \"$@\" | \
         awk '$1 ~ /^k(-|$)/ { print $1 }' | sort | xargs || :; }\n\
         for weak in 1 0; do for names in k k-gfx1201 'k k-gfx1201'; do \
             solve --setopt=install_weak_deps=$weak install $names; done; done";
    let ran = lab::script(&workspace, script);
    let all = "k k-device-gfx1100 k-device-gfx1201 k-gfx-all\n";
    let one = "k k-device-gfx1201 k-gfx1201\n";
    assert_eq!(ran.stdout, [all, one, one].concat().repeat(2), "{ran}");
}
