#!/usr/bin/env bash
# Packs the static program as a release for x86_64, which tools/install.sh installs: an archive and
# SHA256SUMS in target/dist. Run by `make dist`. The same program gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-musl
version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=rocmrpm-$version
programs=target/$target/release
dist=target/dist

rm -rf "$dist"
install -D -t "$dist/$name/bin" "$programs/rocmrpm" "$programs/rocm-inspect"
install -m 644 -t "$dist/$name" LICENSE-APACHE LICENSE-MIT README.md
make --no-print-directory install-pages ROCMRPM="$programs/rocmrpm" PREFIX="$PWD/$dist/$name"

tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" \
    -C "$dist" "$name" | gzip --no-name --best >"$dist/$name-x86_64-linux.tar.gz"
rm -r "${dist:?}/$name"
(cd "$dist" && sha256sum -- *.tar.gz >SHA256SUMS && cat SHA256SUMS)
