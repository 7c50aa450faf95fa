#!/usr/bin/env bash
# cluster.sh — ranks on four machines, or what looks like them (machines.sh). `make test-cluster`
# runs it. What one machine can show is in test_ranks.sh, test_watch.sh and test_train_ranks.sh.
#
#     tests/cluster.sh [STEP...]     those of step_STEP below; all if not given
#
# The last steps, slurm_*, want Slurm as well (cluster_slurm.sh) and are left out where it is
# missing. What was broken, and what became of it, is a table at the end.
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
# shellcheck source=tests/cluster_slurm.sh
. "$here/cluster_slurm.sh"
[ $# -gt 0 ] || set -- talk same resume kill restart stop cut orted full refuse \
    slurm_same slurm_resume slurm_faults slurm_orders
trap 'umount "$dir/small" 2>/dev/null || true; tear_down' EXIT

# skipped WHAT — left out, and said at the end again
skips=()
skipped() {
    skips+=("$*")
    note "SKIPPED $*"
}

# row FAULT EXIT SECONDS TEXT — of the table
table=()
row() {
    local line
    printf -v line '%-31s %4s %6s  %s' "$@"
    table+=("$line")
    note "$line"
}

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

# by N OUT OPTION... — a run of N ranks, started by $start
start=spread
by() {
    local n=$1 out=$2
    shift 2
    $start "$n" "$heed" train "${run[@]}" --out "$out" "$@" >"$out.log" 2>&1
}
# alone OUT OPTION... — the same by one process, unless it is there
alone() {
    local out=$1
    shift
    [ -d "$out" ] || "$heed" train "${run[@]}" --out "$out" "$@" --quiet || fail 'one process'
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

# same_as OUT OPTION... — of a process alone
same_as() {
    local one=$1
    shift
    alone "$one" "$@"
    for n in 1 2 4 8; do
        by $n "$one$n" "$@" || fail "$n ranks: $(cat "$one$n.log")"
        compare "$one" "$one$n"
    done
}
step_same() {
    same_as alone
    same_as bf16 --dtype bf16
    differ alone/model.safetensors bf16/model.safetensors
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
    if wait "$launcher"; then fail 'a rank was killed, and all went well'; fi
    gone "--out $2"
}

# resume RUN — killed with four ranks, continued by two, killed, continued by eight
resume() {
    local more=(--steps 400)
    alone straight "${more[@]}"
    kill_one 4 "$1" 3 "${more[@]}"
    kill_one 2 "$1" 0 "${more[@]}"
    by 8 "$1" "${more[@]}" || fail "8 ranks go on: $(cat "$1.log")"
    compare straight "$1"
}
step_resume() { resume resumed; }

# ---- faults --------------------------------------------------------------------------------------

# harm OUT RANK COMMAND... — what is done to a run: COMMAND with that rank's process
harm() {
    victim=$(pid_of "$2" "$1")
    hit=$(now)
    "${@:3}" "$victim"
}
# lost FAULT RUN SECONDS TEXT — all end, in about so many seconds, with one line about it
lost() {
    local rc=0 took
    wait "$launcher" || rc=$?
    took=$(since "$hit")
    [ $rc != 0 ] || fail "$2: exit 0"
    gone "--out $2"
    grep -qE "^heed: $4" "$2.log" || fail "$2: no '$4': $(cat "$2.log")"
    [ "$(grep -c '^heed: rank' "$2.log")" = 1 ] || fail "$2: not one line: $(cat "$2.log")"
    row "$1" $rc "$took" "$(sed -n 's/^heed: \(rank[^;]*\);.*/\1/p' "$2.log")"
    [ "${took%.*}" -le $(($3 * 10)) ] || fail "$2: that is far from $3 s"
}
long=(--steps 100000 --save-every 10 --keep 2)

step_kill() {
    begin 4 killed "${long[@]}"
    harm killed 2 kill -9
    lost 'kill -9' killed 5 "rank 2 on h2 \\(pid $victim\\) is gone"
}

# The loop of docs/cluster.md, with tiny as it comes: how long until there is a new update?
step_restart() {
    local run=("${data[@]}" --preset tiny --vocab-size 200 --cache cache --tokens 150
        --max-length 40 --threads 1 --accumulate 8 --log-every 1 --save-every 5 --steps 100000
        --keep 2)
    keep_on() {
        until now >began && by 4 restart; do
            case $? in 75 | 137 | 205) ;; *) break ;; esac
        done
    }
    keep_on &
    launcher=$!
    later restart 0
    harm restart 2 kill -9
    learns restart
    row 'kill -9, and again by a loop' - "$(since "$hit")" \
        "until the next update of tiny, $(since "$(cat began)") of them after the new start"
    kill "$launcher"
    wait "$launcher" 2>/dev/null || true
    kill -9 "$(pid_of 0 restart)"
    gone '--out restart'
}

