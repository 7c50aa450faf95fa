#!/usr/bin/env bash
# 7-pack.sh PAIR — the student as it ships: models/PAIR ($MODELS/PAIR), int8 and mapped, with its
# languages and licence. `make scores` then measures it, and card.py writes its card.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/7-pack.sh en-de|de-en}
read -r from to <<<"$(both "$pair")"
out=${MODELS:-models}/$pair
name() { case $1 in en) echo English ;; de) echo German ;; esac }

# The last weights, not those with the least loss on the validation text: people wrote that, and the
# better a student imitates its teacher, the surer it is of what a person would say otherwise.
"$HEED" average --last 1 --out "$WORK/student.$pair.f32" --overwrite "$WORK/run.student.$pair"
weights=$WORK/student.$pair.f32
for later in links copies; do # 8-links.sh, 9-copies.sh
    if [ -e "$WORK/$later.$pair/mean/config.json" ]; then weights=$WORK/$later.$pair/mean; fi
done
"$HEED" quantize --model "$weights" --out "$out" --overwrite
"$HEED" describe "$out" --source "$from" --target "$to" --licence CC-BY-4.0 \
    --description "$(name "$from") to $(name "$to"): everyday sentences, debates, documentation" \
    --set beam=2 --set alpha=1 --set alignment_threshold=0.5
size=$(cat "$out"/* | wc -c)
if [ "$size" -gt 13000000 ]; then fail "$out has $size bytes, more than 13,000,000"; fi
say "$out: $size bytes; next: make scores SCORES='--json $WORK/scores.json'"
say "and recipes/box/card.py --model $out --scores $WORK/scores.json"
