#!/usr/bin/env bash
# cluster.sh — ranks on four machines, or what looks like them (machines.sh). `make test-cluster`
# runs it. What one machine can show is in test_ranks.sh, test_watch.sh and test_train_ranks.sh.
#
#     tests/cluster.sh [STEP...]     those of step_STEP below; all if not given
set -euo pipefail
here=$(realpath "$(dirname "$0")")
TEST_DIR=$(mktemp -d "${TMPDIR:-/var/tmp}/heed-cluster.XXXXXX")
export TEST_DIR
trap 'rm -rf "$TEST_DIR"' EXIT
# shellcheck source=tests/train.sh
. "$here/train.sh"
# shellcheck source=tests/ranks.sh
. "$here/ranks.sh"
# shellcheck source=tests/machines.sh
. "$here/machines.sh"
[ $# -gt 0 ] || set -- talk same resume kill stop cut orted full refuse
trap 'umount "$dir/small" 2>/dev/null || true; tear_down' EXIT

# ---- what ranks say ------------------------------------------------------------------------------

step_talk() {
    local test
    spread 4 uname -n >"$dir/names"
    [ "$(sort "$dir/names" | xargs)" = 'h0 h1 h2 h3' ] || fail "ranks are on $(xargs <"$dir/names")"
    for test in host device counts; do
        spread 4 "$build/tests/test_ranks" $test >"$dir/log" 2>&1 || fail "$(cat "$dir/log")"
        [ "$(grep -c 'PASSED.* 1 test' "$dir/log")" = 4 ] || fail "$test: $(cat "$dir/log")"
    done
    spread 4 "$heed" bench comm --largest 8 >"$dir/bench" || fail 'bench comm'
    sed 's/^/    /' "$dir/bench"
    grep -q '^mpi, 4 ranks, 1 on this machine, groups of 1' "$dir/bench" || fail 'other machines'
}

# ---- training ------------------------------------------------------------------------------------

run=("${data[@]}" "${small[@]}" --cache cache --tokens 150 --accumulate 8 --steps 50 --log-every 10
    --valid-every 20 --save-every 10 --keep 99 --clip 0.5 --dropout 0.2)

# by N OUT OPTION... — a run of N ranks on the four machines
by() {
    local n=$1 out=$2
    shift 2
    spread "$n" "$heed" train "${run[@]}" --out "$out" "$@" >"$out.log" 2>&1
}
# compare ONE MANY — every checkpoint and the log are the same
compare() {
    [ "$(steps "$2")" = "$(steps "$1")" ] || fail "$2: steps $(steps "$2")"
    for c in "$1"/ckpt-????????; do
        same "$c/model.safetensors" "$2/${c##*/}/model.safetensors"
    done
    same "$1/model.safetensors" "$2/model.safetensors"
    same_states "$(newest "$1")" "$(newest "$2")"
    diff <(log_lines "$1/log.jsonl") <(log_lines "$2/log.jsonl") || fail "the log of $2"
}

step_same() {
    "$heed" train "${run[@]}" --out alone --quiet || fail 'one process'
    for n in 1 2 4 8; do
        by $n "same$n" || fail "$n ranks: $(cat "same$n.log")"
        compare alone "same$n"
    done
}

# later RUN STEP — a checkpoint after that step is there, within two minutes
later() {
    for _ in {1..1200}; do
        [ "$(steps "$1" | awk '{ print $NF + 0 }')" -le "$2" ] || return 0
        sleep 0.1
    done
    fail "$1: nothing after step $2: $(cat "$1.log")"
}
# pid_of RANK RUN — its process
pid_of() {
    rank_pid "$1" "--out $2" | grep . || fail "$2: no rank $1: $(cat "$2.log")" >&2
}
# begin N RUN OPTION... — in the background, until it has saved something
begin() {
    local n=$1 out=$2 step
    shift 2
    step=$(steps "$out" | awk '{ print $NF + 0 }')
    by "$n" "$out" "$@" &
    launcher=$!
    later "$out" "$step"
}
# kill_one N RUN RANK OPTION... — N ranks go on until that one is killed
kill_one() {
    begin "$1" "$2" "${@:4}"
    kill -9 "$(pid_of "$3" "$2")"
    if wait $launcher; then fail 'a rank was killed, and all went well'; fi
    gone "--out $2"
}

step_resume() {
    local more=(--steps 400)
    "$heed" train "${run[@]}" "${more[@]}" --out straight --quiet || fail 'one process'
    kill_one 4 resumed 3 "${more[@]}"
    kill_one 2 resumed 0 "${more[@]}"
    by 8 resumed "${more[@]}" || fail "8 ranks go on: $(cat resumed.log)"
    compare straight resumed
}

# ---- faults --------------------------------------------------------------------------------------

# lost RUN SECONDS TEXT — all end, in about so many seconds, with one line about it
lost() {
    local rc=0 began=$SECONDS took
    wait $launcher || rc=$?
    took=$((SECONDS - began))
    [ $rc != 0 ] || fail "$1: exit 0"
    gone "--out $1"
    grep -qE "^heed: $3" "$1.log" || fail "$1: no '$3': $(cat "$1.log")"
    [ "$(grep -c '^heed: rank' "$1.log")" = 1 ] || fail "$1: not one line: $(cat "$1.log")"
    note "$1: all ended $took s later with $rc: $(grep '^heed: rank' "$1.log")"
    [ $took -le $(($2 * 10)) ] || fail "$1: that is far from $2 s"
}
long=(--steps 100000 --save-every 10 --keep 2)

step_kill() {
    begin 4 killed "${long[@]}"
    local victim
    victim=$(pid_of 2 killed)
    kill -9 "$victim"
    lost killed 5 "rank 2 on h2 \\(pid $victim\\) is gone"
}

step_stop() {
    begin 4 stopped "${long[@]}"
    local victim
    victim=$(pid_of 1 stopped)
    kill -STOP "$victim"
    lost stopped 15 "rank 1 on h1 \\(pid $victim\\) is silent since step [0-9]+"
}

step_cut() {
    begin 4 cut "${long[@]}"
    local victim
    victim=$(pid_of 3 cut)
    ip link set "heed$$-3" down
    lost cut 15 "rank 3 on h3 \\(pid $victim\\) is silent since step [0-9]+"
    ip link set "heed$$-3" up
}

# mpirun's own process on a machine: that it says so itself is all that can be asked for.
step_orted() {
    local victim rc=0 began
    begin 4 orted "${long[@]}"
    victim=$(pid_of 1 orted)
    began=$SECONDS
    kill -9 "$(awk '{ print $4 }' "/proc/$victim/stat")" # its parent
    wait $launcher || rc=$?
    [ $rc != 0 ] || fail 'orted: exit 0'
    gone '--out orted'
    note "orted: all ended $((SECONDS - began)) s later with $rc"
}

step_full() {
    local rc=0
    mkdir -p small
    mount -t tmpfs -o size=300k tmpfs small
    by 4 small/run || rc=$?
    [ $rc = 1 ] || fail "a full disk: exit $rc: $(cat small/run.log)"
    gone '--out small/run'
    [ "$(grep -c '^heed:' small/run.log)" = 1 ] || fail "not once: $(cat small/run.log)"
    note "a full disk: exit 1: $(grep '^heed:' small/run.log)"
    umount small
}

# Ranks that differ are refused, and one of them says why.
step_refuse() {
    # refused TEXT WORDS — what the rank on h3 makes of its words
    refused() {
        local rc=0
        {
            echo '#!/bin/bash'
            echo "if [ \"\$(uname -n)\" = h3 ]; then set -- $2; fi"
            echo 'exec "$@"'
        } >odd.sh
        chmod +x odd.sh
        spread 4 "$dir/odd.sh" "$heed" train "${run[@]}" --out refused >refused.log 2>&1 || rc=$?
        [ $rc = 2 ] || fail "$2: exit $rc: $(cat refused.log)"
        grep -qE "^heed: rank 3 .*$1" refused.log || fail "$2: $(cat refused.log)"
        [ "$(grep -c '^heed:' refused.log)" = 1 ] || fail "not once: $(cat refused.log)"
        note "$(grep '^heed:' refused.log)"
    }
    sed 's/a/e/' t.src >other.src
    # shellcheck disable=SC2016 # for the script
    refused 'another training data' '"${@/#t.src/other.src}"'
    # shellcheck disable=SC2016
    refused 'another processor or device' '"$@" --isa generic'
    # shellcheck disable=SC2016
    refused 'another training options' '"$@" --warmup 51'
}

set_up
for step in "$@"; do
    began=$SECONDS
    "step_$step"
    note "$step: passed after $((SECONDS - began)) s"
done