step_stop() {
    begin 4 stopped "${long[@]}"
    harm stopped 1 kill -STOP
    lost SIGSTOP stopped 15 "rank 1 on h1 \\(pid $victim\\) is silent since step [0-9]+"
}

unplug() { ip link set "heed$$-3" down; }
step_cut() {
    begin 4 cut "${long[@]}"
    harm cut 3 unplug
    lost 'link down' cut 15 "rank 3 on h3 \\(pid $victim\\) is silent since step [0-9]+"
    ip link set "heed$$-3" up
}

# mpirun's own process on a machine: that it says so itself is all that can be asked for.
kill_parent() { kill -9 "$(awk '{ print $4 }' "/proc/$1/stat")"; }
step_orted() {
    local rc=0 took
    begin 4 orted "${long[@]}"
    harm orted 1 kill_parent
    wait "$launcher" || rc=$?
    took=$(since "$hit")
    [ $rc != 0 ] || fail 'orted: exit 0'
    gone '--out orted'
    row 'orted killed' $rc "$took" "mpirun: $(grep -m1 '^ORTE has lost' orted.log || echo nothing)"
}

# refused FAULT STATUS SECONDS TEXT LOG — one line says so, and nothing is left
refused() {
    gone '--out refused'
    grep -qE "^heed: $4" "$5" || fail "$1: $(cat "$5")"
    [ "$(grep -c '^heed:' "$5")" = 1 ] || fail "$1: not once: $(cat "$5")"
    row "$1" "$2" "$3" "$(sed -n 's/^heed: //p' "$5")"
}

step_full() {
    local rc=0
    mkdir -p small
    mount -t tmpfs -o size=300k tmpfs small
    hit=$(now)
    by 4 small/refused || rc=$?
    [ $rc = 1 ] || fail "a full disk: exit $rc: $(cat small/refused.log)"
    refused "rank 0's disk full" $rc "$(since "$hit")" '.*no space left' small/refused.log
    umount small
}

# Ranks that differ are refused, and one of them says why.
step_refuse() {
    # odd FAULT TEXT WORDS — what the rank on h3 makes of its words
    odd() {
        local rc=0
        {
            echo '#!/bin/bash'
            echo "if [ \"\$(uname -n)\" = h3 ]; then set -- $3; fi"
            echo 'exec "$@"'
        } >odd.sh
        chmod +x odd.sh
        hit=$(now)
        spread 4 "$dir/odd.sh" "$heed" train "${run[@]}" --out refused >refused.log 2>&1 || rc=$?
        [ $rc = 2 ] || fail "$1: exit $rc: $(cat refused.log)"
        refused "$1" $rc "$(since "$hit")" "rank 3 on h3 has another $2" refused.log
    }
    sed 's/a/e/' t.src >other.src
    mkdir -p build2 plugin2
    cp "$heed" "$build/libheed-mpi.so" build2
    cp "$heed" "$build/libheed-mpi.so" plugin2
    echo >>build2/heed # the same code, another file
    echo >>plugin2/libheed-mpi.so
    # shellcheck disable=SC2016 # for the script
    {
        odd 'another corpus on h3' 'training data' '"${@/#t.src/other.src}"'
        odd 'another --isa on h3' 'processor or device' '"$@" --isa generic'
        odd 'another option on h3' 'training options' '"$@" --warmup 51'
        odd 'another build on h3' program 'build2/heed "${@:2}"'
        odd 'another plug-in on h3' program 'plugin2/heed "${@:2}"'
    }
}

set_up
for step in "$@"; do
    began=$SECONDS
    case $step in slurm_*) slurm_here || continue ;; esac
    "step_$step"
    note "$step: passed after $((SECONDS - began)) s"
done
printf '\n%-31s %4s %6s  %s\n' 'what was done' exit s 'what was said; no process was left'
printf '%s\n' "${table[@]}" "${skips[@]/#/SKIPPED }"
