#!/usr/bin/env bash
# 7-pack.sh PAIR — the student as it ships: models/PAIR, int8 and mapped, with its languages, its
# licence and a card. `make scores` then measures it; recipes/box/card.py writes the figures down.
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/7-pack.sh en-de|de-en}
read -r from to <<<"$(both "$pair")"
name() { case $1 in en) echo English ;; de) echo German ;; esac }

"$HEED" quantize --model "$WORK/run.student.$pair" --out "models/$pair" --overwrite
"$HEED" describe "models/$pair" --source "$from" --target "$to" --licence CC-BY-4.0 \
    --description "$(name "$from") to $(name "$to"): everyday sentences, debates, documentation"
size=$(du -sb "models/$pair" | cut -f 1)
if [ "$size" -gt 13000000 ]; then fail "models/$pair has $size bytes, more than 13,000,000"; fi
say "models/$pair: $size bytes; next: make scores SCORES='--json $WORK/scores.json'"
say "and recipes/box/card.py --model models/$pair --scores $WORK/scores.json"
