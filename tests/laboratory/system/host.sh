#!/usr/bin/env bash
# Installs the systems of the laboratory and of the base image from the laboratory's repository.
# usage: host.sh ROOT IMAGE-TAR REPOSITORY
set -euo pipefail
root=$1 image=$2 repository=$3

install_into() {
    dnf5 -y --installroot="$1" --releasever=43 --setopt=reposdir=/nonexistent --setopt=cachedir=/tmp/dnf \
        --repofrompath="fedora,file://$repository" --setopt=fedora.gpgcheck=0 install "${@:2}"
}

mkdir /tmp/image
install_into /tmp/image fedora-base dnf5 ca-certificates
tar c -C /tmp/image --exclude=./var/cache/* --exclude=./dev/* . >"$image"

install_into "$root" '*'
mkdir -p "$root/lab/fedora" "$root/lab/mock" "$root/lab/python" "$root/lab/bin" "$root/etc/mock"
cp -a /lab/scripts/mock/bin/. "$root/lab/bin/"
chown -R 0:0 "$root/lab/bin"
# mock's group ID. Source: mock, mock/mock.conf.
chroot "$root" groupadd --gid 135 mock
chroot "$root" useradd --uid 1000 --user-group --groups mock --no-create-home --shell /bin/bash builder
# Fedora's mock becomes root with consolehelper, here with sudo.
echo '%mock ALL=(root) NOPASSWD: /lab/bin/mock-as-root' >"$root/etc/sudoers.d/mock"
chmod 440 "$root/etc/sudoers.d/mock"
install -d -m 2775 -g 135 "$root/var/lib/mock" "$root/var/cache/mock"
