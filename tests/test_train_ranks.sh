#!/usr/bin/env bash
# test_train_ranks.sh — heed train as several processes: the bytes of one, for any number that can
# share an update, in f32 and bf16; killed with four ranks and continued by two, then eight; without
# a directory in common.
# timeout: 300
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/train.sh
. "$here/train.sh"
# shellcheck source=tests/ranks.sh
. "$here/ranks.sh"

# Machines of one, two and four ranks, as far as the optimizer can tell; the same with messages that
# go beside the backward pass.
for test in levels overlap; do
    ranks 4 "$build/tests/test_train_ranks" $test >$test.log 2>&1 || fail "$(cat $test.log)"
    [ "$(grep -c 'PASSED.* 1 test' $test.log)" = 4 ] || fail "$(cat $test.log)"
done

run=("${data[@]}" "${small[@]}" --steps 20 --log-every 5 --valid-every 6 --save-every 4 --keep 9
    --clip 0.5 --dropout 0.2 --cache cache --tokens 150)

# by RANKS OUT OPTION... — a run of so many
by() {
    local n=$1 out=$2
    shift 2
    mpirun -n "$n" "$heed" train "${run[@]}" --out "$out" "$@" >"$out.log" 2>&1 ||
        fail "$n ranks: $(cat "$out.log")"
}

# compare ONE MANY — weights of all checkpoints, state of the last, log
compare() {
    [ "$(steps "$1")" = "$(steps "$2")" ] || fail "$2: steps $(steps "$2"), not $(steps "$1")"
    same "$1/model.safetensors" "$2/model.safetensors"
    for c in "$1"/ckpt-????????; do
        same "$c/model.safetensors" "$2/${c##*/}/model.safetensors"
    done
    same_states "$(newest "$1")" "$(newest "$2")"
    diff <(log_lines "$1/log.jsonl") <(log_lines "$2/log.jsonl") || fail "logs of $1 and $2"
}

f32=(--accumulate 8)
"$heed" train "${run[@]}" "${f32[@]}" --out one --quiet
for n in 2 4 8; do
    by "$n" "f32-$n" "${f32[@]}"
    compare one "f32-$n"
done
by 4 aside "${f32[@]}" --save-aside on # rank 0 writes while all go on
compare one aside
# A buffer of several slices per rank, of which some are empty; an average; six batches of which
# each rank has two.
bf16=(--accumulate 6 --dtype bf16 --ema 0.9 --d-model 48 --n-head 4)
"$heed" train "${run[@]}" "${bf16[@]}" --out one16 --quiet
for n in 3 6; do
    by "$n" "bf16-$n" "${bf16[@]}"
    compare one16 "bf16-$n"
done
differ one/model.safetensors one16/model.safetensors

# Sampled segmentations and links come from the same stream on all ranks.
sampled=("${f32[@]}" --steps 6 --bpe-dropout 0.2 --guided-alignment t.links)
"$heed" train "${run[@]}" "${sampled[@]}" --out sampled1 --quiet
by 2 sampled2 "${sampled[@]}"
compare sampled1 sampled2

# BLEU of lines that ranks share: 60 lines are two batches, of which the third rank has none. Texts
# of four words are soon learnt well enough to score.
for text in t.src t.tgt v.src v.tgt; do
    tr 'bdgklmnprstaeiou' 'bbbbbbdddddaaaaa' <$text >words.$text
done
bleu=(--src words.t.src --tgt words.t.tgt --valid-src words.v.src --valid-tgt words.v.tgt
    "${small[@]}" --vocab-size 16 --accumulate 4 --steps 40 --log-every 10 --valid-every 20
    --bleu-every 20 --cache cache)
"$heed" train "${bleu[@]}" --out bleu1 --quiet
[ "$(grep -cE '"valid_bleu":([1-9]|0\.[0-9]*[1-9])' bleu1/log.jsonl)" = 2 ] ||
    fail "BLEU: $(cat bleu1/log.jsonl)"
for n in 2 4; do
    mpirun -n "$n" "$heed" train "${bleu[@]}" --out "bleu$n" >"bleu$n.log" 2>&1 ||
        fail "$n ranks: $(cat "bleu$n.log")"
    compare bleu1 "bleu$n"
done

# Ranks are in the log, and on the screen: what all learn from per second, how evenly they work, and
# what they send: (W - 1) / W of the f32 gradients and the bf16 parameters, with a little beside.
grep -qE 'tok/s  6 ranks [0-9]+-[0-9]+%' bf16-6.log || fail "no ranks: $(cat bf16-6.log)"
grep -q '"ranks":6,"slowest":' bf16-6/log.jsonl || fail "no ranks: $(cat bf16-6/log.jsonl)"
absent '"ranks"' one16/log.jsonl

# Killed at some checkpoint with four ranks, then continued by two to another, then by eight.
begun() { # RUN STEP — the run's checkpoint of that step is there, within a minute
    for _ in {1..600}; do
        [ -d "$1/ckpt-$(printf %08d "$2")" ] && return 0
        sleep 0.1
    done
    fail "$1: no step $2: $(cat "$1.log")"
}
long=("${f32[@]}" --steps 60 --save-every 4 --keep 99)
"$heed" train "${run[@]}" "${long[@]}" --out straight --quiet
kills=0
for round in 4:8 2:24; do
    mpirun -n "${round%:*}" "$heed" train "${run[@]}" "${long[@]}" --out "$dir/killed" \
        --save-aside on \
        >killed.log 2>&1 &
    launcher=$!
    begun killed "${round#*:}"
    victim=$(rank_pid 1 "$dir/killed")
    [ -z "$victim" ] || kill -9 "$victim" && kills=$((kills + 1))
    wait $launcher && [ -n "$victim" ] && [ ! -d killed/ckpt-00000060 ] && fail 'not killed'
    gone "$dir/killed"
done
by 8 "$dir/killed" "${long[@]}"
compare straight killed
[ $kills -gt 0 ] || echo 'note: the runs were too fast to be killed'

# Nothing in common but the texts: the others get tokenizer, configuration and weights from rank 0.
apart() {
    mpirun -n 1 "$heed" train "${run[@]}" --cache apart0/c --out apart0 "${f32[@]}" "$@" : \
        -n 1 "$heed" train "${run[@]}" --cache apart1/c --out apart1 "${f32[@]}" "$@" \
        >apart.log 2>&1 || fail "apart: $(cat apart.log)"
}
apart --steps 8
apart # an end that was put off leaves traces in the log, not in the weights
same one/ckpt-00000020/model.safetensors apart0/ckpt-00000020/model.safetensors
for left in apart1/*; do
    [ "${left##*/}" = c ] || fail "rank 1 has written $left"
done
