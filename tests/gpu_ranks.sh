#!/usr/bin/env bash
# gpu_ranks.sh — ranks with a GPU, on a machine that needs no more than one: through NCCL, which
# takes ranks that share a GPU for machines of their own (NCCL_HOSTID), and through MPI and the
# host's memory. For any number of ranks the bytes are those of one process, also when a run is
# killed and others continue it; who is killed or stopped is named, and ends all.
#
#     tests/gpu_ranks.sh FOLDER [STEP...]    FOLDER: a build, or what `bench/gpu.sh pack` left
#
# It takes two minutes, fails where there is no GPU or no NCCL, and is skipped without Open MPI.
set -uo pipefail
here=$(realpath "$(dirname "$0")")
home=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- alone nccl mpi overlap killed resumed stopped refused speed
TEST_DIR=$(mktemp -d "${TMPDIR:-/var/tmp}/heed-gpu.XXXXXX")
export TEST_DIR BUILD=$home
trap 'rm -rf "$TEST_DIR"' EXIT
# shellcheck source=bench/gpu_home.sh
. "$here/../bench/gpu_home.sh"
# shellcheck source=tests/train.sh
. "$here/train.sh"
# shellcheck source=tests/ranks.sh
. "$here/ranks.sh"
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1

run=("${data[@]}" "${small[@]}" --device cuda --d-model 64 --dropout 0.2 --clip 0.5 --cache cache
    --tokens 300 --accumulate 8 --steps 20 --log-every 5 --valid-every 10 --save-every 5 --keep 99)
# each COMMAND... — as a rank on a machine of its own, as far as NCCL can tell
cat >each <<'END'
#!/bin/sh
NCCL_HOSTID=heed$OMPI_COMM_WORLD_RANK exec "$@"
END
chmod +x each

# by N HOW OUT OPTION... — N ranks that talk through HOW: nccl or mpi
by() {
    local n=$1 how=$2 out=$3
    shift 3
    ranks "$n" ./each "$heed" train "${run[@]}" --comm "$how" --out "$out" "$@" >"$out.log" 2>&1
}
# compare ONE MANY — all checkpoints, the last state, the log
compare() {
    [ "$(steps "$1")" = "$(steps "$2")" ] || fail "$2: steps $(steps "$2"), not $(steps "$1")"
    for c in "$1"/ckpt-????????; do
        same "$c/model.safetensors" "$2/${c##*/}/model.safetensors"
    done
    same_states "$(newest "$1")" "$(newest "$2")"
    diff <(log_lines "$1/log.jsonl") <(log_lines "$2/log.jsonl") || fail "logs of $1 and $2"
}

step_alone() {
    "$heed" train "${run[@]}" --out one --quiet
    "$heed" train "${run[@]}" --out one32 --dtype f32 --quiet
    differ one/model.safetensors one32/model.safetensors 'the comparison sees no difference at all'
}

# same_by HOW — 2, 4 and 8 ranks
same_by() {
    for n in 2 4 8; do
        local began=$SECONDS
        by $n "$1" "$1$n" || fail "$1, $n ranks: $(tail -n 30 "$1$n.log")"
        compare one "$1$n"
        note "$1, $n ranks: the bytes of one process, after $((SECONDS - began)) s"
    done
}
step_nccl() { same_by nccl; }
step_mpi() { same_by mpi; }

# A model of three buckets (train/shards.h), of which two leave before the backward pass is over.
step_overlap() {
    local wide=(--n-layer 3 --d-model 512 --d-ff 2048 --n-head 8 --accumulate 4 --steps 6
        --save-every 100 --valid-every 100) how
    "$heed" train "${run[@]}" "${wide[@]}" --out wide --quiet
    for how in 2:nccl 4:nccl 2:mpi; do
        by "${how%:*}" "${how#*:}" "wide-$how" "${wide[@]}" || fail "$how: $(cat "wide-$how.log")"
        compare wide "wide-$how"
        note "several buckets, $how: the bytes of one process"
        rm -r "wide-$how"
    done
    rm -r wide
}

