#!/usr/bin/env bash
# Runs fuzz targets one after another: run.sh SECONDS [TARGET...]  [default: all targets]
# Stops at the first crash, at an input that takes more than 5 s, or at 2 GB of memory.
set -euo pipefail
cd "$(dirname "$0")"
seconds=$1
shift
targets=${*:-$(basename --suffix=.rs --multiple fuzz_targets/*.rs)}

if ! cargo +nightly fuzz --version > /dev/null 2>&1; then
    echo "error: cargo-fuzz or the nightly toolchain is not installed" >&2
    echo "help: rustup toolchain install nightly && cargo install cargo-fuzz --locked" >&2
    exit 1
fi
./seeds.sh
for target in $targets; do
    case $target in
        # The RPM crate reserves as much as a header states, up to 4 GB, without touching it.
        rpm) limits="-max_len=65536 -malloc_limit_mb=8192" ;;
        elf | ccob | kpack | search_path | wheel) limits="-max_len=65536" ;;
        *) limits="-max_len=4096" ;;
    esac
    # The parsers are safe Rust: without a sanitizer they run several times faster. Tracing every
    # comparison takes 40 % of the time; the seeds have the words that it would find.
    # shellcheck disable=SC2086
    cargo +nightly fuzz run --sanitizer none --no-trace-compares --fuzz-dir . "$target" -- \
        -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 $limits
    if [ "$(find "corpus/$target" -type f | wc -l)" -gt 2000 ]; then
        cargo +nightly fuzz cmin --sanitizer none --no-trace-compares --fuzz-dir . "$target"
    fi
done
