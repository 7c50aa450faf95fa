#!/usr/bin/env bash
# test_train_cuda.sh — a training run on the GPU that is killed and resumed ends with the very
# weights of one that was not, bf16 being what --dtype auto means there. Skipped where there is no
# GPU, unless HEED_TEST_GPU says there is.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
gpu() { "$heed" bench train --device cuda --preset tiny --tokens 64 --seconds 0 --length 8; }
if [ -z "${HEED_TEST_GPU:-}" ] && ! gpu >/dev/null 2>&1; then skip 'no GPU here'; fi

run=(--device cuda --d-model 64 --steps 40 --log-every 10 --save-every 10 --keep 9 --dropout 0.1 \
    --cache cache)
train straight "${run[@]}" --quiet
train bf16 "${run[@]}" --dtype bf16 --quiet
train f32 "${run[@]}" --dtype f32 --quiet
same straight/model.safetensors bf16/model.safetensors '--dtype auto is not bf16'
differ straight/model.safetensors f32/model.safetensors 'the comparison sees no difference at all'

# as_straight WHEN — the checkpoints of the run that is hurt, the first one first, against those of
# the straight run: a failure names the step, and so the stop, after which it went another way
as_straight() {
    local c
    for c in hurt/ckpt-????????; do
        same "straight/${c##*/}/model.safetensors" "$c/model.safetensors" "$1"
    done
}

# Stopped at step 20 once in order and once by death after the checkpoint of step 20 or later.
train hurt "${run[@]}" --steps 20 --quiet
[ "$(steps hurt)" = '0 10 20' ] || fail "checkpoints $(steps hurt)"
as_straight 'before it was stopped'
(exec "$heed" train "${data[@]}" "${small[@]}" --out hurt "${run[@]}" --quiet) &
pid=$!
for _ in $(seq 200); do
    [ -d hurt/ckpt-00000030 ] && break
    sleep 0.02
done
kill -KILL $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
killed=$(steps hurt)
as_straight 'continued at step 20'
train hurt "${run[@]}" --quiet
[ "$(steps hurt)" = '0 10 20 30 40' ] || fail "checkpoints $(steps hurt)"
as_straight "killed when there were the checkpoints $killed"
same straight/model.safetensors hurt/model.safetensors \
    "published weights; $(grep valid_loss hurt/log.jsonl)"
log_lines straight/log.jsonl | grep -v valid_loss >a.log # the run to step 20 validates at its end
log_lines hurt/log.jsonl | grep -v valid_loss >b.log
diff a.log b.log || fail 'the logs differ'

# The same with a moving average of the weights: it changes nothing that is learnt, it is what is
# published, and it goes on where it was.
ema=("${run[@]}" --ema 0.9 --valid-every 10)
train average "${ema[@]}" --quiet
log_lines average/log.jsonl | grep -v valid_loss >b.log
diff a.log b.log || fail 'an average changes what is learnt'
differ straight/model.safetensors average/model.safetensors 'no average is published'
train again "${ema[@]}" --steps 20 --quiet
train again "${ema[@]}" --quiet
for c in average/ckpt-????????; do
    same "$c/model.safetensors" "again/${c##*/}/model.safetensors" 'a resumed average'
done
same average/model.safetensors again/model.safetensors 'the published average'

# And with links to learn: twice the same, and again when it was interrupted.
guided=("${run[@]}" --guided-alignment t.links --guided-valid v.links --guided-weight 1)
train links "${guided[@]}" --quiet
train links2 "${guided[@]}" --quiet
same links/model.safetensors links2/model.safetensors 'two guided runs'
differ links/model.safetensors straight/model.safetensors 'links change nothing'
train links3 "${guided[@]}" --steps 20 --quiet
train links3 "${guided[@]}" --quiet
same links/model.safetensors links3/model.safetensors 'a resumed guided run'
train links32 "${guided[@]}" --dtype f32 --quiet
train links-cpu "${guided[@]}" --device cpu --dtype f32 --quiet
for r in links links32 links-cpu; do
    sed -n 's/.*"valid_guided":\([0-9.]*\).*/\1/p' "$r/log.jsonl" | tail -n 1
done | awk '{ v[NR] = $1 } END { if (NR != 3 || v[1] == "") exit 1
    for (i = 1; i < 3; i++) if (v[i] / v[3] > 1.03 || v[i] / v[3] < 0.97) exit 1 }' ||
    fail "loss of links: $(grep -h valid_guided links{,32,-cpu}/log.jsonl)"
