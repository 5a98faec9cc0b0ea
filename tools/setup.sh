#!/usr/bin/env bash
# Installs the missing system packages that a make target needs.
# Exit codes are rocmrpm's: 2 usage, 20 this machine, 30 network, 40 something to install by hand.
set -euo pipefail
cd "$(dirname "$0")/.."

log=build/setup.log
lock_wait=120 # seconds

# Each list except `static` and `kernels` includes those above it. An empty column: the distribution needs no package for it.
packages() {
    cat <<'END'
# list     | what for                    | Debian                                 | Fedora
build      | cargo downloads and links   | ca-certificates gcc libc6-dev          | ca-certificates gcc glibc-devel
build      | the Makefile                | make                                   | make
static     | C code without glibc        | musl-tools                             | musl-gcc
quickstart | rpmbuild and rpmspec        | rpm                                    | rpm-build
quickstart | programs that rpmbuild runs | tar xz-utils patch file                | tar
quickstart | Fedora's macros             |                                        | redhat-rpm-config pyproject-rpm-macros
quickstart | the RPM repository          | createrepo-c                           | createrepo_c
quickstart | downloads                   | curl git                               | curl git-core
quickstart | compiler for host and GPU   | clang-19 clang-tools-19 lld-19 llvm-19 | hipcc gcc-c++
quickstart | HIP headers and libamdhip64 | libamdhip64-dev                        | rocm-hip-devel
quickstart | Python and its packages     | python3 python3-pip                    | python3-devel python3-pip
quickstart | their build backend         | python3-setuptools python3-wheel       | python3-setuptools python3-wheel
quickstart | rpm's python3dist() names   | python3-packaging                      |
quickstart | testing the wheels          | python3-venv                           |
test       | installing the built RPMs   | dnf                                    |
test       | an extension module in C    | gcc python3-dev                        | gcc python3-devel
test       | the flags of a library       | pkg-config                             | pkgconf-pkg-config
test       | what `rocmrpm add` drafts    | autoconf automake cmake libtool meson  | autoconf automake cmake libtool meson
test       | reading ELF and bundles     | binutils                               | binutils llvm clang-tools-extra
test       | LLVM for HIP's files        | clang-22 clang-tools-22 lld-22 llvm-22 | clang lld
test       | unpacking RPMs to compare   | rpm2cpio cpio                          | rpm cpio
test       | killing writers at any step | strace                                 | strace
test       | checking the stack's specs  | rpmlint                                | rpmlint
test       | checking vLLM's service     | systemd                                | systemd
test       | rendering man pages         | groff-base                             | groff-base
test       | signing packages            | gnupg                                  | gnupg2 rpm-sign
test       | publishing the index        | awscli rsync                           | awscli2 rsync
test       | TLS of the COPR test server | openssl                                | openssl
test       | vLLM's setup.py imports     | python3-torch python3-setuptools-scm   | python3-torch python3-setuptools_scm
test       | its other imports           | python3-jinja2                         | python3-jinja2
test       | the tests of torch-tests    | python3-pytest                         | python3-pytest
test       | building the container file | buildah busybox-static skopeo          | buildah busybox skopeo
test       | building the laboratory     | debootstrap                            |
kernels    | configuring AOTriton        | g++ liblzma-dev                        | gcc-c++ xz-devel
copr       | COPR's own frontend         | redis-server python3-rpm               | valkey-compat-redis python3-rpm
copr       | its imports                 | python3-lxml python3-html5-parser      | python3-lxml python3-html5-parser
END
}

say() { printf '%s\n' "$*" >&2; }

# fail CODE MESSAGE [HELP]...
fail() {
    local code=$1 help
    say "error: $2"
    for help in "${@:3}"; do say "help: $help"; done
    exit "$code"
}

