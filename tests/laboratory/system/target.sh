#!/usr/bin/env bash
# Changes a Debian tree to Fedora's layout, before and after packages are installed in it.
set -euo pipefail
shopt -s nullglob
usr=$2/usr

case $1 in
    # Once, after debootstrap.
    base)
        # Libraries are in /usr/lib64. dpkg follows the link in place of its own folder.
        rm "$usr/lib64/ld-linux-x86-64.so.2"
        mv "$usr"/lib/x86_64-linux-gnu/* "$usr/lib64/"
        rmdir "$usr/lib/x86_64-linux-gnu"
        ln -s ../lib64 "$usr/lib/x86_64-linux-gnu"
        # No one reads the documentation, and the tree need not survive a power failure.
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
# Plugins that are separate packages on Fedora. With unshare.so, scriptlets fail if
# mounting is not allowed, as in buildah's chroot isolation.
path-exclude=/usr/lib/x86_64-linux-gnu/rpm-plugins/unshare.so
path-exclude=/etc/dnf/libdnf5-plugins/local.conf
path-exclude=/usr/share/cmake-*/Help/*
path-exclude=/usr/lib/x86_64-linux-gnu/libpython*.a
path-exclude=/usr/lib/python3.14/config-*/libpython*.a
path-exclude=/usr/lib/x86_64-linux-gnu/gconv/*
LINES
        rm -rf "$usr"/share/{doc,gtk-doc,info,lintian,locale,man,bash-completion} "$usr/lib64/gconv"
        ln -sf bash "$usr/bin/sh"
        # With this file, CMake detects Debian, and installs to Debian's folders.
        rm "$2/etc/debian_version"
        # For installing RPMs from this tree: rpm's database has Fedora's path.
        mkdir -p "$2/etc/rpm"
        echo '%_dbpath %{_prefix}/lib/sysimage/rpm' >"$2/etc/rpm/macros"
        mkdir -p "$2/lab"
        ;;
    # Before each line of the table.
    before)
        # Do not start services in a chroot.
        printf '#!/bin/sh\nexit 101\n' >"$usr/sbin/policy-rc.d"
        chmod 755 "$usr/sbin/policy-rc.d"
        ;;
    # After each.
    after)
        rm "$usr/sbin/policy-rc.d"
        # Relative links that assume a folder one level deeper.
        find "$usr/lib64" -maxdepth 1 -xtype l -lname '../*' -printf '%P\t%l\n' |
            while IFS=$'\t' read -r name to; do
                [[ ! -e $usr/lib64/../lib/${to#../} ]] || ln -sfn "../lib/${to#../}" "$usr/lib64/$name"
            done
        # The same for CMake packages that count folders from their real path up to the prefix.
        [[ ! -d $usr/lib64/cmake ]] || find "$usr/lib64/cmake" -name '*.cmake' -exec sed -i \
            -e 's#"${\(_DIR\|_FILE_PATH\)}/../../../../../"#"${\1}/../../../../"#' \
            -e 's#"${_ROCM_CMAKE_CURRENT_LIST_DIR_REAL}/../../../../"#"${_ROCM_CMAKE_CURRENT_LIST_DIR_REAL}/../../../"#' {} +
        ;;
esac
