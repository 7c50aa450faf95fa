#!/usr/bin/env bash
# test_emulated.sh — the GPU's kernels, compiled for the CPU: what they compute, and whether they
# wait for each other. emulated/README.md says how; `make test-emulated` has what takes longer.
# timeout: 400
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${TEST_SLOW:-1}" = 0 ]; then
    echo 'skipped: kernels on fibers tell a sanitizer nothing' && exit 77
fi
TEST_SCALE='' tests/emulated.sh "${BUILD:-build}"
