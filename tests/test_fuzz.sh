#!/usr/bin/env bash
# test_fuzz.sh — every fuzz program for a few seconds: on its seeds, and on what it makes of them.
# `make test` builds them first where clang and its fuzzer are there; `make fuzz` runs them for
# longer.
# timeout: 240
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
cd "$tree"
slow 'the fuzz programs have sanitizers of their own'
folder=$build/fuzz/tests/fuzz
[ -d "$folder" ] || skip 'no fuzz programs: clang and its fuzzer are not here'
programs=()
for source in tests/fuzz/fuzz_*.c; do programs+=("$folder/$(basename "$source" .c)"); done
# Always the same inputs, however fast the machine is: a change is judged by what it changed, and
# luck is for `make fuzz`.
FUZZ_SEED=1 FUZZ_RUNS=10000 tests/fuzz/run.sh 8 "$dir" "${programs[@]}"
