#!/usr/bin/env bash
# Runs a command with its temporary files in memory: in-memory.sh COMMAND...
# Tests create and remove many small files, which takes a third of their processor time on a disk.
# Uses the usual folder if less than 12 GB of memory are available, or programs in /dev/shm cannot run.
set -euo pipefail

available=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
folder=$(mktemp -d /dev/shm/rocmrpm-tests.XXXXXX 2>/dev/null || mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Some tests run rpmbuild as another user, which reads all folders of its path.
chmod 755 "$folder"
printf '#!/bin/sh\n' > "$folder/program"
chmod +x "$folder/program"
if [ "$available" -ge 12000000 ] && "$folder/program" 2>/dev/null; then
    export TMPDIR=$folder
fi
rm "$folder/program"
"$@"
