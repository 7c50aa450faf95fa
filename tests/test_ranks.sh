#!/usr/bin/env bash
# test_ranks.sh — runs test_ranks.c as several processes that talk through MPI, and sees to it that
# none is left when one ends early.
# timeout: 240
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
# shellcheck source=tests/ranks.sh
. "$(dirname "$0")/ranks.sh"
program=$build/tests/test_ranks

for n in 1 2 3 4; do
    for test in host device counts; do
        ranks $n "$program" $test >"$dir/log" 2>&1 || fail "$n, $test: $(cat "$dir/log")"
        passed=$(grep -c 'PASSED.* 1 test' "$dir/log")
        [ "$passed" = $n ] || fail "$passed of $n passed $test: $(cat "$dir/log")"
    done
done

# ends HOW CODE — the launcher ends with that status, and no rank outlives it
ends() {
    local rc=0
    TEST_ENDS=$1 ranks 3 "$program" ends >"$dir/log" 2>&1 || rc=$?
    [ $rc = "$2" ] || fail "$1: exit $rc instead of $2: $(cat "$dir/log")"
    gone "$program ends"
}
ends exit 3
ends abort 75
