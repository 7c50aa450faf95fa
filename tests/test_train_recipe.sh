#!/bin/bash
# test_train_recipe.sh — what recipes ask of heed train beside the paper's: a learning rate that
# cools down, a moving average of the weights.
# timeout: 120
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'
"$heed" vocab --input t.src t.tgt --size 200 --out tok.model --quiet
only=(--src t.src --tgt t.tgt --tokenizer tok.model --cache cache)
# bare OPTION... — no validation, a tokenizer that is there
bare() { "$heed" train "${only[@]}" "${small[@]}" --quiet "$@"; }

# ---- --cooldown
expect 2 '--cooldown: the run needs an end to cool down to; give --steps' bare --out c --cooldown 5
expect 2 'give --steps' bare --out c --cooldown 5 --epochs 1
expect 2 "--cooldown: 21 updates are more than the run's --steps 20" \
    bare --out c --cooldown 21 --steps 20
[ ! -e c ] || fail "wrong use left $(ls c)"
run=(--warmup 5 --log-every 1 --save-every 10 --keep 9)
bare --out flat --steps 20 "${run[@]}"
bare --out cool --steps 20 --cooldown 9 "${run[@]}"
rates() { sed -n 's/^{"step":\([0-9]*\),"epoch".*"lr":\([0-9.e+-]*\).*/\1 \2/p' "$1/log.jsonl"; }
paste -d ' ' <(rates flat) <(rates cool) | awk '
    { want = $2 * ($1 > 11 ? (21 - $1) / 10 : 1); off = $4 / want - 1
      if ($1 != $3 || off > 1e-4 || off < -1e-4) { print "step " $1 ": " $4 ", not " want; bad = 1 } }
    END { exit bad || NR != 20 }' || fail 'the rates are not those of the formula'
same flat/ckpt-00000010/model.safetensors cool/ckpt-00000010/model.safetensors 'before it cools'
differ flat/model.safetensors cool/model.safetensors 'cooling down does nothing'
# Stopped within it and continued: the same bytes. Another end: they stay as they are, and it says.
mkdir hurt && cp -r cool/. hurt && rm -r hurt/ckpt-00000020
expect 0 '' bare --out hurt --steps 20 --cooldown 9 "${run[@]}"
same cool/model.safetensors hurt/model.safetensors 'resumed before it cools'
bare --out mid --steps 20 --cooldown 9 "${run[@]}" --save-every 15
rm -r mid/ckpt-00000020
same_end() { "$heed" train "${only[@]}" "${small[@]}" --out mid "${run[@]}" "$@"; }
expect 0 'continuing from step 15' same_end --steps 20 --cooldown 9
lacks 'stay as they were'
same cool/model.safetensors mid/model.safetensors 'resumed while it cools'
expect 0 'updates 12 to 20 stay as they were, with the falling learning rate of --steps 20 ' \
    same_end --steps 30 --cooldown 9
expect 0 'continuing from step 30; updates 22 to 30 stay' same_end --steps 31

# ---- --ema
expect 2 '--ema: a decay of 1 would never learn' bare --out e --steps 5 --ema 1
expect 2 '--ema: -0.5 is not between 0 and 1' bare --out e --steps 5 --ema -0.5
[ ! -e e ] || fail "wrong use left $(ls e)"
valid=(--valid-src v.src --valid-tgt v.tgt --valid-every 10 --bleu-every 20 --bleu-lines 2)
run=(--steps 40 --warmup 10 --log-every 5 --save-every 10 --keep 9 "${valid[@]}")
for type in f32 bf16; do
    bare --out "raw.$type" --dtype $type "${run[@]}"
    bare --out "ema.$type" --dtype $type "${run[@]}" --ema 0.9
    # What is learnt is the same although the average stood in for it at every validation ...
    log_lines "raw.$type/log.jsonl" >raw.log
    log_lines "ema.$type/log.jsonl" >ema.log
    diff <(grep -v valid_loss raw.log) <(grep -v valid_loss ema.log) ||
        fail "$type: an average changes what is learnt"
    [ "$(grep -c valid_bleu ema.log)" = 2 ] || fail "$type: $(grep valid_loss ema.log)"
    # ... and what is judged and published is not.
    same "raw.$type/ckpt-00000000/model.safetensors" "ema.$type/ckpt-00000000/model.safetensors"
    for c in 10 20 30 40; do
        differ "raw.$type/ckpt-000000$c/model.safetensors" \
            "ema.$type/ckpt-000000$c/model.safetensors" "$type: no average at $c"
        valid_at() { grep "^{\"step\":$c,\"valid_loss\"" "$1"; }
        [ "$(valid_at raw.log)" != "$(valid_at ema.log)" ] || fail "$type: the same validation at $c"
    done
    rm -r "ema.$type"/ckpt-000000[34]0
    expect 0 'continuing from step 20' "$heed" train "${only[@]}" "${small[@]}" \
        --out "ema.$type" --dtype $type "${run[@]}" --ema 0.9
    log_lines "ema.$type/log.jsonl" | diff ema.log - || fail "$type: resumed with another log"
    cp "ema.$type/model.safetensors" "published.$type"
    rm -rf "ema.$type"
    bare --out "ema.$type" --dtype $type "${run[@]}" --ema 0.9
    same "ema.$type/model.safetensors" "published.$type" "$type: resumed with another average"
done
# A validation measures the file that is published.
want=$(sed -n 's/.*"step":40,.*"valid_ppl":\([0-9.]*\).*/\1/p' ema.f32/log.jsonl)
expect 0 'perplexity' "$heed" score --model ema.f32/ckpt-00000040 --src v.src --tgt v.tgt \
    --device cpu --threads 1
got=$(sed -n 's/.*perplexity \([0-9.]*\) per token.*/\1/p' <<<"$out")
awk -v a="$want" -v b="$got" 'BEGIN { exit !(a > 1 && (a - b) ^ 2 < (2e-5 * a) ^ 2) }' ||
    fail "perplexity $got, training said $want"
expect 2 'the run has no moving average to go on with' bare --out raw.f32 "${run[@]}" --ema 0.9
expect 2 'continue it with --ema' bare --out ema.f32 "${run[@]}"
expect 0 'average of 3 checkpoints' "$heed" average --out mean --last 3 ema.f32
expect 0 '' "$heed" inspect ema.f32