# The user provides Rust: a distribution's is often too old, and users of rustup do not
# want a second one.
check_rust() {
    local needed have rustup="install Rust with rustup, see https://rustup.rs"
    needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    PATH=$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
    if ! command -v cargo >/dev/null; then
        [[ -z ${SUDO_USER-} ]] || rustup="run make without sudo: the Rust of $SUDO_USER is used then"
        fail 40 "cargo is not installed; rocmrpm needs Rust $needed or newer" "$rustup"
    fi
    have=$(rustc --version 2>&1) || fail 40 "rustc does not run: $have" "$rustup"
    have=${have#rustc } have=${have%% *}
    printf '%s\n' "$needed" "$have" | sort -VC ||
        fail 40 "Rust $have is too old; rocmrpm needs $needed or newer" "rustup update stable" "$rustup"
    [[ $1 != test ]] || { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 ||
        fail 40 "cargo fmt or cargo clippy is not installed" "rustup component add rustfmt clippy"
}

# Prints the arguments that are not installed.
missing() {
    if [[ $manager == dnf ]]; then
        { rpm -q --whatprovides "$@" 2>&1 || true; } | sed -n 's/^no package provides //p'
    else
        comm -13 <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
            sed -n 's/^installed //p' | sort) <(printf '%s\n' "$@" | sort)
    fi
}

locked() { tail -n 4 "$log" | grep -q 'Could not get lock'; }

# Runs a command as root with its output in the log, and retries while another program
# holds a lock: apt itself waits only for dpkg's lock, not for the lock of its lists.
run() {
    local end=$((SECONDS + lock_wait))
    until "${as_root[@]}" env "${environment[@]}" "$@" </dev/null >>"$log" 2>&1; do
        locked && ((SECONDS < end)) || return 1
        [[ -n ${announced-} ]] || say "waiting for another program that is installing packages"
        announced=yes
        sleep 3
    done
}

# Prints the packages that the package manager could not find.
unknown() {
    sed -n "s/^E: Unable to locate package //p; s/^E: Package '\(.*\)' has no installation candidate$/\1/p
        s/^No match for argument: //p" "$log" | sort -u | tr '\n' ' '
}

explain_failure() {
    local code=20 reason="$manager failed" help="" archive
    if locked; then
        reason="another program has held the package manager's lock for $lock_wait seconds"
    elif grep -qE 'Temporary failure|Could not (resolve|connect)|Connection (failed|timed)|unreachable|Curl error' "$log"; then
        code=30 reason="the package servers cannot be reached"
    elif grep -qE 'Unable to locate|no installation candidate|No match for argument' "$log"; then
        reason="$release does not have $(unknown)(Debian 12 with security updates and Fedora 43 have all packages)"
        # A system made by debootstrap has only the main suite, without updates.
        if [[ $release == *bookworm* && $(unknown) == *-22\ * ]]; then
            # Mirrors have the security suite beside the main one, with this name.
            archive=$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)
            code=40 help="add Debian's security updates, which have LLVM 22; as root: echo 'deb ${archive%/}-security bookworm-security main' > /etc/apt/sources.list.d/security.list"
        fi
    fi
    say "error: cannot install packages: $reason"
    tail -n 15 "$log" | sed 's/^/    /' >&2
    [[ -z $help ]] || say "help: $help"
    say "help: read $log, fix the cause, and run the same command again"
    exit "$code"
}

case $* in
    build) lists=(build) ;;
    static) lists=(build static) ;;
    quickstart) lists=(build quickstart) ;;
    test) lists=(build quickstart test) ;;
    kernels) lists=(build quickstart kernels) ;;
    copr) lists=(build quickstart test copr) ;;
    *) fail 2 "usage: tools/setup.sh build|static|quickstart|test|kernels|copr" ;;
esac
check_rust "$1"

# A Debian machine may also have dnf, and a Fedora machine apt-get.
# shellcheck source=/dev/null
IFS='|' read -r release family < <(. /etc/os-release && echo "$PRETTY_NAME| $ID ${ID_LIKE-} ")
if [[ $family != *" fedora "* ]] && command -v apt-get >/dev/null; then
    manager=apt-get install=(apt-get install -y --no-install-recommends)
elif command -v dnf >/dev/null; then
    manager=dnf install=(dnf install -y --setopt=install_weak_deps=False)
else
    manager=
fi
wanted=()
while IFS='|' read -r list _ debian fedora; do
    [[ " ${lists[*]} " == *" ${list%% *} "* ]] || continue
    if [[ $manager == apt-get ]]; then row=$debian; else row=$fedora; fi
    read -r -a names <<<"$row"
    wanted+=("${names[@]}")
done < <(packages)
[[ -n $manager ]] || fail 40 "$release has neither apt-get nor dnf" \
    "install the equivalents of these Fedora packages, then use cargo instead of make: ${wanted[*]}"
mapfile -t absent < <(missing "${wanted[@]}")
[[ ${#absent[@]} != 0 ]] || exit 0

as_root=()
if ((EUID != 0)); then
    as_root=(sudo -p '[sudo] password for %p, to install packages: ')
    [[ -t 0 ]] || as_root+=(-n)
    if ! command -v sudo >/dev/null || ! "${as_root[@]}" true; then
        fail 40 "packages are missing, and installing them requires root" \
            "as root, run: ${install[*]} ${absent[*]}"
    fi
fi
# sudo passes on hardly any variables.
environment=(LC_ALL=C DEBIAN_FRONTEND=noninteractive)
for name in http_proxy https_proxy no_proxy; do
    [[ -z ${!name-} ]] || environment+=("$name=${!name}")
done

(mkdir -p build && : >"$log") 2>/dev/null ||
    fail 20 "cannot write $log" "if build/ belongs to another user, such as root, change its owner: sudo chown -R \"\$USER\" build"
say "installing with $manager: ${absent[*]}"
# Ignore a failing update, as of a broken third-party repository: the installation decides.
[[ $manager != apt-get ]] || run apt-get update || true
run "${install[@]}" "${absent[@]}" || explain_failure
