#!/usr/bin/env bash
# test_serve.sh — heed serve, live: the whole contract (tests/serve/contract.py), and running it
# (operations.py).
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
command -v python3 >/dev/null || skip 'no python3 here'
train run --steps 20 --save-every 20 --max-len 64 --quiet || fail 'no model to serve'
python3 "$tree/tests/serve/contract.py" "$heed" run || fail "$(tail -n 5 serve.log)"
python3 "$tree/tests/serve/operations.py" "$heed" run || fail "$(tail -n 5 serve.log)"
