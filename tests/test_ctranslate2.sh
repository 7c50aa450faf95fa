#!/bin/bash
# test_ctranslate2.sh — CTranslate2 finds in exported models what heed finds in the original, scores
# to 1e-4.
# timeout: 180
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
slow 'training takes too long in sanitizer builds'
python3 -c 'import ctranslate2' 2>/dev/null ||
    skip 'the python package ctranslate2 is not installed'
check=$tree/tools/ctranslate2_check.py

# compare NAME STEPS OPTION... — trains a model of this kind, and lets CTranslate2 repeat what it
# translates
compare() {
    local name=$1 steps=$2
    shift 2
    "$heed" train "${data[@]}" "${small[@]}" --seed 3 --warmup 100 --steps "$steps" \
        --valid-every 10000 --out "$name" "$@" 2>/dev/null
    "$heed" export --model "$name" --out "$name-ct2" --format ctranslate2 >/dev/null
    "$heed" translate --model "$name" --json --alignment pieces --alpha 0 --beam 4 --nbest 4 \
        --max-length 38 --quiet \
        <v.src >"$name.jsonl"
    note "$name: $(python3 "$check" "$name-ct2" "$name.jsonl" --longest 38)"
    python3 "$check" "$name-ct2" "$name.jsonl" --longest 38 >/dev/null || fail "$name"
}
compare post 200
compare pre 200 --norm pre --positions learned --tie none --activation gelu --n-layer-dec 2
compare target 200 --tie target --activation silu --d-k 24 --d-v 24
compare foreign 200 --output-bias --embed-norm --d-ff-dec 48

# Quantised by CTranslate2's rule it loads, computes in int8, and scores nearly the same.
"$heed" export --model post --out post-int8 --format ctranslate2 --precision int8 >/dev/null
python3 "$check" post-int8 post.jsonl --compute-type int8_float32 --forced-only --tolerance 1 ||
    fail 'int8'
