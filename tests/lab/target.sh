#!/usr/bin/env bash
# Gives a tree of Debian the places where Fedora has things, before and after packages
# are installed in it.
set -euo pipefail
shopt -s nullglob
usr=$2/usr

case $1 in
    # Once, after debootstrap.
    base)
        # Libraries are in /usr/lib64. dpkg follows the link that stands where it puts them.
        rm "$usr/lib64/ld-linux-x86-64.so.2"
        mv "$usr"/lib/x86_64-linux-gnu/* "$usr/lib64/"
        rmdir "$usr/lib/x86_64-linux-gnu"
        ln -s ../lib64 "$usr/lib/x86_64-linux-gnu"
        # Nothing here is read by people, and nothing is kept when the power fails.
        cat >"$2/etc/dpkg/dpkg.cfg.d/laboratory" <<'LINES'
force-unsafe-io
path-exclude=/usr/lib32/*
path-exclude=/usr/lib/llvm-21/bin/c-index-test
path-exclude=/usr/lib/llvm-21/bin/llvm-exegesis
path-exclude=/usr/lib/llvm-21/lib/clang/*/lib/linux/*i386*
path-exclude=/usr/bin/*lto-dump*
path-exclude=/usr/local/lib/python*
path-exclude=/usr/share/bash-completion/*
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/gtk-doc/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
# Plugins that are packages of their own on Fedora. unshare.so keeps scriptlets from
# running where mounting is refused, as in buildah's chroot isolation.
path-exclude=/usr/lib/x86_64-linux-gnu/rpm-plugins/unshare.so
path-exclude=/etc/dnf/libdnf5-plugins/local.conf
path-exclude=/usr/share/cmake-*/Help/*
path-exclude=/usr/lib/x86_64-linux-gnu/libpython*.a
path-exclude=/usr/lib/python3.14/config-*/libpython*.a
path-exclude=/usr/lib/x86_64-linux-gnu/gconv/*
LINES
        rm -rf "$usr"/share/{doc,gtk-doc,info,lintian,locale,man,bash-completion} "$usr/lib64/gconv"
        ln -sf bash "$usr/bin/sh"
        # CMake takes a system with this file for Debian, and installs to its folders.
        rm "$2/etc/debian_version"
        # For the RPMs that are installed from here: rpm's database is where Fedora has it.
        mkdir -p "$2/etc/rpm"
        echo '%_dbpath %{_prefix}/lib/sysimage/rpm' >"$2/etc/rpm/macros"
        mkdir -p "$2/lab"
        ;;
    # Before each line of the table.
    before)
        # Services have no place in a chroot.
        printf '#!/bin/sh\nexit 101\n' >"$usr/sbin/policy-rc.d"
        chmod 755 "$usr/sbin/policy-rc.d"
        ;;
    # After each.
    after)
        rm "$usr/sbin/policy-rc.d"
        # Relative links that were made for one folder more.
        find "$usr/lib64" -maxdepth 1 -xtype l -lname '../*' -printf '%P\t%l\n' |
            while IFS=$'\t' read -r name to; do
                [[ ! -e $usr/lib64/../lib/${to#../} ]] || ln -sfn "../lib/${to#../}" "$usr/lib64/$name"
            done
        # The same of CMake packages that count folders from their real place up to the prefix.
        [[ ! -d $usr/lib64/cmake ]] || find "$usr/lib64/cmake" -name '*.cmake' -exec sed -i \
            -e 's#"${\(_DIR\|_FILE_PATH\)}/../../../../../"#"${\1}/../../../../"#' \
            -e 's#"${_ROCM_CMAKE_CURRENT_LIST_DIR_REAL}/../../../../"#"${_ROCM_CMAKE_CURRENT_LIST_DIR_REAL}/../../../"#' {} +
        ;;
esac