# begin N HOW OUT OPTION... — in the background, until it has saved something new
begin() {
    local had
    had=$(steps "$3")
    by "$@" &
    launcher=$!
    for _ in {1..600}; do
        [ "$(steps "$3")" = "$had" ] || [ -z "$(steps "$3")" ] || return 0
        sleep 0.1
    done
    fail "$3: nothing was saved: $(cat "$3.log")"
}
# ended OUT TEXT — all of them, and one line says why
ended() {
    local rc=0 began=$SECONDS
    wait "$launcher" || rc=$?
    [ $rc != 0 ] || fail "$1: exit 0: $(cat "$1.log")"
    gone "--out $1"
    grep -qE "^heed: $2" "$1.log" || fail "$1: no '$2': $(cat "$1.log")"
    note "$1: all ended $((SECONDS - began)) s later with $rc: $(grep '^heed: rank' "$1.log")"
}
long=(--steps 100000 --keep 2)

step_killed() {
    local victim
    begin 4 nccl killed "${long[@]}"
    victim=$(rank_pid 2 '--out killed')
    kill -9 "$victim"
    ended killed "rank 2 on $(uname -n) \\(pid $victim\\) is gone"
}

step_stopped() {
    local victim
    begin 2 nccl stopped "${long[@]}"
    victim=$(rank_pid 1 '--out stopped')
    kill -STOP "$victim"
    ended stopped "rank 1 on $(uname -n) \\(pid $victim\\) is silent since step"
}

# Killed with four ranks through NCCL, continued by two through MPI, killed, continued by eight.
step_resumed() {
    local more=(--steps 120) round n how rank
    "$heed" train "${run[@]}" "${more[@]}" --out straight --quiet
    for round in 4:nccl:3 2:mpi:0; do
        IFS=: read -r n how rank <<<"$round"
        begin "$n" "$how" resumed "${more[@]}"
        kill -9 "$(rank_pid "$rank" '--out resumed')" || fail 'the run was too fast to be killed'
        wait "$launcher" && fail 'a rank was killed, and all went well'
        gone '--out resumed'
    done
    by 8 nccl resumed "${more[@]}" || fail "8 ranks go on: $(tail -n 30 resumed.log)"
    compare straight resumed
}

# Ranks that share a GPU go through the host unless NCCL is asked for; and the device is part of
# what they compare.
step_refused() {
    ranks 2 "$heed" train "${run[@]}" --out auto --dry-run >auto.log 2>&1 || fail "$(cat auto.log)"
    grep -q '^2 ranks (mpi)' auto.log || fail "not through MPI: $(cat auto.log)"
    refused=("$heed" train "${run[@]}" --out refused --comm mpi)
    expect 2 'has another processor or device than rank 0' \
        mpirun -n 1 "${refused[@]}" : -n 1 -x HEED_CUDA_TF32=1 "${refused[@]}"
    note "$(grep '^heed:' <<<"$out")"
    has ', TF32, bf16'
}

# One rank and NCCL against none.
step_speed() {
    local fast=(--d-model 256 --tokens 4000 --steps 60 --log-every 60 --valid-every 1000
        --save-every 1000) which
    for which in none one none one; do
        if [ $which = none ]; then
            "$heed" train "${run[@]}" "${fast[@]}" --out none --quiet --overwrite
        else
            by 1 nccl one-nccl "${fast[@]}" --overwrite
        fi
    done
    for which in none one-nccl; do
        sed -n "s/.*\"tok_s\":\([0-9.e+]*\).*/$which: \1 tok\/s/p" $which/log.jsonl | tail -n 1
    done
    same none/model.safetensors one-nccl/model.safetensors
}

for step in "$@"; do
    began=$SECONDS
    "step_$step"
    note "$step: passed after $((SECONDS - began)) s"
done
