#!/usr/bin/env bash
# Writes the seeds of every fuzz target into fuzz/corpus: the files that the tests of
# src/inspect/hostile.rs are made with. Nothing binary is kept in the repository.
set -euo pipefail
cd "$(dirname "$0")"
ROCMRPM_FUZZ_SEEDS="$PWD/corpus" cargo test --quiet --manifest-path ../Cargo.toml --lib \
    inspect::hostile::whole_files_are_read_without_damage
for folder in corpus/*/; do
    echo "$folder: $(find "$folder" -type f | wc -l) files"
done
