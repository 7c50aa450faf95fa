#!/usr/bin/env bash
# The page in a real Chromium (tests/browser/page.py); `tools/deps.sh browser` installs what it
# needs.
# timeout: 150
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
slow "the page is the same in sanitizer builds"

for command in chromium chromedriver; do
    command -v $command >/dev/null || skip "NO BROWSER TEST: no $command (tools/deps.sh browser)"
done
for python in python3 /usr/bin/python3; do
    if $python -c 'import selenium' 2>/dev/null; then break; fi
    [ $python != /usr/bin/python3 ] || skip "NO BROWSER TEST: no selenium (tools/deps.sh browser)"
done

$python "$tree/tests/browser/page.py"
