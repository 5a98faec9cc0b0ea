#!/usr/bin/env bash
# Writes the seeds of every fuzz target to fuzz/corpus. The texts are in fuzz/seeds; a test in
# crates/rocm-inspect/src/hostile.rs makes the binary files, which are not in the repository.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p corpus
cp -r seeds/. corpus
ROCMRPM_FUZZ_SEEDS="$PWD/corpus" cargo test --quiet --manifest-path ../Cargo.toml \
    --package rocm-inspect --lib hostile::reads_undamaged_files
mkdir -p corpus/search_path
cp corpus/elf/* corpus/search_path
# Logs of real failures, each with its known cause.
for log in ../tests/failures/*.log; do
    { printf 0; tail -c 4000 "$log"; } > "corpus/log/$(basename "$log")"
done
