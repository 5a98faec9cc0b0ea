#!/usr/bin/env bash
# Installs rocmrpm for the GitHub Action (action.yml), and adds it to the PATH of later steps.
# Exits as rocmrpm does: 2 usage, 20 this machine, 30 network or another digest, 40 a missing tool.
#
#   ROCMRPM_FROM        release or cargo
#   ROCMRPM_VERSION     the release [default: the version of this folder]
#   ROCMRPM_SHA256      the digest of its archive [default: the one in its SHA256SUMS]
#   ROCMRPM_REPOSITORY  OWNER/NAME on the forge
#   ROCMRPM_RELEASES    the URL that has a folder per release [default: the forge's]
set -euo pipefail

# fail CODE MESSAGE HELP
fail() {
    printf 'error: %s\nhelp: %s\n' "$2" "$3" >&2
    [[ -z ${GITHUB_ACTIONS-} ]] || echo "::error title=rocmrpm::$2%0Ahelp: $3"
    exit "$1"
}

here=$(cd "$(dirname "$0")/.." && pwd)
own=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' "$here/Cargo.toml")
version=${ROCMRPM_VERSION:-$own}
forge=${GITHUB_SERVER_URL:-https://github.com}/${ROCMRPM_REPOSITORY-}
to=${RUNNER_TEMP:?}/rocmrpm-$version
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+[a-z0-9.-]*$ ]] ||
    fail 2 "\`$version\` is not a version of rocmrpm" "set the input \`version\` to a release such as $own"

from_release() {
    local name=rocmrpm-$version-x86_64-linux.tar.gz
    local url=${ROCMRPM_RELEASES:-$forge/releases/download}/v$version expected found file
    [[ $(uname -sm) == "Linux x86_64" ]] ||
        fail 20 "releases are for Linux on x86_64, and this is $(uname -sm)" "set the input \`from\` to \`cargo\`"
    # Not local: the trap runs after the function.
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    for file in "$name" SHA256SUMS; do
        [[ $file != SHA256SUMS || -z ${ROCMRPM_SHA256-} ]] || continue
        curl --fail --silent --show-error --location --proto =https,file --retry 3 \
            --output "$folder/$file" "$url/$file" ||
            fail 30 "cannot fetch $url/$file" "check that $version is a release, or set \`from\` to \`cargo\`"
    done
    expected=${ROCMRPM_SHA256-}
    [[ -n $expected ]] || expected=$(awk -v name="$name" '$2 == name { print $1 }' "$folder/SHA256SUMS")
    found=$(sha256sum "$folder/$name")
    found=${found%% *}
    [[ $found == "$expected" ]] ||
        fail 30 "$url/$name has sha256 $found, not ${expected:-in SHA256SUMS}" "do not use this archive; report it"
    mkdir -p "$to"
    tar -xzf "$folder/$name" -C "$to" --strip-components=1
}

from_cargo() {
    command -v cargo > /dev/null || fail 40 "cargo is not installed" "add a step that installs Rust"
    if [[ $version == "$own" ]]; then
        cargo install --locked --root "$to" --path "$here"
    else
        cargo install --locked --root "$to" --git "$forge" --tag "v$version" rocmrpm
    fi
}

case ${ROCMRPM_FROM-} in
    release) from_release ;;
    cargo) from_cargo ;;
    *) fail 2 "the input \`from\` is \`${ROCMRPM_FROM-}\`" "set it to \`release\`, \`cargo\`, or \`path\`" ;;
esac
"$to/bin/rocmrpm" --version
echo "$to/bin" >> "$GITHUB_PATH"
