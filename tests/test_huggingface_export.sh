#!/usr/bin/env bash
# test_huggingface_export.sh — transformers find in exported models what heed finds in the original.
# timeout: 300
# shellcheck source=tests/train.sh
. "$(dirname "$0")/train.sh"
head -n 12 v.src >few.src
head -n 12 v.tgt >few.tgt
slow 'training takes too long in sanitizer builds'
python3 -c 'import torch, transformers' 2>/dev/null ||
    skip 'the python packages torch and transformers are not installed'

# compare NAME OPTION... — trains a model of this kind
compare() {
    local name=$1
    shift
    "$heed" train "${data[@]}" "${small[@]}" --seed 3 --warmup 100 --steps 200 \
        --valid-every 10000 --out "$name" "$@" 2>/dev/null
    "$heed" export --model "$name" --out "$name-hf" --format huggingface >/dev/null
    "$heed" score --model "$name" --src few.src --tgt few.tgt --token-scores --quiet >scores
    "$heed" translate --model "$name" --beam 1 --max-length 38 --quiet <few.src >greedy
    python3 "$tree/tools/huggingface_check.py" "$name-hf" few.src few.tgt scores greedy \
        --longest 38 >found 2>log || fail "$name: $(cat found)"
    note "$name: $(cat found)"
}
compare tied
compare target --tie target --activation silu --positions learned --output-bias
compare none --tie none --activation gelu --d-ff-dec 40 --n-layer-dec 2
