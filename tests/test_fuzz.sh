#!/usr/bin/env bash
# test_fuzz.sh — every fuzz program for a few seconds: on its seeds, and on what it makes of them.
# `make test` builds them first where clang and its fuzzer are there; `make fuzz` runs them for longer.
# timeout: 240
set -eu
cd "$(dirname "$0")/.."
[ "${TEST_SLOW:-1}" != 0 ] || exit 77 # has sanitizers of its own
folder=${BUILD:-build}/fuzz/tests/fuzz
[ -d "$folder" ] || { echo "no fuzz programs: clang is not here" && exit 77; }
programs=()
for source in tests/fuzz/fuzz_*.c; do programs+=("$folder/$(basename "$source" .c)"); done
# Always the same sequence: a change is judged by what it changed, and luck is for `make fuzz`.
FUZZ_SEED=1 tests/fuzz/run.sh 3 "${TEST_DIR:-$(mktemp -d)}" "${programs[@]}"
