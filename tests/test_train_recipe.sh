#!/bin/bash
# test_train_recipe.sh — what recipes ask of heed train beside the paper's: a learning rate that
# cools down.
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
