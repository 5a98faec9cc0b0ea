#!/usr/bin/env bash
# Writes the seeds of every fuzz target to fuzz/corpus. The texts are in fuzz/seeds; a test in
# crates/rocm-inspect/src/hostile.rs makes the binary files, which are not in the repository.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p corpus
cp -r seeds/. corpus
ROCMRPM_FUZZ_SEEDS="$PWD/corpus" cargo test --quiet --manifest-path ../Cargo.toml \
    --package rocm-inspect --lib hostile::reads_undamaged_files
for target in ccob elf kpack rpm wheel; do
    if [ -z "$(find "corpus/$target" -type f -print -quit 2> /dev/null)" ]; then
        echo "error: the test hostile::reads_undamaged_files wrote no seed for $target" >&2
        exit 1
    fi
done
mkdir -p corpus/search_path
cp corpus/elf/* corpus/search_path
# Logs of real failures, each with its known cause.
for log in ../tests/failures/*.log; do
    { printf 0; tail -c 4000 "$log"; } > "corpus/log/$(basename "$log")"
done
