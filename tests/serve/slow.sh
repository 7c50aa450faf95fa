#!/usr/bin/env bash
# slow.sh — heed serve under slowhttptest: heads, bodies and readers that are slow on purpose
# (tests/serve/slow.py). `make test-slow` runs it.
# shellcheck source=tests/train.sh
export TEST_DIR=${TEST_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/heed-slow.XXXXXX")}
trap 'rm -rf "$TEST_DIR"' EXIT
. "$(dirname "$0")/../train.sh"
command -v slowhttptest >/dev/null || skip 'no slowhttptest here'
train run --steps 20 --save-every 20 --max-len 64 --quiet || fail 'no model to serve'
python3 "$tree/tests/serve/slow.py" "$heed" run "${SECONDS_EACH:-15}" ||
    fail "$(tail -n 5 serve.log)"
