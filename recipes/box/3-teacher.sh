#!/usr/bin/env bash
# 3-teacher.sh PAIR [SEED] — trains a teacher: base, $WORK/teacher.PAIR (bf16). About 13 minutes of
# one H200. Stop and start it as you like: it goes on where it was. With a SEED from 2 on it is
# another one, $WORK/teacher.PAIR.SEED; 4-translate.sh asks all teachers of a direction together.
#
# Where 4-translate.sh has translated the other direction's text, those translations are added as
# sources for the real targets, marked <bt> (back-translation of the corpus itself). And since
# europarl writes its apostrophes and quotation marks as printers do, which hardly anybody types,
# copies of its sentences with other marks are added.
# STEPS, COOLDOWN, TOKENS and PRESET make it smaller for a try.
set -euo pipefail
# shellcheck source=recipes/box/common.sh
. "$(dirname "$0")/common.sh"
pair=${1:?usage: recipes/box/3-teacher.sh en-de|de-en [SEED]} seed=${2:-1}
read -r from to <<<"$(both "$pair")"
steps=${STEPS:-33000} cooldown=${COOLDOWN:-9000}
name=teacher.$pair
if [ "$seed" != 1 ]; then name+=.$seed; fi
if [ -e "$WORK/$name/config.json" ]; then say "$WORK/$name is there" && exit; fi

src=() tgt=() weights=() tags=()
add() { src+=("$1") tgt+=("$2") weights+=("$3") tags+=("$4"); }
for corpus in "${CORPORA[@]}"; do
    weight=1
    # Everyday sentences are few and short, and every epoch shows them twice.
    if [ "$corpus" = tatoeba ]; then weight=2; fi
    add "$WORK/clean/$corpus.$from" "$WORK/clean/$corpus.$to" $weight -
    back=$WORK/translated.$(opposite "$pair")/$corpus.$from.xz
    if [ -e "$back" ]; then add "$back" "$WORK/clean/$corpus.$to" 1 '<bt>'; fi
done
marks=$WORK/marks.$pair
if [ ! -e "$marks.$to" ]; then
    python3 recipes/box/noise.py --langs "$from,$to" --kinds marks --copies 1 \
        "$WORK/clean/europarl."{"$from","$to"} "$marks."{"$from","$to"}.part
    mv "$marks.$from.part" "$marks.$from"
    mv "$marks.$to.part" "$marks.$to"
fi
add "$marks.$from" "$marks.$to" 1 -
tagged=()
if [[ " ${tags[*]} " == *'<bt>'* ]]; then tagged=(--tags "${tags[@]}"); fi

"$HEED" train --device "$DEVICE" --preset "${PRESET:-base}" --tokenizer "$WORK/teacher.model" \
    --src "${src[@]}" --tgt "${tgt[@]}" --weights "${weights[@]}" "${tagged[@]}" \
    --valid-src "$WORK/valid.$from" --valid-tgt "$WORK/valid.$to" \
    --cache "$WORK/cache" --tokens "${TOKENS:-25000}" --steps "$steps" --cooldown "$cooldown" \
    --max-length 128 \
    --seed "$seed" --valid-every 4000 --save-every 4000 --keep 2 --out "$WORK/run.$name"
"$HEED" export --format bf16 --model "$WORK/run.$name" --out "$WORK/$name"
