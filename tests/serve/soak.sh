#!/usr/bin/env bash
# soak.sh [SECONDS [CLIENTS]] — tests/serve/soak.py with a model that is trained for it. `make soak`
# runs it for ten minutes with 200 clients.
# shellcheck source=tests/train.sh
seconds=${1:-600} clients=${2:-200}
export TEST_DIR=${TEST_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/heed-soak.XXXXXX")}
trap 'rm -rf "$TEST_DIR"' EXIT
. "$(dirname "$0")/../train.sh"
train run --steps 300 --save-every 300 --max-len 64 --quiet || fail 'no model to serve'
python3 "$tree/tests/serve/soak.py" "$heed" run "$seconds" "$clients" ||
    fail "$(tail -n 5 serve.log)"
