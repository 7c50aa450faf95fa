#!/bin/bash
# test_train_resume.sh — a run killed again and again ends in the same bytes as one that was left
# alone.
#
# Kills come at random times, and aimed at the writing of a checkpoint (while a ckpt-*.tmp is
# there). After each of them every checkpoint must be readable. SEED=N repeats a sequence of random
# times.
# timeout: 300
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'killed and resumed runs take too long in sanitizer builds'
RANDOM=${SEED:-$$}
echo "SEED=${SEED:-$$}"

kills=0 torn=0 terms=0 ends=0

# Every checkpoint there is can be read, and so can the run itself.
readable() {
    local c n=0
    for c in "$1"/ckpt-????????; do
        [ -d "$c" ] || continue
        n=$((n + 1))
        "$heed" inspect "$c" >/dev/null || fail "$c is unreadable after kill $kills"
    done
    if [ $n -gt 0 ]; then "$heed" inspect "$1" >/dev/null ||
        fail "$1 is unreadable after kill $kills"; fi
}

# aim PID RUN — waits for a checkpoint to be written, or for the end of the process
aim() {
    local until=$((SECONDS + 20))
    sleep 0.$((RANDOM % 3))5
    while kill -0 "$1" 2>/dev/null && [ $SECONDS -lt $until ]; do
        if compgen -G "$2/ckpt-*.tmp" >/dev/null; then return; fi
    done
}

# interrupted HOW RUN OPTION... — one start, ended HOW: KILL, TERM, INT or AIM. Fails when the run
# had ended.
interrupted() {
    local how=$1 run=$2 pid rc=0
    shift 2
    "$heed" train "${data[@]}" "${small[@]}" --out "$run" "$@" >"$run.out" 2>&1 &
    pid=$!
    if [ "$how" = AIM ]; then
        aim $pid "$run"
        kill -KILL $pid 2>/dev/null || :
    else
        sleep 0.$((RANDOM % 8))$((RANDOM % 10))
        kill -"$how" $pid 2>/dev/null || :
    fi
    { wait $pid; } 2>/dev/null || rc=$?
    case $how:$rc in
    *:0) return 1 ;;
    KILL:137 | AIM:137) ;;
    TERM:143 | INT:130)
        # One that came before there was anything to save just ends it.
        if grep -q '^stopped' "$run.out"; then
            terms=$((terms + 1))
            grep -q '^stopped; run the same command again to continue: step' "$run.out" ||
                fail "message: $(cat "$run.out")"
            compgen -G "$run/ckpt-*.tmp" >/dev/null && fail "a stopped run left rubbish"
        fi
        ;;
    *) fail "$how ended the run with $rc: $(cat "$run.out")" ;;
    esac
    kills=$((kills + 1))
    compgen -G "$run/ckpt-*.tmp" >/dev/null && torn=$((torn + 1))
    readable "$run"
}

# compare STRAIGHT RUN — weights, state, log
compare() {
    same "$1/model.safetensors" "$2/model.safetensors" 'published weights'
    # An orderly stop saves where it is: shortly before the end, that checkpoint takes the place of
    # an older one among those that are kept.
    if [ "$(steps "$1")" != "$(steps "$2")" ] && [ $terms -eq 0 ]; then
        fail "checkpoints $(steps "$1") and $(steps "$2")"
    fi
    for c in "$1"/ckpt-????????; do
        if [ -d "$2/${c##*/}" ] || [ "$c" = "$(newest "$1")" ]; then
            same "$c/model.safetensors" "$2/${c##*/}/model.safetensors"
        fi
    done
    log_lines "$1/log.jsonl" >a.log
    log_lines "$2/log.jsonl" >b.log
    diff a.log b.log || fail "the logs of $1 and $2 differ"
    [ "$(log_steps "$2/log.jsonl" | tr '\n' ' ')" = "$(seq -s ' ' 10 10 "$n_steps") " ] ||
        fail "steps in $2/log.jsonl"
    same_states "$(newest "$1")" "$(newest "$2")"
    command -v python3 >/dev/null || return 0
    python3 -c 'import json, sys
for line in open(sys.argv[1]):
    json.loads(line)' "$2/log.jsonl" || fail "$2/log.jsonl"
}

# suffer STRAIGHT N OPTION... — N interruptions, as many runs as it takes; each run to its end and
# compared
suffer() {
    local straight=$1 want=$((kills + $2)) run=$1.hurt how extra
    shift 2
    while [ $kills -lt $want ]; do
        rm -rf "$run"
        while [ $kills -lt $want ]; do
            case $((RANDOM % 6)) in
            0) how=TERM ;;
            1) how=INT ;;
            2 | 3) how=AIM ;;
            *) how=KILL ;;
            esac
            # Threads, prefetching and who writes checkpoints are nobody's business but the clock's.
            extra=$((RANDOM % 2))
            aside=(on on off)
            interrupted $how "$run" "$@" --prefetch $((4 * extra)) --threads $((1 + extra)) \
                --save-aside "${aside[RANDOM % 3]}" || break
        done
        train "$run" "$@" --quiet
        compare "$straight" "$run"
        ends=$((ends + 1))
    done
}

n_steps=300
every=(--steps "$n_steps" --log-every 10 --valid-every 60 --keep 3 --cache cache)
f32=("${every[@]}" --save-every 4)
train straight "${f32[@]}" --quiet
suffer straight 32 "${f32[@]}"

# bf16 weights and their average, several batches per update, clipping, strong dropout, links to
# learn, and what only models of other toolkits have; stops fall between all of them.
bf16=("${every[@]}" --save-every 6 --accumulate 2 --dtype bf16 --dropout 0.3 --clip 1 --ema 0.99
    --guided-alignment t.links --output-bias --embed-norm --d-ff-dec 48 --decoder ssru)
train straight16 "${bf16[@]}" --quiet
suffer straight16 8 "${bf16[@]}"
differ straight/model.safetensors straight16/model.safetensors \
    'the comparison sees no difference at all'

echo "$kills kills, $torn of them while a checkpoint was written, $terms orderly stops," \
    "$ends runs ended"
[ $kills -ge 30 ] || fail "only $kills kills"
[ $torn -ge 3 ] || fail "only $torn kills met a checkpoint being written"
[ $terms -ge 1 ] || fail 'no orderly stop'
