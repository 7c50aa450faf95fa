#!/bin/bash
# test_eval_random.sh — `heed eval` beside sacreBLEU on random texts (tests/eval_compare.py), where it is installed.
# timeout: 120
set -eu
heed=${BUILD:-build}/heed
python3 -c 'import sacrebleu, sys; sys.exit(sacrebleu.__version__ != "2.6.0")' 2>/dev/null ||
    { echo 'skipped: sacreBLEU 2.6.0 is not installed (pip install sacrebleu==2.6.0)' && exit 77; }
python3 "$(dirname "$0")/eval_compare.py" "$heed" "${TEST_DIR:-$(mktemp -d)}" 8 "${EVAL_SEED:-1}"
