#!/usr/bin/env bash
# peers.sh — programs that know nothing of heed, against heed serve: LibreTranslate's own tests of
# its API, libretranslatepy, deep-translator, and requests as Mastodon, Discourse and others make
# them. `make test-serve` runs it. They are fetched from PyPI into a temporary folder, and never
# kept; without a network this says so, and ends with 77.
# shellcheck source=tests/train.sh
export TEST_DIR=${TEST_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/heed-peers.XXXXXX")}
trap 'rm -rf "$TEST_DIR"' EXIT
. "$(dirname "$0")/../train.sh"
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
command -v python3 >/dev/null || skip 'no python3 here'
fetch() {
    python3 -m pip download -q --no-deps --dest wheel libretranslate==1.9.6 &&
        python3 -m pip install -q --target lib pytest libretranslatepy deep-translator
}
if ! fetch 2>pip.log; then
    skip "PyPI cannot be reached, nothing was tested: $(tail -n 1 pip.log)"
fi
train run --steps 300 --save-every 300 --max-len 64 --quiet || fail 'no model to serve'

# Its tests talk to an application in their own process; ours is behind a socket. test_init is about
# installing models, and no API.
mkdir -p peers
python3 -m zipfile -e wheel/*.whl unpacked
cp unpacked/libretranslate/tests/test_api/test_*.py peers
cp "$tree/tests/serve/conftest.py" peers
export PYTHONPATH=lib:$tree/tests/serve HEED=$heed MODEL=run
python3 -m pytest -q -p no:cacheprovider -o addopts='' peers >pytest.log 2>&1 ||
    fail "LibreTranslate's tests: $(tail -n 40 pytest.log)"
tail -n 1 pytest.log
python3 "$tree/tests/serve/peers.py" "$heed" run || fail 'clients'
note 'LibreTranslate, libretranslatepy, deep-translator, Mastodon, Discourse and others: served'
