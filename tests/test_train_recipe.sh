#!/bin/bash
# test_train_recipe.sh — what recipes ask of heed train beside the paper's: a learning rate that
# cools down, a moving average of the weights, another model's weights to begin with.
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
      if ($1 != $3 || off > 1e-4 || off < -1e-4) { print "step " $1 ": " $4 " " want; bad = 1 } }
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
        [ "$(valid_at raw.log)" != "$(valid_at ema.log)" ] || fail "$type: validation at $c"
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

# ---- --init
# tune OPTION... — a model is fine-tuned; its shape is not asked for
tune() { "$heed" train --src t.src --tgt t.tgt --cache cache --tokens 400 --max-length 40 \
    --threads 1 --warmup 5 --device cpu --steps 1 "$@"; }
from=ema.f32/ckpt-00000040
expect 0 "model: $from" tune --out tuned --init $from --steps 10 --save-every 5 --dropout 0.2
has "tokenizer: $from/tokenizer.model, 200 pieces"
lacks 'learning the vocabulary'
score() { "$heed" score --model "$1" --src v.src --tgt v.tgt --threads 1 --device cpu --quiet; }
score $from >before
score tuned/ckpt-00000000 >begin
score tuned >after
same before begin 'the run does not begin with those weights'
differ before after 'nothing was learnt'
grep -q '"dropout": 0.2' tuned/config.json || fail 'the dropout of --init wins'
for key in d_model d_ff n_layer_enc n_vocab_src; do
    [ "$(grep "\"$key\"" tuned/config.json)" = "$(grep "\"$key\"" $from/config.json)" ] ||
        fail "another $key"
done
# Seeds decide dropout and order, not weights; given as they are, tokenizer and shape are the same.
tune --out same --init $from --steps 10 --save-every 5 --dropout 0.2 --quiet --d-model 32 \
    --preset tiny --n-layer 1 --n-head 2 --d-ff 64 --tokenizer tok.model
same tuned/model.safetensors same/model.safetensors 'the shape that is given'
# A killed run goes on with its own weights, even where the model has gone.
mkdir gone && cp -r $from/. gone
tune --out hurt2 --init gone --steps 5 --save-every 5 --dropout 0.2 --quiet
rm -r gone
expect 0 '--init is not read again' tune --out hurt2 --init gone --steps 10 --dropout 0.2
same tuned/model.safetensors hurt2/model.safetensors 'resumed'
# With an average, that begins at the same weights, too.
tune --out tuned.ema --init $from --steps 10 --save-every 5 --dropout 0.2 --quiet --ema 0.9
score tuned.ema/ckpt-00000000 >begin
same before begin 'the average does not begin with those weights'
expect 2 "--init: $from has d_ff 64, not 48; leave --preset and the model's fields out" \
    tune --out x --init $from --d-ff 48
expect 2 "--init: $from has n_layer_enc 1, not 6" tune --out x --init $from --preset base
"$heed" vocab --input v.src --size 200 --out other.model --quiet
expect 2 "--init: $from was learnt with another tokenizer than --tokenizer" \
    tune --out x --init $from --tokenizer other.model
expect 2 '--vocab-size: 300, but the model of --init has 200 pieces' \
    tune --out x --init $from --vocab-size 300
expect 1 'none: no such directory, and no model of that name in' tune --out x --init none
cp -r $from damaged
printf '\1' | dd of=damaged/model.safetensors bs=1 seek=40000 conv=notrunc status=none
expect 1 "is damaged: it does not have the checksum" tune --out y --init damaged
compgen -G 'y/ckpt-*' >/dev/null && fail 'a damaged model, but a checkpoint'
[ ! -e x ] || fail "refused, but left $(ls x)"
expect 2 '--out: the run would replace the model it begins with, ema.f32/ckpt-00000040' \
    tune --out ema.f32 --init $from --overwrite
cp -r $from whole
expect 2 '--out: the run would replace the model' tune --out whole --init whole --overwrite
same $from/model.safetensors whole/model.safetensors 'a refused run'
