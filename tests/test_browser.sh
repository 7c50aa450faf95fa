#!/usr/bin/env bash
# The page in a real Chromium (tests/browser/page.py); `tools/deps.sh browser` installs what it
# needs.
# timeout: 150
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow "the page is the same in sanitizer builds"

for command in chromium chromedriver; do
    command -v $command >/dev/null || skip "NO BROWSER TEST: no $command (tools/deps.sh browser)"
done
for python in python3 /usr/bin/python3; do
    if $python -c 'import selenium' 2>/dev/null; then break; fi
    [ $python != /usr/bin/python3 ] || skip "NO BROWSER TEST: no selenium (tools/deps.sh browser)"
done

$python "$tree/tests/browser/page.py"
train run --steps 400 --save-every 400 --max-len 64 --quiet || fail 'no model to serve'
$python "$tree/tests/browser/page.py" "$heed" run
