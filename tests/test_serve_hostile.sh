#!/usr/bin/env bash
# test_serve_hostile.sh — clients that mean harm to heed serve, or know no better: twenty kinds of
# them (tests/serve/hostile.py), and a server that afterwards is as it was before.
# timeout: 300
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
command -v python3 >/dev/null || skip 'no python3 here'
train run --steps 20 --save-every 20 --max-len 64 --quiet || fail 'no model to serve'
scale=1
if sanitized; then scale=10; fi
python3 "$tree/tests/serve/hostile.py" "$heed" run $scale || fail "$(tail -n 25 serve.log)"
