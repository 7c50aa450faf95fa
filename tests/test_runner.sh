#!/usr/bin/env bash
# test_runner.sh — proves that the runner can fail: it must see a failing, a crashing, a hanging and
# an empty program, count them, say so in its last line and in its exit status.
# timeout: 60
set -uo pipefail
unset TEST_SCALE
cd "$(dirname "$0")/.." || exit 1
fixtures=${BUILD:-build}/tests

# expect STATUS LAST-LINE PROGRAM... ; the output is left in $out
expect() {
    local want_status=$1 want_line=$2 status
    shift 2
    out=$(tests/run.sh "$@" 2>&1)
    status=$?
    if [ "$status" -ne "$want_status" ] || [ "$(tail -n 1 <<<"$out")" != "$want_line" ]; then
        printf 'run.sh %s: status %s, want %s; last line want "%s"; output:\n%s\n' \
            "$*" "$status" "$want_status" "$want_line" "$out"
        exit 1
    fi
}

# said TEXT — the last output contains it
said() {
    case $out in
    *"$1"*) ;;
    *) printf 'output lacks "%s":\n%s\n' "$1" "$out" && exit 1 ;;
    esac
}

expect 0 "2 passed, 0 failed, 1 skipped" "$fixtures/selftest_pass"
expect 0 "1 passed, 0 failed" -k passes "$fixtures/selftest_pass"
expect 1 "0 passed, 1 failed" -k no-such-test "$fixtures/selftest_pass"
expect 0 "1 passed, 0 failed, 1 skipped" -x 'passes|nothing' "$fixtures/selftest_pass"
expect 1 "0 passed, 1 failed" "$fixtures/selftest_empty"
said "FAILED selftest_empty: lists no tests"
expect 1 "0 passed, 1 failed" "$fixtures/selftest_broken"
expect 1 "0 passed, 1 failed" "$fixtures/no-such-program"
expect 1 "0 passed, 1 failed"
expect 1 "3 passed, 8 failed, 1 skipped" -j 3 "$fixtures"/selftest_{pass,fail,empty,broken}
said "FAILED selftest_fail:fails: exit status 1"
said "error: Failure!"
said "FAILED selftest_fail:fails_near"
said "FAILED selftest_fail:crashes"
said "FAILED selftest_fail:aborts: killed by signal 6"
said "FAILED selftest_fail:leaves: exit status 3"
said "FAILED selftest_fail:hangs: timed out after 1 s"
said "FAILED selftest_broken: cannot list its tests"
said "selftest_pass:skips: always, argument 1"
script=$(mktemp --suffix=.sh)
trap 'rm -f "$script"' EXIT
printf '#!/bin/sh\nexit 77\n' >"$script"
chmod +x "$script"
expect 1 "0 passed, 1 failed" "$script"
said "skipped without a word why"
