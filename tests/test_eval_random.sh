#!/bin/bash
# test_eval_random.sh — `heed eval` beside sacreBLEU on random texts (tests/eval_compare.py), where
# it is installed.
# timeout: 120
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
python3 -c 'import sacrebleu, sys; sys.exit(sacrebleu.__version__ != "2.6.0")' 2>/dev/null ||
    skip 'sacreBLEU 2.6.0 is not installed (pip install sacrebleu==2.6.0)'
python3 "$tree/tests/eval_compare.py" "$heed" "$dir" 8 "${EVAL_SEED:-1}"
