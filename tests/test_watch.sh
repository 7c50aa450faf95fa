#!/usr/bin/env bash
# test_watch.sh — kills, stops and hangs a rank of test_watch.c: all end with 75, nobody is left,
# and one line says who it was.
# timeout: 300
# shellcheck source=tests/shell.sh
. "$(dirname "$0")/shell.sh"
# shellcheck source=tests/ranks.sh
. "$(dirname "$0")/ranks.sh"
program=$build/tests/test_watch
export TEST_DIR=$dir
# start HOW — three ranks in the background
start() {
    rm -f "$dir"/rank.* && : >"$dir/log"
    TEST_WATCH=$1 ranks 3 "$program" together >"$dir/log" 2>&1 &
    launcher=$!
}
# pid RANK — of a rank, once all work
pid() {
    for _ in {1..600}; do
        if [ -e "$dir/rank.0" ] && [ -e "$dir/rank.1" ] && [ -e "$dir/rank.2" ]; then
            cat "$dir/rank.$1" && return
        fi
        sleep 0.1
    done
    fail "the ranks did not begin: $(cat "$dir/log")"
}
# ended CODES TEXT N — all are gone; N lines say so, with this text
ended() {
    local rc=0 began=$SECONDS
    wait "$launcher" || rc=$?
    note "all ended after $((SECONDS - began)) s with $rc: $(grep LOST "$dir/log" || true)"
    case " $1 " in *" $rc "*) ;; *) fail "exit $rc, not $1: $(cat "$dir/log")" ;; esac
    [ $((SECONDS - began)) -lt 120 ] || fail "it took $((SECONDS - began)) s"
    gone "$program together"
    # shellcheck disable=SC2254 # a pattern
    case $(grep -c LOST "$dir/log") in $3) ;; *) fail "not $3 lines: $(cat "$dir/log")" ;; esac
    grep -qE "$2" "$dir/log" || fail "no '$2': $(cat "$dir/log")"
}

for how in end disk; do
    start $how
    wait "$launcher" || fail "$how, an orderly end: $(cat "$dir/log")"
    absent LOST "$dir/log"
    [ "$(grep -c 'PASSED.* 1 test' "$dir/log")" = 3 ] || fail "$how: $(cat "$dir/log")"
done

# mpirun may see the signal (137) before a rank ends with 75.
start go
who=$(pid 2)
kill -9 "$who"
ended '75 137' "LOST by 0: rank 2 on $(uname -n) \(pid $who\) is gone, .*step [0-9]+, " 1

start go
who=$(pid 1)
kill -STOP "$who"
ended 75 "LOST by 0: rank 1 on $(uname -n) \(pid $who\) is silent since step [0-9]+, " 1

# The others find out by themselves.
start go
who=$(pid 0)
kill -STOP "$who"
ended 75 "LOST by [12]: rank 0 on $(uname -n) \(pid $who\) is silent since" '[12]'
absent 'rank [12] ' "$dir/log" 'who was stopped himself accuses others'

start hang
ended 75 "LOST by 0: rank 2 .* is stuck in step 5, forward and backward, for [0-9]+ s" 1

rc=0
start fail
wait "$launcher" || rc=$?
[ $rc = 1 ] || fail "a rank that failed: $rc: $(cat "$dir/log")"
absent LOST "$dir/log"
gone "$program together"
